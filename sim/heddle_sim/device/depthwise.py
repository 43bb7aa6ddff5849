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
from ..kernels.depthwise_plan import alike_weights, filled_channels
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
    channels, geometry = geometry.channels, filled_channels(geometry)
    more = geometry.channels - channels
    if more:
        x, w, bias, requantise = np.asarray(x), _grown(w, more), None if bias is None else _grown(bias, more), _of_all(requantise, more)
        x, keep = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, more)]), False
    elements = Elements(1, x.dtype.kind == "i", w.dtype.kind == "i")
    problem = DepthwiseProblem(geometry, layout, elements, zero_point, bias is not None, alike_weights(w), requantise, more)
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
        return (array if keep else np.ascontiguousarray(np.asarray(array)[..., :channels])), reduce(add, runs)


def _grown(values: np.ndarray, more: int) -> np.ndarray:
    """Weights or biases with those of further channels, which are zero."""
    return np.pad(values, [(0, more)] + [(0, 0)] * (values.ndim - 1))


def _of_all(requantise: Requantise | None, more: int) -> Requantise | None:
    """With factors of further channels, whose results are left out."""
    def grown(factors: int | np.ndarray) -> int | np.ndarray:
        return np.pad(factors, (0, more), mode="edge") if np.ndim(factors) else factors

    return requantise and replace(requantise, multiplier=grown(requantise.multiplier), shift=grown(requantise.shift))
