"""Copies of tensors on a device: arrays in numpy's order of axes, bytes as they lie in shared memory."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from heddle.config import Config
from heddle.constants import ROW_BYTES
from heddle.errors import UsageError, UsageTypeError
from heddle.isa.encoding import Reduction, Swizzle
from heddle.isa.tensor_descriptor import INTERLEAVE_BYTES, Fill, Interleave, TensorMode

from ..arguments import Arguments
from ..golden.tensor_checks import TensorRequest, all_violations
from ..isa.features import lacking
from ..kernels.copies import BlockCopy, TensorCopy, TensorPrefetch
from ..tensor.tensor_map import TensorMap, TensorMapError
from .blocks import BlockAccess, check_image, checked_array, named_reduction, require_reduction
from .host import Host
from .results import ArrayResult, ImageResult
from .stats import Stats

__all__ = ["TensorAccess"]

ANY_BYTES = 1 << 32


class _Placed:
    """An array in global memory with its descriptor, from ``__enter__`` to ``__exit__``, and the request for one box of it.

    With interleave the array of channels-last pixels lies in slices: (images, slices, [planes, [rows,]] columns, bytes of a slice).
    """

    def __init__(self, device: Host, array: np.ndarray, coords: Sequence[int], options: dict[str, Any], *,
                 offsets: Sequence[int] | None = None, smem_address: int = 0, store: bool = False, reduction: Reduction = Reduction.NONE,
                 check: bool = True, shared_bytes: int | None = None) -> None:
        self.device, self.array = device, checked_array(array)
        interleave = options["interleave"]
        self.slice_bytes = INTERLEAVE_BYTES.get({"16B": Interleave.B16, "32B": Interleave.B32}.get(str(interleave), Interleave.NONE))
        shape = self.array.shape
        if self.slice_bytes:
            shape = (*shape[:-1], self._slices())
        rank, arguments = array.ndim, Arguments()
        self.fields = TensorMap.fields_of(arguments, shape, array.dtype, **options)
        coords = arguments.integers("coords", coords, rank, bits=32)
        if isinstance(options["mode"], str) and options["mode"] == "tile":
            if offsets is not None:
                arguments.wrong("offsets must not be given in mode tile", UsageTypeError)
            offsets = ()
        else:
            spatial = max(0, rank - 2)
            offsets = (0,) * spatial if offsets is None else arguments.integers("offsets", offsets, spatial, bits=32)
        smem_address = arguments.integer("smem_address", smem_address)
        arguments.done()
        self.request = TensorRequest(coordinates=coords[::-1], offsets=offsets[::-1], shared_address=smem_address,
                                     mode=self.fields.mode, store=store, reduction=reduction)
        cfg = device.cfg
        if check:
            if violations := all_violations(self.fields, self.request, shared_bytes or cfg.shared_bytes, cfg.axi_address_bits):
                raise TensorMapError(violations, rank)
            self._check_features(cfg)
            require_reduction(cfg, reduction, array.dtype.kind not in "iu")
        # With a swizzle the last bytes of a box may lie anywhere in their row of shared memory.
        whole_rows = self.fields.swizzle != Swizzle.NONE
        self.image_bytes = min(-(-self.fields.room // ROW_BYTES) * ROW_BYTES if whole_rows else self.fields.room, cfg.shared_bytes)

    def _check_features(self, cfg: Config) -> None:
        fields = self.fields
        for parameter, name, wanted in (
                ("tensor_im2col", "mode", fields.mode == TensorMode.IM2COL),
                ("tensor_interleave", "interleave", fields.interleave != Interleave.NONE),
                ("tensor_strides", "element_strides", any(step != 1 for step in fields.steps)),
                ("tensor_nan", "fill", fields.fill != Fill.ZERO), ("copy_swizzles", "swizzle", fields.swizzle != Swizzle.NONE)):
            if wanted and not getattr(cfg, parameter):
                raise UsageError(f"{name} must be the default in configuration {cfg.name} ({lacking(cfg, parameter)})")

    def _slices(self) -> int:
        nbytes, last = self.array.itemsize * self.array.shape[-1], self.array.ndim - 1
        if self.array.ndim < 3 or nbytes % self.slice_bytes:
            raise UsageError(f"array must have at least 3 axes with interleave, and slices of {self.slice_bytes} bytes in axis {last}, "
                             f"not shape {self.array.shape} of {self.array.dtype}")
        return nbytes // self.slice_bytes

    def _image(self) -> np.ndarray:
        """The array as a matrix of rows that lie one after the other in global memory."""
        if not self.slice_bytes:
            return self.array.reshape(-1, self.array.shape[-1])
        pixels = np.ascontiguousarray(self.array).view(np.uint8).reshape(*self.array.shape[:-1], -1, self.slice_bytes)
        return np.moveaxis(pixels, -2, 1).reshape(-1, self.slice_bytes)

    def __enter__(self) -> Self:
        memory = self.device.memory
        self._addresses: list[int] = []
        try:
            self._matrix = self._image()
            self.address = self.reserve(memory.place(self._matrix))
            descriptor = np.frombuffer(self._descriptor(), np.uint8)
            place = self.reserve(memory.allocator.allocate(descriptor.size))
            memory.write(place, descriptor)
        except Exception:
            self.__exit__()
            raise
        self.request = replace(self.request, descriptor=place)
        return self

    def __exit__(self, *exception: object) -> None:
        for address in self._addresses:
            self.device.free(address)

    def reserve(self, address: int) -> int:
        """``address`` is freed at the end."""
        self._addresses.append(address)
        return address

    def _descriptor(self) -> bytes:
        return replace(self.fields, address=self.address).encode()

    def result(self) -> np.ndarray:
        """The array as it lies in memory now."""
        now = self.device.memory.matrix(self.address, self._matrix.shape, self._matrix.dtype)
        if not self.slice_bytes:
            return now.copy().reshape(self.array.shape)
        images, *spatial, _ = self.array.shape
        slices = np.moveaxis(now.reshape(images, -1, *spatial, self.slice_bytes), 1, -2)
        return np.ascontiguousarray(slices).reshape(images, *spatial, -1).view(self.array.dtype)


class TensorAccess(BlockAccess):
    """The part of ``Device`` that copies boxes of tensors and blocks; core 0 of the device does it.

    Tuples have a value for each axis of the array, outermost first, as in numpy. In im2col mode the array is (images, [planes, [rows,]]
    columns, channels). Corners and offsets have a value for each axis but the first and the last. With ``interleave`` it has the same axes
    (at least three) and lies in global memory in slices of 16 or 32 bytes of channels. ``box`` and ``coords`` then count slices along the
    last axis: with int8 elements and "32B", ``box=(1, 8, 8, 2)`` of an array of shape (4, 8, 8, 64) has all 64 channels. Rows (the last
    axis) begin at multiples of 16 bytes in global memory.
    """

    def copy_tensor(self, array: np.ndarray, *, box: Sequence[int] | None = None, coords: Sequence[int],
                    element_strides: Sequence[int] | None = None, swizzle: str = "none", interleave: str = "none", fill: str = "zero",
                    mode: str = "tile", lower_corner: Sequence[int] | None = None, upper_corner: Sequence[int] | None = None,
                    offsets: Sequence[int] | None = None, pixels_per_column: int | None = None, channels_per_pixel: int | None = None,
                    smem_address: int = 0, check: bool = True) -> ImageResult:
        """Load a box of an array into shared memory [S1.2-S1.8].

        Parameters
        ----------
        array : numpy.ndarray
            1 to 5 axes, with any strides; int8 to int64, uint8 to uint64, float16, float32, float64 or ``ml_dtypes.bfloat16``. No list:
            the descriptor has the element type, which a list does not state.
        box, element_strides : tuple of int
            Elements of the box, of which every ``element_strides``-th is copied. No box in mode "im2col".
        coords : tuple of int
            Where the box begins; it may lie outside the array on every side.
        swizzle, interleave, fill, mode : str
            "none", "32B", "64B" or "128B"; "none", "16B" or "32B"; "zero" or "nan"; "tile" or "im2col".
        lower_corner, upper_corner, offsets, pixels_per_column, channels_per_pixel
            Of mode "im2col" only: the pixel box, the position of the filter (default 0), the size of a column of pixels.
        smem_address : int
            Where the box begins in shared memory, a multiple of 128.
        check : bool
            False: what breaks a rule is left to the device, which ends with ``DeviceError``.

        Returns ``ImageResult``: ``image`` and the counters of the copy alone. ``image`` has the uint8 bytes of the box as they lie in
        shared memory from ``smem_address`` on. With a swizzle these are whole rows of 128 bytes, zero where the box does not reach.
        Raises ``TypeError`` or ``ValueError`` with all arguments that are no integers, names or tuples of the right length; then
        ``TensorMapError``, a ``ValueError``, with all rules that they break (``docs/tensor-errors.md``).
        """
        options = _options(box, element_strides, swizzle, interleave, fill, mode, lower_corner, upper_corner, pixels_per_column,
                           channels_per_pixel)
        self._needs_tensors()
        with _Placed(self, array, coords, options, offsets=offsets, smem_address=smem_address, check=check) as placed:
            image = placed.reserve(self.memory.reserve((1, placed.image_bytes), np.uint8, fill=0))
            if placed.image_bytes != placed.fields.bytes:
                self._launch(BlockCopy(smem_address, image, placed.image_bytes, to_shared=True))
            stats = self._launch(TensorCopy(placed.request, placed.fields.bytes))
            return ImageResult(self._bring_out(smem_address, image, placed.image_bytes), stats)

    def store_tensor(self, image: np.ndarray, array: np.ndarray, *, coords: Sequence[int], box: Sequence[int] | None = None,
                     reduce: str | None = None, element_strides: Sequence[int] | None = None, swizzle: str = "none",
                     interleave: str = "none", mode: str = "tile", lower_corner: Sequence[int] | None = None,
                     upper_corner: Sequence[int] | None = None, pixels_per_column: int | None = None, channels_per_pixel: int | None = None,
                     smem_address: int = 0, check: bool = True) -> ArrayResult:
        """Store a box from shared memory into an array [S1.9]; parameters as for ``copy_tensor``, and

        Parameters
        ----------
        image : numpy.ndarray
            uint8, one axis: the bytes of the box as they lie in shared memory, such as ``copy_tensor`` returns.
        reduce : str, optional
            Combine with what is there: "add", "min", "max", "inc", "dec", "and", "or" or "xor", where the type has it.

        Returns ``ArrayResult``: the array afterwards (``array`` itself does not change), and the counters of the copy alone. What lies
        outside the array is left out.
        """
        reduction = named_reduction(reduce)
        options = _options(box, element_strides, swizzle, interleave, "zero", mode, lower_corner, upper_corner, pixels_per_column,
                           channels_per_pixel)
        self._needs_tensors()
        with _Placed(self, array, coords, options, smem_address=smem_address, store=True, reduction=reduction,
                     check=check) as placed:
            check_image(image, placed.image_bytes)
            source = placed.reserve(self.memory.place(image[None]))
            self._launch(BlockCopy(smem_address, source, placed.image_bytes, to_shared=True))
            stats = self._launch(TensorCopy(placed.request, placed.fields.bytes))
            return ArrayResult(placed.result(), stats)

    def prefetch_tensor(self, array: np.ndarray, *, box: Sequence[int] | None = None, coords: Sequence[int],
                        element_strides: Sequence[int] | None = None, interleave: str = "none", mode: str = "tile",
                        lower_corner: Sequence[int] | None = None, upper_corner: Sequence[int] | None = None,
                        offsets: Sequence[int] | None = None, pixels_per_column: int | None = None, channels_per_pixel: int | None = None,
                        check: bool = True) -> Stats:
        """Hint that a box will be needed [S1.11]; parameters as for ``copy_tensor``. Returns ``stats``. Without a second-level cache
        the hint has no effect; with one the lines stay until the run ends, which is here at once: the counters show what it brings."""
        options = _options(box, element_strides, "none", interleave, "zero", mode, lower_corner, upper_corner, pixels_per_column,
                           channels_per_pixel)
        self._needs_tensors()
        with _Placed(self, array, coords, options, offsets=offsets, check=check, shared_bytes=ANY_BYTES) as placed:
            return self._launch(TensorPrefetch(placed.request))


def _options(box: Sequence[int] | None, element_strides: Sequence[int] | None, swizzle: str, interleave: str, fill: str, mode: str,
             lower_corner: Sequence[int] | None, upper_corner: Sequence[int] | None, pixels_per_column: int | None,
             channels_per_pixel: int | None) -> dict[str, Any]:
    return {"box": box, "element_strides": element_strides, "swizzle": swizzle, "interleave": interleave, "fill": fill, "mode": mode,
            "lower_corner": lower_corner, "upper_corner": upper_corner, "pixels_per_column": pixels_per_column,
            "channels_per_pixel": channels_per_pixel}
