"""Moves cells that nextpnr has placed far from those that they are connected to.

Where tiles are full, its placer takes the next free site in the row, which may be half the chip away, and what it does afterwards
moves cells by a few tiles only. A few hundred such cells make the longest paths.
"""

import numpy as np

from .floorplan import open_rows
from .placed_copies import copy_drivers
from .placed_group import PlacedGroup
from .placed_sites import SLICES, PlacedSites
from .placed_timing import PlacedTiming
from .placed_units import PlacedUnits, half_of
from .placed_wires import PlacedWires
from .placement_program import PlacementProgram

__all__ = ["improve_placement"]

SWEEPS, SWEEPS_BEHIND = 6, 5    # of moves of single cells: before the programs, and behind each
LONG, ENOUGH_NS = 0.85, 12.0    # paths are looked at above that share of the longest one, and above so many nanoseconds
BESIDE_NS = 1.0         # readers on paths of a net that are at most so much shorter than its longest one
LEAST_NS = 0.15         # what a move has to gain
ENOUGH = 0.9            # of the length of paths that are looked at: shorter ones are as good
LONGER_NS = 0.02        # that a path may be longer for a tile of wire less
# Paths above are late: of the clock that is aimed at, and a little less, as not all find room. A share of the longest path at least.
GOALS_NS, LEAST_GOAL = (12.2, 11.8, 11.5, 11.2, 11.0), 0.75
SHORT_NS = 11.4         # paths may get as long for less wire; after a program so much less than its goal:
BELOW_GOAL_NS = 0.3
COPIED_NS = 9.5         # paths above are looked at for drivers that may be copied: what their wires take beyond the estimate is not counted
BELOW = 0.98            # of that goal: cells on paths above move
FARTHEST = 25           # tiles
CHOICES = 8             # slices whose contents would be replaced
TILES = 400             # that are tried, the best first


def improve_placement(netlist, report=lambda text: None, goals_ns=GOALS_NS):
    """Change the sites of a netlist that nextpnr wrote (``--write``) in place; returns the nanoseconds of the longest path.

    Look-up tables, flip-flops, and pairs of both in one half of a slice move to free sites, or what is in a slice changes places with
    what is in another: each to a tile where the longest path through it is short and its wires are not much longer. Then drivers of
    large nets get copies beside their readers (``placed_copies.py``), and linear programs, one for each of ``goals_ns``, say where the
    cells of all long paths should stand together, with adders, memories and tables of more inputs, which move as they are; each goes to
    the nearest room, and what found none where it should moves alone once more. In between halves of slices and slices move to where their
    wires are shorter (``placed_wires.py``), rows that were kept empty included.
    """
    module = netlist["modules"]["top"]
    cells = module["cells"]
    sites = PlacedSites(cells, open_rows(netlist))
    timing = PlacedTiming(cells, sites.place)
    _shorten(PlacedWires(cells, sites, timing), timing, SHORT_NS, report)
    _sweep(cells, sites, timing, SWEEPS, report, min(ENOUGH_NS, *goals_ns))
    report(f"{copy_drivers(module, sites, timing, COPIED_NS)} copies")
    timing = PlacedTiming(cells, sites.place)
    wires = PlacedWires(cells, sites, timing)
    longest = _shorten(wires, timing, SHORT_NS, report)
    for goal in goals_ns:
        goal = max(goal, LEAST_GOAL * longest)
        moved = _move_together(cells, sites, timing, goal)
        report(f"program for {goal:.2f} ns: {moved} moves")
        _sweep(cells, sites, timing, SWEEPS_BEHIND, report, goal)
        longest = _shorten(wires, timing, min(goal - BELOW_GOAL_NS, SHORT_NS), report)
    return longest


def _shorten(wires, timing, limit, report):
    """Move cells to where their wires are shorter; returns the nanoseconds of the longest path."""
    timing.update()
    moved = wires.shorten(limit)
    longest = timing.longest(timing.update()[0])
    report(f"wires: {longest:.2f} ns, {moved} moves")
    return longest


