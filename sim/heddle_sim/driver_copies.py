"""Copies of the look-up tables and registers that drive many others.

The sinks of a net with hundreds of them are mostly enables, to which few wires of the chip lead: some are reached by a detour that takes
half a cycle. Each copy drives sinks with neighbouring names, which lie together.
"""

from .drivers import OUTPUTS, Drivers, by_number

__all__ = ["copy_drivers"]

MOST = 64           # sinks of one


def copy_drivers(netlist):
    """Change the top module of a netlist (see ``pack_multiplier_registers``) in place; returns how many cells were added."""
    added = 0
    for kind in OUTPUTS:
        drivers = Drivers(netlist)
        for name, readers in drivers.names(kind):
            readers = sorted(readers, key=lambda reader: by_number(reader[0]))
            parts = -(-len(readers) // MOST)
            for part in range(1, parts):
                drivers.copy(name, f"{name}$part_{part}", readers[part * len(readers) // parts:(part + 1) * len(readers) // parts])
                added += 1
    return added
