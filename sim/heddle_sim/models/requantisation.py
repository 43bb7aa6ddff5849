"""Requantisation of sums: factors in real numbers as multipliers of 31 bits and a shift."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import DTypeLike

from ..golden.requantise import MAX_MULTIPLIER, MAX_SHIFT, OWN_SHIFTS, Bounds, Requantise
from ..kernels.parts.output_stage import MOST_BIAS
from .errors import Refusal
from .layers import shifted

__all__ = ["mean_requantisation", "most_sum", "requantisation", "with_one_shift", "with_own_shifts"]

_MOST_ERROR = 0.5       # of a result, by multipliers that are rounded
_NEAR = 2.0 ** -16      # factors below this part of the greatest one have few bits with a common shift
_MOST_RESULT = 512      # magnitude of a result before its zero point, beyond what 8 bits and a zero point of 8 bits can reach


def most_sum(w: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """Bound of the magnitudes of sums, float64 (filters,): of 8-bit filters (filters, …), x minus its zero point, and ``bias``."""
    bound = 255.0 * np.abs(w.reshape(len(w), -1).astype(np.float64)).sum(axis=1)
    return np.minimum(bound if bias is None else bound + np.abs(bias.astype(np.float64)), 2.0 ** 31)


def requantisation(factors: np.ndarray, zero_point: int, dtype: DTypeLike, bounds: Bounds,
                   sums: np.ndarray | float = 2.0 ** 31) -> Requantise:
    """``Requantise`` for results sum · factor + zero point.

    The shift is the largest, up to 62, with which the greatest multiplier has 31 bits. Multipliers of smaller factors have fewer bits: a
    result differs by |sum| · |multiplier / 2**shift − factor| from the real one.

    Parameters
    ----------
    factors : float64 array (1,) or (filters,)
        Scale of the sums by that of the result.
    zero_point, dtype
        Of the result.
    bounds : (int or None, int or None)
        Least and greatest result.
    sums : float or array
        Greatest magnitudes of the sums.

    Raises ``Refusal`` for factors that are not positive, from 2**31, or so far apart that a result could differ by more than one half.
    """
    if not (np.isfinite(factors).all() and factors.min() > 0):
        raise Refusal("scales must be positive and finite for the output stage")
    greatest = float(factors.max())
    shift = min(MAX_SHIFT, int(np.floor(np.log2(MAX_MULTIPLIER / greatest))))
    if shift < 0:
        raise Refusal(f"factors of the output stage must be below 2**31, not {greatest:g}")
    multipliers = np.clip(np.rint(factors * 2.0 ** shift), 1, MAX_MULTIPLIER).astype(np.int64)
    errors = np.abs(multipliers / 2.0 ** shift - factors) * sums
    if errors.max() > _MOST_ERROR:
        raise Refusal(f"factors of the filters must differ less for multipliers with one shift, not be {factors.min():g} to {greatest:g}")
    one = bool((multipliers == multipliers[0]).all())
    return Requantise(int(multipliers[0]) if one else multipliers, shift, zero_point, *bounds, dtype=dtype)


def with_one_shift(factors: np.ndarray, zero_point: int, dtype: DTypeLike, bounds: Bounds, w: np.ndarray, points: np.ndarray,
                   bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None, Requantise]:
    """Filters, biases and ``Requantise`` of a layer with one shift for all filters.

    Parameters as in ``requantisation``; ``w`` (filters, …) with zero points ``points`` (1,) or (filters,), ``bias`` (filters,) or None.
    A filter whose factor is far below the greatest one, and whose result is always the same, becomes zero, with another bias and factor.
    Networks have such filters where training left a channel without use. Raises ``Refusal`` as ``requantisation``.
    """
    w, bias, factors = _settled(factors, w, points, bias)
    return w, bias, requantisation(factors, zero_point, dtype, bounds, most_sum(shifted(w, points), bias))


def _settled(factors: np.ndarray, w: np.ndarray, points: np.ndarray,
             bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Filters, biases and factors, with others for filters whose results are always the same."""
    greatest = float(factors.max())
    if factors.size == 1 or not (np.isfinite(greatest) and 0 < factors.min() < _NEAR * greatest):
        return w, bias, factors
    sums, biases = most_sum(shifted(w, points), None), np.zeros(len(w)) if bias is None else bias.astype(np.float64)
    least, most = (np.floor((biases + sign * sums) * factors + 0.5) for sign in (-1, 1))
    still = (factors < _NEAR * greatest) & (least == most)
    places = max(3, int(np.ceil(-np.log2(greatest))))       # the other factor: a power of two up to the greatest one
    if not still.any() or _MOST_RESULT << places >= 1 << 30:
        return w, bias, factors
    w = np.where(still.reshape(-1, *[1] * (w.ndim - 1)), points.reshape(-1, *[1] * (w.ndim - 1)), w).astype(w.dtype)
    results = np.clip(least, -_MOST_RESULT, _MOST_RESULT).astype(np.int64) << places
    return w, np.where(still, results, biases).astype(np.int32), np.where(still, 2.0 ** -places, factors)