def _sweep(cells, sites, timing, sweeps, report, least=0.0):
    """Move single cells on the longest paths, and on those longer than ``least``."""
    for sweep in range(sweeps):
        nets = timing.update()
        longest = timing.longest(nets[0])
        mover = _Mover(cells, sites, timing, max(least, LONG * longest))
        made = sum(mover.move(name) for name in mover.on_long_paths(nets))
        report(f"sweep {sweep}: {longest:.2f} ns, {made} moves")
        if not made:
            return


def _move_together(cells, sites, timing, goal):
    """Move the cells of all paths that are longer than ``goal``, or nearly, as a linear program has it; returns the number of moves."""
    known, units, unit_of = PlacedUnits(cells, sites, timing), [], {}
    for net in timing.update():
        if timing.longest(net) < BELOW * goal:
            break
        late = [name for name, port in timing.readers[net] if timing.through(net, name, port) >= BELOW * goal]
        for name in (timing.drivers[net][0], *late):
            if name not in unit_of and (unit := known.of(name)) is not None:
                unit_of.update(dict.fromkeys(unit.names, len(units)))
                units.append(unit)
    moves = PlacementProgram(timing, unit_of, goal).solve(FARTHEST) if units else None
    if moves is None:
        return 0
    # Those of the longest paths choose first; what was in the way of one may have moved before it.
    return sum(known.of(unit.names[0]) == unit and known.move(unit, *by, goal) for unit, by in zip(units, moves))


class _Mover:
    """Moves cells on paths longer than ``limit``."""

    def __init__(self, cells, sites, timing, limit):
        self._cells, self._sites, self._timing, self._limit = cells, sites, timing, limit

    def on_long_paths(self, nets):
        """Cells at the ends of the nets (those with the longest paths first) that have paths longer than the limit, once each."""
        found, timing = {}, self._timing
        for net in nets:
            longest = timing.longest(net)
            if longest < self._limit:
                break
            found[timing.drivers[net][0]] = None
            for name, port in timing.readers[net]:
                if timing.through(net, name, port) > longest - BESIDE_NS:
                    found[name] = None
        return found

    def move(self, name):
        """Move a cell with what it is tied to; returns whether that was worth it."""
        place = self._sites.slice_of(name)
        if place is None:
            return False
        return self._move_half(name, place) or self._swap_slices(place)

    def _tiles(self, group, here, now):
        """Where the longest path through a group is shorter than now, the best first: (cost, tile)."""
        tiles = self._sites.tiles
        longest = group.longest(tiles)
        cost = np.maximum(longest, ENOUGH * self._limit) + LONGER_NS * (group.wires(tiles) - group.wires(here))
        cost[longest > now - LEAST_NS] = np.inf
        best = np.argsort(cost, kind="stable")[:TILES]
        return [(cost[index], tuple(map(int, tiles[index]))) for index in best if cost[index] < np.inf]

    def _move_half(self, name, place):
        table, flip_flop = half_of(self._cells, self._timing, name)
        group, here = PlacedGroup(self._timing, [part for part in (table, flip_flop) if part]), np.array([place[0]])
        now = group.longest(here)[0]
        if not group.names or now < self._limit:
            return False
        return any(self._sites.move(tile, table, flip_flop) for _, tile in self._tiles(group, here, now))

    def _swap_slices(self, place):
        names = self._sites.contents(*place)
        if not names:
            return False
        group, here = PlacedGroup(self._timing, names), np.array([place[0]])
        now = group.longest(here)[0]
        if now < self._limit:
            return False
        found = []
        for cost, tile in self._tiles(group, here, now):
            for part in SLICES:
                others = self._sites.contents(tile, part)
                if others is None or not self._sites.swap_fits(place, (tile, part)):
                    continue
                replaced, there = PlacedGroup(self._timing, others), np.array([tile])
                if replaced.longest(here)[0] <= now - LEAST_NS:
                    cost += LONGER_NS * (replaced.wires(here) - replaced.wires(there))[0]
                    found.append((cost, tile, part))
            if len(found) >= CHOICES:
                break
        if found:
            self._sites.swap(place, min(found)[1:])
        return bool(found)
