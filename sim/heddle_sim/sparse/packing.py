"""Vector loads of the elements of a sparse matrix: aligned by going back, and shared by several short rows [S4.5, S4.6]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from heddle.errors import UsageError

from ..arguments import check_flag, check_integer
from .compressed import Compressed

__all__ = ["Load", "LoadCounts", "Piece", "load_counts", "row_pieces", "vector_loads"]

MOST_VECTOR = 1 << 16


class Piece(NamedTuple):
    """What a sub-warp takes of a load: the elements ``start`` to ``stop`` - 1 of a row, of ``width`` from ``address`` on.

    Elements are counted from the begin of the matrix. The others of the ``width`` are foreign: of other rows, or behind the matrix.
    """

    row: int
    address: int
    width: int
    start: int
    stop: int

    @property
    def mask(self) -> int:
        """Bit i is set where element ``address`` + i belongs to the row."""
        return (1 << self.stop - self.address) - (1 << self.start - self.address)


class Load(NamedTuple):
    """One load: a piece for each sub-warp that takes part, of different rows."""

    pieces: tuple[Piece, ...]


def row_pieces(row: int, start: int, stop: int, width: int, aligned: bool = True) -> Iterator[Piece]:
    """Accesses of ``width`` elements, at multiples of ``width``, that read the elements ``start`` to ``stop`` - 1 of a row.

    ``aligned``: the first address is moved back to the multiple before ``start``, and foreign values are masked [S4.6]. Otherwise the
    elements in front of the next multiple are read one by one. Elements behind the end of a row are masked in both cases.
    """
    place = start
    if not aligned:
        first = min(-(-start // width) * width, stop)
        yield from (Piece(row, element, 1, element, element + 1) for element in range(start, first))
        place = first
    for address in range(place // width * width, stop if place < stop else 0, width):
        yield Piece(row, address, width, max(place, address), min(stop, address + width))


def vector_loads(matrix: Compressed, vector: int, sub_warps: int = 1, aligned: bool = True,
                 rows: Iterable[int] | None = None) -> list[Load]:
    """Loads that read all elements of a matrix, in their order.

    Values and column indices lie in arrays of their own and are loaded alike; a load here stands for one of each.

    Parameters
    ----------
    matrix : Compressed
        Its elements lie one after the other, the first one at an aligned address.
    vector : int
        Elements of a load, a power of two.
    sub_warps : int
        Rows that share a load at most, a power of two that divides ``vector``; 1: none do. Each sub-warp reads ``vector / sub_warps``
        elements from an address of its own. Consecutive rows of at most as many elements share their loads [S4.5]; longer ones do not.
    aligned : bool
        Addresses are moved back and foreign values masked (``row_pieces``).
    rows : iterable of int
        Order of the rows; natural without it. Rows without elements need no load.
    """
    pointers, loads = matrix.indptr.tolist(), []
    back = check_flag("aligned", aligned)
    for together, width in _groups(matrix, vector, sub_warps, rows):
        pieces = (row_pieces(row, pointers[row], pointers[row + 1], width, back) for row in together)
        loads += [Load(tuple(piece for piece in turn if piece is not None)) for turn in zip_longest(*pieces)]
    return loads


def _groups(matrix: Compressed, vector: int, sub_warps: int, rows: Iterable[int] | None) -> Iterator[tuple[list[int], int]]:
    """Rows that share loads, and the elements of a piece."""
    whole = _power("vector", vector, MOST_VECTOR)
    share = _power("sub_warps", sub_warps, whole)
    lengths, waiting = matrix.lengths.tolist(), list[int]()
    for row in range(matrix.shape[0]) if rows is None else map(int, rows):
        if not lengths[row]:
            continue
        short = lengths[row] <= whole // share
        if waiting and (not short or len(waiting) == share):
            yield waiting, whole // share if len(waiting) > 1 else whole        # a row by itself has the whole vector
            waiting = []
        if short:
            waiting.append(row)
        else:
            yield [row], whole
    if waiting:
        yield waiting, whole // share if len(waiting) > 1 else whole


def _power(name: str, value: object, most: int) -> int:
    number = check_integer(name, value, 1, most)
    if number & number - 1:
        raise UsageError(f"{name} must be a power of two, not {number}")
    return number


@dataclass(frozen=True)
class LoadCounts:
    """Loads of a matrix: ``plain`` with neither, ``aligned`` by going back and masking, ``packed`` short rows, and with ``both``."""

    plain: int
    aligned: int
    packed: int
    both: int


def load_counts(matrix: Compressed, vector: int, sub_warps: int, order: np.ndarray | None = None) -> LoadCounts:
    """Loads with and without alignment by going back [S4.6], with and without rows that share loads [S4.5].

    ``vector``, ``sub_warps``: as of ``vector_loads``. ``order``: of the rows.
    """
    starts, stops = matrix.indptr[:-1].astype(np.int64), matrix.indptr[1:].astype(np.int64)

    def count(share: int, aligned: bool) -> int:
        pieces: dict[int, list[int]] = {}
        total = 0
        for rows, width in _groups(matrix, vector, share, order):
            if width not in pieces:
                pieces[width] = _piece_counts(starts, stops, width, aligned).tolist()
            total += max(pieces[width][row] for row in rows)
        return total

    return LoadCounts(count(1, False), count(1, True), count(sub_warps, False), count(sub_warps, True))


def _piece_counts(starts: np.ndarray, stops: np.ndarray, width: int, aligned: bool) -> np.ndarray:
    """How many pieces ``row_pieces`` has, for each row."""
    if aligned:
        return np.where(starts < stops, -(-stops // width) - starts // width, 0)
    first = np.minimum(-(-starts // width) * width, stops)
    return first - starts + np.where(first < stops, -(-stops // width) - first // width, 0)
