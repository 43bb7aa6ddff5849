"""Sampled products: dense times dense at the elements of pruned weights [S4.2]."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.config import Config

from ..golden.sparse import sddmm
from ..sparse.bound import sampled_bound
from ..sparse.compressed import Compressed
from ..sparse.doubly import DCSR
from .common import check_result, print_rows

if TYPE_CHECKING:
    from ..device.device import Device
    from ..progress import Progress

__all__ = ["print_sddmm", "sddmm_rows"]


def sddmm_rows(device: Device, matrices: dict[str, Compressed], options: argparse.Namespace, progress: Progress) -> list[dict[str, Any]]:
    """A benchmark row for each matrix, which is the mask.

    ``utilization``: multiply-accumulates at elements of the mask by those of all multipliers in the cycles; ``bound``: what memory leaves
    of it at most.
    """
    rows = []
    for name, matrix in matrices.items():
        rows.append(_row(device, name, matrix, options))
        progress.step()
    return rows


def _row(device: Device, name: str, mask: Compressed, options: argparse.Namespace) -> dict[str, Any]:
    cfg, inner, transpose = device.cfg, options.k, not options.plain
    rng = np.random.default_rng(options.seed)
    a, columns = (rng.integers(-128, 128, (count, inner), np.int8) for count in mask.shape)
    b, operand = columns if transpose else np.ascontiguousarray(columns.T), DCSR.of(mask)
    d, stats = device.sddmm(a, b, operand, transpose, options.pattern, order=options.order)
    if not options.no_check:
        expected = sddmm(a, b, operand, transpose, options.pattern)
        check_result("results", d.data, expected.data, "numpy", f"{name} seed={options.seed}")
    # Where b is not transposed its columns pass by, and rows of a stay.
    bound, share = sampled_bound(cfg, mask if transpose else mask.transpose(), inner, options.pattern), stats.utilization
    return {
        "matrix": name, "m": mask.shape[0], "n": mask.shape[1], "k": inner, "non_zeros": mask.elements,
        "sparsity": round(1 - mask.density, 4), "transpose": transpose, "pattern": options.pattern, "seed": options.seed,
        "simulator": device.simulator, "cycles": stats.cycles, "utilization": share, "bound": round(bound.share, 4),
        "bound_by": bound.bound_by, "of_bound": share / bound.share if share is not None and bound.share else None,
        **{counter.removeprefix("sparse_"): stats.counters.get(counter) for counter in ("sparse_steps", "sparse_loads", "sparse_waits")},
        "counters": dict(stats.counters), "checked": not options.no_check}


def print_sddmm(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    """Print the rows of ``sddmm_rows``."""
    columns = ("matrix", "m", "n", "k", "non_zeros", "cycles", "utilization", "bound", "bound_by", "of_bound", "checked")
    print_rows(options, "sddmm", cfg.name, rows, dict.fromkeys(columns))
