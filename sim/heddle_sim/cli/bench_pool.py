"""Pooling and sums of random integers on a device, compared with the golden models."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from heddle.config import Config

from ..device.observers import executed_kernels
from ..golden.pooling import add, add_factors, average_pool, max_pool
from ..golden.requantise import Requantise
from ..kernels.elementwise import SumKernel
from ..kernels.measured_kernel import MeasuredKernel
from ..kernels.panel_sum import PanelSumKernel
from ..kernels.pooling import PoolKernel
from .common import check_result, print_rows

if TYPE_CHECKING:
    from ..device.device import Device
    from ..device.stats import Stats

__all__ = ["POOLS", "Pool", "pool_row", "print_pool"]


class Pool(NamedTuple):
    """An operation ("max", "average" or "add") on an image of rows, columns and channels; of pools also window, stride and padding of both
    axes, and whether padding counts."""

    operation: str
    image: tuple[int, int, int]
    kernel: tuple[int, int] | None = None
    stride: int = 1
    pad: int = 0
    include_pad: bool = False


POOLS = (
    Pool("max", (32, 32, 64), (3, 3), 2, 1),
    Pool("max", (28, 28, 64), (2, 2), 2),
    Pool("max", (14, 14, 128), (3, 3), 1, 1),
    Pool("average", (16, 16, 64), (3, 3), 1, 1),
    Pool("average", (16, 16, 64), (2, 2), 2),
    Pool("average", (8, 8, 64), (8, 8)),
    Pool("average", (7, 7, 256), (7, 7)),
    Pool("average", (16, 16, 64), (3, 3), 1, 1, include_pad=True),
    Pool("add", (32, 32, 16)),
    Pool("add", (16, 16, 64)),
    Pool("add", (8, 8, 64)),
)


def pool_row(device: Device, pool: Pool, seed: int, check: bool) -> dict[str, Any]:
    """A benchmark row of one image, channels last, int8. ``method``: "thread", "sparse" (the sparse engine), or "convolution".
    ``bound``: cycles that no run can beat; ``share``: of it in the cycles.

    Raises ``CommandFailed`` when the result differs from that of the golden model.
    """
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (1, *pool.image), np.int8)
    with executed_kernels() as kernels:
        y, expected, stats = _sum(device, x, rng) if pool.operation == "add" else _pool(device, x, pool)
    if check:
        check_result("y", y, expected, "the golden model", f"{pool} seed={seed}")
    kernel = kernels[0]
    if isinstance(kernel, (PoolKernel, SumKernel, PanelSumKernel)):
        method, bound = "sparse" if isinstance(kernel, PanelSumKernel) else "thread", kernel.bound()
    else:       # steps of mm, or bytes on the bus
        method = "convolution"
        lanes = cast(MeasuredKernel, kernel).lane_bound
        bound = max(stats.macs / device.cfg.peak_macs(1) / lanes, max(x.nbytes, y.nbytes) / device.cfg.axi_bytes)
    window = {"kernel": "x".join(map(str, pool.kernel)), "stride": pool.stride, "pad": pool.pad, "include_pad": pool.include_pad
              } if pool.kernel else dict.fromkeys(("kernel", "stride", "pad", "include_pad"))
    return {"operation": pool.operation, "image": "x".join(map(str, pool.image)), **window, "method": method, "seed": seed,
            "simulator": device.simulator, "cycles": stats.cycles, "bound": round(bound),
            "share": bound / stats.cycles if stats.cycles else None, "breakdown": dict(stats.breakdown),
            "counters": dict(stats.counters), "checked": bool(check)}


def _sum(device: Device, x: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Stats]:
    """The sum with other random integers: result, that of the golden model, figures."""
    other, points = rng.integers(-128, 128, x.shape, np.int8), (3, -5)
    multipliers, shift = add_factors(0.6917, 0.9341, 1.1629)     # 14 weights on the sparse engine, as in half of all sums
    y, stats = device.add(x, other, multipliers, shift, a_zero_point=points[0], b_zero_point=points[1], zero_point=7)
    return y, add(x, other, multipliers, points, Requantise(1, shift, 7)), stats


def _pool(device: Device, x: np.ndarray, pool: Pool) -> tuple[np.ndarray, np.ndarray, Stats]:
    """Windows of an image: result, that of the golden model, figures."""
    assert pool.kernel is not None
    padding, strides = ((pool.pad,) * 2,) * 2, (pool.stride,) * 2
    window: dict[str, Any] = {"kernel": pool.kernel, "strides": pool.stride, "pads": pool.pad, "layout": "NHWC"}
    if pool.operation == "max":
        y, stats = device.max_pool(x, **window)
        return y, max_pool(x, pool.kernel, padding, strides, (1, 1)), stats
    y, stats = device.average_pool(x, count_include_pad=pool.include_pad, **window)
    return y, average_pool(x, pool.kernel, padding, strides, pool.include_pad), stats


def print_pool(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    columns = ("operation", "image", "kernel", "stride", "pad", "include_pad", "method", "cycles", "bound", "share", "checked")
    print_rows(options, "pool", cfg.name, rows, dict.fromkeys(columns))