def with_own_shifts(factors: np.ndarray, zero_point: int, dtype: DTypeLike, bounds: Bounds, sums: np.ndarray,
                    bias: np.ndarray, double_rounding: bool) -> tuple[np.ndarray, Requantise] | None:
    """Biases (int32) and ``Requantise`` of a convolution with a multiplier of 31 bits and a shift for each filter, as TFLite has them.

    Parameters as in ``requantisation``; ``sums`` (filters,) without the ``bias`` (filters,). ``double_rounding`` is that of
    ``Requantise``. The bias of a filter without weights may have no room in the output stage. Where its result is always the same, it gets
    another bias and factor. None where the output stage has no room: factors from 1/4 on, or too large sums.
    """
    if not (np.isfinite(factors).all() and factors.min() > 0):
        return None
    multipliers, shifts = _multipliers(np.broadcast_to(factors.astype(np.float64), sums.shape))
    vanish = shifts > OWN_SHIFTS[1]         # TFLite multiplies with zero there; this is zero for every sum
    multipliers, shifts = np.where(vanish, 1, multipliers), np.minimum(shifts, OWN_SHIFTS[1])
    if shifts.min() < OWN_SHIFTS[0]:
        return None
    bias = bias.astype(np.int64)
    spec = Requantise(multipliers, shifts, zero_point, *bounds, dtype=dtype, double_rounding=double_rounding)
    large = np.abs(bias) + sums >= MOST_BIAS
    if large.any():
        ends = np.stack([np.clip(bias + sign * sums.astype(np.int64), -1 << 31, (1 << 31) - 1) for sign in (-1, 1)])
        least, most = spec.apply(ends).astype(np.int64) - zero_point
        # Any sum is below a quarter of the factor's denominator then, and the result is the nearest to the bias.
        places = np.maximum(np.ceil(np.log2(sums + 2)).astype(np.int64) + 2, 3)
        if (large & ((least != most) | (np.abs(least) + 1 << places >= MOST_BIAS))).any():
            return None
        bias, multipliers, shifts = (np.where(large, *values) for values in (
            (least << places, bias), (1 << 30, multipliers), (30 + places, shifts)))
        spec = replace(spec, multiplier=multipliers, shift=shifts)
    return bias.astype(np.int32), spec


def _multipliers(factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers from 2**30 below 2**31 and shifts of positive factors, as TFLite has them."""
    mantissas, exponents = np.frexp(factors)
    multipliers = np.floor(mantissas * 2.0 ** 31 + 0.5).astype(np.int64)
    over = multipliers > MAX_MULTIPLIER
    return np.where(over, 1 << 30, multipliers), 31 - exponents.astype(np.int64) - over


def mean_requantisation(factor: float, count: int, zero_point: int, dtype: DTypeLike) -> Requantise | None:
    """``Requantise`` of sums of ``count`` elements, from which their zero point is subtracted, as TFLite's MEAN rounds.

    ``factor``: scale of the elements by that of the result. Its multiplier gets as many further bits as ``count`` has but one, and is
    divided by ``count``, rounded down. None where the output stage has no room for the shift.
    """
    if not (np.isfinite(factor) and factor > 0):
        return None
    (multiplier,), (shift,) = _multipliers(np.array([factor]))
    places = min(count.bit_length() - 1, 32, MAX_SHIFT - int(shift))
    if places < 0 or shift + places < OWN_SHIFTS[0]:
        return None
    return Requantise((int(multiplier) << places) // count, int(shift) + places, zero_point, dtype=dtype, double_rounding=True)
