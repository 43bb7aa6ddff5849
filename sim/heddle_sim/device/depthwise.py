"""Depthwise convolutions on the sparse engine of a device: tables and images to global memory, runs for each image, the result back."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from heddle.config import Config

from ..golden.requantise import Requantise
from ..kernels.depthwise import DepthwiseKernel, DepthwiseProblem
from ..kernels.depthwise_plan import filled_channels
from ..kernels.parts.planes import Planes
from ..kernels.planner import plan
from ..kernels.problem import Problem
from ..kernels.sparse_product import SparseOperands
from .convolution_method import Convolution, ConvolutionLayer, ConvolutionMethod, Expectation
from .device_array import DeviceArray, place_constant
from .execution import execute
from .host import Host
from .memory import UNWRITTEN, Placement

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["DepthwiseMethod"]


class DepthwiseMethod(ConvolutionMethod):
    """On the sparse engine, for channels last, which are filled up to a multiple of 16, with a filter each."""

    name, kernel = "depthwise", DepthwiseKernel

    def why_not(self, layer: ConvolutionLayer) -> str:
        """See ``ConvolutionMethod``."""
        return "w minus w_zero_point must fit int8 or uint8 for method \"depthwise\"" if layer.addends > 1 else ""

    def suggests(self, layer: ConvolutionLayer) -> bool:
        """See ``ConvolutionMethod``."""
        return layer.geometry.depthwise

    def expected(self, cfg: Config, layer: ConvolutionLayer) -> Expectation:
        """See ``ConvolutionMethod``."""
        images, problem = layer.geometry.images, _problem(layer)
        kernel = DepthwiseKernel.fitting(cfg, problem)
        return Expectation(images * kernel.expected_cycles, images * len(kernel.turns), problem)

    def run(self, device: Host, convolution: Convolution) -> tuple[np.ndarray | DeviceArray, Stats]:
        """See ``ConvolutionMethod``."""
        return _depthwise(device, convolution)

    def cuts(self, cfg: Config, problem: Problem) -> dict[str, Any]:
        """See ``ConvolutionMethod``."""
        kernel = DepthwiseKernel(cfg, cast(DepthwiseProblem, problem))
        steps, drain = kernel.row_cycles
        decides = "the sums that leave" if drain > steps else "products"
        part = kernel.rounds[0]
        return {
            "strips": f"{kernel.strips} of {kernel.band} rows of the result, {part.channels} channels each",
            "rounds": len(kernel.rounds),
            "panel": f"{kernel.panel_rows(part.rows):,} of {cfg.sparse_rows:,} rows",
            "cycles_of_a_row": f"{steps} of products, {drain} of sums that leave: {decides} decide",
            "blocks": f"{len(kernel.blocks(part))} of {kernel.block_rows} rows, {len(kernel.chunks(part))} chunks of the image",
            "shared_memory": f"{kernel.shared_end:,} of {cfg.shared_bytes:,} bytes",
        }


def _problem(layer: ConvolutionLayer) -> DepthwiseProblem:
    """With channels filled up."""
    shape = filled_channels(layer.geometry)
    return DepthwiseProblem(shape, layer.layout, layer.elements, layer.zero_point, layer.bias, layer.alike, layer.requantise,
                            shape.channels - layer.geometry.channels)


def _depthwise(device: Host, convolution: Convolution) -> tuple[np.ndarray | DeviceArray, Stats]:
    """``(y, stats)``; y stays in global memory where channels are a multiple of 16; others are filled up to one before."""
    layer, x, w, bias, keep = convolution.layer, convolution.x, convolution.w, convolution.bias, convolution.keep
    problem, channels, layout = _problem(layer), layer.geometry.channels, layer.layout
    geometry, more = problem.geometry, problem.filled
    if more:
        problem = replace(problem, requantise=_of_all(layer.requantise, more))
        x, w, bias, keep = np.asarray(x), _grown(w, more), None if bias is None else _grown(bias, more), False
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, more)])
    kernel = cast(DepthwiseKernel, plan(device.cfg, problem))
    memory, dtype = device.memory, np.dtype(np.int32 if layer.requantise is None else layer.requantise.dtype)
    planes = Planes.of(layout, geometry.images, geometry.channels, geometry.size, 1)
    result = Planes.of(layout, geometry.images, geometry.outputs, geometry.result, dtype.itemsize)
    nbytes, shape = result.image * geometry.images, layout.shape(geometry.images, geometry.outputs, geometry.result)
    with Placement(memory) as places:
        if isinstance(x, DeviceArray) and x.in_place(memory, planes, geometry.images, 0, 0):
            image = x.address
        else:
            image = places.place_bytes(np.asarray(x).tobytes())
        tables = place_constant(places, memory, kernel.tables(w, bias).tobytes())
        y = memory.reserve((1, nbytes), np.uint8, UNWRITTEN)
        array = DeviceArray.owning(memory, y, result, geometry.images, shape, dtype,
                                   lambda: memory.bytes[y:y + nbytes].view(dtype).reshape(shape).copy())
        runs = [execute(device, kernel, SparseOperands(tables, image + number * planes.image, y + number * result.image))
                for number in range(geometry.images)]
        return (array if keep else np.ascontiguousarray(np.asarray(array)[..., :channels])), reduce(add, runs)


def _grown(values: np.ndarray, more: int) -> np.ndarray:
    """Weights or biases with those of further channels, which are zero."""
    return np.pad(values, [(0, more)] + [(0, 0)] * (values.ndim - 1))


def _of_all(requantise: Requantise | None, more: int) -> Requantise | None:
    """With factors of further channels, whose results are left out."""
    def grown(factors: int | np.ndarray) -> int | np.ndarray:
        return np.pad(factors, (0, more), mode="edge") if np.ndim(factors) else factors

    return requantise and replace(requantise, multiplier=grown(requantise.multiplier), shift=grown(requantise.shift))
