"""A compiled representation in the formats of the hardware: entries of the compiled-offset memory and offset registers [S2.2]."""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
from heddle.errors import UsageError
from heddle.isa.compiled_offsets import ALWAYS as NO_MASK_BIT
from heddle.isa.compiled_offsets import MASK_BITS, OFFSET_BITS, POSITIONS

from .geometry import Geometry
from .representation import ALWAYS, Representation

__all__ = ["base_words", "check_masks", "entry_words", "within_masks"]

_WRAP = (1 << OFFSET_BITS) - 1


def check_masks(geometry: Geometry) -> None:
    """Raises ``ValueError`` where the pixels lack more positions of the filter than a thread has mask bits."""
    if geometry.masked_positions > MASK_BITS:
        raise UsageError(f"padding must leave at most {MASK_BITS} filter positions that some pixel lacks, not {geometry.masked_positions}")


def within_masks(geometry: Geometry) -> Geometry:
    """The geometry, of an image that is padded beforehand along some axes where a thread has too few mask bits: those that add the fewest
    elements."""
    if geometry.masked_positions <= MASK_BITS:
        return geometry
    axes = range(geometry.spatial)
    choices = [geometry.padded(chosen) for count in range(1, geometry.spatial + 1) for chosen in combinations(axes, count)]
    return min((choice for choice in choices if choice.masked_positions <= MASK_BITS), key=lambda choice: prod(choice.size))


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
