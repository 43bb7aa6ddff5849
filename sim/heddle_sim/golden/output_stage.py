"""Golden model of what the output stage of the thread unit and the sum scaler of the sparse engine make of sums."""

import numpy as np
from amaranth.lib import data
from heddle.isa.encoding import channel_bias_layout
from numpy.typing import ArrayLike

__all__ = ["BIAS_BITS", "channel_words", "output_bytes"]

BIAS_BITS = channel_bias_layout["bias"].width       # of a word that has a shift too


def channel_words(bias: ArrayLike, shift: ArrayLike) -> np.ndarray:
    """Words of ``channel_bias_layout``, int64."""
    return np.asarray(bias, np.int64) & (1 << BIAS_BITS) - 1 | np.asarray(shift, np.int64) << BIAS_BITS


def output_bytes(sums: np.ndarray, words: np.ndarray, multipliers: np.ndarray, bounds: data.Const, shift: int,
                 unsigned: bool) -> np.ndarray:
    """Bytes of sums as numbers, int64.

    Parameters
    ----------
    sums, words, multipliers : int array
        Sums, words with their biases, and multipliers, each modulo 2^32; of shapes that broadcast.
    bounds : amaranth.lib.data.Const
        ``zero_point``, ``minimum``, ``maximum``, ``own_shifts`` and ``double_rounding``.
    shift : int
        Of the upper half of the product, without ``own_shifts``.
    unsigned : bool
        Type of the bytes.
    """
    shifts, bias = np.asarray(shift, np.int64), words.astype(np.int64)
    if bounds.own_shifts:
        shifts, bias = bias >> BIAS_BITS & 31, _signed(bias, BIAS_BITS)
    biased = _signed(sums.astype(np.int64) + bias, 32)
    nudge = np.where(biased < 0, -(1 << 30), 1 << 30) if bounds.double_rounding else 0
    upper = biased * _signed(multipliers.astype(np.int64), 32) + nudge >> 32
    zero_point, minimum, maximum = (_byte(value, unsigned) for value in (bounds.zero_point, bounds.minimum, bounds.maximum))
    total = (upper + (np.int64(1) << shifts >> 1) >> shifts) + zero_point
    # The maximum comes first: it is the result where the minimum is above it.
    return np.where(total > maximum, maximum, np.maximum(total, minimum))


def _signed(values: np.ndarray, bits: int) -> np.ndarray:
    """The lowest bits of numbers, with a sign."""
    return (values & (1 << bits) - 1 ^ 1 << bits - 1) - (1 << bits - 1)


def _byte(value: int, unsigned: bool) -> int:
    return value if unsigned or value < 128 else value - 256
