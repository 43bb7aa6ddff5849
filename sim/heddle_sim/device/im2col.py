"""Convolutions by im2col on a device: operands and descriptors to global memory, a run for each group, the result back."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, cast

import numpy as np
from heddle.config import Config

from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout
from ..golden.requantise import Requantise
from ..kernels.convolution import ConvolutionKernel
from ..kernels.parts.convolution_shape import ConvolutionShape
from ..kernels.planner import plan
from ..kernels.problem import ConvolutionProblem, Elements, Operands
from .convolution_method import Convolution, ConvolutionLayer, Expectation, HostCorrectedMethod
from .device_array import DeviceArray, place_constant
from .execution import execute
from .host import Host
from .memory import Placement

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["Im2colMethod"]


class Im2colMethod(HostCorrectedMethod):
    """The TMAU makes the rows of the matrix product while it loads, from channels last, into which the host rearranges other layouts."""

    name, kernel, wide, general, requantises = "im2col", ConvolutionKernel, True, True, True

    def expected(self, cfg: Config, layer: ConvolutionLayer) -> Expectation:
        """See ``ConvolutionMethod``."""
        groups, spec = layer.geometry.group, layer.requantise
        problem = ConvolutionProblem(ConvolutionShape.of_group(layer.geometry), layer.elements, spec and spec.of_group(0, groups))
        return Expectation(ConvolutionKernel.estimate(cfg, problem) * groups, groups, problem, last_resort=spec is not None)

    def run(self, device: Host, convolution: Convolution) -> tuple[np.ndarray | DeviceArray, Stats]:
        """See ``ConvolutionMethod``."""
        layer = convolution.layer
        if layer.requantise is None:
            return super().run(device, convolution)
        x, geometry = self.image(convolution)
        return _groups(device, x, convolution.w, geometry, layer.layout, convolution.correction, layer.requantise)

    def sums(self, device: Host, x: np.ndarray, w: np.ndarray, geometry: Geometry, layout: ImageLayout) -> tuple[np.ndarray, Stats]:
        """See ``HostCorrectedMethod``."""
        return _groups(device, x, w, geometry, layout, np.zeros(len(w), np.int64), None)


def _groups(device: Host, x: np.ndarray, w: np.ndarray, geometry: Geometry, layout: ImageLayout, bias: np.ndarray,
            requantise: Requantise | None) -> tuple[np.ndarray, Stats]:
    """``(y, stats)``, a run for each group."""
    last, groups = layout.to_channels_last(x, geometry.channels), geometry.group
    shape = ConvolutionShape.of_group(geometry, x.dtype.itemsize)
    filters = np.ascontiguousarray(np.moveaxis(w, 1, -1))
    parts = zip(np.split(last, groups, axis=-1), np.split(filters, groups), np.split(bias, groups))
    runs = [_run(device, shape, *operands, requantise and requantise.of_group(group, groups)) for group, operands in enumerate(parts)]
    return layout.from_channels_last(np.concatenate([y for y, _ in runs], axis=-1)), reduce(add, (stats for _, stats in runs))


def _run(device: Host, shape: ConvolutionShape, x: np.ndarray, w: np.ndarray, bias: np.ndarray,
         requantise: Requantise | None) -> tuple[np.ndarray, Stats]:
    """The convolution of one group; ``bias`` of results that are requantised."""
    def bytes_of(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array).view(np.uint8)

    kernel, memory = cast(ConvolutionKernel, plan(device.cfg, ConvolutionProblem(shape, Elements.of(x, w), requantise))), device.memory
    x_rows, w_rows = shape.operand_shapes()
    with Placement(memory) as places:
        addresses = [places.place(bytes_of(x).reshape(x_rows)), places.place(bytes_of(w).reshape(w_rows)),
                     places.reserve(kernel.result, kernel.dtype)]
        table = 0 if requantise is None else place_constant(places, memory, kernel.parameters(bias))
        a, b, c = [places.place_bytes(tensor.at(address).to_cutensormap()) for tensor, address in zip(kernel.maps, addresses)]
        stats = execute(device, kernel, Operands(a, b, c, table))
        y = memory.matrix(addresses[2], kernel.result, kernel.dtype)
        pixels = (y.T if kernel.transposed else y).copy()
        return pixels.reshape(shape.images, *shape.result, shape.outputs), stats
