"""``TensorMap``: the builder of tensor descriptors, in numpy's order of axes, which checks everything before anything runs."""

import builtins
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import ml_dtypes
import numpy as np
from heddle.errors import UsageError, UsageTypeError
from heddle.isa.encoding import Swizzle
from heddle.isa.tensor_descriptor import DESCRIPTOR_BYTES, FORMAT_BYTES, Fill, Interleave, TensorFormat, TensorMode
from numpy.typing import DTypeLike

from ..arguments import Arguments, check_dtype
from ..golden.tensor_checks import Violation, descriptor_violations
from ..golden.tensor_fields import TensorFields

__all__ = ["FORMAT_NAMES", "TensorMap", "TensorMapError", "format_of"]

_MODES = {"tile": TensorMode.TILE, "im2col": TensorMode.IM2COL}
_INTERLEAVES = {"none": Interleave.NONE, "16B": Interleave.B16, "32B": Interleave.B32}
_SWIZZLES = {"none": Swizzle.NONE, "32B": Swizzle.B32, "64B": Swizzle.B64, "128B": Swizzle.B128}
_FILLS = {"zero": Fill.ZERO, "nan": Fill.NAN}
_FORMATS = {
    "uint8": TensorFormat.U8, "int8": TensorFormat.U8, "uint16": TensorFormat.U16, "int16": TensorFormat.U16,
    "uint32": TensorFormat.U32, "int32": TensorFormat.S32, "uint64": TensorFormat.U64, "int64": TensorFormat.S64,
    "float16": TensorFormat.F16, "float32": TensorFormat.F32, "float64": TensorFormat.F64, "bfloat16": TensorFormat.BF16,
}
assert np.dtype(ml_dtypes.bfloat16).name in _FORMATS
FORMAT_NAMES = tuple(_FORMATS)
_OF_TILES, _OF_COLUMNS = ("box",), ("lower_corner", "upper_corner", "pixels_per_column", "channels_per_pixel")


class TensorMapError(UsageError):
    """A descriptor that breaks rules; ``violations`` has all of them. With the ``rank`` of the tensor the text says which axis of numpy
    a dimension is."""

    def __init__(self, violations: Iterable[Violation], rank: int | None = None) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(violation.text(rank) for violation in self.violations))


def format_of(dtype: DTypeLike) -> TensorFormat:
    """The tensor format of elements of a numpy type; bytes and 16-bit integers have one for both signs."""
    try:
        if dtype is None:       # numpy's float64
            raise TypeError
        return _FORMATS[check_dtype("dtype", dtype).name]
    except (KeyError, TypeError):
        raise UsageTypeError(f"dtype must be one of {', '.join(_FORMATS)}, not {dtype}") from None


