"""Requantisation of 32-bit sums to 8-bit values: parameters and golden model."""

from dataclasses import dataclass, replace

import numpy as np
from heddle.errors import UsageError, UsageTypeError
from numpy.typing import ArrayLike, DTypeLike

from ..arguments import check_dtype, check_flag, check_mask

__all__ = ["MAX_MULTIPLIER", "MAX_SHIFT", "OWN_SHIFTS", "Bounds", "Requantise"]

Bounds = tuple[int | None, int | None]      # least and greatest result; None: that of the type

MAX_MULTIPLIER = (1 << 31) - 1
MAX_SHIFT = 62
OWN_SHIFTS = 33, MAX_SHIFT      # bounds of the shifts of columns that have their own


@dataclass(frozen=True)
class Requantise:
    """Requantisation: ``clamp(round(sum * multiplier / 2**shift) + zero_point, minimum, maximum)``, exact; halves are rounded up.

    With ``double_rounding`` the product is rounded to a multiple of 2**31 first, halves up, then to the result, halves away from zero:
    TFLite's reference kernels of convolutions.

    Parameters
    ----------
    multiplier : int or integer array (N,)
        From 1 to 2**31 - 1; an array has one multiplier for each column.
    shift : int or integer array (N,)
        0 to 62, the same for all columns; an array has a shift for each column. From 33 on as an array or with ``double_rounding``.
    zero_point : int
        A value of ``dtype``.
    minimum, maximum : int, optional
        Bounds of the result, values of ``dtype``; the limits of ``dtype`` where absent.
    relu : bool
        Values below the zero point become the zero point.
    dtype : type
        ``numpy.int8`` or ``numpy.uint8``.
    double_rounding : bool
        See above.
    """

    multiplier: int | np.ndarray
    shift: int | np.ndarray
    zero_point: int = 0
    minimum: int | None = None
    maximum: int | None = None
    relu: bool = False
    dtype: DTypeLike = np.int8
    double_rounding: bool = False

    def __post_init__(self) -> None:
        check_flag("relu", self.relu)
        check_flag("double_rounding", self.double_rounding)
        check_mask("multiplier", self.multiplier)
        dtype = None if self.dtype is None else check_dtype("dtype", self.dtype)      # numpy takes None for float64
        if dtype not in (np.int8, np.uint8):
            raise UsageTypeError(f"dtype must be int8 or uint8, not {dtype}")
        try:
            multipliers = np.asarray(self.multiplier)
        except ValueError:
            raise UsageTypeError(f"multiplier must be an integer or a one-dimensional integer array, not {self.multiplier!r}") from None
        if multipliers.dtype.kind not in "iu" or multipliers.ndim > 1 or not multipliers.size:
            raise UsageTypeError(f"multiplier must be an integer or a one-dimensional integer array, not {self.multiplier!r}")
        if multipliers.min() < 1 or multipliers.max() > MAX_MULTIPLIER:
            raise UsageError(f"multiplier must be from 1 to {MAX_MULTIPLIER}, not {multipliers.min()} to {multipliers.max()}")
        limits = np.iinfo(self.dtype)
        shifts = [("shift", OWN_SHIFTS[0] if self.double_rounding else 0, MAX_SHIFT)]
        if isinstance(self.shift, (list, tuple, np.ndarray)):
            self._check_shifts(multipliers)
            shifts = []
        for name, low, high in (*shifts, ("zero_point", limits.min, limits.max),
                                ("minimum", limits.min, limits.max), ("maximum", limits.min, limits.max)):
            value = getattr(self, name)
            if value is None and name in ("minimum", "maximum"):
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise UsageTypeError(f"{name} must be an integer, not {value!r}")
            if not low <= value <= high:
                raise UsageError(f"{name} must be from {low} to {high}, not {value}")
        if self.bounds[0] > self.bounds[1]:
            raise UsageError(f"maximum must be at least the lower bound {self.bounds[0]}, not {self.bounds[1]}")

    def _check_shifts(self, multipliers: np.ndarray) -> None:
        check_mask("shift", self.shift)
        low, high = OWN_SHIFTS
        try:
            shifts = np.asarray(self.shift)
        except ValueError:      # lists of different lengths
            shifts = np.zeros(0)
        if shifts.dtype.kind not in "iu" or shifts.ndim > 1 or shifts.shape != multipliers.shape:
            raise UsageTypeError(f"shift must be an integer, or an integer array with one for each multiplier, not {self.shift!r}")
        if shifts.min() < low or shifts.max() > high:
            raise UsageError(f"shift must be from {low} to {high} as an array, not {shifts.min()} to {shifts.max()}")

    @property
    def per_column(self) -> bool:
        """Whether the multiplier is an array."""
        return np.ndim(self.multiplier) == 1

    @property
    def own_shifts(self) -> bool:
        """Whether the output stage needs a shift beside each bias: columns have their own, or are rounded twice."""
        return bool(np.ndim(self.shift)) or self.double_rounding

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and greatest result."""
        limits = np.iinfo(self.dtype)
        minimum = limits.min if self.minimum is None else int(self.minimum)
        maximum = limits.max if self.maximum is None else int(self.maximum)
        return max(minimum, int(self.zero_point)) if self.relu else minimum, maximum

    def of_group(self, group: int, groups: int) -> "Requantise":
        """Of the columns of one of ``groups`` groups of as many columns each."""
        if not self.per_column:
            return self
        multiplier, shift = (np.split(np.broadcast_to(values, np.shape(self.multiplier)), groups)[group]
                             for values in (self.multiplier, self.shift))
        return replace(self, multiplier=multiplier, shift=shift if np.ndim(self.shift) else self.shift)

    def apply(self, sums: ArrayLike) -> np.ndarray:
        """Golden model: the result for an int32 array whose last axis is the column axis."""
        sums, shift = np.asarray(sums).astype(np.int64), np.asarray(self.shift, np.int64)
        rounding = np.int64(1) << shift >> 1        # the product takes 62 bits and a sign
        if self.double_rounding:
            rounding = rounding + np.where(sums < 0, -(1 << 30), 1 << 30)
        scaled = (sums * np.asarray(self.multiplier, np.int64) + rounding) >> shift
        return np.clip(scaled + int(self.zero_point), *self.bounds).astype(self.dtype)
