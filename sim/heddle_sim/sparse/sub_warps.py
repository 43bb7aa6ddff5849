"""Rows of a sparse matrix for sub-warps: groups of rows, one for each, as long as the longest [S4.5]."""

from __future__ import annotations

import numpy as np
from heddle.config import Config
from heddle.isa.sparse_job import MOST_SUB_WARPS

from .compressed import Compressed

__all__ = ["group_elements", "like_rows", "most_strips", "row_groups"]


def most_strips(cfg: Config, columns: int) -> int:
    """log2 of the sub-warps that have so many columns of B each, at most; 0: the PEs cannot be parted."""
    strips = 0
    while 2 << strips <= min(MOST_SUB_WARPS, cfg.thread_groups) and columns <= cfg.sparse_columns >> strips + 1:
        strips += 1
    return strips


def like_rows(cfg: Config, a: Compressed, columns: int, order: str) -> np.ndarray | None:
    """Numbers of all rows, the shortest first: rows of a group then have like lengths, and the first blocks of rows come soon. None where
    rows stay in their places: in natural ``order``, and where so many columns of B leave no sub-warps."""
    return np.argsort(a.lengths, kind="stable") if order != "natural" and most_strips(cfg, columns) else None


def group_elements(lengths: np.ndarray, strips: int, pairs: int) -> np.ndarray:
    """Elements of each group of rows of some lengths, those that fill short rows included; int64.

    Row n of 2^``strips`` sub-warps with g groups is row n mod g of sub-warp n div g. ``pairs``: non-zeros of a sub-warp in a step.
    """
    groups = -(-len(lengths) >> strips)
    steps = np.zeros(groups << strips, np.int64)
    steps[:len(lengths)] = -(-lengths // pairs)
    return steps.reshape(1 << strips, groups).max(axis=0) * (pairs << strips)


def row_groups(a: Compressed, first: int, rows: int, strips: int, pairs: int) -> Compressed:
    """Rows ``first`` to ``first + rows`` - 1 of a matrix in groups (``group_elements``), as a job with ``sub_warps`` has them.

    Row n of the result is a group, step by step: ``pairs`` elements of each sub-warp. Elements that fill a row are zeros in column 0.
    """
    lengths = a.lengths[first:first + rows]
    counts = group_elements(lengths, strips, pairs)
    groups = len(counts)
    pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    start, stop = int(a.indptr[first]), int(a.indptr[first + rows])
    row = np.repeat(np.arange(rows), lengths)
    number = np.arange(stop - start) - np.repeat(a.indptr[first:first + rows] - start, lengths)     # of the element in its row
    places = pointers[row % groups] + (number // pairs << strips) * pairs + row // groups * pairs + number % pairs
    indices, values = np.zeros(pointers[-1], np.int32), np.zeros(pointers[-1], a.data.dtype)
    indices[places], values[places] = a.indices[start:stop], a.data[start:stop]
    return Compressed(pointers, indices, values, (groups, a.shape[1]))
