"""Elements and rows a cycle for recurrent layers: what the search finds for vector sizes, and published pairs [S3.3, S3.8]."""

from ..rnn.plan import LATENCY, best_plans, evaluate
from .common import print_rows

__all__ = ["LATENCY", "plan_rows", "print_plans"]

GATES = 4                           # an LSTM
COMPARED = ((512, (32, 2048)), (512, (16, 4096)), (1024, (32, 2048)), (1024, (16, 4096)))
COLUMNS = ("multipliers", "hidden", "ep", "vp", "largest_ep", "cycles", "row_cycles", "threads", "tile_efficiency", "utilization")


def plan_rows(multipliers, sizes, latency=LATENCY):
    """A row for each vector size (inputs as many as hidden elements): the smallest and the largest EP among the best, cycles of a step by
    columns and by rows, threads with which it does not stall; then the published pairs, for 65,536 multipliers."""
    rows = []
    for count in multipliers:
        for hidden in sizes:
            best = best_plans(GATES, hidden, hidden, count, latency=latency)
            rows.append(_row(count, hidden, best[0], latency) | {"largest_ep": best[-1].ep})
    if 65536 in multipliers:
        rows += [_row(65536, hidden, evaluate(GATES, hidden, hidden, 65536, *pair, latency=latency), latency)
                 for hidden, pair in COMPARED if hidden in sizes]
    return rows


def _row(multipliers, hidden, found, latency):
    by_rows = evaluate(GATES, hidden, hidden, multipliers, found.ep, found.vp, latency=latency, order="rows")
    threads = next((count for count in (1, 2, 4, 8) if evaluate(GATES, hidden, hidden, multipliers, found.ep, found.vp, count,
                                                               latency).cycles == found.tile_cycles), 8)
    return {"multipliers": multipliers, "hidden": hidden, "ep": found.ep, "vp": found.vp, "largest_ep": found.ep, "cycles": found.cycles,
            "row_cycles": by_rows.cycles, "threads": threads, "tile_efficiency": found.tile_efficiency,
            "utilization": found.utilization}


def print_plans(options, rows):
    print_rows(options, "rnn-plan", "model", rows, dict.fromkeys(COLUMNS))
