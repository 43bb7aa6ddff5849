"""Cells of a placed netlist that move together: halves of slices, slices, and tiles."""

from dataclasses import dataclass

import numpy as np

from .placed_group import PlacedGroup
from .placed_sites import SLICES, is_plain_table

__all__ = ["PlacedUnits", "half_of"]

NEAREST = 150           # tiles that are tried
WIRES = 10              # tiles of wire that may be more for a slice, or a tile, in whose place another one comes


def half_of(cells, timing, name):
    """The table and the flip-flop (or None) in one half of a slice that have to move together."""
    cell = cells[name]
    if is_plain_table(cell):
        readers = {port: reader for net in cell["connections"].get("F", ()) for reader, port in timing.readers.get(net, ())}
        return (None, None) if "F1" in readers else (name, readers.get("DI"))
    if cell["type"] != "TRELLIS_FF":
        return None, None
    if not cell["connections"].get("DI"):
        return None, name
    table = timing.drivers.get(cell["connections"]["DI"][0], (None,))[0]
    return half_of(cells, timing, table) if table and is_plain_table(cells[table]) else (None, None)


@dataclass(frozen=True)
class _Unit:
    names: tuple            # of its cells
    half: tuple = ()        # of a slice: table and flip-flop, either may be None; or
    slice: tuple = ()       # tile and letter; or
    tiles: tuple = ()       # all of them


class PlacedUnits:
    """Finds the units of cells, and moves them."""

    def __init__(self, cells, sites, timing):
        self._cells, self._sites, self._timing = cells, sites, timing

    def of(self, name):
        """The unit of a cell: half a slice, or a slice, or whole tiles for adders, memories and tables of more than five inputs; None
        for one that has to stay."""
        place = self._sites.slice_of(name)
        if place is None:
            return None
        half = half_of(self._cells, self._timing, name)
        if any(half):
            return _Unit(tuple(part for part in half if part), half=half)
        names = self._sites.contents(*place)
        if names:
            return _Unit(tuple(names), slice=place)
        tiles = self._sites.bound_tiles(place[0])
        return _Unit(tuple(self._sites.names(tiles)), tiles=tiles) if tiles else None

    def move(self, unit, columns, rows, limit):
        """Move a unit by about so many columns and rows, to the nearest room; returns whether there was any on the way.

        Whole slices and tiles take the place of others, on which there is then no path longer than ``limit``, and little more wire.
        """
        now = self._sites.place[unit.names[0]]
        tiles = self._sites.tiles
        away = np.abs(tiles - np.array(now) - (columns, rows)).sum(axis=1)
        put = self._put_half if unit.half else self._put_slice if unit.slice else self._put_tiles
        for index in np.argsort(away, kind="stable")[:NEAREST]:
            if away[index] + 0.5 >= abs(columns) + abs(rows):
                return False
            if put(unit, now, tuple(map(int, tiles[index])), limit):
                return True
        return False

    def has_room(self, unit, tile):
        """Whether half a slice, or a slice, may move to a tile without moving anything else."""
        return (self._sites.find(tile, *unit.half) if unit.half else self._empty_slice(unit, tile)) is not None

    def put(self, unit, tile):
        """Move half a slice, or a slice, to a tile that has room for it."""
        if unit.half:
            self._sites.move(tile, *unit.half)
        else:
            self._sites.swap(unit.slice, (tile, self._empty_slice(unit, tile)))

    def _empty_slice(self, unit, tile):
        """Letter of a slice of a tile with nothing in it that a slice may move to; None without one."""
        return next((part for part in SLICES if self._sites.contents(tile, part) == [] and self._sites.swap_fits(unit.slice, (tile, part))),
                    None)

    def _put_half(self, unit, now, tile, limit):
        return self._sites.move(tile, *unit.half)

    def _put_slice(self, unit, now, tile, limit):
        for part in SLICES:
            names = self._sites.contents(tile, part)
            if names is not None and self._sites.swap_fits(unit.slice, (tile, part)) and self._stays_short(names, now, limit):
                self._sites.swap(unit.slice, (tile, part))
                return True
        return False

    def _put_tiles(self, unit, now, tile, limit):
        columns, rows = tile[0] - now[0], tile[1] - now[1]
        if not self._sites.exchange_fits(unit.tiles, columns, rows):
            return False
        for column, row in unit.tiles:
            if not self._stays_short(self._sites.names([(column + columns, row + rows)]), (column, row), limit):
                return False
        self._sites.exchange(unit.tiles, columns, rows)
        return True

    def _stays_short(self, names, tile, limit):
        """Whether no path through cells that move to a tile is then longer than ``limit``, nor their wires much longer."""
        if not names:
            return True
        group, here, there = PlacedGroup(self._timing, names), np.array([self._sites.place[names[0]]]), np.array([tile])
        return group.longest(there)[0] <= limit and (group.wires(there) - group.wires(here))[0] <= WIRES
