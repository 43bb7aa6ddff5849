"""Geometry of a convolution: sizes, strides, dilations, padding and groups, without a word about memory."""

from dataclasses import dataclass
from math import prod

import numpy as np
from heddle.errors import UsageError

__all__ = ["Geometry"]


@dataclass(frozen=True)
class Geometry:
    """Sizes of x (images, size…, channels), w (outputs, filter…, channels / group) and y (images, result…, outputs).

    Tuples have one value for each of one to three spatial axes, outermost first; ``padding`` has pairs (begin, end). Output k sees the
    channels of group k div (outputs / group). Raises ``ValueError``.
    """

    images: int
    size: tuple[int, ...]
    channels: int
    outputs: int
    filter: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    group: int = 1

    def __post_init__(self) -> None:
        for name in ("stride", "dilation"):
            if min(getattr(self, name)) < 1:
                raise UsageError(f"{name}s must be at least 1, not {getattr(self, name)}")
        if self.channels % self.group or self.outputs % self.group:
            raise UsageError(f"group must divide the {self.channels} channels and {self.outputs} outputs, not be {self.group}")
        if min(self.result) < 1:
            padded = tuple(size + sum(padding) for size, padding in zip(self.size, self.padding))
            raise UsageError(f"filters of w must fit the padded size {padded} of x, not have {self.filter} (dilations {self.dilation})")

    @property
    def spatial(self) -> int:
        return len(self.size)

    @property
    def reach(self) -> tuple[int, ...]:
        """Pixels from the first to the last position of the filter."""
        return tuple((count - 1) * step for count, step in zip(self.filter, self.dilation))

    @property
    def result(self) -> tuple[int, ...]:
        return tuple((size + sum(padding) - reach - 1) // stride + 1
                     for size, padding, reach, stride in zip(self.size, self.padding, self.reach, self.stride))

    @property
    def pixels(self) -> int:
        """Of the result, over all images: rows of the matrix product."""
        return self.images * prod(self.result)

    @property
    def positions(self) -> int:
        """Of the filter."""
        return prod(self.filter)

    @property
    def group_channels(self) -> int:
        """Channels of x that an output sees."""
        return self.channels // self.group

    @property
    def depthwise(self) -> bool:
        """Each channel has one filter, and a group of its own."""
        return self.group == self.channels == self.outputs

    @property
    def macs(self) -> int:
        return self.pixels * self.outputs * self.positions * self.group_channels

    @property
    def masked_positions(self) -> int:
        """Filter positions, of all axes together, that lie in the padding for some pixel of the result."""
        return sum(not self.axis_valid(axis, position).all() for axis, count in enumerate(self.filter) for position in range(count))

    def axis_place(self, axis: int, position: int) -> np.ndarray:
        """Coordinates of x along an axis that the pixels of the result meet at a position of the filter; some lie in the padding."""
        return (np.arange(self.result[axis]) * self.stride[axis] + position * self.dilation[axis] - self.padding[axis][0])

    def axis_valid(self, axis: int, position: int) -> np.ndarray:
        """Which pixels of the result, along an axis, meet x and not the padding at a position of the filter."""
        places = self.axis_place(axis, position)
        return (places >= 0) & (places < self.size[axis])
