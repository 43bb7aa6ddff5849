"""Sparse products on a device: operands to global memory, runs of the sparse engine, the result back [S4]."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from heddle.constants import BANK_BYTES
from heddle.errors import UsageError

from ..arguments import check_choice, check_flag, check_integer
from ..kernels.planner import plan
from ..kernels.sparse_product import SparseOperands, SparseProductKernel, SparseProductProblem
from ..sparse.checks import LARGEST
from ..sparse.compressed import Compressed
from ..sparse.formats import product_operands
from ..sparse.orders import ORDERS
from .execution import execute
from .host import Host
from .memory import Placement

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["SPMM_ORDERS", "spmm"]

SPMM_ORDERS = ("auto", *ORDERS)


class _Schedule(NamedTuple):
    """How a product is cut and dealt to the cores, as ``Device.spmm`` has it."""

    tile: int | None
    order: str
    dynamic: bool
    resident: bool


def spmm(device: Host, a: Any, b: Any, *, tile: int | None, order: str, dynamic: bool, resident: bool) -> tuple[np.ndarray, Stats]:
    """``(c, stats)`` of ``Device.spmm``."""
    schedule = _Schedule(None if tile is None else check_integer("tile", tile, BANK_BYTES, LARGEST),
                         check_choice("order", order, SPMM_ORDERS), check_flag("dynamic", dynamic), check_flag("resident", resident))
    left, right, turned = product_operands(a, b)
    shape = left.shape[0], right.shape[1]
    if 0 in shape:
        raise UsageError(f"the product must have at least one row and one column, not shape {shape[::-1] if turned else shape}")
    c = np.zeros(shape, np.int64)
    runs = []
    for values, of_values in _bytes_of(left.data, 2):
        for elements, of_elements in _bytes_of(right, 1):
            sums, stats = _product(device, left.with_data(values), elements, schedule)
            c += sums.astype(np.int64) << (of_values + of_elements)
            runs.append(stats)
    result = c.astype(np.int32)
    return np.ascontiguousarray(result.T) if turned else result, reduce(add, runs)


def _bytes_of(array: np.ndarray, signed_bytes: int) -> list[tuple[np.ndarray, int]]:
    """``array`` as sums of arrays that the engine takes, shifted left: itself, or low bytes and high bytes. ``signed_bytes``: bytes of the
    largest signed element that it takes."""
    if array.dtype.itemsize == 1 or (array.dtype.kind == "i" and signed_bytes == 2):
        return [(array, 0)]
    high = (array >> 8).astype(np.int8 if array.dtype.kind == "i" else np.uint8)
    return [((array & 0xFF).astype(np.uint8), 0), (high, 8)]


def _product(device: Host, a: Compressed, b: np.ndarray, schedule: _Schedule) -> tuple[np.ndarray, Stats]:
    order = schedule.order if schedule.order != "auto" else "sorted" if device.cfg.cores > 1 else "natural"
    problem = SparseProductProblem(a, b.shape[1], b.dtype.kind == "i", order, schedule.dynamic, tile=schedule.tile)
    memory, shape = device.memory, (a.shape[0], b.shape[1])
    with Placement(memory) as places:
        of_b, c = places.place(b if b.size else np.zeros((1, 1), b.dtype)), places.reserve(shape, np.int32)
        stats = _run(device, problem, places, of_b, c)
        sums = memory.matrix(c, shape, np.int32).copy()
        if schedule.resident:
            stats = _run(device, replace(problem, resident=True), places, of_b, c)
    return sums, stats


def _run(device: Host, problem: SparseProductProblem, places: Placement, b: int, c: int) -> Stats:
    kernel = cast(SparseProductKernel, plan(device.cfg, problem))
    return execute(device, kernel, SparseOperands(places.place_bytes(kernel.packages.tobytes()), b, c))
