"""Elements and rows a cycle for recurrent layers: what the cycle model and the formula find for vector sizes, and published pairs
[S3.3, S3.8]."""

import argparse
from collections.abc import Sequence
from typing import Any

from heddle.constants import BANK_BYTES

from ..rnn.model_plan import best_pairs, pair_cycles
from ..rnn.plan import LATENCY, Plan, best_plans, evaluate
from .common import print_rows

__all__ = ["LATENCY", "plan_rows", "print_plans"]

GATES = 4                           # an LSTM
COMPARED = ((512, (32, 2048)), (512, (16, 4096)), (1024, (32, 2048)), (1024, (16, 4096)))
# Fields of a row with the headings of the table; those without "formula" are of the cycle model.
COLUMNS = {
    "multipliers": None, "hidden": None, "ep": None, "largest_ep": None, "cycles": None, "utilization": None,
    "formula_ep": "formula: ep", "formula_largest_ep": "largest", "formula_cycles": "cycles", "formula_row_cycles": "by rows",
    "formula_threads": "threads", "tile_efficiency": "tiles",
}


def plan_rows(multipliers: Sequence[int], sizes: Sequence[int], latency: int = LATENCY,
              load_bytes: int = BANK_BYTES) -> list[dict[str, Any]]:
    """A row for each vector size, inputs as many as hidden elements; then the published pairs, for 65,536 multipliers.

    By the cycle model with ``load_bytes`` bytes of input a cycle: the smallest (``ep``, ``vp``) and the largest EP among the best, and
    their cycles of a step. By the formula, whose L is ``latency``, the same, cycles by rows, and threads with which it does not stall.
    """
    rows = []
    for count in multipliers:
        for hidden in sizes:
            cycles, pairs = best_pairs("lstm", hidden, count, load_bytes)
            best = best_plans(GATES, hidden, hidden, count, latency=latency)
            row = _row(count, hidden, pairs, cycles, best[0], latency)
            rows.append(row | {"formula_largest_ep": best[-1].ep, "load_bytes": load_bytes})
    if 65536 in multipliers:
        for hidden, pair in COMPARED:
            if hidden in sizes:
                formula = evaluate(GATES, hidden, hidden, 65536, *pair, latency=latency)
                row = _row(65536, hidden, [pair], pair_cycles("lstm", hidden, *pair, load_bytes), formula, latency)
                rows.append(row | {"load_bytes": load_bytes})
    return rows


def _row(multipliers: int, hidden: int, pairs: list[tuple[int, int]], cycles: float, formula: Plan, latency: int) -> dict[str, Any]:
    by_rows = evaluate(GATES, hidden, hidden, multipliers, formula.ep, formula.vp, latency=latency, order="rows")
    threads = next((count for count in (1, 2, 4, 8) if evaluate(GATES, hidden, hidden, multipliers, formula.ep, formula.vp, count,
                                                               latency).cycles == formula.tile_cycles), 8)
    return {"multipliers": multipliers, "hidden": hidden, "ep": pairs[0][0], "vp": pairs[0][1], "largest_ep": pairs[-1][0],
            "cycles": cycles, "utilization": GATES * hidden * 2 * hidden / (multipliers * cycles),
            "formula_ep": formula.ep, "formula_vp": formula.vp, "formula_largest_ep": formula.ep, "formula_cycles": formula.cycles,
            "formula_row_cycles": by_rows.cycles, "formula_threads": threads, "tile_efficiency": formula.tile_efficiency}


def print_plans(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    print_rows(options, "rnn-plan", "model", rows, COLUMNS)