@dataclass(frozen=True)
class TensorMap:
    """A checked tensor descriptor [S1.2, S1.4].

    Wraps the descriptor's ``fields``, whose dimension 0 is the innermost; ``TensorMap.build`` takes tuples in numpy's order, outermost
    first. Raises ``TensorMapError`` with *all* rules that are broken, each with field, dimension and value.
    """

    fields: TensorFields

    def __post_init__(self) -> None:
        violations = descriptor_violations(self.fields)
        if violations:
            raise TensorMapError(violations, self.fields.rank)

    @classmethod
    def build(cls, shape: Sequence[int], dtype: DTypeLike | TensorFormat, *, box: Sequence[int] | None = None, address: int = 0,
              strides: Sequence[int] | None = None, element_strides: Sequence[int] | None = None, swizzle: str = "none",
              interleave: str = "none", fill: str = "zero", mode: str = "tile", lower_corner: Sequence[int] | None = None,
              upper_corner: Sequence[int] | None = None, pixels_per_column: int | None = None,
              channels_per_pixel: int | None = None) -> Self:
        """A descriptor of a tensor of ``shape`` at ``address``.

        Parameters
        ----------
        shape : tuple of int
            Elements of each axis, outermost first; in im2col mode (N, [D, [H,]] W, C). With interleave the last axis counts
            slices of channels.
        dtype : numpy type or TensorFormat
        box : tuple of int
            Elements of the box along each axis, before traversal strides leave some out. Not in im2col mode.
        strides : tuple of int, optional
            Bytes from one to the next of all axes but the last (with interleave: all but the last but one, W), outermost first;
            dense with rows at multiples of 16 bytes when absent.
        element_strides : tuple of int, optional
            Traversal strides of each axis.
        swizzle : "none", "32B", "64B" or "128B"
        interleave : "none", "16B" or "32B"
        fill : "zero" or "nan"
        mode : "tile" or "im2col"
        lower_corner, upper_corner : tuple of int
            Of the pixel box, spatial axes outermost first; im2col only.
        pixels_per_column, channels_per_pixel : int
            im2col only.

        Raises ``TypeError`` or ``ValueError`` for arguments that are no integers, names or tuples of the right length, and
        ``TensorMapError`` for rules that they break: all at once.
        """
        arguments = Arguments()
        fields = cls.fields_of(
            arguments, shape, dtype, box=box, address=address, strides=strides, element_strides=element_strides, swizzle=swizzle,
            interleave=interleave, fill=fill, mode=mode, lower_corner=lower_corner, upper_corner=upper_corner,
            pixels_per_column=pixels_per_column, channels_per_pixel=channels_per_pixel)
        arguments.done()
        return cls(fields)

    @staticmethod
    def fields_of(arguments: Arguments, shape: Sequence[int], dtype: DTypeLike | TensorFormat, *, box: Sequence[int] | None,
                  address: int = 0, strides: Sequence[int] | None = None, element_strides: Sequence[int] | None, swizzle: str,
                  interleave: str, fill: str, mode: str, lower_corner: Sequence[int] | None, upper_corner: Sequence[int] | None,
                  pixels_per_column: int | None, channels_per_pixel: int | None) -> TensorFields:
        """The fields of a descriptor with the parameters of ``build``, of which no rule is checked; ``None`` when ``arguments``, which
        keeps what is wrong, has something."""
        format = dtype if isinstance(dtype, TensorFormat) else format_of(dtype)
        named: dict[str, Any] = {name: arguments.one_of(name, value, table) for name, value, table in (
            ("mode", mode, _MODES), ("interleave", interleave, _INTERLEAVES), ("swizzle", swizzle, _SWIZZLES), ("fill", fill, _FILLS))}
        sizes = arguments.integers("shape", shape)
        given: dict[str, Any] = {"box": box, "strides": strides, "element_strides": element_strides, "lower_corner": lower_corner,
                 "upper_corner": upper_corner, "pixels_per_column": pixels_per_column, "channels_per_pixel": channels_per_pixel}
        if named["mode"] is not None:
            needed, foreign = (_OF_TILES, _OF_COLUMNS) if named["mode"] == TensorMode.TILE else (_OF_COLUMNS, _OF_TILES)
            for name in needed:
                if given[name] is None:
                    arguments.wrong(f"{name} must be given in mode {mode}", UsageTypeError)
            for name in foreign:
                if given[name] is not None:
                    arguments.wrong(f"{name} must not be given in mode {mode}", UsageTypeError)
                given[name] = None
        rank, spatial = len(sizes or ()), max(0, len(sizes or ()) - 2)
        counts = {"box": rank, "strides": rank - 1, "element_strides": rank, "lower_corner": spatial, "upper_corner": spatial}
        values: dict[str, Any] = {"address": arguments.integer("address", address)}
        for name, value in given.items():
            if name not in counts:
                values[name] = 1 if value is None else arguments.integer(name, value)
            elif value is not None:
                value = arguments.integers(name, value, None if sizes is None else counts[name])
                values[name] = None if value is None else value[::-1]
        if arguments.any:
            return None     # type: ignore[return-value]    # not used: ``done`` raises
        values.setdefault("strides", _dense(sizes, format, named["interleave"])[::-1])
        values.setdefault("element_strides", (1,) * rank)
        return TensorFields(format=format, sizes=sizes[::-1], **named, **values)

    @property
    def bytes(self) -> int:
        """Bytes of the box: what a barrier has to expect."""
        return self.fields.bytes

    def at(self, address: int) -> "TensorMap":
        """The same map of a tensor at another address."""
        return TensorMap(replace(self.fields, address=address))

    def to_cutensormap(self) -> builtins.bytes:
        """The descriptor's 128 bytes; for tiled tensors in the layout that published tools use."""
        return self.fields.encode()

    @classmethod
    def from_cutensormap(cls, descriptor: builtins.bytes | bytearray | memoryview | np.ndarray) -> Self:
        """The map of 128 bytes in that layout. Raises ``TensorMapError`` for what breaks a rule."""
        if not isinstance(descriptor, (bytes, bytearray, memoryview, np.ndarray)):
            raise UsageTypeError(f"descriptor must be bytes, not {type(descriptor).__name__}")
        descriptor = bytes(descriptor)
        if len(descriptor) != DESCRIPTOR_BYTES:
            raise UsageError(f"descriptor must have {DESCRIPTOR_BYTES} bytes, not {len(descriptor)}")
        return cls(TensorFields.decode(descriptor))


def _dense(shape: tuple[int, ...], format: TensorFormat, interleave: Interleave) -> tuple[int, ...]:
    """Strides of a tensor without gaps but those that rows need to begin at a multiple of 16 (32) bytes."""
    if interleave == Interleave.NONE or len(shape) < 3:      # rank 2 and less have no slices: a broken rule
        strides = [-(-shape[-1] * FORMAT_BYTES[format] // 16) * 16] if len(shape) > 1 else []
        for size in shape[-2:0:-1]:
            strides.append(strides[-1] * size)
        return tuple(reversed(strides))
    # (N, [D,] [H,] W, slices) lies in memory as (N, slices, [D,] [H,] W).
    images, *spatial, slices = shape
    strides, pitch = [], {Interleave.B16: 16, Interleave.B32: 32}[interleave]
    for size in reversed(spatial):
        pitch *= size
        strides.append(pitch)       # of what lies outside that axis
    *inner, of_slices = strides
    return (of_slices * slices, *reversed(inner), of_slices)
