"""Sites of an ECP5's logic tiles: who is where, and what may move where."""

import re
from collections import defaultdict

import numpy as np

__all__ = ["SLICES", "PlacedSites", "is_plain_table"]

SITE = re.compile(r"X(\d+)/Y(\d+)/SLICE([A-D])\.(K|FF|RAMW)(\d?)$")
TILE = re.compile(r"X(\d+)/Y(\d+)/")
SLICES, HALVES, KINDS = "ABCD", (0, 1), ("K0", "K1", "FF0", "FF1", "RAMW")
GIVEN = 6               # strength of a site that was given
BINDING = ("FCI", "FCO", "FXA", "FXB", "OFX")   # ports whose wires lead to the slice beside
CONTROLS = ("CEMUX", "LSRMUX", "SRMODE", "CLKMUX", "GSR")


def is_plain_table(cell):
    """A look-up table of four inputs that is no part of an adder, a memory or a larger table."""
    return (cell["type"] == "TRELLIS_COMB" and cell["parameters"].get("MODE", "LOGIC") == "LOGIC"
            and not any(cell["connections"].get(port) for port in ("OFX", "FXA", "FXB", "F1", "M", "FCI", "FCO")))


def _reset(cell):
    parameters = cell["parameters"]
    return tuple(cell["connections"].get("LSR", ())), parameters.get("LSRMUX"), parameters.get("SRMODE")


def _controls(cell):
    nets = tuple(tuple(cell["connections"].get(port, ())) for port in ("CE", "LSR", "CLK"))
    return nets + tuple(cell["parameters"].get(name) for name in CONTROLS)


