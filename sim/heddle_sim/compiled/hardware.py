"""A compiled representation in the formats of the hardware: entries of the compiled-offset memory and offset registers [S2.2]."""

from __future__ import annotations

import numpy as np
from heddle.errors import UsageError
from heddle.isa.compiled_offsets import ALWAYS as NO_MASK_BIT
from heddle.isa.compiled_offsets import MASK_BITS, OFFSET_BITS, POSITIONS

from .geometry import Geometry
from .representation import ALWAYS, Representation

__all__ = ["base_words", "check_masks", "entry_words"]

_WRAP = (1 << OFFSET_BITS) - 1


def check_masks(geometry: Geometry) -> None:
    """Raises ``ValueError`` where the pixels lack more positions of the filter than a thread has mask bits."""
    if geometry.masked_positions > MASK_BITS:
        raise UsageError(f"padding must leave at most {MASK_BITS} filter positions that some pixel lacks, not {geometry.masked_positions}")


def entry_words(made: Representation, group: int = 0, origin: int = 0) -> np.ndarray:
    """An entry for each offset, uint32 (k,), of a group of channels; offsets count from ``origin``."""
    bits = np.full((len(made.offsets), POSITIONS), NO_MASK_BIT, np.int64)
    bits[:, :made.mask_bits.shape[1]] = np.where(made.mask_bits == ALWAYS, NO_MASK_BIT, made.mask_bits)
    positions = sum(bits[:, number] << OFFSET_BITS + 4 * number for number in range(POSITIONS))
    return (made.group_offsets(group) - origin & _WRAP | positions).astype(np.uint32)


def base_words(made: Representation, pixels: slice = slice(None), origin: int = 0) -> np.ndarray:
    """Base and mask of each of some pixels, uint32; bases count from ``origin``. Raises ``ValueError`` for too many mask bits."""
    check_masks(made.geometry)
    return (made.bases[pixels] - origin & _WRAP | made.masks[pixels] << OFFSET_BITS).astype(np.uint32)
