"""Placed cells that move together, and the longest path through them for each tile that they could stand in."""

import numpy as np

from .placed_timing import INSIDE, SLICE_NS, wire_delays

__all__ = ["PlacedGroup"]

MANY = 12               # ends of a net that moves of one of them do not make longer


class _Ends:
    """Far ends of wires, with the nanoseconds on their other side."""

    def __init__(self, ends):
        most = {}
        for tile, delay in ends:
            most[tile] = max(delay, most.get(tile, 0.0))
        self._tiles = np.array(list(most), dtype=np.int32).reshape(-1, 2)
        self._delays = np.array(list(most.values()))

    def __len__(self):
        return len(self._delays)

    def away(self, tiles):
        """Tiles to all of them together."""
        return np.abs(tiles[:, None, :] - self._tiles[None, :, :]).sum(axis=(1, 2))

    def farthest(self, tiles):
        """The longest of wire and delay from each tile of an array; 0 without ends."""
        if not len(self):
            return np.zeros(len(tiles))
        return (wire_delays(tiles, self._tiles) + self._delays).max(axis=1)


class PlacedGroup:
    """Cells of a slice, or of half a slice: ``names``.

    ``timing`` is a ``PlacedTiming`` whose ``update`` was called.
    """

    def __init__(self, timing, names):
        self.names, self._timing = names, timing
        nets = sorted((net for name in names for _, net in timing.outputs.get(name, ())), key=timing.order.get)
        self._nets = [(net, *self._arcs(net, nets), *self._readers(net)) for net in nets]
        into = (net for name in names for port, net in timing.inputs.get(name, ())
                if net not in nets and port not in INSIDE and not timing.passes(name, port))
        self._into = _Ends(map(self._end, into))

    def _end(self, net):
        driver = self._timing.drivers[net][0]
        return self._timing.tile(driver), self._timing.arrival[net]

    def _arcs(self, net, nets):
        """Ends in front of the driver of a net, what leads to it from inside the group (net, nanoseconds), and nanoseconds without wire."""
        timing = self._timing
        arcs = timing.arcs[net]
        outside = _Ends((tile, arrival + delay) for port, source, delay in arcs if source not in nets and port not in INSIDE
                        for tile, arrival in [self._end(source)])
        inside = [(source, delay + (0.0 if port in INSIDE else SLICE_NS)) for port, source, delay in arcs if source in nets]
        beside = [timing.arrival[source] + delay for port, source, delay in arcs if source not in nets and port in INSIDE]
        return outside, inside, max(beside, default=0.0 if arcs else timing.start(timing.drivers[net][0]))

    def _readers(self, net):
        """Ends behind a net, and nanoseconds behind it without a wire, or to a register inside the group."""
        timing, readers = self._timing, self._timing.readers[net]
        outside = _Ends((timing.tile(name), timing.behind(name, port)) for name, port in readers
                        if name not in self.names and port not in INSIDE)
        inside = [0.0 if port in INSIDE else SLICE_NS for name, port in readers if name in self.names and not timing.passes(name, port)]
        beside = [timing.behind(name, port) for name, port in readers if name not in self.names and port in INSIDE]
        return outside, max(inside + beside, default=0.0)

    def wires(self, tiles):
        """Tiles of wire in each tile of an array, but for nets with many readers."""
        ends = [self._into, *(end for _, before, _, _, behind, _ in self._nets for end in (before, behind))]
        return sum((end.away(tiles) for end in ends if len(end) <= MANY), np.zeros(len(tiles)))

    def longest(self, tiles):
        """Nanoseconds of the longest path through the group in each tile of an array (n, 2)."""
        arrival, longest = {}, self._into.farthest(tiles)
        for net, before, inside, start, behind, last in self._nets:
            arrival[net] = np.maximum(before.farthest(tiles), start)
            for source, delay in inside:
                if source in arrival:           # else a loop, which is cut here
                    arrival[net] = np.maximum(arrival[net], arrival[source] + delay)
            longest = np.maximum(longest, arrival[net] + np.maximum(behind.farthest(tiles), last))
        return longest
