"""Interface of the methods of a convolution: which layers one takes, in how many cycles, how it cuts them, and how it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from heddle.config import Config

from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout
from ..golden.requantise import Requantise
from ..kernels.kernel import Kernel
from ..kernels.problem import Elements, Problem
from .device_array import DeviceArray
from .host import Host

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["Convolution", "ConvolutionLayer", "ConvolutionMethod", "Expectation", "HostCorrectedMethod"]


@dataclass(frozen=True, eq=False)
class ConvolutionLayer:
    """A whole convolution without its operands: all images and groups of ``geometry``; x and y of ``layout``.

    ``zero_point``: of x, which its padding reads as. ``bias``: each filter has one. Without ``requantise`` y is int32. ``addends``: filters
    are the sum of one or two of 8 bits. ``alike``: all weights of a filter are equal.
    """

    geometry: Geometry
    layout: ImageLayout
    elements: Elements = Elements()
    zero_point: int = 0
    bias: bool = False
    requantise: Requantise | None = None
    addends: int = 1
    alike: bool = False

    @property
    def corrected(self) -> bool:
        """Whether y is more than the sums of products of x and w: what the host can add to the sums, or an output stage."""
        return self.bias or self.zero_point != 0 or self.staged

    @property
    def staged(self) -> bool:
        """Whether y cannot be had from sums of products of 8 bits by additions."""
        return self.requantise is not None or self.addends > 1


@dataclass(frozen=True, eq=False)
class Convolution:
    """Operands of a ``layer``: ``x`` of its layout; ``w`` (outputs, channels / group, positions…) without its zero point, of 8 or 16 bits,
    or int16 from -255 to 254; ``bias`` int32 (outputs,). ``keep``: y may stay on the device."""

    layer: ConvolutionLayer
    x: np.ndarray | DeviceArray
    w: np.ndarray
    bias: np.ndarray | None = None
    keep: bool = False

    @property
    def correction(self) -> np.ndarray:
        """What sums of x minus its zero point with the bias have beside those of x, int64 (outputs,)."""
        excess = self.layer.zero_point * self.w.astype(np.int64).reshape(len(self.w), -1).sum(axis=1)
        return (0 if self.bias is None else self.bias.astype(np.int64)) - excess


class Expectation(NamedTuple):
    """What a method is expected to take of a convolution: ``cycles`` over all ``runs``, by its cycle model, and the problem of its first
    run. ``why_not``: why it cannot do it; then there are no cycles and no problem. ``last_resort``: another method is better where one can
    do it, as y then stays on the device."""

    cycles: int = 0
    runs: int = 0
    problem: Problem | None = None
    why_not: str = ""
    last_resort: bool = False


class ConvolutionMethod(ABC):
    """A method of ``Device.conv``; it stands in ``METHODS``.

    ``name``: what ``method`` calls it. ``kernel``: family of the kernels that it executes. ``output_stage``: takes layers that are
    ``corrected``. ``requantises``: takes those with ``requantise`` and weights of 8 bits. ``wide``: takes elements of 16 bits. ``tabled``:
    computes by a ``Representation``. ``general``: takes layers of all shapes and layouts; where no method can do a layer, one of these
    says why.
    """

    name: ClassVar[str]
    kernel: ClassVar[type[Kernel]]
    output_stage: ClassVar[bool] = True
    requantises: ClassVar[bool] = False
    wide: ClassVar[bool] = False
    tabled: ClassVar[bool] = False
    general: ClassVar[bool] = False

    def why_not(self, layer: ConvolutionLayer) -> str:
        """Why no configuration does the layer by this method; "" where one may. Rules that need a configuration are the kernel's."""
        return ""

    def takes(self, layer: ConvolutionLayer) -> bool:
        """Whether the device itself makes of sums what ``layer`` asks for, without additions by the host."""
        return self.output_stage or not layer.corrected or (self.requantises and layer.requantise is not None and layer.addends == 1)

    def suggests(self, layer: ConvolutionLayer) -> bool:
        """Whether "auto" plans the layer by this method, to compare it with others."""
        return self.takes(layer)

    @abstractmethod
    def expected(self, cfg: Config, layer: ConvolutionLayer) -> Expectation:
        """By the cycle model. Raises ``UsageError`` for what the method cannot do, ``Unfit`` where memories have no room."""

    @abstractmethod
    def run(self, device: Host, convolution: Convolution) -> tuple[np.ndarray | DeviceArray, Stats]:
        """``(y, stats)``; y of the layout of the layer, int32 or of the type of ``requantise``."""

    def cuts(self, cfg: Config, problem: Problem) -> dict[str, Any]:
        """How the problem of an ``Expectation`` is cut: names and values to print."""
        return {}


class HostCorrectedMethod(ConvolutionMethod):
    """Method whose kernels give sums only: the host pads with the zero point of x, adds the bias, and takes off the zero point's share."""

    output_stage = False

    def padded(self, geometry: Geometry) -> Geometry:
        """Of an image that the host pads beforehand where the kernel cannot."""
        return geometry

    @abstractmethod
    def sums(self, device: Host, x: np.ndarray, w: np.ndarray, geometry: Geometry, layout: ImageLayout) -> tuple[np.ndarray, Stats]:
        """``(y, stats)``; x of ``layout``, y int32 of the same."""

    def image(self, convolution: Convolution) -> tuple[np.ndarray, Geometry]:
        """x as the kernel takes it, padded by the host where padding reads as a zero point, and its geometry."""
        layer = convolution.layer
        geometry, zero_point = layer.geometry, layer.zero_point
        inner = geometry.padded(range(geometry.spatial)) if zero_point else self.padded(geometry)
        return layer.layout.padded(np.asarray(convolution.x), geometry, inner, zero_point), inner

    def run(self, device: Host, convolution: Convolution) -> tuple[np.ndarray | DeviceArray, Stats]:
        """See ``ConvolutionMethod``."""
        layout = convolution.layer.layout
        x, geometry = self.image(convolution)
        y, stats = self.sums(device, x, convolution.w, geometry, layout)
        if convolution.layer.corrected:
            y = layout.from_channels_last((layout.to_channels_last(y, geometry.outputs) + convolution.correction).astype(np.int32))
        return y, stats
