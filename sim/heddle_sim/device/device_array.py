"""Arrays that stay in the global memory of a device between layers, and constants that are placed there once."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any, cast

import numpy as np
from heddle.errors import UsageError

from ..kernels.parts.planes import Planes
from .memory import GlobalMemory, Placement

__all__ = ["DeviceArray", "PlacedConstants", "place_constant", "placing_constants"]


class DeviceArray:
    """A result of a layer in global memory, as ``Device.conv`` with ``keep`` leaves it.

    A layer of the same device reads it where it lies, if it wants the planes that are there. All else gets a copy: ``numpy.asarray`` and
    what calls it. The memory is free again when the last reference is gone.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    address : int
        Of the first plane.
    planes : Planes
    images : int
        How many of ``planes.image`` bytes each.
    fetched : bool
        The host has read it.
    """

    def __init__(self, memory: GlobalMemory, address: int, planes: Planes, images: int, shape: tuple[int, ...], dtype: np.dtype,
                 fetch: Callable[[], np.ndarray]) -> None:
        self.memory, self.address, self.planes, self.images = memory, address, planes, images
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._fetch, self._of = fetch, [False]
        self._owner: DeviceArray | None = None      # of the memory, for other axes

    @classmethod
    def owning(cls, memory: GlobalMemory, address: int, planes: Planes, images: int, shape: tuple[int, ...], dtype: np.dtype,
               fetch: Callable[[], np.ndarray]) -> DeviceArray:
        """An array that has the allocation at ``address``."""
        found = cls(memory, address, planes, images, shape, dtype, fetch)
        weakref.finalize(found, memory.allocator.free, address)
        return found

    @property
    def fetched(self) -> bool:
        """See above."""
        return self._of[0]

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    def __repr__(self) -> str:
        return f"<DeviceArray {self.shape} {self.dtype} at {self.address:#x}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """A copy of the elements."""
        self._of[0] = True
        array = self._fetch().reshape(self.shape)
        return array if dtype is None else array.astype(dtype)

    def reshape(self, *lengths: int | tuple[int, ...]) -> DeviceArray:
        """The same elements in the same memory with other axes, as of ``numpy.ndarray``."""
        shape = tuple(lengths[0]) if isinstance(lengths[0], tuple) else cast(tuple[int, ...], lengths)
        rest = -prod(shape)
        if rest > 0 and not self.size % rest:
            shape = tuple(self.size // rest if length < 0 else length for length in shape)
        if prod(shape) != self.size or min(shape, default=0) < 0:
            raise UsageError(f"shape must have {self.size} elements, not {shape}")
        found = DeviceArray(self.memory, self.address, self.planes, self.images, shape, self.dtype, self._fetch)
        found._of, found._owner = self._of, self
        return found

    def like(self) -> np.ndarray:
        """An array of zeros of this shape and type, which takes no memory: for checks."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    @property
    def plain(self) -> bool:
        """Whether the elements lie together without gaps."""
        return self.planes.count == 1 and self.size * self.dtype.itemsize == self.images * self.planes.image

    def in_place(self, memory: GlobalMemory, planes: Planes, images: int, front: int, tail: int) -> bool:
        """Whether a layer that wants ``planes`` of ``images`` may read it where it lies. It also reads ``front`` bytes in front of it and
        ``tail`` behind it, whatever they hold."""
        own = self.planes
        end = self.address + (own.count - 1) * own.pitch + images * planes.image
        if memory is not self.memory or self.address < front or end + tail > memory.bytes.size:
            return False
        if self.plain and images * planes.image == self.size * self.dtype.itemsize:
            return True
        return own == planes and images == self.images


class PlacedConstants:
    """Constants in global memory by their content: each is placed once, until ``close``.

    Attributes
    ----------
    nbytes : int
        Of all of them.
    """

    def __init__(self, memory: GlobalMemory) -> None:
        self.memory = memory
        self._addresses: dict[bytes, int] = {}
        self.nbytes = 0

    def place(self, data: bytes) -> int:
        """Address of ``data``; nobody may write there."""
        key = hashlib.sha256(data).digest()
        if key not in self._addresses:
            address = self.memory.allocator.allocate(len(data))
            self.memory.write(address, np.frombuffer(data, np.uint8))
            self._addresses[key] = address
            self.nbytes += len(data)
        return self._addresses[key]

    def close(self) -> None:
        """Free all of them."""
        for address in self._addresses.values():
            self.memory.allocator.free(address)
        self._addresses = {}


_CONSTANTS: ContextVar[PlacedConstants | None] = ContextVar("constants that are placed", default=None)


@contextmanager
def placing_constants(constants: PlacedConstants | None) -> Iterator[None]:
    """Layers within the context take their weights from ``constants``, and place there what is not there yet; None: for their run."""
    token = _CONSTANTS.set(constants)
    try:
        yield
    finally:
        _CONSTANTS.reset(token)


def place_constant(places: Placement, memory: GlobalMemory, data: bytes) -> int:
    """Address of weights or tables: with others that stay, or for this run."""
    constants = _CONSTANTS.get()
    if constants is None or constants.memory is not memory:
        return places.place_bytes(data)
    return constants.place(data)
