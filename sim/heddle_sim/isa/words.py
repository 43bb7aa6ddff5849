"""Instruction words as lists of integers."""

from collections.abc import Iterable
from operator import index
from typing import SupportsIndex

import numpy as np
from heddle.errors import UsageError, UsageTypeError

from .fields import WORD_BYTES

__all__ = ["integer_list", "word_list"]


def integer_list(name: str, values: Iterable[SupportsIndex]) -> list[int]:
    """``values`` as integers; raises ``TypeError`` for other types and for masked arrays."""
    if not isinstance(values, np.ma.MaskedArray):
        try:
            return [index(value) for value in values]
        except TypeError:
            pass
    raise UsageTypeError(f"{name} must be integers, not {values!r}")


def word_list(values: Iterable[SupportsIndex]) -> list[int]:
    """Instruction words; raises ``ValueError`` for one that has more than 128 bits."""
    words = integer_list("words", values)
    for pc, word in enumerate(words):
        if not 0 <= word < 1 << 8 * WORD_BYTES:
            raise UsageError(f"word {pc} must fit {8 * WORD_BYTES} bits, not {word:#x}")
    return words
