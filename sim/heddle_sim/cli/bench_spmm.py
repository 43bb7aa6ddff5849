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

__all__ = ["SPMM_SUITES", "print_spmm", "spmm_rows", "spmm_suite"]

SPMM_SUITES = ("list", "dl", "generated")
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
    most. ``halves``: steps with one non-zero where a step has room for two.
    """
    rows = []
    for name, matrix in matrices.items():
        rows.append(_row(device, name, matrix, columns, options))
        progress.step()
    return rows


def _row(device: Device, name: str, a: Compressed, columns: int, options: argparse.Namespace) -> dict[str, Any]:
    cfg = device.cfg
    b = np.random.default_rng(options.seed).integers(-128, 128, (a.shape[1], columns), np.int8)
    operand = DCSR.of(a)
    c, stats = device.spmm(operand, b, order=options.order, dynamic=not options.static, resident=options.resident,
                           sub_warps=not options.no_sub_warps, collect=options.collect)
    if not options.no_check:
        check_result("results", c, spmm(operand, b), "numpy", f"{name} seed={options.seed}")
    bound = resident_bound(cfg, a, columns) if options.resident else product_bound(cfg, a, columns)
    row = {"matrix": name, "m": a.shape[0], "k": a.shape[1], "n": columns, "non_zeros": a.elements, "sparsity": round(1 - a.density, 4),
           "resident": options.resident, "sub_warps": not options.no_sub_warps, "collect": options.collect,
           "seed": options.seed, "simulator": device.simulator}
    share = stats.utilization
    return row | {
        "cycles": stats.cycles, "utilization": share, "bound": round(bound.share, 4), "bound_by": bound.bound_by,
        "of_bound": share / bound.share if share is not None and bound.share else None,
        **{name.removeprefix("sparse_"): stats.counters.get(name) for name in ("sparse_steps", "sparse_halves", "sparse_loads",
                                                                               "sparse_waits")},
        "counters": dict(stats.counters), "checked": not options.no_check}


def print_spmm(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    columns = ("matrix", "m", "k", "n", "non_zeros", "cycles", "utilization", "bound", "bound_by", "of_bound", "halves", "checked")
    print_rows(options, "spmm", cfg.name, rows, dict.fromkeys(columns))
