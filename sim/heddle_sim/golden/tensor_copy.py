"""Golden model of tensor copies: boxes between global and shared memory [S1.5-S1.9]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from heddle.isa.encoding import Reduction
from heddle.isa.tensor_descriptor import FILL_NAN, TF32_NAN, Fill, TensorFormat

from .reductions import reduce_elements
from .tensor_traversal import shared_offsets, swizzled_addresses, traverse

if TYPE_CHECKING:
    from .tensor_fields import TensorFields

__all__ = ["converted", "load_array", "load_tensor", "store_tensor"]

_ROUNDED = {TensorFormat.TF32, TensorFormat.TF32_FTZ}


def converted(format: TensorFormat, elements: np.ndarray) -> np.ndarray:
    """Bytes of elements after the conversion of a load.

    TF32 rounds to 10 fraction bits, to nearest even, also subnormal numbers; every NaN becomes ``TF32_NAN``. Other formats are unchanged.
    """
    if format not in _ROUNDED:
        return elements
    bits = np.ascontiguousarray(elements).view("<u4")
    rounded = (bits.astype(np.uint64) + 0xFFF + (bits >> 13 & 1)).astype(np.uint32) & np.uint32(0xFFFF_E000)
    return np.where(bits & 0x7FFF_FFFF > 0x7F80_0000, np.uint32(TF32_NAN), rounded).astype("<u4").view(np.uint8)


def _places(fields: TensorFields, coordinates: tuple[int, ...], offsets: tuple[int, ...],
            shared_address: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Byte addresses of a box, int arrays (elements, bytes), in global memory and in shared memory; and a mask of the elements inside
    the tensor.
    """
    walk = traverse(fields, coordinates, offsets)
    byte = np.arange(fields.unit_bytes)
    from_global = fields.address + walk.offsets[:, None] + byte
    linear = shared_address + shared_offsets(fields, fields.unit_bytes)[:, None] + byte
    return from_global, swizzled_addresses(linear, fields.swizzle), walk.inside


def load_tensor(memory: np.ndarray, shared: np.ndarray, fields: TensorFields, coordinates: tuple[int, ...], shared_address: int,
                offsets: tuple[int, ...] = ()) -> int:
    """Load: copies a box from ``memory`` to ``shared`` (uint8 arrays, changed in place); returns the bytes that arrive at the barrier."""
    source, target, inside = _places(fields, coordinates, offsets, shared_address)
    values = np.empty(source.shape, np.uint8)
    values[inside] = converted(fields.format, memory[source[inside]].reshape(-1)).reshape(-1, fields.unit_bytes)
    values[~inside] = _filler(fields)
    shared[target] = values
    return fields.bytes


def load_array(array: np.ndarray, fields: TensorFields, coords: Sequence[int], offsets: Sequence[int] | None = None,
               shared_address: int = 0) -> np.ndarray:
    """Box of a tensor at ``coords`` of an array; ``coords`` and ``offsets`` in numpy's order; without interleave.

    Returns the bytes (uint8) of the box as in shared memory from ``shared_address`` on.
    """
    memory = np.zeros(fields.address + fields.tensor_bytes, np.uint8)
    placed = np.ndarray(array.shape, array.dtype, memory, fields.address, (*reversed(fields.strides), array.itemsize))
    placed[...] = array
    shared = np.zeros(shared_address + fields.room, np.uint8)
    load_tensor(memory, shared, fields, tuple(reversed(coords)), shared_address, tuple(reversed(offsets or (0,) * (fields.rank - 2))))
    return shared[shared_address:]


def _filler(fields: TensorFields) -> np.ndarray:
    """Bytes of an element (with interleave a slice) outside the tensor."""
    if fields.fill == Fill.ZERO:
        return np.zeros(fields.unit_bytes, np.uint8)
    return np.full(fields.unit_bytes // 2, FILL_NAN, "<u2").view(np.uint8)


def store_tensor(memory: np.ndarray, shared: np.ndarray, fields: TensorFields, coordinates: tuple[int, ...], shared_address: int,
                 reduction: Reduction = Reduction.NONE) -> None:
    """Store: copies a box from ``shared`` to ``memory`` (changed in place), only elements inside the tensor.

    With a reduction the elements are combined with ``memory``. Elements at the same address are stored one after the other.
    """
    target, source, inside = _places(fields, coordinates, (0,) * (fields.rank - 2), shared_address)
    target, values = target[inside], shared[source[inside]]
    if reduction == Reduction.NONE:
        memory[target] = values
        return
    pending = np.arange(len(target))
    while len(pending):
        _, first = np.unique(target[pending, 0], return_index=True)
        now = pending[first]
        old = memory[target[now]].reshape(-1)
        memory[target[now]] = reduce_elements(reduction, fields.format, old, values[now].reshape(-1)).reshape(len(now), -1)
        pending = np.delete(pending, first)
