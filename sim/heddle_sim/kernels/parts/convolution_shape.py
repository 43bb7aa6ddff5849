"""The geometry of a convolution, and the tensor descriptors with which its operands are copied."""

from dataclasses import dataclass
from math import prod
from typing import Self

import numpy as np
from heddle.constants import BANK_BYTES
from heddle.errors import UsageError
from heddle.isa.tensor_rules import COORDINATE_OFFSET_BITS

from ...compiled.geometry import Geometry
from ...tensor.tensor_map import TensorMap
from .tiling import round_up

__all__ = ["ConvolutionShape"]


@dataclass(frozen=True)
class ConvolutionShape(Geometry):
    """``Geometry`` of one group of channels as the TMAU loads it (im2col mode): its channels are bytes. Raises ``ValueError``, also for
    filters that its offsets do not reach."""

    def __post_init__(self) -> None:
        super().__post_init__()
        most = (1 << COORDINATE_OFFSET_BITS[self.spatial]) - 1
        for reach in self.reach:
            if reach > most:
                raise UsageError(f"(filter - 1) * dilations must be at most {most} with {self.spatial} spatial axes, not {reach}")

    @classmethod
    def of_group(cls, geometry: Geometry, nbytes: int = 1) -> Self:
        """Of one group of channels with elements of ``nbytes`` bytes."""
        return cls(geometry.images, geometry.size, geometry.group_channels * nbytes, geometry.outputs // geometry.group, geometry.filter,
                   geometry.padding, geometry.stride, geometry.dilation)

    @property
    def lower_corner(self) -> tuple[int, ...]:
        return tuple(-begin for begin, _ in self.padding)

    def maps(self, pixels: int, row_bytes: int, columns: int, result: tuple[tuple[int, int], np.dtype], result_box: tuple[int, int],
             swizzles: tuple[str, str]) -> tuple[TensorMap, TensorMap, TensorMap]:
        """Descriptors of x, w and y, without addresses: columns of ``pixels`` pixels and boxes of ``columns`` filters with ``row_bytes``
        channels each, and boxes of the ``result``, a shape and a type; ``swizzles`` of operands and result. Rows in memory begin at
        multiples of 16 bytes."""
        upper = tuple(end - reach for (_, end), reach in zip(self.padding, self.reach))
        x = TensorMap.build((self.images, *self.size, self.channels), np.uint8, mode="im2col", element_strides=(1, *self.stride, 1),
                            lower_corner=self.lower_corner, upper_corner=upper, pixels_per_column=pixels, channels_per_pixel=row_bytes,
                            swizzle=swizzles[0])
        w = TensorMap.build((self.outputs, *self.filter, self.channels), np.uint8, box=(columns, *(1,) * self.spatial, row_bytes),
                            swizzle=swizzles[0])
        return x, w, TensorMap.build(*result, box=result_box, swizzle=swizzles[1])

    def operand_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """x and w as matrices whose rows begin at multiples of 16 bytes: pixels or filter positions by channels."""
        return (self.images * prod(self.size), self.channels), (self.outputs * self.positions, self.channels)

    def row_blocks(self, limit: int) -> tuple[int, int]:
        """How the channels are cut: blocks of 16 bytes of a row in shared memory up to ``limit``, and how many of them hold channels.

        Rows that lie one behind the other meet different banks: of an odd number of blocks, or of two, four or eight with a swizzle."""
        blocks = round_up(self.channels, BANK_BYTES) // BANK_BYTES
        limit -= 1 - limit % 2
        if blocks <= limit:
            return blocks if blocks in (2, 4, 8) else blocks | 1, blocks
        used = -(-blocks // -(-blocks // limit)) | 1
        return used, used
