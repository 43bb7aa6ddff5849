"""Convolutions by gathered windows on a device: operands to global memory, a run for each image, the result back."""

from __future__ import annotations

from functools import reduce
from math import prod
from operator import add
from typing import TYPE_CHECKING, cast

import numpy as np

from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout
from ..kernels.gathered_convolution import GatheredConvolutionKernel, GatheredConvolutionProblem
from ..kernels.planner import plan
from ..kernels.problem import Elements, Operands
from .execution import execute
from .host import Host
from .memory import Placement

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["gathered_convolution"]


def gathered_convolution(device: Host, x: np.ndarray, w: np.ndarray, geometry: Geometry, layout: ImageLayout) -> tuple[np.ndarray, Stats]:
    """``(y, stats)``; ``x`` (images, channels, size…) and ``w`` (outputs, channels, positions…) of 8 bits, y int32 of ``layout``."""
    kernel = cast(GatheredConvolutionKernel, plan(device.cfg, GatheredConvolutionProblem(geometry, layout, Elements.of(x, w))))
    memory, filters, parts, runs = device.memory, kernel.filter_tiles * device.cfg.threads, [], []
    with Placement(memory) as places:
        b = places.place_bytes(kernel.filter_data(w).tobytes())
        y = places.reserve((1, filters * kernel.plane_pitch), np.uint8)
        for image in x:
            with Placement(memory) as own:
                a = own.place_bytes(kernel.image_data(image).tobytes())
                runs.append(execute(device, kernel, Operands(a, b, y)))
            planes = memory.bytes[y:y + filters * kernel.plane_pitch].view(np.int32).reshape(filters, -1)
            parts.append(planes[:geometry.outputs, :prod(geometry.result)].reshape(geometry.outputs, *geometry.result).copy())
    return np.stack(parts), reduce(add, runs)
