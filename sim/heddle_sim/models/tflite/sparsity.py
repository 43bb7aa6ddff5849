"""Sparse constants of TFLite files, as dense arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import ModelError

__all__ = ["dense_elements"]

MOST_ELEMENTS = 1 << 28


def dense_elements(schema: Any, table: Any, values: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Elements of a sparse tensor, zeros included.

    Levels follow each other in the order of traversal: dimensions of the tensor, and of blocks within them. A level is dense, or has the
    places of its entries in compressed rows.

    Parameters
    ----------
    schema : module
        Package ``tflite``.
    table : SparsityParameters
        How the elements are stored.
    values : array (stored,)
        Elements that are stored.
    shape : tuple of int
        Of the tensor.
    name : str
        Of the tensor, for messages.
    """
    order, blocked = table.TraversalOrderAsNumpy(), table.BlockMapAsNumpy() if table.BlockMapLength() else ()
    rank, positions, most = len(shape), np.zeros(1, np.int64), math.prod(shape)
    if most > MOST_ELEMENTS:
        raise ModelError(f"tensor {name} must have at most {MOST_ELEMENTS} elements, not {most}")
    if table.DimMetadataLength() != len(order) or sorted(order) != list(range(rank + len(blocked))):
        raise ModelError(f"tensor {name} must have a level of its storage for each of its dimensions and blocks")
    places: list[np.ndarray] = []           # by level: where each entry is
    sizes = np.ones(len(order), np.int64)
    for level, dimension in enumerate(order):
        metadata = table.DimMetadata(level)
        if metadata.Format() == schema.DimensionType.DENSE:
            size = sizes[dimension] = metadata.DenseSize()
            if not 0 < size * len(positions) <= most:
                raise ModelError(f"tensor {name} must have no more entries in its storage than the {most} elements of its shape")
            counts = np.full(len(positions), size)
            here = np.tile(np.arange(size), len(positions))
            following = np.repeat(positions, size) * size + here
        else:
            segments, indices = (_integers(schema, *parts) for parts in (
                (metadata.ArraySegments(), metadata.ArraySegmentsType()), (metadata.ArrayIndices(), metadata.ArrayIndicesType())))
            counts = segments[positions + 1] - segments[positions]
            if counts.min(initial=0) < 0 or counts.sum() > most:
                raise ModelError(f"tensor {name} must have rows in its storage that ascend, and at most {most} entries")
            following = np.repeat(segments[positions], counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            here = indices[following]
        places, positions = [*(np.repeat(place, counts) for place in places), here], following
    found = {dimension: places[level] for level, dimension in enumerate(order)}
    for block, dimension in enumerate(blocked):
        found[dimension] = found[dimension] * sizes[rank + block] + found[rank + block]
    result = np.zeros(shape, values.dtype)
    result[tuple(found[dimension] for dimension in range(rank))] = values[positions]
    return result


def _integers(schema: Any, table: Any, kind: int) -> np.ndarray:
    """A vector of places, whose integers have 8, 16 or 32 bits."""
    names = {number: name for name, number in vars(schema.SparseIndexVector).items() if isinstance(number, int)}
    vector = getattr(schema, names[kind])()
    vector.Init(table.Bytes, table.Pos)
    return np.asarray(vector.ValuesAsNumpy(), np.int64)
