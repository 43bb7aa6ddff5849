"""Drivers, monitors and memories at the ports of a design."""
