"""Fields of a tensor descriptor as plain Python, in the order of the descriptor: dimension 0 is the innermost."""

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any, Self

from heddle.isa.encoding import Swizzle
from heddle.isa.tensor_descriptor import (
    DESCRIPTOR_BYTES,
    FORMAT_BYTES,
    INTERLEAVE_BYTES,
    MAX_RANK,
    MAX_SPATIAL,
    SWIZZLE_BYTES,
    Fill,
    Interleave,
    TensorFormat,
    TensorMode,
    descriptor_layout,
)

__all__ = ["TensorFields"]

LARGE_TENSOR = 128 << 10


@dataclass(frozen=True, kw_only=True)
class TensorFields:
    """Fields of a tensor descriptor, unchecked; fields that a mode does not use have their defaults.

    Dimension 0 is the channels (with interleave: slices of channels). In im2col mode the spatial dimensions W, H, D follow, then the
    images. ``strides`` are in bytes, of all dimensions but one. The excluded one is 0 without interleave, whose elements are neighbours,
    and 1 with interleave, whose slices are neighbours [S1.2, S1.7].
    """

    mode: TensorMode = TensorMode.TILE
    format: TensorFormat = TensorFormat.U8
    address: int = 0
    sizes: tuple[int, ...]
    strides: tuple[int, ...] = ()
    box: tuple[int, ...] = ()
    element_strides: tuple[int, ...] = ()
    interleave: Interleave = Interleave.NONE
    swizzle: Swizzle = Swizzle.NONE
    fill: Fill = Fill.ZERO
    lower_corner: tuple[int, ...] = ()
    upper_corner: tuple[int, ...] = ()
    pixels_per_column: int = 1
    channels_per_pixel: int = 1
    promotion: int = 0

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit of dimension 0: an element or a slice."""
        return INTERLEAVE_BYTES.get(self.interleave) or FORMAT_BYTES[self.format]

    @property
    def byte_strides(self) -> tuple[int, ...]:
        """Strides of all dimensions in bytes."""
        if self.interleave == Interleave.NONE:
            return (self.unit_bytes, *self.strides)
        return (*(self.strides[:1] or (0,)), self.unit_bytes, *self.strides[1:])[:self.rank]

    @property
    def steps(self) -> tuple[int, ...]:
        """Traversal stride in elements of every dimension; without interleave 1 in dimension 0."""
        return self.element_strides if self.interleave != Interleave.NONE else (1, *self.element_strides[1:])

    @property
    def counts(self) -> tuple[int, ...]:
        """Copied elements of each dimension of a tiled box."""
        return tuple(-(-box // max(step, 1)) for box, step in zip(self.box, self.steps))     # less than 1 breaks a rule

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the box in shared memory: dimension 0, or the channels of a pixel."""
        return self.unit_bytes * (self.counts[0] if self.mode == TensorMode.TILE else self.channels_per_pixel)

    @property
    def row_pitch(self) -> int:
        """Bytes from row to row of the box in shared memory: with a swizzle its whole span, also for narrower rows."""
        if self.swizzle == Swizzle.NONE or self.interleave != Interleave.NONE:
            return self.row_bytes
        return max(self.row_bytes, SWIZZLE_BYTES[self.swizzle.value])       # a longer row breaks a rule

    @property
    def room(self) -> int:
        """Bytes that the box takes in shared memory, with what lies between its rows and behind the last one."""
        return self.rows * self.row_pitch

    @property
    def rows(self) -> int:
        return prod(self.counts[1:]) if self.mode == TensorMode.TILE else self.pixels_per_column

    @property
    def bytes(self) -> int:
        """Bytes that a request moves, which arrive at the barrier; elements outside the tensor are included."""
        return self.rows * self.row_bytes

    @property
    def tensor_bytes(self) -> int:
        """Bytes from the first element of the tensor to its last, inclusive."""
        return self.unit_bytes + sum((size - 1) * stride for size, stride in zip(self.sizes, self.byte_strides))

    def encode(self) -> builtins.bytes:
        """The 128 bytes of the descriptor. Values are truncated to the bits of their field."""
        def padded(values: Sequence[int], count: int) -> list[int]:
            return [*values, *[0] * (count - len(values))]

        tile = self.mode == TensorMode.TILE
        values = {
            "address": self.address,
            "mode": self.mode,
            "rank_minus_one": self.rank - 1,
            "format": self.format,
            "interleave": self.interleave,
            "swizzle": self.swizzle.value,
            "fill": self.fill,
            "promotion": self.promotion,
            "large": self.tensor_bytes >= LARGE_TENSOR,
            "stride_low": padded([stride >> 4 for stride in self.strides], MAX_RANK - 1),
            "stride_high": padded([stride >> 36 for stride in self.strides], MAX_RANK - 1),
            "size_minus_one": padded([size - 1 for size in self.sizes], MAX_RANK),
            "element_stride_minus_one": padded([step - 1 for step in self.element_strides], MAX_RANK),
            "box_minus_one": padded([size - 1 for size in self.box], MAX_RANK),
            "box_bytes": self.bytes if tile else 0,
            "swizzle_period": 16 if self.swizzle == Swizzle.NONE else 8 * SWIZZLE_BYTES[self.swizzle.value],
            "lower_corner": padded(self.lower_corner, MAX_SPATIAL),
            "upper_corner": padded(self.upper_corner, MAX_SPATIAL),
            "pixels_per_column_minus_one": 0 if tile else self.pixels_per_column - 1,
            "channels_per_pixel_minus_one": 0 if tile else self.channels_per_pixel - 1,
        }
        word = 0
        for name, field in descriptor_layout:
            value = values[name]
            items = value if isinstance(value, list) else [value]
            width = field.width // len(items)
            for index, item in enumerate(items):
                word |= (int(getattr(item, "value", item)) & ((1 << width) - 1)) << (field.offset + index * width)
        return word.to_bytes(DESCRIPTOR_BYTES, "little")

    @classmethod
    def decode(cls, descriptor: builtins.bytes) -> Self:
        """The fields of 128 bytes. Undefined codes remain numbers; dimensions above the fifth have one element."""
        def bits(name: str, index: int = 0, count: int = 1, signed: bool = False) -> int:
            field = descriptor_layout[name]
            width = field.width // count
            value = word >> (field.offset + index * width) & ((1 << width) - 1)
            return value - (1 << width) if signed and value >> (width - 1) else value

        def member(kind: type[Enum], name: str) -> Any:     # a number where there is none
            value = bits(name)
            return next((item for item in kind if item.value == value), value)

        word = int.from_bytes(descriptor, "little")
        mode, all_dimensions = member(TensorMode, "mode"), bits("rank_minus_one") + 1
        rank = min(all_dimensions, MAX_RANK)
        tile, spatial = mode == TensorMode.TILE, range(max(0, rank - 2))
        return cls(
            mode=mode,
            format=member(TensorFormat, "format"),
            address=bits("address"),
            sizes=(*(bits("size_minus_one", d, MAX_RANK) + 1 for d in range(rank)), *[1] * (all_dimensions - rank)),
            strides=tuple((bits("stride_low", d, MAX_RANK - 1) << 4) + (bits("stride_high", d, MAX_RANK - 1) << 36)
                          for d in range(rank - 1)),
            box=tuple(bits("box_minus_one", d, MAX_RANK) + 1 for d in range(rank)) if tile else (),
            element_strides=tuple(bits("element_stride_minus_one", d, MAX_RANK) + 1 for d in range(rank)),
            interleave=member(Interleave, "interleave"),
            swizzle=Swizzle(bits("swizzle")),
            fill=Fill(bits("fill")),
            promotion=bits("promotion"),
            lower_corner=() if tile else tuple(bits("lower_corner", d, MAX_SPATIAL, True) for d in spatial),
            upper_corner=() if tile else tuple(bits("upper_corner", d, MAX_SPATIAL, True) for d in spatial),
            pixels_per_column=1 if tile else bits("pixels_per_column_minus_one") + 1,
            channels_per_pixel=1 if tile else bits("channels_per_pixel_minus_one") + 1,
        )
