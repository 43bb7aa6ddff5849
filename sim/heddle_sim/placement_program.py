"""Where the cells of all long paths should stand together, as a linear program."""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from .placed_timing import INSIDE, SLICE_NS, TILE_NS, WIRE_NS

__all__ = ["PlacementProgram"]

WIRE_COST = 0.01        # of a tile of wire, beside a nanosecond by which an end is late: the router has to find room for the wires
MOVE_COST = 0.002       # of a tile that a unit moves
TIME_LIMIT_S = 300


class PlacementProgram:
    """Places of units (cells that move together) with which the ends of paths are late by the least sum.

    Delays are linear in the distance, so all cells of a path move at once, as one cell at a time cannot.

    Parameters
    ----------
    timing : PlacedTiming
        Whose ``update`` was called.
    unit_of : dict
        Unit of each cell that may move, a number from 0. Cells of a unit keep their distances.
    goal : float
        Nanoseconds from which on a path is late.
    """

    def __init__(self, timing, unit_of, goal):
        self._timing, self._unit_of, self._goal = timing, unit_of, goal
        self._count = max(unit_of.values()) + 1
        self._rows, self._columns, self._values, self._limits, self._costs = [], [], [], [], []

    def _variable(self, cost):
        self._costs.append(cost)
        return len(self._costs) - 1

    def _at_most(self, terms, limit):
        for column, value in terms:
            self._rows.append(len(self._limits))
            self._columns.append(column)
            self._values.append(value)
        self._limits.append(limit)

    def _place(self, name, axis):
        """Terms and constant of a coordinate of a cell: where it stands, and by how much its unit moves."""
        unit = self._unit_of.get(name)
        return [] if unit is None else [(2 * unit + axis, 1.0)], float(self._timing.tile(name)[axis])

    def _distance(self, one, other):
        """Terms of the tiles of wire between two cells."""
        found = []
        for axis in range(2):
            (first, a), (second, b) = self._place(one, axis), self._place(other, axis)
            away = self._variable(WIRE_COST)
            minus = [(column, -value) for column, value in second]
            self._at_most([*first, *minus, (away, -1.0)], b - a)
            self._at_most([*((column, -value) for column, value in first), *second, (away, -1.0)], a - b)
            found.append((away, TILE_NS))
        return found

    def solve(self, farthest):
        """Columns and rows by which the units should move (n, 2), none by more than ``farthest`` tiles; None without a solution."""
        timing, units = self._timing, self._unit_of
        for _ in range(2 * self._count):
            self._variable(0.0)
        for column in range(2 * self._count):
            away = self._variable(MOVE_COST)
            self._at_most([(column, 1.0), (away, -1.0)], 0.0)
            self._at_most([(column, -1.0), (away, -1.0)], 0.0)
        # Nets that come later or earlier with the places of units, where that counts: others come when they do.
        self._arrival = {net: self._variable(0.0) for net, (name, _) in timing.drivers.items()
                         if name in units or timing.longest(net) > self._goal}
        for net, variable in self._arrival.items():
            if not timing.arcs[net]:
                self._at_most([(variable, -1.0)], -timing.start(timing.drivers[net][0]))
        for net in timing.drivers:
            if net in self._arrival or any(reader in units for reader, _ in timing.readers[net]):
                for reader, port in timing.readers[net]:
                    self._wire(net, reader, port)
        matrix = coo_array((self._values, (self._rows, self._columns)), shape=(len(self._limits), len(self._costs))).tocsr()
        bounds = np.array([(-farthest, farthest)] * 2 * self._count + [(0.0, np.inf)] * (len(self._costs) - 2 * self._count))
        found = linprog(self._costs, A_ub=matrix, b_ub=self._limits, bounds=bounds, method="highs-ipm",
                        options={"time_limit": TIME_LIMIT_S})
        return None if found.x is None else found.x[:2 * self._count].reshape(-1, 2)

    def _wire(self, net, name, port):
        """What has to come in time behind the wire from the driver of a net to one of its readers."""
        timing, driver = self._timing, self._timing.drivers[net][0]
        one, other = self._unit_of.get(driver), self._unit_of.get(name)
        if one != other and port not in INSIDE:
            terms, delay = self._distance(driver, name), WIRE_NS
        else:
            terms, delay = [], timing.wire(net, name, port) if one is None or port in INSIDE else SLICE_NS
        if net in self._arrival:
            terms.append((self._arrival[net], 1.0))
        else:
            delay += timing.arrival[net]
        for out, more in self._onward(net, name, port):
            if out in self._arrival:
                self._at_most([*terms, (self._arrival[out], -1.0)], -delay - more)
            else:
                rest = more + (timing.remaining[out] if out is not None else 0.0)
                self._at_most([*terms, (self._variable(1.0), -1.0)], self._goal - delay - rest)

    def _onward(self, net, name, port):
        """Nets that a path goes on to from a reader, with the nanoseconds to them; None for a register."""
        if not self._timing.passes(name, port):
            return [(None, 0.0)]
        return [(out, delay) for _, out in self._timing.outputs[name] for at, source, delay in self._timing.arcs[out]
                if at == port and source == net]
