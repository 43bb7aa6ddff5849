"""Golden model of pooling and of the sum of two quantised tensors: numpy, from the definitions."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from heddle.errors import UsageError

from .requantise import MAX_MULTIPLIER, MAX_SHIFT, Bounds, Requantise
from .windows import window_positions

__all__ = ["add", "add_factors", "average_factors", "average_pool", "max_pool", "window_counts"]

Padding = Sequence[tuple[int, int]]


def _values(x: np.ndarray, kernel: Sequence[int], padding: Padding, stride: Sequence[int], dilation: Sequence[int],
            fill: int) -> np.ndarray:
    """What windows have at each position, int64 (positions, N, p…, C)."""
    return np.stack([values for _, values in window_positions(x, kernel, padding, stride, dilation, fill)])


def max_pool(x: np.ndarray, kernel: Sequence[int], padding: Padding, stride: Sequence[int], dilation: Sequence[int],
             bounds: Bounds = (None, None)) -> np.ndarray:
    """Maximum of each window; padding never wins, and a window without any element has the least value of the type.

    Parameters
    ----------
    x : int8 or uint8 array (N, [D, [H,]] W, C)
        Input.
    kernel, stride, dilation : sequence of int
        One for each spatial axis, outermost first, in elements.
    padding : sequence of (int, int)
        At begin and end of each spatial axis.
    bounds : (int or None, int or None)
        Least and greatest result.

    Returns
    -------
    array (N, …, C) of the type of ``x``
        Maxima.
    """
    return _clamped(_values(x, kernel, padding, stride, dilation, int(np.iinfo(x.dtype).min)).max(axis=0), bounds).astype(x.dtype)


def _clamped(values: np.ndarray, bounds: Bounds) -> np.ndarray:
    return values if bounds == (None, None) else np.clip(values, *bounds)


def window_counts(size: Sequence[int], kernel: Sequence[int], padding: Padding, stride: Sequence[int],
                  include_pad: bool) -> np.ndarray:
    """Elements that each window counts, int64 (p…): those inside x, or with ``include_pad`` all of the kernel."""
    ones = np.ones((1, *size, 1), np.int8)
    return _values(ones, kernel, padding, stride, [1] * len(size), int(include_pad)).sum(axis=0)[0, ..., 0]


def average_factors(counts: np.ndarray, requantise: Requantise) -> tuple[np.ndarray, int]:
    """Multipliers of sums of ``counts`` elements, int64, and their shift: m = floor(multiplier · 2**e / count + 1/2).

    e is the largest with all m below 2**31 and the shift, ``requantise.shift`` + e, at most 62.
    """
    multiplier, shift, least = int(requantise.multiplier), int(requantise.shift), int(counts.min())

    def factor(extra: int, count: int) -> int:
        return ((multiplier << extra + 1) + count) // (2 * count)

    extra = 0
    while shift + extra < MAX_SHIFT and factor(extra + 1, least) <= MAX_MULTIPLIER:
        extra += 1
    numbers, places = np.unique(counts, return_inverse=True)
    factors = np.array([max(factor(extra, int(count)), 1) for count in numbers], np.int64)
    return factors[places].reshape(counts.shape), shift + extra


def average_pool(x: np.ndarray, kernel: Sequence[int], padding: Padding, stride: Sequence[int], include_pad: bool = False,
                 zero_point: int = 0, requantise: Requantise | None = None, bounds: Bounds = (None, None)) -> np.ndarray:
    """Average of each window.

    Without ``requantise`` the average of the integers, halves rounded away from zero, clamped to ``bounds``; padding, where it counts,
    reads as ``zero_point``.
    With it round(sum · m / 2**s) + zero point, clamped, as ``Requantise`` rounds: the sum is that of x minus ``zero_point``, m and s are
    those of ``average_factors``.

    Parameters
    ----------
    x : int8 or uint8 array (N, [D, [H,]] W, C)
        Input.
    kernel, padding, stride
        As of ``max_pool``.
    include_pad : bool
        Padding counts.

    Returns
    -------
    array (N, …, C) of the type of ``x``, or of ``requantise``
        Averages.
    """
    counts = window_counts(x.shape[1:-1], kernel, padding, stride, include_pad)[..., None]
    excess = zero_point if requantise is not None else 0
    fill = zero_point - excess if include_pad else 0
    sums = _values(x.astype(np.int64) - excess, kernel, padding, stride, [1] * len(kernel), fill).sum(axis=0)
    if requantise is None:
        return _clamped(np.sign(sums) * ((2 * np.abs(sums) + counts) // (2 * counts)), bounds).astype(x.dtype)
    factors, shift = average_factors(counts, requantise)
    scaled = (sums * factors + (1 << shift >> 1)) >> shift
    return np.clip(scaled + int(requantise.zero_point), *requantise.bounds).astype(requantise.dtype)


def add(a: np.ndarray, b: np.ndarray, multipliers: tuple[int, int], zero_points: tuple[int, int], output: Requantise) -> np.ndarray:
    """Sum of two quantised tensors: clamp(floor((ma · (a - za) + mb · (b - zb)) / 2**shift + 1/2) + zero point).

    Parameters
    ----------
    a, b : int8 or uint8 arrays of one shape
        Addends.
    multipliers, zero_points : (int, int)
        ma and mb, za and zb.
    output : Requantise
        Shift, zero point, bounds and type of the result; its multiplier is not used.

    Returns
    -------
    array of the shape of ``a`` and the type of ``output``
        Sums.
    """
    (first, second), (a_zero, b_zero) = multipliers, zero_points
    return replace(output, multiplier=1).apply(first * (a.astype(np.int64) - a_zero) + second * (b.astype(np.int64) - b_zero))


def add_factors(a_scale: float, b_scale: float, scale: float) -> tuple[tuple[int, int], int]:
    """Multipliers of a and b and their shift, for ``add``, from the scales of a, b and the result.

    The shift is the largest up to 23 with which every sum fits 32 bits, whatever types and zero points are. Raises ``ValueError`` where
    there is none, or a scale is not positive.
    """
    for name, value in (("a_scale", a_scale), ("b_scale", b_scale), ("scale", scale)):
        if not 0 < value < np.inf:
            raise UsageError(f"{name} must be positive and finite, not {value}")
    for shift in range(23, -1, -1):
        multipliers = (round(a_scale / scale * 2 ** shift), round(b_scale / scale * 2 ** shift))
        if 255 * sum(multipliers) + (255 << shift) < 1 << 31 and min(multipliers) > 0:
            return multipliers, shift
    raise UsageError(f"scales must differ less, not be {a_scale} and {b_scale} for {scale}")
