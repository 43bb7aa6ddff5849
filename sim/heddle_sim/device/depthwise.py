"""Depthwise convolutions on the sparse engine of a device: tables and images to global memory, runs for each image, the result back."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, cast

import numpy as np

from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout
from ..golden.requantise import Requantise
from ..kernels.depthwise import DepthwiseKernel, DepthwiseProblem
from ..kernels.depthwise_plan import filled_channels
from ..kernels.parts.planes import Planes
from ..kernels.planner import plan
from ..kernels.problem import Elements
from ..kernels.sparse_product import SparseOperands
from .device_array import DeviceArray, place_constant
from .execution import execute
from .host import Host
from .memory import UNWRITTEN, Placement

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["depthwise_convolution"]


def depthwise_convolution(device: Host, x: np.ndarray | DeviceArray, w: np.ndarray, geometry: Geometry, layout: ImageLayout,
                          zero_point: int = 0, bias: np.ndarray | None = None, requantise: Requantise | None = None,
                          keep: bool = False) -> tuple[np.ndarray | DeviceArray, Stats]:
    """``(y, stats)``; ``x`` and ``y`` with channels last, ``w`` (channels, 1, positions…) of 8 bits, ``bias`` int32 (channels,).

    y is int32, or of the type of ``requantise``. ``keep``: y stays in global memory, where channels are a multiple of 16; others are
    filled up to one before.
    """
    if filled_channels(geometry) != geometry:
        return _filled(device, np.asarray(x), w, geometry, layout, zero_point, bias, requantise)
    elements = Elements(1, x.dtype.kind == "i", w.dtype.kind == "i")
    weights = w.reshape(len(w), -1)
    alike = bool((weights == weights[:, :1]).all())
    problem = DepthwiseProblem(geometry, layout, elements, zero_point, bias is not None, alike, requantise)
    kernel = cast(DepthwiseKernel, plan(device.cfg, problem))
    memory, dtype = device.memory, np.dtype(np.int32 if requantise is None else requantise.dtype)
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
        return (array if keep else np.asarray(array)), reduce(add, runs)


def _filled(device: Host, x: np.ndarray, w: np.ndarray, geometry: Geometry, layout: ImageLayout, zero_point: int,
            bias: np.ndarray | None, requantise: Requantise | None) -> tuple[np.ndarray, Stats]:
    """``depthwise_convolution`` with further channels, whose weights are zero and whose results are left out."""
    wide = filled_channels(geometry)
    more = (0, wide.channels - geometry.channels)

    def grown(array: np.ndarray) -> np.ndarray:
        return np.pad(array, [more] + [(0, 0)] * (array.ndim - 1))

    def of_all(factors: int | np.ndarray) -> int | np.ndarray:
        return np.pad(factors, more, mode="edge") if np.ndim(factors) else factors

    spec = requantise and replace(requantise, multiplier=of_all(requantise.multiplier), shift=of_all(requantise.shift))
    y, stats = depthwise_convolution(device, np.pad(x, [(0, 0)] * (x.ndim - 1) + [more]), grown(w), wide, layout, zero_point,
                                     None if bias is None else grown(bias), spec)
    return np.ascontiguousarray(np.asarray(y)[..., :geometry.channels]), stats
