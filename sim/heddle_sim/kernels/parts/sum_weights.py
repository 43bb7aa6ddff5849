"""Weights of 8 bits for a sum of two quantised tensors: the sparse engine multiplies with these, and with one factor behind them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...golden.requantise import MAX_MULTIPLIER, Requantise

__all__ = ["MOST_WEIGHT", "SumWeights", "sum_weights"]

MOST_WEIGHT = 127           # of one element
_FEWEST = 2                 # elements that are tried first, then twice as many, and so on
_TRIED = 3                  # pairs of weights of each number of elements
_NEAR = (0, 1, -1, 2, -2)   # added to the sum
_BEYOND = 1 << 40           # greater than any sum
_MARGIN = 1e-9              # of a factor
_SHIFTS = range(33, 63)     # of the multiplier behind the sums
_KEPT = 256                 # results: a plan asks for its own twice, in the estimate and for the program


class SumWeights(NamedTuple):
    """Weights of two tensors, and what follows their sum: it is ``a`` · a + ``b`` · b + ``bias`` for bytes a and b. Times ``multiplier``
    / 2**``shift``, rounded, halves up, and with the zero point added it is the result.
    """

    a: int
    b: int
    bias: int
    multiplier: int
    shift: int

    @property
    def elements(self) -> int:
        """Of a row: each has a weight up to ``MOST_WEIGHT``."""
        return sum(-(-weight // MOST_WEIGHT) for weight in self[:2])


@lru_cache(_KEPT)
def sum_weights(multipliers: tuple[int, int], zero_points: tuple[int, int], output: Requantise, dtype: np.dtype, most: int,
                near: int = 0) -> SumWeights | None:
    """Weights with at most ``most`` elements that give the result of ``golden.pooling.add`` for each pair of bytes; the fewest elements,
    roughly. None where none were found.

    Parameters
    ----------
    multipliers, zero_points, output
        As of ``golden.pooling.add``.
    dtype : int8 or uint8
        Of both addends.
    most : int
        Elements.
    near : int
        Sums that are less than this many times 1 / 2**shift from a half may be rounded either way.
    """
    limits = np.iinfo(dtype)
    steps = _Steps(multipliers, zero_points, output, np.arange(limits.min, limits.max + 1), near)
    for pair in _pairs(multipliers, most):
        if found := steps.weights(*pair):
            return found
    return None


def _pairs(multipliers: tuple[int, int], most: int) -> Iterator[tuple[int, int]]:
    """Weights of a and b whose ratio is near that of the multipliers."""
    ratio, swapped = min(multipliers) / max(multipliers), multipliers[0] < multipliers[1]
    limit = min(_FEWEST, most)
    while True:
        greater = np.arange(1, MOST_WEIGHT * limit)
        smaller = np.rint(greater * ratio).astype(np.int64)
        fits = (smaller > 0) & (-(-greater // MOST_WEIGHT) + -(-smaller // MOST_WEIGHT) <= limit)
        greater, smaller = greater[fits], smaller[fits]
        for place in np.lexsort((-greater, np.abs(smaller / greater - ratio)))[:_TRIED].tolist():     # great ones: the factor is below 1/4
            pair = int(greater[place]), int(smaller[place])
            yield pair[::-1] if swapped else pair
        if limit == most:
            return
        limit = min(2 * limit, most)


class _Steps:
    """Where the result of a sum steps up to k, for each k but the least and each byte b. From the least byte a on it must be k or more;
    up to the greatest one it must be less.
    """

    def __init__(self, multipliers: tuple[int, int], zero_points: tuple[int, int], output: Requantise, bytes_: np.ndarray,
                 near: int) -> None:
        (first, second), (self.a_zero, self.b_zero), shift = multipliers, zero_points, int(output.shift)
        minimum, maximum = output.bounds
        self.factors = np.array(multipliers) / 2.0 ** shift
        self.results = np.arange(minimum + 1, maximum + 1) - int(output.zero_point)
        self.b = bytes_[None].astype(np.int64) - self.b_zero
        needed = (self.results[:, None].astype(np.int64) << shift) - ((1 << shift) >> 1) - second * self.b
        least, below = (-(-(needed + sign * near) // first) + self.a_zero for sign in (1, -1))
        self.reached, self.missed = least <= bytes_[-1], below > bytes_[0]      # by some a; by some a not
        self.least = np.maximum(least, bytes_[0]) - self.a_zero
        self.greatest = np.minimum(below, bytes_[-1] + 1) - 1 - self.a_zero

    def weights(self, a: int, b: int) -> SumWeights | None:
        """``SumWeights`` with these, if a factor behind them gives all results."""
        above = np.where(self.reached, a * self.least + b * self.b, _BEYOND).min(axis=1, initial=_BEYOND)       # least sum with the result
        below = np.where(self.missed, a * self.greatest + b * self.b, -_BEYOND).max(axis=1, initial=-_BEYOND)    # greatest without
        if (below >= above).any():
            return None
        for added in _NEAR:
            least, greatest = self._factors(below + added, above + added)
            if not least * (1 + _MARGIN) < greatest:
                continue
            factor = min(max(float(self.factors.sum()) / (a + b), least * (1 + _MARGIN)), greatest * (1 - _MARGIN))
            fitting = [shift for shift in _SHIFTS if factor * 2.0 ** shift <= MAX_MULTIPLIER]
            if not fitting:
                continue
            multiplier = round(factor * 2.0 ** fitting[-1])
            if least < multiplier / 2.0 ** fitting[-1] < greatest:
                return SumWeights(a, b, added - a * self.a_zero - b * self.b_zero, multiplier, fitting[-1])
        return None

    def _factors(self, below: np.ndarray, above: np.ndarray) -> tuple[float, float]:
        """Between which factors the sums ``below`` do not reach their result and those ``above`` do; (1, 0) where none does both."""
        halves = self.results - 0.5
        least, greatest = 0.0, np.inf
        for sums, reach in ((above, True), (below, False)):
            if ((sums == 0) & ((halves > 0) == reach)).any():
                return 1.0, 0.0
            positive = sums > 0
            quotients = halves[positive] / sums[positive], halves[sums < 0] / sums[sums < 0]
            from_below, from_above = quotients if reach else quotients[::-1]
            least = max(least, from_below.max(initial=0.0))
            greatest = min(greatest, from_above.min(initial=np.inf))
        return least, greatest
