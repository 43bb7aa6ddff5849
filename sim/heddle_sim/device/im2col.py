"""Convolutions by im2col on a device: operands and descriptors to global memory, a run for each group, the result back."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, cast

import numpy as np
from heddle.config import Config

from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout
from ..kernels.convolution import ConvolutionKernel
from ..kernels.parts.convolution_shape import ConvolutionShape
from ..kernels.planner import plan
from ..kernels.problem import ConvolutionProblem, Elements, Operands
from .convolution_method import ConvolutionLayer, Expectation, HostCorrectedMethod
from .execution import execute
from .host import Host
from .memory import Placement

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["Im2colMethod"]


class Im2colMethod(HostCorrectedMethod):
    """The TMAU makes the rows of the matrix product while it loads, from channels last, into which the host rearranges other layouts."""

    name, kernel, wide, general = "im2col", ConvolutionKernel, True, True

    def expected(self, cfg: Config, layer: ConvolutionLayer) -> Expectation:
        """See ``ConvolutionMethod``."""
        groups = layer.geometry.group
        problem = ConvolutionProblem(ConvolutionShape.of_group(layer.geometry), layer.elements)
        return Expectation(ConvolutionKernel.estimate(cfg, problem) * groups, groups, problem)

    def sums(self, device: Host, x: np.ndarray, w: np.ndarray, geometry: Geometry, layout: ImageLayout) -> tuple[np.ndarray, Stats]:
        """See ``HostCorrectedMethod``."""
        last = layout.to_channels_last(x, geometry.channels)
        shape = ConvolutionShape.of_group(geometry, x.dtype.itemsize)
        filters = np.ascontiguousarray(np.moveaxis(w, 1, -1))
        runs = [_run(device, shape, *operands)
                for operands in zip(np.split(last, geometry.group, axis=-1), np.split(filters, geometry.group))]
        return layout.from_channels_last(np.concatenate([y for y, _ in runs], axis=-1)), reduce(add, (stats for _, stats in runs))


def _run(device: Host, shape: ConvolutionShape, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, Stats]:
    """The convolution of one group."""
    def bytes_of(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array).view(np.uint8)

    kernel, memory = cast(ConvolutionKernel, plan(device.cfg, ConvolutionProblem(shape, Elements.of(x, w)))), device.memory
    x_rows, w_rows = shape.operand_shapes()
    with Placement(memory) as places:
        addresses = [places.place(bytes_of(x).reshape(x_rows)), places.place(bytes_of(w).reshape(w_rows)),
                     places.reserve(kernel.result, np.int32)]
        descriptors = [places.place_bytes(tensor.at(address).to_cutensormap()) for tensor, address in zip(kernel.maps, addresses)]
        stats = execute(device, kernel, Operands(*descriptors))
        y = memory.matrix(addresses[2], kernel.result, np.int32)
        pixels = (y.T if kernel.lanes_are_filters else y).copy()
        return pixels.reshape(shape.images, *shape.result, shape.outputs), stats
