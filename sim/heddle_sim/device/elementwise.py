"""Sums of quantised tensors on a device: operands to global memory, a run, the result back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from heddle.constants import BANK_BYTES
from heddle.errors import UsageError
from numpy.typing import ArrayLike, DTypeLike

from ..arguments import check_flag, check_integer, integer_array
from ..golden.requantise import MAX_MULTIPLIER, Requantise
from ..kernels.elementwise import SumProblem
from ..kernels.parts.planes import Planes
from ..kernels.planner import plan
from ..kernels.problem import Operands
from .device_array import DeviceArray, place_constant
from .execution import execute
from .host import Host
from .image_arguments import check_bytes, check_zero_point, several
from .memory import UNWRITTEN, GlobalMemory, Placement

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["add", "sum_problem"]


def sum_problem(a: np.ndarray, b: np.ndarray, multipliers: tuple[int, int], zero_points: tuple[int, int],
                output: Requantise, exact: bool = True) -> SumProblem:
    """Problem of the sum of two arrays of bytes; multipliers and zero points of a and of b; ``exact`` as of ``Device.add``."""
    points = (check_zero_point("a_zero_point", zero_points[0], a.dtype), check_zero_point("b_zero_point", zero_points[1], b.dtype))
    return SumProblem(a.size, (a.dtype, b.dtype), multipliers, points, output, exact)


def add(device: Host, first: ArrayLike | DeviceArray, second: ArrayLike | DeviceArray, *, multipliers: Sequence[int], shift: int,
        a_zero_point: int, b_zero_point: int, zero_point: int, minimum: int | None, maximum: int | None, relu: bool,
        dtype: DTypeLike | None, exact: bool, keep: bool) -> tuple[np.ndarray | DeviceArray, Stats]:
    """``(y, stats)`` of ``Device.add``."""
    a, b = (integer_array(name, x.like() if isinstance(x, DeviceArray) else x) for name, x in (("a", first), ("b", second)))
    for name, array in (("a", a), ("b", b)):
        check_bytes(name, array)
        if not array.size:
            raise UsageError(f"{name} must have no empty axis, not shape {array.shape}")
    if a.shape != b.shape:
        raise UsageError(f"b must have the shape {a.shape} of a, not {b.shape}")
    factors = [check_integer("multipliers", value, 1, MAX_MULTIPLIER) for value in several("multipliers", multipliers)]
    if len(factors) != 2:
        raise UsageError(f"multipliers must be two, of a and of b, not {len(factors)}")
    output = Requantise(1, shift, zero_point, minimum, maximum, relu, a.dtype if dtype is None else dtype)
    problem = sum_problem(a, b, (factors[0], factors[1]), (a_zero_point, b_zero_point), output, check_flag("exact", exact))
    kernel, memory = plan(device.cfg, problem), device.memory
    keep = check_flag("keep", keep) and not a.size % BANK_BYTES
    with Placement(memory) as places:
        at_a, at_b = (_address(memory, places, x if isinstance(x, DeviceArray) else array) for x, array in ((first, a), (second, b)))
        y = memory.reserve((1, a.size), np.uint8, UNWRITTEN)
        result = DeviceArray.owning(memory, y, Planes(1, a.size, a.size, a.size, a.shape[-1] if a.ndim else 1), 1, a.shape,
                                    np.dtype(output.dtype), lambda: memory.read(y, a.shape, output.dtype))
        tables = [place_constant(places, memory, table.tobytes()) for table in kernel.arranged()]
        stats = execute(device, kernel, Operands(at_a, at_b, y, *tables))
        return (result if keep else np.asarray(result)), stats


def _address(memory: GlobalMemory, places: Placement, x: np.ndarray | DeviceArray) -> int:
    """Where the elements of an operand lie, without gaps."""
    if isinstance(x, DeviceArray) and x.memory is memory and x.plain:
        return x.address
    return places.place_bytes(np.asarray(x).tobytes())
