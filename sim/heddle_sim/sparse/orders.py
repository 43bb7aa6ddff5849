"""Orders in which tiles are handed out, so that cores are done at the same time [S4.7]."""

import numpy as np
from heddle.errors import UsageError, UsageTypeError

from ..arguments import check_choice, check_integer

__all__ = ["MOST_CORES", "ORDERS", "check_costs", "lockstep_share", "tile_order"]

ORDERS = ("natural", "sorted", "snake", "grouped")
MOST_CORES = 1 << 16


def check_costs(value: object) -> np.ndarray:
    """``value`` as int64 (tiles,), each 0 or more."""
    costs = np.asarray(value)
    if not costs.size:
        costs = costs.astype(np.int64)
    if costs.dtype.kind not in "iu" or costs.ndim != 1:
        raise UsageTypeError(f"costs must be an array of integers with one dimension, not of {costs.dtype} with {costs.ndim}")
    costs = costs.astype(np.int64)
    if (costs < 0).any():
        raise UsageError(f"costs must be 0 or more, not {costs.min()} (tile {costs.argmin()})")
    return costs


def tile_order(costs: object, order: str, cores: int) -> np.ndarray:
    """Numbers of all tiles in an order.

    Parameters
    ----------
    costs : integer array (tiles,)
        Work of each tile: non-zeros or cycles.
    order : str
        "natural": as they are. "sorted": most work first. "snake": sorted, every other turn of ``cores`` tiles reversed, so that the core
        with the most work of a turn has the least of the next. "grouped": tiles of like work together, most first; the work in a group
        differs by less than a quarter, and its tiles keep their natural order, so that one pass over few groups takes the place of a sort.
    cores : int
        That tiles are handed out to in turn.

    Returns
    -------
    int64 (tiles,)
        Each tile once.
    """
    work, turn = check_costs(costs), check_integer("cores", cores, 1, MOST_CORES)
    match check_choice("order", order, ORDERS):
        case "sorted":
            return np.argsort(-work, kind="stable")
        case "snake":
            tiles = np.argsort(-work, kind="stable")
            for start in range(turn, len(tiles), 2 * turn):
                tiles[start:start + turn] = tiles[start:start + turn][::-1].copy()
            return tiles
        case "grouped":
            return np.argsort(-_group(work), kind="stable")
    return np.arange(len(work))


def _group(work: np.ndarray) -> np.ndarray:
    """Number of the group of each tile: its leading three bits and how many follow them."""
    fraction, exponent = np.frexp(work)
    return exponent * 4 + np.floor(fraction * 8).astype(np.int64)


def lockstep_share(costs: object, order: str, lanes: int) -> float:
    """Share of the lanes that work where ``lanes`` tiles run side by side and the next ones wait for the longest of them."""
    work = check_costs(costs)
    tiles = work[tile_order(work, order, lanes)]
    groups = np.pad(tiles, (0, -len(tiles) % lanes)).reshape(-1, lanes)
    held = int(groups.max(axis=1, initial=0).sum()) * lanes
    return int(work.sum()) / held if held else 1.0
