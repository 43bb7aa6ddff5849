"""Golden model of the address generator: position in the tensor of each element of a box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.isa.encoding import Swizzle
from heddle.isa.tensor_descriptor import TensorMode

if TYPE_CHECKING:
    from .tensor_fields import TensorFields

__all__ = ["Traversal", "shared_offsets", "swizzled_addresses", "traverse"]


@dataclass(frozen=True)
class Traversal:
    """Elements (with interleave: slices) of a box in the order of shared memory.

    Attributes
    ----------
    positions : int64 array (elements, rank)
        Position in the tensor, dimension 0 first; outside of the tensor where ``inside`` is false.
    offsets : int64 array (elements,)
        Bytes from the address of the tensor, 0 outside the tensor.
    inside : bool array (elements,)
        Elements inside the tensor.
    """

    positions: np.ndarray
    offsets: np.ndarray
    inside: np.ndarray


def traverse(fields: TensorFields, coordinates: Sequence[int], offsets: tuple[int, ...] = ()) -> Traversal:
    """Elements of a request at ``coordinates``, with the im2col ``offsets`` of the spatial dimensions [S1.5, S1.6].

    Dimension 0 first; traversal strides leave no holes.
    """
    if fields.mode == TensorMode.TILE:
        positions = _tile(fields, coordinates)
    else:
        positions = _pixels(fields, coordinates, offsets)
    inside: Any = ((positions >= 0) & (positions < np.array(fields.sizes, np.int64))).all(axis=1)
    places = np.where(inside[:, None], positions, 0) @ np.array(fields.byte_strides, np.int64)
    return Traversal(positions, np.where(inside, places, 0), inside)


def _tile(fields: TensorFields, coordinates: Sequence[int]) -> np.ndarray:
    axes = [first + step * np.arange(count, dtype=np.int64) for first, step, count in zip(coordinates, fields.steps, fields.counts)]
    grid = np.meshgrid(*reversed(axes), indexing="ij")      # the last axis runs fastest
    return np.stack([axis.reshape(-1) for axis in reversed(grid)], axis=1)


def _pixels(fields: TensorFields, coordinates: Sequence[int], offsets: tuple[int, ...]) -> np.ndarray:
    """Column of pixels: traverses the pixel box row by row from the coordinates on, into the next images; the offsets shift the whole
    column.
    """
    spatial = fields.rank - 2
    pixel, image = list(coordinates[1:1 + spatial]), coordinates[-1]
    end = [size + upper for size, upper in zip(fields.sizes[1:], fields.upper_corner)]
    column = []
    for _ in range(fields.pixels_per_column):
        column.append([place + offset for place, offset in zip(pixel, offsets)] + [image])
        for d in range(spatial):
            pixel[d] += fields.element_strides[1 + d]
            if pixel[d] < end[d]:
                break
            pixel[d] = fields.lower_corner[d]
        else:
            image += fields.element_strides[-1]
    channels = coordinates[0] + np.arange(fields.channels_per_pixel, dtype=np.int64)
    pixels = np.array(column, np.int64)
    return np.column_stack([np.tile(channels, len(pixels)), np.repeat(pixels, len(channels), axis=0)])


def shared_offsets(fields: TensorFields, step: int) -> np.ndarray:
    """Bytes from the start of a box in shared memory to every ``step``-th byte of its rows, without the swizzle; int64 array.

    ``step`` divides the bytes of a row.
    """
    return (np.arange(fields.rows)[:, None] * fields.row_pitch + np.arange(0, fields.row_bytes, step)).reshape(-1)


def swizzled_addresses(addresses: np.ndarray, swizzle: Swizzle) -> np.ndarray:
    """Swizzled byte addresses of shared memory: 1, 2 or 3 address bits from bit 4 on XOR as many bits from bit 7 on [S1.8]."""
    mask = (1 << swizzle.value) - 1
    return addresses ^ ((addresses >> 7 & mask) << 4)
