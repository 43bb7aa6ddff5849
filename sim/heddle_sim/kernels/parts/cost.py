"""Cost model: what the estimates of the families share; all in cycles."""

from heddle.config import Config

from .merges import Merge
from .tiling import round_up

__all__ = ["ACCESS_CYCLES", "MERGE_GAIN", "bus_cycles", "loading_cycles", "matrix_cycles", "storing_cycles"]

ACCESS_CYCLES = 6           # of a load or store beyond its passes
MERGE_GAIN = 0.85           # a merge that is expected to gain less is not worth its risk


def bus_cycles(cfg: Config, m: int, n: int, k: int) -> float:
    """Cycles that the AXI data bus needs to read A and B once, or to write C, whichever takes longer; the bus is ``axi_bytes`` wide in each
    direction. No kernel is faster. ``k`` in bytes."""
    pitch = round_up(k, 16)
    return max(-(-(m + n) * pitch // cfg.axi_bytes), -(-m * round_up(4 * n, 16) // cfg.axi_bytes)) / cfg.cores


def matrix_cycles(cfg: Config, merge: Merge, columns: float, k: int, passes: int) -> float:
    """Steps of ``mm`` for a tile of ``columns`` columns and ``k`` bytes, in ``passes`` as ``Config.passes`` tells them.

    Both loop orders take a cycle a step: one of Fig. 7 reads the same words, and its sums are forwarded.
    """
    return -(-columns // merge.ka) * merge.slices(k) * passes * merge.step_cycles(cfg.fetch_slots)


def loading_cycles(cfg: Config, merge: Merge, k: int) -> int:
    """Loads of ``k`` bytes of the rows of A of a tile."""
    return len(merge.loads(k)) * (cfg.thread_groups + ACCESS_CYCLES)


def storing_cycles(cfg: Config, merge: Merge, columns: int) -> int:
    """Stores of a tile of ``columns`` columns."""
    return len(merge.stores(columns)) * (cfg.thread_groups * merge.vector + ACCESS_CYCLES)
