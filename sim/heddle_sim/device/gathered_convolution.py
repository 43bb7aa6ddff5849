"""Convolutions by gathered windows on a device: operands to global memory, a run for each image, the result back."""

from __future__ import annotations

from functools import reduce
from math import prod
from operator import add
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from heddle.config import Config

from ..compiled.geometry import Geometry
from ..compiled.hardware import within_masks
from ..compiled.layout import ImageLayout
from ..kernels.gathered_convolution import GatheredConvolutionKernel, GatheredConvolutionProblem
from ..kernels.planner import plan
from ..kernels.problem import Elements, Operands, Problem
from .convolution_method import ConvolutionLayer, Expectation, HostCorrectedMethod
from .execution import execute
from .host import Host
from .memory import Placement

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["GatheredMethod"]


class GatheredMethod(HostCorrectedMethod):
    """The threads gather their windows by a list of offsets, for planes and one group."""

    name, kernel = "gather", GatheredConvolutionKernel

    def expected(self, cfg: Config, layer: ConvolutionLayer) -> Expectation:
        """See ``ConvolutionMethod``."""
        problem, images = GatheredConvolutionProblem(self.padded(layer.geometry), layer.layout, layer.elements), layer.geometry.images
        return Expectation(images * GatheredConvolutionKernel.estimate(cfg, problem), images, problem)

    def padded(self, geometry: Geometry) -> Geometry:
        """See ``HostCorrectedMethod``."""
        return within_masks(geometry)

    def sums(self, device: Host, x: np.ndarray, w: np.ndarray, geometry: Geometry, layout: ImageLayout) -> tuple[np.ndarray, Stats]:
        """See ``HostCorrectedMethod``; x (images, channels, size…)."""
        return _gathered(device, x, w, geometry, layout)

    def cuts(self, cfg: Config, problem: Problem) -> dict[str, Any]:
        """See ``ConvolutionMethod``."""
        kernel = GatheredConvolutionKernel(cfg, cast(GatheredConvolutionProblem, problem))
        return {
            "entries": f"{kernel.elements} of a byte each",
            "tiles_of_filters": kernel.filter_tiles,
            "tiles_of_pixels": kernel.tiles,
            "shared_memory": f"{kernel.shared_end:,} of {cfg.shared_bytes:,} bytes",
        }


def _gathered(device: Host, x: np.ndarray, w: np.ndarray, geometry: Geometry, layout: ImageLayout) -> tuple[np.ndarray, Stats]:
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
