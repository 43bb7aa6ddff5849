"""Moves placed cells to where their wires are shorter and where fewer other wires end, as long as no path becomes late.

What the router cannot resolve is wires that cross where many cells stand close together: tiles with 30 inputs and more have twice the
wires that are wanted twice of those with 15. Rows that were kept empty while placing take some of their cells.
"""

from collections import Counter, defaultdict

import numpy as np

from .placed_group import PlacedGroup
from .placed_timing import INSIDE
from .placed_units import PlacedUnits

__all__ = ["PlacedWires"]

MOST_ENDS = 200         # of a net whose wire is looked at: one end more of such a net makes it no longer
FARTHEST = 8            # tiles from the middle of what a unit is connected to
TRIED = 150             # tiles, the best first
LEAST_TILES = 1.0       # that a move has to gain
INPUTS = 22             # of a tile (of 32 and those of its flip-flops) from which on it is full
INPUT_TILES = 0.5       # of wire that an input less in a full tile is worth
SHARE = 0.6             # of the time that is left on a path that a move may take
NEAR = 0.01             # of a tile of wire, for a tile that a unit moves: of equal tiles the nearest


class PlacedWires:
    """Wires of a placed netlist. ``timing`` and ``sites`` as in ``improve_placement``; look at ``shorten``."""

    def __init__(self, cells, sites, timing):
        self._sites, self._timing, self._units = sites, timing, PlacedUnits(cells, sites, timing)
        self._ends = {net: dict.fromkeys([driver, *(name for name, port in timing.readers[net] if port not in INSIDE)])
                      for net, (driver, _) in timing.drivers.items()}
        self._nets, self._inputs = defaultdict(list), Counter()
        for net, ends in self._ends.items():
            if 1 < len(ends) <= MOST_ENDS:
                for name in ends:
                    self._nets[name].append(net)
            self._inputs.update(name for name, port in timing.readers[net] if port not in INSIDE)
        middle = np.arange(-FARTHEST, FARTHEST + 1)
        self._around = np.stack(np.meshgrid(middle, middle), axis=-1).reshape(-1, 2)

    def shorten(self, limit):
        """Move halves of slices and slices once each: where wires take fewer tiles, and out of tiles with many inputs; returns how many.

        Paths through them get longer only below ``limit`` nanoseconds, by a share of what they have left until there, as other
        cells on them move too. ``update`` of the timing has to be called before and afterwards.
        """
        self._full = np.zeros(self._sites.tiles.max(axis=0) + 1)
        self._count(self._inputs, 1)
        moved, seen = 0, set()
        for name in self._nets:
            if name not in seen and (unit := self._units.of(name)) is not None and not unit.tiles:
                seen.update(unit.names)
                moved += self._shorten(unit, limit)
        return moved

    def _count(self, names, sign):
        """Add (1) or take away (-1) the inputs of some cells where they stand."""
        for name in names:
            column, row = self._timing.tile(name)
            if column < self._full.shape[0] and row < self._full.shape[1]:
                self._full[column, row] += sign * self._inputs[name]

    def _shorten(self, unit, limit):
        here = np.array([self._sites.place[unit.names[0]]])
        boxes = self._boxes(unit)
        if not len(boxes):
            return False
        inputs = sum(self._inputs[name] for name in unit.names)
        now = self._cost(boxes, inputs, here, here)[0]
        middle = np.median(boxes.reshape(-1, 2, 2), axis=(0, 1)).astype(int)
        if now - _away(boxes, middle[None])[0] < LEAST_TILES:
            return False
        tiles = self._around + middle
        tiles = tiles[(tiles >= 0).all(axis=1) & (tiles < self._full.shape).all(axis=1)]
        costs = self._cost(boxes, inputs, tiles, here)
        best = np.argsort(costs + NEAR * np.abs(tiles - here).sum(axis=1), kind="stable")
        return self._put(unit, here, tiles[[index for index in best[:TRIED] if costs[index] <= now - LEAST_TILES]], limit)

    def _put(self, unit, here, tiles, limit):
        group = None
        for tile in tiles:
            to = tuple(map(int, tile))
            if not self._units.has_room(unit, to):
                continue
            if group is None:
                group = PlacedGroup(self._timing, unit.names)
                longest = group.longest(here)[0]
                allowed = max(longest, longest + SHARE * (limit - longest))
            if group.longest(tile[None])[0] <= allowed:
                self._count(unit.names, -1)
                self._units.put(unit, to)
                self._count(unit.names, 1)
                return True
        return False

    def _boxes(self, unit):
        """Rectangles around the other ends of a unit's nets: first column and row, last column and row, of each."""
        names, tile, found = set(unit.names), self._timing.tile, []
        for net in sorted({net for name in unit.names for net in self._nets.get(name, ())}):
            others = [tile(name) for name in self._ends[net] if name not in names]
            if others:
                columns, rows = zip(*others)
                found.append((min(columns), min(rows), max(columns), max(rows)))
        return np.array(found)

    def _cost(self, boxes, inputs, tiles, here):
        """Tiles of wire that a unit takes in each of some tiles, with what its inputs cost there."""
        others = self._full[tiles[:, 0], tiles[:, 1]] - np.where((tiles == here).all(axis=1), inputs, 0)
        full = np.maximum(others + inputs - INPUTS, 0) - np.maximum(others - INPUTS, 0)
        return _away(boxes, tiles) + INPUT_TILES * full


def _away(boxes, tiles):
    """Tiles between each of some tiles and all rectangles together."""
    first, last = boxes[None, :, :2], boxes[None, :, 2:]
    return (np.maximum(first - tiles[:, None], 0) + np.maximum(tiles[:, None] - last, 0)).sum(axis=(1, 2))
