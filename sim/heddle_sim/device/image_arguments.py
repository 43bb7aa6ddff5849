"""Arguments of operations on images: values for each spatial axis, padding, zero points."""

from __future__ import annotations

from typing import Any

import numpy as np
from heddle.errors import UsageError, UsageTypeError

from ..arguments import check_mask

__all__ = ["axis_pairs", "check_bytes", "check_zero_point", "is_integer", "per_axis", "several"]


def is_integer(value: object) -> bool:
    """Whether a value is an integer, and no truth value."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def several(name: str, value: object) -> tuple[Any, ...]:
    """A list or an array as a tuple."""
    if not isinstance(value, (tuple, list, np.ndarray)) or isinstance(value, np.ndarray) and not value.ndim:
        raise UsageTypeError(f"{name} must be an integer or a tuple of integers, not {value!r}")
    check_mask(name, value)
    return tuple(value)


def per_axis(name: str, value: Any, spatial: int) -> tuple[int, ...]:
    """A value for every spatial axis, from one or several integers."""
    values = (value,) * spatial if is_integer(value) else several(name, value)
    if not all(map(is_integer, values)):
        raise UsageTypeError(f"{name} must be an integer, or {spatial} of them, not {value!r}")
    if len(values) != spatial:
        raise UsageError(f"{name} must be an integer, or {spatial} of them, not {value!r}")
    return tuple(int(item) for item in values)


def axis_pairs(pads: Any, spatial: int) -> tuple[tuple[int, int], ...]:
    """(begin, end) for every spatial axis."""
    given = pads
    if not is_integer(pads):
        pads = several("pads", pads)
        if any(isinstance(item, (tuple, list)) for item in pads):
            if len(pads) != spatial or any(is_integer(item) for item in pads):
                raise UsageError(f"pads must have {spatial} pairs, not {given!r}")
            pads = [per_axis("pads", item, 2)[edge] for edge in (0, 1) for item in pads]
        if len(pads) not in (spatial, 2 * spatial):
            raise UsageError(f"pads must be an integer, {spatial} of them (one for each axis) or {2 * spatial} (begins, then ends), "
                             f"not {given!r}")
    if is_integer(pads) or len(pads) != 2 * spatial:
        pads = per_axis("pads", pads, spatial) * 2
    values = per_axis("pads", pads, 2 * spatial)
    if min(values) < 0:
        raise UsageError(f"pads must be at least 0, not {min(values)}")
    return tuple(zip(values[:spatial], values[spatial:]))


def check_bytes(name: str, array: np.ndarray) -> None:
    """Raises ``TypeError`` where elements are not of 8 bits."""
    if array.dtype not in (np.int8, np.uint8):
        raise UsageTypeError(f"{name} must be an array of int8 or uint8, not {array.dtype}")


def check_zero_point(name: str, value: Any, dtype: np.dtype) -> int:
    """A zero point, which must be a value of ``dtype``."""
    limits = np.iinfo(dtype)
    if not is_integer(value):
        raise UsageTypeError(f"{name} must be an integer, not {value!r}")
    if not limits.min <= value <= limits.max:
        raise UsageError(f"{name} must be from {limits.min} to {limits.max} as {dtype}, not {value}")
    return int(value)
