"""Copies of blocks of 16 bytes on a device, without descriptors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, ROW_BYTES
from heddle.errors import UsageError, UsageTypeError
from heddle.interfaces.swizzle import swizzles
from heddle.isa.encoding import Reduction, Swizzle
from heddle.isa.tensor_descriptor import FLOAT_FORMATS, MAX_RANK, TensorFormat
from heddle.isa.tensor_rules import REDUCTION_FORMATS
from numpy.typing import ArrayLike

from ..arguments import Arguments, check_choice, check_mask, plain_array
from ..isa.features import lacking
from ..kernels.copies import BlockCopy, BlockMove, BlockPrefetch
from ..kernels.planner import plan
from ..tensor.tensor_map import format_of
from .execution import execute
from .host import Host
from .results import ArrayResult, ImageResult

if TYPE_CHECKING:

    from ..kernels.problem import Problem
    from .stats import Stats

__all__ = ["BlockAccess", "check_image", "checked_array", "named_reduction", "require_reduction"]

REDUCTIONS = {None: Reduction.NONE} | {kind.name.lower(): kind for kind in Reduction if kind.value}
_SWIZZLES = ("none", "32B", "64B", "128B")


def checked_array(array: object) -> np.ndarray:
    """``array`` with the bytes of its elements in the order of the device."""
    array = plain_array("array", array)
    if not 1 <= array.ndim <= MAX_RANK:
        raise UsageError(f"array must have 1 to {MAX_RANK} axes, not {array.ndim}")
    if array.dtype.hasobject:
        raise UsageTypeError(f"array must have elements that are bytes in memory, not dtype {array.dtype}")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def check_image(image: object, nbytes: int) -> None:
    check_mask("image", image)
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.shape != (nbytes,):
        raise UsageError(f"image must be a uint8 array of {nbytes} bytes, not {getattr(image, 'dtype', type(image))} "
                         f"of shape {getattr(image, 'shape', None)}")


def _check_blocks(nbytes: int) -> None:
    if nbytes == 0 or nbytes % BANK_BYTES:
        raise UsageError(f"array must have a multiple of {BANK_BYTES} bytes and at least one, not {nbytes}")


def named_reduction(reduce: str | None) -> Reduction:
    if not (reduce is None or isinstance(reduce, str)) or reduce not in REDUCTIONS:
        raise UsageError(f"reduce must be None or one of {', '.join(map(str, list(REDUCTIONS)[1:]))}, not {reduce!r}")
    return REDUCTIONS[reduce]


def require_reduction(cfg: Config, reduction: Reduction, floats: bool) -> None:
    """Raises ``ValueError`` where the configuration lacks it; ``floats``: of elements of a float format."""
    wanted = "reduction_floats" if floats else "reductions"
    if reduction is not Reduction.NONE and not getattr(cfg, wanted):
        raise UsageError(f"reduce must be None in configuration {cfg.name} ({lacking(cfg, wanted)}), not {reduction.name.lower()!r}")


class BlockAccess(Host):
    """The part of ``Device`` that copies blocks; core 0 of the device does it."""

    def copy_block(self, array: ArrayLike, *, swizzle: str = "none", smem_address: int = 0) -> ImageResult:
        """Load the bytes of an array, a multiple of 16, into shared memory without a descriptor [S1.12].

        ``swizzle``: "none" or "128B", any where the configuration has tensors. Returns ``ImageResult`` like ``copy_tensor``.
        """
        array = checked_array(array)
        nbytes = array.nbytes
        size = self._image_bytes(nbytes, swizzle, smem_address)
        source = self._place_bytes(array)
        try:
            image = self.memory.reserve((1, size), np.uint8, fill=0)
            try:
                if size != nbytes:
                    self._launch(BlockCopy(smem_address, image, size, to_shared=True))
                stats = self._launch(BlockCopy(smem_address, source, nbytes, to_shared=True, swizzle=swizzle))
                return ImageResult(self._bring_out(smem_address, image, size), stats)
            finally:
                self.free(image)
        finally:
            self.free(source)

    def store_block(self, image: np.ndarray, array: ArrayLike, *, reduce: str | None = None, swizzle: str = "none",
                    smem_address: int = 0) -> ArrayResult:
        """Store bytes from shared memory over those of an array [S1.12]; parameters as for ``copy_block``, and

        Parameters
        ----------
        image : numpy.ndarray
            uint8, one axis: the bytes as they lie in shared memory, such as ``copy_block`` returns.
        reduce : str, optional
            Combine with what is there: "add", "min", "max", "inc", "dec", "and", "or" or "xor", where the type has it.

        Returns ``ArrayResult``: the array afterwards (``array`` itself does not change), and the counters of the copy alone.
        """
        array = checked_array(array)
        size = self._image_bytes(array.nbytes, swizzle, smem_address)
        check_image(image, size)
        reduction = self._reduction(reduce, array.dtype)
        source, target = self.memory.place(image[None]), self._place_bytes(array)
        try:
            self._launch(BlockCopy(smem_address, source, size, to_shared=True))
            stats = self._launch(BlockCopy(smem_address, target, array.nbytes, False, swizzle, reduction))
            return ArrayResult(self._bytes_at(target, array), stats)
        finally:
            self.free(source)
            self.free(target)

    def move_block(self, array: ArrayLike, into: ArrayLike | None = None, *, space: str = "global", reduce: str | None = None,
                   smem_address: int = 0, smem_destination: int | None = None) -> ArrayResult:
        """Copy the bytes of an array within a memory, where the configuration has ``copy_within`` [S1.12].

        Over ``into``, an array of as many bytes, combined with them by ``reduce``. With ``space`` "shared" from ``smem_address`` to
        ``smem_destination`` (behind the source unless given), which must not meet; ``reduce`` is of integers there. Returns
        ``ArrayResult``: what lies at the destination, like ``into`` or ``array``.
        """
        array = checked_array(array)
        check_choice("space", space, ("global", "shared"))
        if not self.cfg.copy_within:
            raise UsageError(f"configuration {self.cfg.name} must have copy_within ({lacking(self.cfg, 'copy_within')})")
        nbytes = array.nbytes
        _check_blocks(nbytes)
        into = np.zeros_like(array) if into is None else checked_array(into)
        if into.nbytes != nbytes:
            raise UsageError(f"into must have {nbytes} bytes, not {into.nbytes}")
        reduction = self._reduction(reduce, into.dtype)
        if space == "shared":
            self._image_bytes(nbytes, "none", smem_address)
            if reduction and reduction[1] in FLOAT_FORMATS:
                raise UsageError(f"reduce must be of integers with space shared, not of {reduction[1].name}")
            destination = smem_address + nbytes if smem_destination is None else smem_destination
            return self._move_shared(array, into, reduction, smem_address, destination)
        source, target = self._place_bytes(array), self._place_bytes(into)
        try:
            stats = self._launch(BlockMove("global", target, source, nbytes, reduction))
            return ArrayResult(self._bytes_at(target, into), stats)
        finally:
            self.free(source)
            self.free(target)

    def _move_shared(self, array: np.ndarray, into: np.ndarray, reduction: tuple[Reduction, TensorFormat] | None, start: int,
                     destination: int) -> ArrayResult:
        self._image_bytes(array.nbytes, "none", destination)
        if abs(start - destination) < array.nbytes:
            raise UsageError(f"smem_destination must be at least {array.nbytes} bytes from smem_address, not {destination - start}")
        source, target = self._place_bytes(array), self._place_bytes(into)
        try:
            self._launch(BlockCopy(start, source, array.nbytes, to_shared=True))
            if reduction:       # of what lies there
                self._launch(BlockCopy(destination, target, array.nbytes, to_shared=True))
            stats = self._launch(BlockMove("shared", destination, start, array.nbytes, reduction))
            self._bring_out(destination, target, array.nbytes)
            return ArrayResult(self._bytes_at(target, into), stats)
        finally:
            self.free(source)
            self.free(target)

    def prefetch_block(self, address: int, nbytes: int) -> Stats:
        """Hint that ``nbytes`` bytes (a multiple of 16) of global memory from ``address`` on will be needed [S1.11], as
        ``prefetch_tensor``. Returns ``stats``."""
        arguments = Arguments()
        address, nbytes = arguments.integer("address", address), arguments.integer("nbytes", nbytes)
        arguments.done()
        if address % BANK_BYTES or nbytes % BANK_BYTES or not 0 <= address <= address + nbytes <= self.memory.bytes.size:
            raise UsageError(f"address and nbytes must be multiples of {BANK_BYTES} inside memory, not {address} and {nbytes}")
        self._needs_tensors()
        return self._launch(BlockPrefetch(address, nbytes))

    def _image_bytes(self, nbytes: int, swizzle: str, smem_address: int) -> int:
        """Bytes that a copy takes of shared memory from ``smem_address`` on: with a swizzle whole rows."""
        if not isinstance(swizzle, str) or swizzle not in _SWIZZLES:
            raise UsageError(f"swizzle must be one of {', '.join(_SWIZZLES)}, not {swizzle!r}")
        _check_blocks(nbytes)
        if swizzle != "none" and Swizzle[f"B{swizzle[:-1]}"] not in swizzles(self.cfg):
            parameter = "tensors" if self.cfg.copy_swizzles else "copy_swizzles"
            raise UsageError(f"swizzle must be {'none or 128B' if self.cfg.copy_swizzles else 'none'} in configuration {self.cfg.name} "
                             f"({lacking(self.cfg, parameter)}), not {swizzle!r}")
        size = nbytes if swizzle == "none" else -(-nbytes // ROW_BYTES) * ROW_BYTES
        if size > self.cfg.shared_bytes:
            raise UsageError(f"array must have at most {self.cfg.shared_bytes} bytes (shared_memory_kib = {self.cfg.shared_memory_kib}), "
                             f"not {nbytes}")
        arguments = Arguments()
        smem_address = arguments.integer("smem_address", smem_address)
        arguments.done()
        if smem_address % (ROW_BYTES if size != nbytes else BANK_BYTES) or not 0 <= smem_address <= self.cfg.shared_bytes - size:
            raise UsageError(f"smem_address must be a multiple of {BANK_BYTES} (with a swizzle of {ROW_BYTES}) that leaves {size} bytes of "
                             f"{self.cfg.shared_bytes}, not {smem_address}")
        return size

    def _reduction(self, reduce: str | None, dtype: np.dtype) -> tuple[Reduction, TensorFormat] | None:
        """Reduction and format, or ``None``."""
        reduction = named_reduction(reduce)
        if reduction is Reduction.NONE:
            return None
        format = format_of(dtype)
        if format not in REDUCTION_FORMATS[reduction]:
            raise UsageError(f"reduce must be defined for {format.name}, not {reduce!r}")
        require_reduction(self.cfg, reduction, format in FLOAT_FORMATS)
        return reduction, format

    def _place_bytes(self, array: np.ndarray) -> int:
        return self.memory.place(np.ascontiguousarray(array).view(np.uint8).reshape(1, array.nbytes))

    def _bytes_at(self, address: int, array: np.ndarray) -> np.ndarray:
        """The array that lies there, of the type and shape of ``array``."""
        return self.memory.read(address, (array.nbytes,), np.uint8).view(array.dtype).reshape(array.shape)

    def _needs_tensors(self) -> None:
        if not self.cfg.tensors:
            raise UsageError(f"configuration {self.cfg.name} must have tensors ({lacking(self.cfg, 'tensors')})")

    def _launch(self, copy: Problem) -> Stats:
        """Figures of a copy, a ``Problem`` of ``kernels.copies``."""
        return execute(self, plan(self.cfg, copy))

    def _bring_out(self, smem_address: int, image: int, nbytes: int) -> np.ndarray:
        """``nbytes`` bytes of shared memory, by way of global memory at ``image``."""
        self._launch(BlockCopy(smem_address, image, nbytes, to_shared=False))
        return self.memory.read(image, (nbytes,), np.uint8)
