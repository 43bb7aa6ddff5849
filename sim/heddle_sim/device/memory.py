"""Allocation of global memory, and matrices in it."""

import bisect
import math
from collections.abc import Sequence
from typing import Self

import numpy as np
from heddle.errors import UsageError, UsageTypeError
from numpy.typing import ArrayLike, DTypeLike

from ..arguments import check_dtype, check_integer, check_mask
from .errors import OutOfMemory

__all__ = ["ALIGNMENT", "PITCH_BYTES", "UNWRITTEN", "Allocator", "GlobalMemory", "Placement", "row_pitch"]

ALIGNMENT = 128  # of allocations: a row of shared memory
PITCH_BYTES = 16  # rows of matrices start at multiples of it
UNWRITTEN = 0xA5  # what results hold before a kernel has written them


def row_pitch(columns: int, element_bytes: int) -> int:
    """Bytes from one row of a matrix to the next: the row, rounded up to 16 bytes."""
    return -(-columns * element_bytes // PITCH_BYTES) * PITCH_BYTES


class Allocator:
    """First-fit allocation of ``[0, size)`` in multiples of ``ALIGNMENT`` bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._taken: list[tuple[int, int]] = []     # sorted (address, bytes)

    def allocate(self, nbytes: int) -> int:
        """Address of ``nbytes`` free bytes; raises ``OutOfMemory`` when there is no gap of that size."""
        if isinstance(nbytes, bool) or not isinstance(nbytes, (int, np.integer)) or nbytes < 1:
            raise UsageError(f"nbytes must be an integer from 1, not {nbytes!r}")
        wanted = -(-int(nbytes) // ALIGNMENT) * ALIGNMENT
        address = 0
        for taken, length in self._taken:
            if taken - address >= wanted:
                break
            address = taken + length
        if address + wanted > self.size:
            raise OutOfMemory(
                f"memory_bytes must leave room for {nbytes} more bytes, not {self.size} with {self.used} in use"
            )
        bisect.insort(self._taken, (address, wanted))
        return address

    def free(self, address: int) -> None:
        """Give an allocation back."""
        address = check_integer("address", address, 0, (1 << 64) - 1)
        index = bisect.bisect_left(self._taken, (address, 0))
        if index == len(self._taken) or self._taken[index][0] != address:
            raise UsageError(f"address must be one that allocate returned and that was not freed, not {address!r}")
        del self._taken[index]

    @property
    def used(self) -> int:
        """Bytes in use, rounded up per allocation."""
        return sum(length for _, length in self._taken)


class GlobalMemory:
    """The bytes of global memory with an allocator; matrices are row-major with rows padded to 16 bytes of zeros.

    ``bytes`` is the ``uint8`` array that the simulator uses, not a copy.
    """

    def __init__(self, size: int) -> None:
        self.bytes = np.zeros(size, dtype=np.uint8)
        self.allocator = Allocator(size)

    def matrix(self, address: int, shape: tuple[int, int], dtype: DTypeLike) -> np.ndarray:
        """View of a matrix in memory (no copy)."""
        rows, columns = shape
        dtype = np.dtype(dtype)
        pitch = row_pitch(columns, dtype.itemsize)
        self._check(address, rows * pitch)
        image = self.bytes[address : address + rows * pitch].reshape(rows, pitch)
        return image[:, : columns * dtype.itemsize].view(dtype)

    def place(self, matrix: np.ndarray) -> int:
        """Allocate and fill a matrix, padding included; returns its address."""
        rows, columns = matrix.shape
        address = self.reserve(matrix.shape, matrix.dtype, fill=0)
        self.matrix(address, (rows, columns), matrix.dtype)[:] = matrix
        return address

    def reserve(self, shape: tuple[int, int], dtype: DTypeLike, fill: int) -> int:
        """Allocate a matrix whose bytes all hold ``fill``; returns its address."""
        nbytes = shape[0] * row_pitch(shape[1], np.dtype(dtype).itemsize)
        address = self.allocator.allocate(nbytes)
        self.bytes[address : address + nbytes] = fill
        return address

    def write(self, address: int, data: ArrayLike) -> None:
        """Copy the bytes of an array, in C order, to ``address``."""
        check_mask("data", data)
        try:
            array = np.ascontiguousarray(data)
        except ValueError:
            raise UsageError("data must be an array, not lists of different lengths") from None
        if array.dtype.hasobject or array.dtype.kind in "US":
            raise UsageTypeError(f"data must be an array of numbers, not {type(data).__name__} of dtype {array.dtype}")
        image = np.frombuffer(array.tobytes(), dtype=np.uint8)
        address = self._check(address, image.size)
        self.bytes[address : address + image.size] = image

    def read(self, address: int, shape: int | Sequence[int], dtype: DTypeLike) -> np.ndarray:
        """A copy of the array of ``shape`` and ``dtype``, in C order without padding, at ``address``."""
        try:
            sizes = tuple(shape)    # type: ignore[arg-type]    # one integer is no iterable
        except TypeError:
            sizes = (shape,)        # type: ignore[assignment]    # here it is that integer
        sizes = tuple(check_integer("shape", size, 0, self.bytes.size) for size in sizes)
        dtype = check_dtype("dtype", dtype)
        if dtype.hasobject or not dtype.itemsize:
            raise UsageTypeError(f"dtype must be of elements that are bytes in memory, not {dtype}")
        nbytes = math.prod(sizes) * dtype.itemsize
        address = self._check(address, nbytes)
        return self.bytes[address : address + nbytes].copy().view(dtype).reshape(sizes)

    def _check(self, address: int, nbytes: int) -> int:
        address = check_integer("address", address, -(1 << 63), (1 << 64) - 1)
        if not 0 <= address <= address + nbytes <= self.bytes.size:
            raise UsageError(
                f"address must leave {nbytes} bytes below the {self.bytes.size} bytes of memory, not {address:#x}"
            )
        return address


class Placement:
    """Placement of the operands of a run in global memory; a context manager that frees them at its end."""

    def __init__(self, memory: GlobalMemory) -> None:
        self._memory = memory
        self._addresses: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for address in self._addresses:
            self._memory.allocator.free(address)

    def _taken(self, address: int) -> int:
        self._addresses.append(address)
        return address

    def place(self, matrix: np.ndarray) -> int:
        """Address of a copy of a matrix, its rows padded to 16 bytes."""
        return self._taken(self._memory.place(matrix))

    def place_bytes(self, data: bytes) -> int:
        """Address of a copy of ``bytes``."""
        address = self._taken(self._memory.allocator.allocate(len(data)))
        self._memory.write(address, np.frombuffer(data, np.uint8))
        return address

    def reserve(self, shape: tuple[int, int], dtype: DTypeLike) -> int:
        """Address of a result that a kernel is to write."""
        return self._taken(self._memory.reserve(shape, dtype, fill=UNWRITTEN))
