"""Products of a sparse and a dense matrix: pruned weights, uniform and uneven ones [S4]."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.config import Config

from ..draw.break_even_svg import break_even_svg
from ..golden.sparse import spmm
from ..sparse.bound import product_bound, resident_bound
from ..sparse.compressed import Compressed
from ..sparse.doubly import DCSR
from ..sparse.generated import generated_suite, power_law_matrix, uniform_matrix
from ..sparse.suites import dl_suite
from .bench_gemm import gemm_row
from .common import check_result, print_rows

if TYPE_CHECKING:
    from ..device.device import Device
    from ..progress import Progress

__all__ = ["BREAK_EVEN", "BREAK_EVEN_SPARSITIES", "PUBLISHED_BREAK_EVEN", "SIDES", "SPMM_SUITES", "break_even", "dense_row", "plot_rows",
           "print_spmm", "spmm_rows", "spmm_suite"]

SPMM_SUITES = ("list", "dl", "generated")
BREAK_EVEN = "break-even"       # a suite of sparse products beside the dense one
SIDES = ("left", "right", "both")
SIZE, SPARSITIES = 512, (0.7, 0.8, 0.9, 0.95)      # of the list
BREAK_EVEN_SPARSITIES = (0.0, 0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9)
PUBLISHED_BREAK_EVEN = 0.71     # of Sputnik on a V100 (SC 2020)
_QUICK = 4


def spmm_suite(name: str, quick: bool) -> dict[str, Compressed]:
    """Matrices of a suite by name. "list": uniform and uneven ones of 512 x 512. "dl": the deep-learning matrix collection. "generated": a
    dozen of its statistics. "break-even": uniform ones of 512 x 512 with few zeros to many."""
    if name == BREAK_EVEN:
        made = {f"uniform {100 * sparsity:.0f} %": uniform_matrix(SIZE, SIZE, sparsity, number)
                for number, sparsity in enumerate(BREAK_EVEN_SPARSITIES)}
    elif name == "dl":
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
    transposed product, which runs; where both are it is that with an array, and ``useful_macs`` are those of two non-zeros,
    ``useful_utilization`` what these are of all multipliers.
    ``row_overhead``: cycles a row beside its steps and the way of its sums, of ``resident`` products on one core.
    """
    rows = []
    for name, matrix in matrices.items():
        rows.append(_row(device, name, matrix, columns, options))
        progress.step()
    return rows


def dense_row(device: Device, rows: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """A benchmark row of the dense product of the shape of some ``rows``, which get ``speedup`` over it.

    ``break_even``: the share of zeros with which a sparse product takes as long, by linear interpolation.
    """
    shape = {name: rows[0][name] for name in ("m", "n", "k")}
    dense = gemm_row(device, **shape, dtype="int8", seed=options.seed, check=not options.no_check, resident=options.resident)
    cycles, points = dense["cycles"], [(row["sparsity"], row["cycles"]) for row in rows]
    for row in rows:
        row["speedup"] = cycles / row["cycles"] if cycles else None
    return {"matrix": "dense product", **dense, "break_even": break_even(points, cycles) if cycles else None}


def break_even(points: list[tuple[float, int]], dense: int) -> float | None:
    """Share of zeros with which a sparse product takes ``dense`` cycles, by linear interpolation; None: it always takes more.

    ``points``: share of zeros and cycles of some products. Where all take fewer, the least share of zeros.
    """
    before = None
    for share, cycles in sorted(points):
        if cycles <= dense:
            return share if before is None else before[0] + (share - before[0]) * (before[1] - dense) / (before[1] - cycles)
        before = share, cycles
    return None


def plot_rows(rows: list[dict[str, Any]]) -> str:
    """Text of an SVG file of the rows of sparse products, and of the dense one behind them."""
    *sparse, dense = rows
    return break_even_svg([(row["sparsity"], row["cycles"]) for row in sparse], dense["cycles"], dense["break_even"], PUBLISHED_BREAK_EVEN)


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
        "macs": stats.macs, "useful_macs": useful, "useful_utilization": share and share * useful / stats.macs,
        "row_overhead": _row_overhead(cfg, passing, columns, options, stats.cycles),
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
    beside = (("useful_macs", "useful_utilization") * (options.side == "both") + ("row_overhead",) * options.resident
              + ("speedup",) * (options.suite == BREAK_EVEN))
    columns = ("matrix", "m", "k", "n", "non_zeros", "cycles", "utilization", "bound", "bound_by", "of_bound", "halves", *beside, "checked")
    print_rows(options, "spmm", cfg.name, rows, dict.fromkeys(columns))
    if options.suite == BREAK_EVEN and rows[-1]["cycles"] and not options.json:
        share = rows[-1]["break_even"]
        print("no sparse product is as fast as the dense one" if share is None else
              f"as fast as the dense product with {100 * share:.1f} % of zeros (published: {100 * PUBLISHED_BREAK_EVEN:.0f} %)")
