"""Requantisation of sums: factors in real numbers as multipliers of 31 bits and a shift."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from ..golden.requantise import MAX_MULTIPLIER, MAX_SHIFT, Requantise
from .errors import Refusal

__all__ = ["most_sum", "requantisation"]

_MOST_ERROR = 0.5       # of a result, by multipliers that are rounded


def most_sum(w: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """Bound of the magnitudes of sums, float64 (filters,): of 8-bit filters (filters, …), x minus its zero point, and ``bias``."""
    bound = 255.0 * np.abs(w.reshape(len(w), -1).astype(np.float64)).sum(axis=1)
    return np.minimum(bound if bias is None else bound + np.abs(bias.astype(np.float64)), 2.0 ** 31)


def requantisation(factors: np.ndarray, zero_point: int, dtype: DTypeLike, bounds: tuple[int | None, int | None],
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
