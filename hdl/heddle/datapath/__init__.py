"""Datapath of a core: processing elements (PEs) with their register files, reduction trees and the control common to all PEs."""
