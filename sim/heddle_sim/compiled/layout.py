"""Layouts of images in memory: order of images, channels and spatial axes, with or without vectors of channels."""

import re
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np
from heddle.errors import UsageError

from .geometry import Geometry

__all__ = ["LAYOUTS", "ImageLayout", "ImageStrides"]

AXES = {1: "W", 2: "HW", 3: "DHW"}
VECTORS = (4, 8, 16, 32)
LAYOUTS = tuple(name for axes in AXES.values() for name in (f"NC{axes}", f"CN{axes}", f"N{axes}C", *(f"NC{axes}c{v}" for v in VECTORS)))


@dataclass(frozen=True)
class ImageStrides:
    """Distances in memory, in elements: of images, of blocks of ``vector`` channels, of channels in a block, and of each spatial axis."""

    image: int
    block: int
    channel: int
    axes: tuple[int, ...]
    vector: int

    def channels(self, numbers: np.ndarray) -> np.ndarray:
        """Distance of channels from channel 0."""
        return numbers // self.vector * self.block + numbers % self.vector * self.channel


@dataclass(frozen=True)
class ImageLayout:
    """Layout of a tensor of images by its name: N images, C channels, spatial axes W, HW or DHW, outermost first.

    ``NCHWc8``: blocks of 8 channels, the channels of a block are the innermost axis; the last block is filled up.
    """

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in LAYOUTS:
            raise UsageError(f"layout must be one of {', '.join(LAYOUTS)}, not {self.name!r}")

    @classmethod
    def of(cls, name: "str | ImageLayout", spatial: int) -> Self:
        """The layout with this name, which must have ``spatial`` axes; a name with other axes, as ``NCHW``, stands for the form of the
        same order: ``NCW`` or ``NCDHW``."""
        layout = cls(name) if isinstance(name, str) else name
        if not isinstance(layout, cls):
            raise UsageError(f"layout must be one of {', '.join(LAYOUTS)}, not {name!r}")
        return cls(layout.name.replace(AXES[layout.spatial], AXES[spatial]))

    @property
    def spatial(self) -> int:
        return sum(letter in "DHW" for letter in self.name)

    @property
    def vector(self) -> int:
        """Channels of a block; 1 without blocks."""
        match = re.search(r"c(\d+)$", self.name)
        return int(match[1]) if match else 1

    @property
    def channels_last(self) -> bool:
        return self.name.endswith("C")

    def shape(self, images: int, channels: int, size: tuple[int, ...]) -> tuple[int, ...]:
        """Of the array."""
        if self.channels_last:
            return (images, *size, channels)
        if self.name.startswith("C"):
            return (channels, images, *size)
        if self.vector > 1:
            return (images, -(-channels // self.vector), *size, self.vector)
        return (images, channels, *size)

    def sizes(self, shape: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        """Images, channels (with those that fill up the last block) and spatial sizes of an array of this layout."""
        if len(shape) != self.spatial + 2 + (self.vector > 1) or (self.vector > 1 and shape[-1] != self.vector):
            form = ", ".join(self.name[:2 + self.spatial]) + (f", {self.vector}" if self.vector > 1 else "")
            raise UsageError(f"an array of layout {self.name} must have shape ({form}), not {shape}")
        if self.channels_last:
            return shape[0], shape[-1], tuple(shape[1:-1])
        if self.name.startswith("C"):
            return shape[1], shape[0], tuple(shape[2:])
        return shape[0], shape[1] * self.vector, tuple(shape[2:2 + self.spatial])

    def to_channels_last(self, array: np.ndarray, channels: int | None = None) -> np.ndarray:
        """An array of this layout as (images, spatial…, channels); of blocks the first ``channels`` ones."""
        if self.channels_last:
            return array
        if self.name.startswith("C"):
            return np.ascontiguousarray(np.moveaxis(array, 0, -1))
        if self.vector > 1:
            merged = np.moveaxis(array, 1, -2)
            return np.ascontiguousarray(merged.reshape(*merged.shape[:-2], -1)[..., :channels])
        return np.ascontiguousarray(np.moveaxis(array, 1, -1))

    def from_channels_last(self, array: np.ndarray, fill: int = 0) -> np.ndarray:
        """The inverse; ``fill`` fills up the last block."""
        if self.channels_last:
            return array
        if self.name.startswith("C"):
            return np.ascontiguousarray(np.moveaxis(array, -1, 0))
        if self.vector > 1:
            missing = -array.shape[-1] % self.vector
            padded = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)], constant_values=fill)
            return np.ascontiguousarray(np.moveaxis(padded.reshape(*padded.shape[:-1], -1, self.vector), -2, 1))
        return np.ascontiguousarray(np.moveaxis(array, -1, 1))

    def padded(self, array: Any, geometry: Geometry, inner: Geometry, fill: int) -> Any:
        """Images of ``geometry`` as those of ``inner`` (``Geometry.padded``), with ``fill`` where only this one has elements; the array
        itself where they are the same."""
        if inner.size == geometry.size:
            return array
        array, before, size = np.asarray(array), geometry.added_before(inner), inner.size
        first = 1 if self.channels_last else 2
        around = [(0, 0)] * array.ndim
        for axis, (begin, count) in enumerate(zip(before, size), first):
            around[axis] = (begin, count - begin - array.shape[axis])
        return np.pad(array, around, constant_values=fill)

    def strides(self, images: int, channels: int, size: tuple[int, ...]) -> ImageStrides:
        """Of the array without gaps."""
        inner = channels if self.channels_last else self.vector
        axes = tuple(inner * prod(size[axis + 1:]) for axis in range(len(size)))
        plane = inner * prod(size)
        if self.channels_last:
            return ImageStrides(plane, 0, 1, axes, channels)
        if self.name.startswith("C"):
            return ImageStrides(plane, images * plane, 0, axes, 1)
        return ImageStrides(-(-channels // self.vector) * plane, plane, 1, axes, self.vector)
