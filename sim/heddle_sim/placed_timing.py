"""Delays of a netlist that nextpnr has placed, before it is routed."""

from collections import defaultdict

import numpy as np

__all__ = ["INSIDE", "SLICE_NS", "PlacedTiming", "wire_delay", "wire_delays"]

SPREAD = 1500           # readers of a net that has a network of its own: clock, reset
# Of a wire to the same tile, and of a tile more: medians of what is routed, for the slowest grade (nextpnr's own estimate counts 0.36 and
# 0.12, 0.24 for the first five: longer than wires are that go straight, shorter than those between neighbours).
WIRE_NS, TILE_NS = 0.85, 0.07
SLICE_NS = 0.36         # of a wire from a slice to itself, as nextpnr estimates it
TABLE_NS = 0.24
START_NS = {"TRELLIS_FF": 0.52, "DP16KD": 5.7, "MULT18X18D": 1.0}
# Inputs of tables that are written by a clock, and inputs that a wire inside the slice leads to.
WRITTEN = {"WCK", "WRE", "WD", "WAD0", "WAD1", "WAD2", "WAD3", "DI0", "DI1"}
INSIDE = {"FCI", "FXA", "FXB", "F1", "DI", "DI0", "DI1", "WD", "WAD0", "WAD1", "WAD2", "WAD3"}


def wire_delay(start, end):
    """Nanoseconds from a tile to another one."""
    return WIRE_NS + TILE_NS * abs(start[0] - end[0]) + TILE_NS * abs(start[1] - end[1])


def wire_delays(tiles, ends):
    """The same from each of an array of tiles (n, 2) to each of an array of ends (e, 2): an array (n, e)."""
    return WIRE_NS + TILE_NS * np.abs(tiles[:, None, :] - ends[None, :, :]).sum(axis=2)


def table_delay(port, output):
    """From an input of a table, or half of an adder, to an output; None where no path leads."""
    if output != "OFX" and port in ("F1", "M", "FXA", "FXB"):
        return None
    if port == "FCI":
        return 0.07 if output == "FCO" else 0.44
    if output == "FCO":
        return 0.45
    return 0.2 if output == "OFX" and port not in "ABCD" else TABLE_NS


class PlacedTiming:
    """Longest paths through each net.

    ``place``: tile of each cell, as in ``PlacedSites``; look at ``update``.

    Attributes
    ----------
    drivers, readers : dict
        Cell and port that drives each net, cells and ports that read it; without clocks and nets like them.
    inputs, outputs : dict
        Of each cell: ports and the nets that they read or drive.
    arcs : dict
        Of each net: inputs of its driver that a path leads through, with the nets that they read and the nanoseconds to its output.
    order : dict
        Number of each net, larger than those of the nets that lead to it.
    arrival, remaining : dict
        Of each net: nanoseconds from the last register to its driver, and from there to the next register, at the last ``update``.
    """

    def __init__(self, cells, place):
        self._cells, self._place = cells, place
        self.drivers, readers, self.outputs = {}, defaultdict(list), defaultdict(list)
        for name, cell in cells.items():
            for port, bits in cell["connections"].items():
                for net in bits:
                    if not isinstance(net, int):
                        continue
                    if cell["port_directions"][port] == "output":
                        self.drivers[net] = name, port
                    else:
                        readers[net].append((name, port))
        self.readers = {net: of_net for net, of_net in readers.items()
                        if net in self.drivers and len(of_net) <= SPREAD and not self._constant(self.drivers[net][0])}
        for net in list(self.drivers):
            if net not in self.readers:
                del self.drivers[net]
            else:
                name, port = self.drivers[net]
                self.outputs[name].append((port, net))
        self.inputs = defaultdict(list)
        for net, of_net in self.readers.items():
            for name, port in of_net:
                self.inputs[name].append((port, net))
        self.arcs = {}
        for net, (name, output) in self.drivers.items():
            arcs = [(port, source, table_delay(port, output)) for port, source in self.inputs[name] if self.passes(name, port)]
            self.arcs[net] = [arc for arc in arcs if arc[2] is not None]
        self.order = {net: number for number, net in enumerate(self._sort())}
        self.arrival, self.remaining = dict.fromkeys(self.drivers, 0.0), dict.fromkeys(self.drivers, 0.0)

    def _constant(self, name):
        """Whether a table reads nothing."""
        cell = self._cells[name]
        return cell["type"] == "TRELLIS_COMB" and "input" not in (
            direction for port, direction in cell["port_directions"].items() if cell["connections"].get(port))

    def passes(self, name, port):
        """Whether a path goes on behind an input."""
        return self._cells[name]["type"] == "TRELLIS_COMB" and port not in WRITTEN

    def start(self, name):
        """From the clock to an output of a register."""
        return START_NS.get(self._cells[name]["type"], TABLE_NS)

    def behind(self, name, port):
        """From an input to the next register."""
        if not self.passes(name, port):
            return 0.0
        delays = [(table_delay(port, output), self.remaining[net]) for output, net in self.outputs[name]]
        return max((delay + rest for delay, rest in delays if delay is not None), default=0.0)

    def longest(self, net):
        """Nanoseconds of the longest path through a net, at the last ``update``."""
        return self.arrival[net] + self.remaining[net]

    def through(self, net, name, port):
        """Of the longest path through a net to one of its readers."""
        return self.arrival[net] + self.wire(net, name, port) + self.behind(name, port)

    def tile(self, name):
        """Of a cell; pins stand in no tile."""
        return self._place.get(name, (60, 60))

    def update(self):
        """Compute ``arrival`` and ``remaining`` anew, and return the nets, that with the longest path first."""
        for net in self.order:
            name, _ = self.drivers[net]
            self.arrival[net] = max((self.arrival[source] + self.wire(source, name, port) + delay
                                     for port, source, delay in self.arcs[net]), default=self.start(name))
        for net in reversed(self.order):
            self.remaining[net] = max(self.wire(net, name, port) + self.behind(name, port) for name, port in self.readers[net])
        return sorted(self.drivers, key=self.longest, reverse=True)

    def wire(self, net, name, port):
        """Nanoseconds of a wire from the driver of a net to one of its readers."""
        return 0.0 if port in INSIDE else wire_delay(self.tile(self.drivers[net][0]), self.tile(name))

    def _sort(self):
        """Nets, each behind those that lead to it through tables; loops are cut where they are met."""
        order, state = [], {}
        for first in self.drivers:
            stack = [first]
            while stack:
                net = stack[-1]
                if state.get(net) is None:
                    state[net] = "open"
                    stack += [source for _, source, _ in self.arcs[net] if state.get(source) is None]
                else:
                    stack.pop()
                    if state[net] == "open":
                        state[net] = "done"
                        order.append(net)
        return order
