"""Model of the tile scheduler, cycle by cycle: which core does which tile when [S4.3, S4.7]."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import NamedTuple

from ..arguments import check_flag, check_integer
from .checks import LARGEST
from .orders import MOST_CORES, check_costs, tile_order

__all__ = ["HandOut", "TileRun", "hand_out"]


class TileRun(NamedTuple):
    """A tile on a core: it begins in cycle ``start``, and the next one may begin in cycle ``end``."""

    tile: int
    start: int
    end: int


@dataclass(frozen=True)
class HandOut:
    """``cores``: tiles of each core in the order in which it does them."""

    cores: tuple[tuple[TileRun, ...], ...]

    @property
    def cycles(self) -> int:
        """Until the slowest core is done."""
        return max(self.ends)

    @property
    def ends(self) -> list[int]:
        """Cycle in which each core is done; 0 without tiles."""
        return [runs[-1].end if runs else 0 for runs in self.cores]

    @property
    def work(self) -> list[int]:
        """Cycles that each core works, waits for its next tile not counted."""
        return [sum(run.end - run.start for run in runs) for runs in self.cores]

    @property
    def slowest_to_mean(self) -> float:
        """Cycles of the slowest core by the work of a core on average; 1 is the best, also where there is no work."""
        total = sum(self.work)
        return self.cycles * len(self.cores) / total if total else 1.0


def hand_out(costs: object, order: str, cores: int, dynamic: bool, latency: int = 0) -> HandOut:
    """Hands out all tiles, each to one core.

    Parameters
    ----------
    costs : integer array (tiles,)
        Cycles of each tile.
    order : str
        One of ``ORDERS`` (``tile_order``).
    cores : int
        Number of cores.
    dynamic : bool
        A core that is done takes the next tile of the order; of several the one with the lowest number. Otherwise the tiles are dealt to
        the cores in turn before the start.
    latency : int
        Cycles from a core's report that it is done to the start of its next tile, with ``dynamic``. Every core has its first tile at the
        start.
    """
    work, count = check_costs(costs), check_integer("cores", cores, 1, MOST_CORES)
    wait = check_integer("latency", latency, 0, LARGEST)
    tiles = tile_order(work, order, count).tolist()
    runs: list[list[TileRun]] = [[] for _ in range(count)]
    if not check_flag("dynamic", dynamic):
        for place, tile in enumerate(tiles):
            core = runs[place % count]
            start = core[-1].end if core else 0
            core.append(TileRun(tile, start, start + int(work[tile])))
        return HandOut(tuple(map(tuple, runs)))
    free = [(0, number) for number in range(count)]         # cycle from which each core can begin a tile: a heap
    for tile in tiles:
        start, number = heapq.heappop(free)
        run = TileRun(tile, start, start + int(work[tile]))
        runs[number].append(run)
        heapq.heappush(free, (run.end + wait, number))
    return HandOut(tuple(map(tuple, runs)))
