"""Products of a sparse and a dense matrix: pruned weights, uniform and uneven ones [S4]."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.config import Config

from ..golden.sparse import spmm
from ..sparse.bound import product_bound, resident_bound
from ..sparse.compressed import Compressed
from ..sparse.doubly import DCSR
from ..sparse.generated import generated_suite, power_law_matrix, uniform_matrix
from ..sparse.suites import dl_suite
from .common import check_result, print_rows

if TYPE_CHECKING:
    from ..device.device import Device
    from ..progress import Progress

__all__ = ["SIDES", "SPMM_SUITES", "print_spmm", "spmm_rows", "spmm_suite"]

SPMM_SUITES = ("list", "dl", "generated")
SIDES = ("left", "right", "both")
SIZE, SPARSITIES = 512, (0.7, 0.8, 0.9, 0.95)      # of the list
_QUICK = 4


def spmm_suite(name: str, quick: bool) -> dict[str, Compressed]:
    """Matrices of a suite by name. "list": uniform and uneven ones of 512 x 512. "dl": the deep-learning matrix collection. "generated": a
    dozen of its statistics."""
    if name == "dl":
        made = dl_suite()
    elif name == "generated":
        made = generated_suite()
    else:
        made = {f"{kind} {100 * sparsity:.0f} %": make(SIZE, SIZE, sparsity, number) for number, sparsity in enumerate(SPARSITIES)
                for kind, make in (("uniform", uniform_matrix), ("power-law", power_law_matrix))}
    return dict(list(made.items())[:_QUICK]) if quick else made


def spmm_rows(device: Device, matrices: dict[str, Compressed], columns: int, options: argparse.Namespace,
              progress: Progress) -> list[dict[str, Any]]:
    """A benchmark row for each matrix.

    ``utilization``: multiply-accumulates of non-zeros by those of all multipliers in the cycles; ``bound``: what memory leaves of it at
    most. ``halves``: steps with one non-zero where a step has room for two. Where the right operand is sparse the bound is that of the
    transposed product, which runs; where both are it is that with an array, and ``useful_macs`` are those of two non-zeros.
    ``row_overhead``: cycles a row beside its steps and the way of its sums, of ``resident`` products on one core.
    """
    rows = []
    for name, matrix in matrices.items():
        rows.append(_row(device, name, matrix, columns, options))
        progress.step()
    return rows


def _row(device: Device, name: str, a: Compressed, columns: int, options: argparse.Namespace) -> dict[str, Any]:
    cfg = device.cfg
    left, right, useful = _operands(a, columns, options)
    c, stats = device.spmm(left, right, order=options.order, dynamic=not options.static, resident=options.resident,
                           sub_warps=not options.no_sub_warps, collect=options.collect)
    if not options.no_check:
        check_result("results", c, spmm(left, right), "numpy", f"{name} seed={options.seed}")
    passing = a.transpose() if options.side == "right" else a       # by the panel
    bound = (resident_bound if options.resident else product_bound)(cfg, passing, columns)
    row = {"matrix": name, "m": c.shape[0], "k": passing.shape[1], "n": c.shape[1], "non_zeros": a.elements,
           "sparsity": round(1 - a.density, 4), "side": options.side, "resident": options.resident,
           "sub_warps": not options.no_sub_warps, "collect": options.collect, "seed": options.seed, "simulator": device.simulator}
    share = stats.utilization
    return row | {
        "cycles": stats.cycles, "utilization": share, "bound": round(bound.share, 4), "bound_by": bound.bound_by,
        "of_bound": share / bound.share if share is not None and bound.share else None,
        "macs": stats.macs, "useful_macs": useful, "row_overhead": _row_overhead(cfg, passing, columns, options, stats.cycles),
        **{name.removeprefix("sparse_"): stats.counters.get(name) for name in ("sparse_steps", "sparse_halves", "sparse_loads",
                                                                               "sparse_waits")},
        "counters": dict(stats.counters), "checked": not options.no_check}


def _operands(a: Compressed, columns: int, options: argparse.Namespace) -> tuple[Any, Any, int]:
    """Operands with a matrix on the side that is sparse; multiply-accumulates of two elements that are there."""
    rng, operand = np.random.default_rng(options.seed), DCSR.of(a)
    if options.side == "right":
        return rng.integers(-128, 128, (columns, a.shape[0]), np.int8), operand, a.elements * columns
    if options.side == "both":
        b = uniform_matrix(a.shape[1], columns, 1 - a.density, options.seed)
        return operand, DCSR.of(b), int(b.lengths[a.indices].sum())
    return operand, rng.integers(-128, 128, (a.shape[1], columns), np.int8), a.elements * columns


def _row_overhead(cfg: Config, a: Compressed, columns: int, options: argparse.Namespace, cycles: int | None) -> float | None:
    """See ``spmm_rows``. Steps of one non-zero count as steps. None where rows share steps, or are on several cores."""
    shared = not options.no_sub_warps and columns % cfg.sparse_columns in range(1, cfg.sparse_columns // 2 + 1)
    if cycles is None or not options.resident or cfg.cores > 1 or shared or len(a.columns_met) > cfg.sparse_rows:
        return None
    panels = -(-columns // cfg.sparse_columns)
    least = np.maximum(-(-a.lengths // cfg.sparse_pairs), cfg.thread_groups).sum()
    return (cycles - panels * int(least)) / (panels * a.shape[0])


def print_spmm(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    """Print the rows of ``spmm_rows``."""
    beside = ("useful_macs",) * (options.side == "both") + ("row_overhead",) * options.resident
    columns = ("matrix", "m", "k", "n", "non_zeros", "cycles", "utilization", "bound", "bound_by", "of_bound", "halves", *beside, "checked")
    print_rows(options, "spmm", cfg.name, rows, dict.fromkeys(columns))
