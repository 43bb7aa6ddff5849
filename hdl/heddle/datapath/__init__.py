"""Arithmetic parts shared by the core and its engines: lanes with their register files, and the reduction tree."""
