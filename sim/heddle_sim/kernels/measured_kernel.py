"""Kernels of convolutions, which say how much on-chip memory they take, and what they can reach."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from .kernel import Kernel

__all__ = ["REGISTER_BYTES", "Footprint", "MeasuredKernel"]

REGISTER_BYTES = 4


class Footprint(NamedTuple):
    """Bytes: of ``shared`` memory up to the end of the last region; of the ``factors`` registers of all lanes; of the memory of compiled
    ``offsets``.

    Factor registers hold pixels or weights, and the places of the columns. They hold pixels or weights twice where one half is loaded while
    ``mm`` reads the other.
    """

    shared: int
    factors: int
    offsets: int


class MeasuredKernel(Kernel):
    """Kernel of a convolution."""

    @property
    @abstractmethod
    def footprint(self) -> Footprint:
        """On-chip memory that it takes."""

    @property
    @abstractmethod
    def lane_bound(self) -> float:
        """Useful part of what the lanes multiply, with its tiles and words, when they never wait."""
