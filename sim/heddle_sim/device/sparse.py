"""Sparse products on a device: operands to global memory, runs of the sparse engine, the result back [S4]."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from heddle.constants import BANK_BYTES
from heddle.errors import UsageError
from heddle.parameters.group import ConfigError

from ..arguments import check_choice, check_flag, check_integer
from ..kernels.panel_kernel import PanelKernel
from ..kernels.planner import plan
from ..kernels.sampled_product import SampledOperands, SampledProductKernel, SampledProductProblem
from ..kernels.sparse_product import SparseOperands, SparseProductKernel, SparseProductProblem
from ..sparse.compressed import Compressed
from ..sparse.formats import is_sparse, operand_shape, product_operands, restore, sampled_operands
from ..sparse.orders import ORDERS
from ..sparse.sub_warps import like_rows
from .errors import OutOfMemory
from .execution import execute
from .host import Host
from .memory import Placement, row_pitch

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["SPMM_ORDERS", "check_room", "sddmm", "spmm"]

SPMM_ORDERS = ("auto", *ORDERS)


class _Schedule(NamedTuple):
    """How a product is cut and dealt to the cores, as ``Device.spmm`` has it."""

    tile: int | None
    order: str
    dynamic: bool
    resident: bool
    sub_warps: bool
    collect: bool


def spmm(device: Host, a: Any, b: Any, *, tile: int | None, order: str, dynamic: bool, resident: bool,
         sub_warps: bool, collect: bool) -> tuple[np.ndarray, Stats]:
    """``(c, stats)`` of ``Device.spmm``."""
    schedule = _Schedule(None if tile is None else check_integer("tile", tile, 1),
                         check_choice("order", order, SPMM_ORDERS), check_flag("dynamic", dynamic), check_flag("resident", resident),
                         check_flag("sub_warps", sub_warps), check_flag("collect", collect))
    if schedule.collect and schedule.resident:
        raise UsageError("collect must be False with resident=True, which leaves the sums in shared memory")
    check_room(device, a, b)
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


def check_room(device: Host, a: Any, b: Any) -> None:
    """Raises ``OutOfMemory`` where the result and the operand that is an array do not fit global memory, before an operand is expanded."""
    if not (is_sparse(a) or is_sparse(b)):
        return
    of_a, of_b, allocator = operand_shape("a", a), operand_shape("b", b), device.memory.allocator
    rows, columns, array = (of_a[0], of_b[1], of_b) if is_sparse(a) else (of_b[1], of_a[0], of_a[::-1])
    nbytes = rows * row_pitch(max(columns, 1), 4) + array[0] * row_pitch(max(array[1], 1), 1)
    if nbytes > allocator.size - allocator.used:
        raise OutOfMemory(f"memory_bytes must leave room for {nbytes} more bytes, not {allocator.size} with {allocator.used} in use")


def _bytes_of(array: np.ndarray, signed_bytes: int) -> list[tuple[np.ndarray, int]]:
    """``array`` as sums of arrays that the engine takes, shifted left: itself, or low bytes and high bytes. ``signed_bytes``: bytes of the
    largest signed element that it takes."""
    if array.dtype.itemsize == 1 or (array.dtype.kind == "i" and signed_bytes == 2):
        return [(array, 0)]
    high = (array >> 8).astype(np.int8 if array.dtype.kind == "i" else np.uint8)
    return [((array & 0xFF).astype(np.uint8), 0), (high, 8)]


def _product(device: Host, a: Compressed, b: np.ndarray, schedule: _Schedule) -> tuple[np.ndarray, Stats]:
    width = b.shape[1]
    rows = like_rows(device.cfg, a, min(schedule.tile or width, width), schedule.order) if schedule.sub_warps else None
    ordered = a if rows is None else a.take_rows(rows)
    problem = SparseProductProblem(ordered, width, b.dtype.kind == "i", _order(device, schedule.order), schedule.dynamic,
                                   tile=schedule.tile, sub_warps=schedule.sub_warps, collect=schedule.collect)
    memory, columns, shape = device.memory, problem.places, (a.shape[0], problem.columns_in_memory)
    arranged = np.zeros((max(b.shape[0], 1), shape[1]), b.dtype)
    arranged[:b.shape[0], columns] = b
    with Placement(memory) as places:
        of_b, c = places.place(arranged), places.reserve(shape, np.int32)
        stats = _run(device, problem, places, of_b, c)
        sums = memory.matrix(c, shape, np.int32)[:, columns]
        if rows is not None:
            sums = sums[np.argsort(rows)]
        if schedule.resident:
            stats = _run(device, replace(problem, resident=True), places, of_b, c)
    return sums, stats


def _run(device: Host, problem: SparseProductProblem, places: Placement, b: int, c: int) -> Stats:
    kernel = cast(SparseProductKernel, plan(device.cfg, problem))
    operands = SparseOperands(0, b, c, _workspace(kernel, places))
    packages = places.place_bytes(kernel.arranged_packages(operands).tobytes())
    return execute(device, kernel, replace(operands, packages=packages))


def _workspace(kernel: PanelKernel, places: Placement) -> int:
    """Address of the workspace of a collection; 0 without one."""
    return places.reserve((1, kernel.collection.workspace_bytes), np.uint8) if kernel.collection else 0


def sddmm(device: Host, a: Any, b: Any, mask: Any, *, transpose: bool, pattern: bool, order: str, dynamic: bool,
          collect: bool) -> tuple[Any, Stats]:
    """``(d, stats)`` of ``Device.sddmm``."""
    dealt, flag = check_choice("order", order, SPMM_ORDERS), check_flag("dynamic", dynamic)
    left, columns, places = sampled_operands(a, b, mask, transpose, pattern)
    if 0 in places.shape or not left.shape[1]:
        raise UsageError(f"the product must have at least one row and one column, and a one column, not shapes {places.shape} and "
                         f"{left.shape}")
    problem = SampledProductProblem(places, left.shape[1], pattern=pattern, order=_order(device, dealt), dynamic=flag,
                                    collect=check_flag("collect", collect))
    found = None if transpose else _samples_by_columns(device, problem, left, columns)
    sums, stats = found or _samples(device, problem, left, columns)
    return restore(places.with_data(sums), mask), stats


def _samples_by_columns(device: Host, problem: SampledProductProblem, left: np.ndarray,
                        columns: np.ndarray) -> tuple[np.ndarray, Stats] | None:
    """``_samples`` by the transposed product: rows of a (M, K) are in the panel, columns of b pass by, out of b as it is. None where
    these have no room."""
    places = problem.mask
    numbered = places.with_data(np.arange(places.elements)).transpose()
    turned = replace(problem, mask=numbered.with_data(places.data[numbered.data]), by_columns=True)
    try:
        found, stats = _samples(device, turned, columns.T, left)
    except ConfigError:
        return None
    sums = np.empty_like(found)
    sums[numbered.data] = found
    return sums, stats


def _samples(device: Host, problem: SampledProductProblem, left: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, Stats]:
    """Sums of the elements of the mask, int32, in order; operands of 16 bits in a run for each of their bytes."""
    places = problem.mask
    sums, runs = np.zeros(places.elements, np.int64), []
    for values, of_values in _bytes_of(places.data, 2):
        for left_bytes, of_left in _bytes_of(left, 1):
            for right_bytes, of_right in _bytes_of(columns, 1):
                part = replace(problem, mask=places.with_data(values), a_signed=left_bytes.dtype.kind == "i",
                               b_signed=right_bytes.dtype.kind == "i")
                found, stats = _sampled(device, part, left_bytes, right_bytes)
                sums += found.astype(np.int64) << (of_values + of_left + of_right)
                runs.append(stats)
    return sums.astype(np.int32), reduce(add, runs)


def _order(device: Host, order: str) -> str:
    return order if order != "auto" else "sorted" if device.cfg.cores > 1 else "natural"


def _sampled(device: Host, problem: SampledProductProblem, left: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, Stats]:
    """Sums of the elements of the mask, in order."""
    kernel = cast(SampledProductKernel, plan(device.cfg, problem))
    of_a, of_b = kernel.arranged(left, columns)
    with Placement(device.memory) as places:
        c = places.reserve((1, kernel.sums), np.int32)
        at_a, at_b = (places.place_bytes(data.tobytes() or bytes(BANK_BYTES)) for data in (of_a, of_b))
        operands = SampledOperands(0, at_a, at_b, c, _workspace(kernel, places))
        packages = places.place_bytes(kernel.arranged_packages(operands).tobytes() or bytes(BANK_BYTES))
        stats = execute(device, kernel, replace(operands, packages=packages))
        return device.memory.matrix(c, (1, kernel.sums), np.int32)[0, kernel.places].copy(), stats
