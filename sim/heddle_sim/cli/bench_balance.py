"""How evenly the rows of sparse matrices are dealt to cores, by the model of the scheduler [S4.3, S4.7]."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from heddle.config import Config

from ..sparse.compressed import Compressed
from ..sparse.generated import generated_suite, power_law_matrix, uniform_matrix
from ..sparse.hand_out import hand_out
from ..sparse.orders import ORDERS
from ..sparse.suites import dl_suite
from .common import print_rows

__all__ = ["BALANCE_SUITES", "balance_rows", "balance_suite", "print_balance"]

BALANCE_SUITES = ("generated", "dl")
_SIZE, _SPARSITIES, _EXPONENTS = 512, (0.7, 0.9, 0.95), (0.6, 1.0)     # of the uneven ones


def balance_suite(name: str) -> dict[str, Compressed]:
    """Matrices by name. "generated": uniform ones, uneven ones by a power of the rank of a row, and the dozen of ``generated_suite``.
    "dl": the deep-learning matrix collection."""
    if name == "dl":
        return dl_suite()
    made = {}
    for number, sparsity in enumerate(_SPARSITIES):
        zeros = f"{100 * sparsity:.0f} %"
        made[f"uniform {zeros}"] = uniform_matrix(_SIZE, _SIZE, sparsity, number)
        for exponent in _EXPONENTS:
            made[f"power-law {exponent} {zeros}"] = power_law_matrix(_SIZE, _SIZE, sparsity, number, exponent)
    return made | generated_suite()


def balance_rows(cfg: Config, matrices: dict[str, Compressed], cores: int) -> list[dict[str, Any]]:
    """A row for each matrix: cycles of the slowest core by the mean of all. Rows are dealt in turn, in each order. In ``dynamic`` (natural
    order) and ``dynamic_sorted`` a core takes the next rows when it is done. A row of n non-zeros takes the larger of its steps and of the
    way of its sums. ``mean_cycles``: of a core; ``slowest_cycles``: of the slowest with ``dynamic_sorted``; ``core_cycles``: of each core
    by the orders.
    """
    rows = []
    for name, matrix in matrices.items():
        costs = np.maximum(-(-matrix.lengths // cfg.sparse_pairs), cfg.thread_groups)
        dealt = {order: hand_out(costs, order, cores, False) for order in ORDERS}
        dealt |= {"dynamic": hand_out(costs, "natural", cores, True), "dynamic_sorted": hand_out(costs, "sorted", cores, True)}
        rows.append({"matrix": name, "rows": matrix.shape[0], "non_zeros": matrix.elements, "longest": int(matrix.lengths.max(initial=0)),
                     "cores": cores, "mean_cycles": int(costs.sum()) / cores, "slowest_cycles": dealt["dynamic_sorted"].cycles,
                     "core_cycles": {order: made.ends for order, made in dealt.items()},
                     **{order: round(made.slowest_to_mean, 4) for order, made in dealt.items()}})
    return rows


def print_balance(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    """Print the rows of ``balance_rows``."""
    columns = ("matrix", "rows", "non_zeros", "longest", "cores", *ORDERS, "dynamic", "dynamic_sorted", "slowest_cycles",
               "mean_cycles")
    print_rows(options, "balance", cfg.name, rows, dict.fromkeys(columns))
