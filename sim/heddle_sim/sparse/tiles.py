"""One-dimensional tiles: every element of each row of the output lies in exactly one [S4.3]."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from heddle.errors import UsageError, UsageTypeError

from ..arguments import check_integer
from .checks import LARGEST

__all__ = ["Tiles", "row_tiles"]


@dataclass(frozen=True, eq=False)
class Tiles:
    """Tiles of the rows of an output, row by row, from the first element of a row to its last.

    Elements are those that are written: the columns of a dense result, the elements of a row of a sparse one.

    Attributes
    ----------
    rows : int64 (tiles,)
        Row of each tile.
    starts, stops : int64 (tiles,)
        The tile has the elements ``starts`` to ``stops`` - 1 of its row, at least one.
    """

    rows: np.ndarray = field(repr=False)
    starts: np.ndarray = field(repr=False)
    stops: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sizes(self) -> np.ndarray:
        """Elements of each tile."""
        return self.stops - self.starts

    def macs(self, lengths: np.ndarray) -> np.ndarray:
        """Multiply-accumulates of each tile. ``lengths``: those of an element, by row: of SpMM the non-zeros of the row of the sparse
        operand, of SDDMM the inner size for every row."""
        return np.asarray(lengths, np.int64)[self.rows] * self.sizes

    def cycles(self, lengths: np.ndarray, multipliers: int) -> np.ndarray:
        """Whole cycles of each tile with all ``multipliers`` at work; ``lengths`` as of ``macs``."""
        return -(-self.macs(lengths) // check_integer("multipliers", multipliers, 1, LARGEST))


def row_tiles(elements: np.ndarray, tile: int | None = None) -> Tiles:
    """Tiles of ``tile`` elements; the last one of a row may be shorter.

    Parameters
    ----------
    elements : integer array (rows,)
        Elements of each row of the output: its columns, or the non-zeros of the mask. A row without any has no tile.
    tile : int
        Elements of a tile, 1 or more. Without it a row is one tile.
    """
    counts = np.asarray(elements)
    if counts.dtype.kind not in "iu" or counts.ndim != 1:
        raise UsageTypeError(f"elements must be an array of integers with one dimension, not of {counts.dtype} with {counts.ndim}")
    counts = counts.astype(np.int64)
    if (counts < 0).any():
        raise UsageError(f"elements must be 0 or more, not {counts.min()} (row {counts.argmin()})")
    length = max(counts.max(initial=1), 1) if tile is None else check_integer("tile", tile, 1, LARGEST)
    tiles = -(-counts // length)
    rows = np.repeat(np.arange(len(counts)), tiles)
    starts = (np.arange(len(rows)) - np.repeat(np.cumsum(tiles) - tiles, tiles)) * length
    return Tiles(rows, starts, np.minimum(starts + length, counts[rows]))