class PlacedSites:
    """Where the cells of a placed netlist stand. Nothing moves out of or into tiles with cells whose sites were given to the placer.

    ``rows``: of tiles to move into beside those in which cells stand.

    Attributes
    ----------
    place : dict
        Column and row of each cell.
    tiles : numpy.ndarray
        Columns and rows of the tiles that may be moved into.
    """

    def __init__(self, cells, rows=()):
        self._cells, self.place, self._at, free, kept = cells, {}, {}, set(), set()
        for name, cell in cells.items():
            found = TILE.match(site := cell["attributes"].get("NEXTPNR_BEL", ""))
            if found:
                self.place[name] = tile = int(found[1]), int(found[2])
                self._at[site] = name
                if SITE.match(site):
                    (kept if int(cell["attributes"].get("BEL_STRENGTH", "0"), 2) >= GIVEN else free).add(tile)
        self._free = {(column, row) for column in {tile[0] for tile in free} for row in {*rows, *(tile[1] for tile in free)}} - kept
        self.tiles = np.array(sorted(self._free))
        wide = {net for cell in cells.values() for port in ("FXA", "FXB") for net in cell["connections"].get(port, ())}
        self._tied = {name for name, cell in cells.items()
                      if cell["type"] == "TRELLIS_RAMW" or cell["parameters"].get("MODE", "LOGIC") != "LOGIC" or not wide.isdisjoint(
                          net for port in ("FXA", "FXB", "OFX") for net in cell["connections"].get(port, ()))}
        self._bound = defaultdict(list)         # cells of each net that binds slices to each other
        for name in self._tied:
            for net in self._binding(name):
                self._bound[net].append(name)

    def slice_of(self, name):
        """Tile and letter of the slice of a table or flip-flop; None for what stands elsewhere or has to stay."""
        found = SITE.match(self._cells[name]["attributes"].get("NEXTPNR_BEL", ""))
        return (self.place[name], found[3]) if found and self.place[name] in self._free else None

    def contents(self, tile, part):
        """Names of the cells of a slice; None where they are tied to others: adders, memories, tables of more than five inputs."""
        if tile not in self._free:
            return None
        names = self._in_slice(tile, part)
        return None if self._tied.intersection(names) else names

    def bound_tiles(self, tile):
        """Tiles whose contents only move together with that of a tile: adders and large tables take several. None where one has to stay."""
        found, left = set(), [tile]
        while left:
            if (one := left.pop()) in found:
                continue
            if one not in self._free:
                return None
            found.add(one)
            for name in self._tied.intersection(self.names([one])):
                left += [self.place[other] for net in self._binding(name) for other in self._bound[net]]
        return tuple(sorted(found))

    def names(self, tiles):
        """Cells of some tiles."""
        return [name for tile in tiles for part in SLICES for name in self._in_slice(tile, part)]

    def _in_slice(self, tile, part):
        return [name for kind in KINDS if (name := self._at.get(self._site(tile, part, kind)))]

    def exchange_fits(self, tiles, columns, rows):
        """Whether what is in tiles may change places with what is so many columns and rows further."""
        there = {(tile[0] + columns, tile[1] + rows) for tile in tiles}
        return self._free.issuperset(there) and there.isdisjoint(tiles) and all(
            there.issuperset(self.bound_tiles(tile) or [None]) for tile in there)

    def exchange(self, tiles, columns, rows):
        """Let what is in tiles change places with what is so many columns and rows further."""
        for column, row in tiles:
            for part in SLICES:
                self.swap(((column, row), part), ((column + columns, row + rows), part))

    def _binding(self, name):
        return (net for port in BINDING for net in self._cells[name]["connections"].get(port, ()))

    def swap_fits(self, one, other):
        """Whether the tiles of two slices, (tile, letter) each, keep one reset each if what is in them changes places."""
        return one[0] == other[0] or all(
            len(self._resets(here[0], without=here[1]) | self._resets(there[0], only=there[1])) <= 1
            for here, there in ((one, other), (other, one)))

    def swap(self, one, other):
        """Let what is in two slices, (tile, letter) each, change places."""
        moves = [(name, there, kind) for here, there in ((one, other), (other, one)) for kind in KINDS
                 if (name := self._at.pop(self._site(*here, kind), None))]
        for name, (tile, part), kind in moves:
            self._put(name, tile, part, kind)

    def move(self, tile, table, flip_flop):
        """Put a table, a flip-flop or both (either may be None) into the half that ``find`` finds; returns whether there is one. They may
        have stood nowhere before."""
        room = self.find(tile, table, flip_flop)
        if room:
            part, half = room
            for name, kind in ((table, "K"), (flip_flop, "FF")):
                if name:
                    self._at.pop(self._cells[name]["attributes"].get("NEXTPNR_BEL"), None)
                    self._put(name, tile, part, f"{kind}{half}")
        return bool(room)

    def _put(self, name, tile, part, kind):
        self._cells[name]["attributes"]["NEXTPNR_BEL"] = site = self._site(tile, part, kind)
        self._at[site], self.place[name] = name, tile

    def find(self, tile, table, flip_flop):
        """A slice and half of a tile where a table, a flip-flop or both (either may be None) may stand together; None without one."""
        if tile not in self._free:
            return None
        if flip_flop and len(self._resets(tile) | {_reset(self._cells[flip_flop])}) > 1:
            return None
        for part in SLICES:
            tables = [self._cell(tile, part, f"K{half}") for half in HALVES]
            if any(cell and not is_plain_table(cell) for cell in tables) or self._cell(tile, part, "RAMW"):
                continue
            for half in HALVES:
                if self._is_free(tile, part, half, tables[half], table, flip_flop):
                    return part, half
        return None

    def _is_free(self, tile, part, half, present, table, flip_flop):
        here, beside = (self._cell(tile, part, f"FF{number}") for number in (half, 1 - half))
        if table and (present or (here and here["connections"].get("DI"))):
            return False
        if not flip_flop:
            return True
        return not here and (not beside or _controls(beside) == _controls(self._cells[flip_flop]))

    def _resets(self, tile, only=SLICES, without=""):
        """Resets of the flip-flops of some slices of a tile."""
        present = (self._cell(tile, part, f"FF{half}") for part in only if part not in without for half in HALVES)
        return {_reset(cell) for cell in present if cell}

    @staticmethod
    def _site(tile, part, kind):
        return f"X{tile[0]}/Y{tile[1]}/SLICE{part}.{kind}"

    def _cell(self, tile, part, kind):
        name = self._at.get(self._site(tile, part, kind))
        return self._cells[name] if name else None
