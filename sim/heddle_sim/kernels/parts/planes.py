"""Planes of images in memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from heddle.constants import BANK_BYTES

from ...compiled.layout import ImageLayout
from .tiling import round_up

__all__ = ["Planes"]


@dataclass(frozen=True)
class Planes:
    """How images lie in memory: ``count`` planes each, without gaps within, ``pitch`` bytes apart; images are ``image`` bytes apart. Both
    are multiples of 16.

    A plane has all channels (channels last), or a block of ``vector`` channels. ``row_bytes``: of its outermost spatial axis.
    """

    count: int
    pitch: int
    image: int
    row_bytes: int
    vector: int

    @classmethod
    def of(cls, layout: ImageLayout, images: int, channels: int, size: tuple[int, ...], itemsize: int) -> Planes:
        """Of the images of a layout."""
        vector = channels if layout.channels_last else layout.vector
        count, nbytes = -(-channels // vector), vector * prod(size) * itemsize
        plane = round_up(nbytes, BANK_BYTES)
        if layout.name.startswith("C"):         # planes of all images lie between those of two channels
            return cls(count, images * plane, plane, nbytes // size[0], vector)
        return cls(count, plane, count * plane, nbytes // size[0], vector)

    @property
    def plane(self) -> int:
        """Bytes of a plane, filled up to a multiple of 16."""
        return min(self.pitch, self.image)
