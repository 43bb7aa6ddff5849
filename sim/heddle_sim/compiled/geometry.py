"""Geometry of a convolution: sizes, strides, dilations, padding and groups, without a word about memory."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod
from typing import Self

import numpy as np
from heddle.errors import UsageError

from ..arguments import check_integer

__all__ = ["MOST_AXES", "Geometry"]

MOST_AXES = 3
_MOST = (1 << 31) - 1           # of every value


@dataclass(frozen=True)
class Geometry:
    """Sizes of x (images, size…, channels), w (outputs, filter…, channels / group) and y (images, result…, outputs).

    Tuples have one value for each of one to three spatial axes, outermost first; ``padding`` has pairs (begin, end). Output k sees the
    channels of group k div (outputs / group). Raises ``ValueError`` for sizes that are none, ``TypeError`` for what is no integer.
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
        for name in ("images", "channels", "outputs", "group"):
            check_integer(name, getattr(self, name), 1, _MOST)
        if not isinstance(self.size, tuple) or not 1 <= len(self.size) <= MOST_AXES:
            raise UsageError(f"size must be a tuple of one to three integers, not {self.size!r}")
        for name, called in (("size", "size"), ("filter", "filter"), ("stride", "strides"), ("dilation", "dilations")):
            _check_axes(called, getattr(self, name), self.spatial, 1)
        if not isinstance(self.padding, tuple) or len(self.padding) != self.spatial:
            raise UsageError(f"padding must be a tuple of {self.spatial} pairs (begin, end), one for each axis of size, "
                             f"not {self.padding!r}")
        for pair in self.padding:
            _check_axes("a pair of padding", pair, 2, 0)
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

    def padded(self, axes: Collection[int]) -> Self:
        """Of an image that has its padding along ``axes`` already; the result is the same."""
        size = tuple(count + sum(pair) if axis in axes else count for axis, (count, pair) in enumerate(zip(self.size, self.padding)))
        return replace(self, size=size, padding=tuple((0, 0) if axis in axes else pair for axis, pair in enumerate(self.padding)))

    def added_before(self, inner: Self) -> tuple[int, ...]:
        """Elements in front of an image along each axis that ``inner``, of ``padded``, has and this one has not."""
        return tuple(pair[0] - rest[0] for pair, rest in zip(self.padding, inner.padding))

    def axis_place(self, axis: int, position: int) -> np.ndarray:
        """Coordinates of x along an axis that the pixels of the result meet at a position of the filter; some lie in the padding."""
        return (np.arange(self.result[axis]) * self.stride[axis] + position * self.dilation[axis] - self.padding[axis][0])

    def axis_valid(self, axis: int, position: int) -> np.ndarray:
        """Which pixels of the result, along an axis, meet x and not the padding at a position of the filter."""
        places = self.axis_place(axis, position)
        return (places >= 0) & (places < self.size[axis])


def _check_axes(name: str, values: object, count: int, least: int) -> None:
    """Raises unless ``values`` is a tuple of ``count`` integers of at least ``least``."""
    if not isinstance(values, tuple) or len(values) != count:
        raise UsageError(f"{name} must be a tuple of {count} integers, not {values!r}")
    for value in values:
        check_integer(f"a value of {name}", value, -_MOST, _MOST)
    if min(values) < least:
        raise UsageError(f"{name} must be at least {least}, not {values}")
