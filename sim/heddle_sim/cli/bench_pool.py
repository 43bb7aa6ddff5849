"""Pooling and sums of random integers on a device, compared with the golden models."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from heddle.config import Config

from ..compiled.layout import ImageLayout
from ..device.elementwise import sum_problem
from ..device.pooling import pool_problem
from ..golden.pooling import add, add_factors, average_pool, max_pool
from ..golden.requantise import Requantise
from ..kernels.elementwise import SumKernel
from ..kernels.planner import plan
from ..kernels.pooling import PoolKernel
from .common import check_result, print_rows

if TYPE_CHECKING:
    from ..device.device import Device

__all__ = ["POOLS", "Pool", "pool_row", "print_pool"]

_LAYOUT = ImageLayout("NHWC")


class Pool(NamedTuple):
    """An operation ("max", "average" or "add") on an image of rows, columns and channels; of pools also window, stride and padding of both
    axes."""

    operation: str
    image: tuple[int, int, int]
    kernel: tuple[int, int] | None = None
    stride: int = 1
    pad: int = 0


POOLS = (
    Pool("max", (32, 32, 64), (3, 3), 2, 1),
    Pool("max", (28, 28, 64), (2, 2), 2),
    Pool("max", (14, 14, 128), (3, 3), 1, 1),
    Pool("average", (16, 16, 64), (3, 3), 1, 1),
    Pool("average", (16, 16, 64), (2, 2), 2),
    Pool("average", (8, 8, 64), (8, 8)),
    Pool("average", (7, 7, 256), (7, 7)),
    Pool("add", (32, 32, 16)),
    Pool("add", (16, 16, 64)),
    Pool("add", (8, 8, 64)),
)


def pool_row(device: Device, pool: Pool, seed: int, check: bool) -> dict[str, Any]:
    """A benchmark row of one image, channels last, int8. ``bound``: see ``PoolKernel.bound``; ``share``: of it in the cycles. Raises
    ``CommandFailed`` when the result differs from that of the golden model."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (1, *pool.image), np.int8)
    kernel: PoolKernel | SumKernel
    if pool.operation == "add":
        other, points = rng.integers(-128, 128, x.shape, np.int8), (3, -5)
        multipliers, shift = add_factors(0.7, 0.9, 1.1)
        output = Requantise(1, shift, 7)
        kernel = cast(SumKernel, plan(device.cfg, sum_problem(x, other, multipliers, points, output)))
        y, stats = device.add(x, other, multipliers, shift, a_zero_point=points[0], b_zero_point=points[1], zero_point=7)
        expected = add(x, other, multipliers, points, output)
    else:
        window: dict[str, Any] = {"kernel": pool.kernel, "strides": pool.stride, "pads": pool.pad}
        padding, strides = ((pool.pad,) * 2,) * 2, (pool.stride,) * 2
        kernel = cast(PoolKernel, plan(device.cfg, pool_problem(pool.operation, x, _LAYOUT, **window)))
        if pool.operation == "max":
            y, stats = device.max_pool(x, layout=_LAYOUT.name, **window)
            expected = max_pool(x, pool.kernel, padding, strides, (1, 1))
        else:
            y, stats = device.average_pool(x, layout=_LAYOUT.name, **window)
            expected = average_pool(x, pool.kernel, padding, strides)
    if check:
        check_result("y", y, expected, "the golden model", f"{pool} seed={seed}")
    bound = kernel.bound()
    return {"operation": pool.operation, "image": "x".join(map(str, pool.image)),
            "kernel": "x".join(map(str, pool.kernel)) if pool.kernel else None, "stride": pool.stride if pool.kernel else None,
            "pad": pool.pad if pool.kernel else None, "seed": seed, "simulator": device.simulator, "cycles": stats.cycles,
            "bound": round(bound), "share": bound / stats.cycles if stats.cycles else None, "breakdown": dict(stats.breakdown),
            "counters": dict(stats.counters), "checked": bool(check)}


def print_pool(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    columns = ("operation", "image", "kernel", "stride", "pad", "cycles", "bound", "share", "checked")
    print_rows(options, "pool", cfg.name, rows, dict.fromkeys(columns))
