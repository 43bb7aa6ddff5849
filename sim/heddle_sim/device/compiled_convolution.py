"""Convolutions by compiled offsets on a device: tables and operands to global memory, a run for each image and group, the result back."""

from __future__ import annotations

from functools import reduce
from math import prod
from operator import add
from typing import TYPE_CHECKING, cast

import numpy as np

from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout
from ..golden.requantise import Requantise
from ..kernels.compiled_convolution import CompiledConvolutionKernel, CompiledConvolutionProblem
from ..kernels.compiled_groups import expanded_weights, merged_groups, runs_of
from ..kernels.kept import remembered
from ..kernels.parts.fitting import fitted
from ..kernels.planner import plan
from ..kernels.problem import Elements, Operands
from .execution import execute
from .host import Host
from .memory import Placement

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["compiled_convolution"]


def compiled_convolution(device: Host, x: np.ndarray, w: np.ndarray, geometry: Geometry, layout: ImageLayout, zero_point: int = 0,
                         bias: np.ndarray | None = None, requantise: Requantise | None = None) -> tuple[np.ndarray, Stats]:
    """``(y, stats)``; ``x`` and ``y`` of ``layout``, ``w`` (outputs, channels / group, positions…), of 8 bits or int16 from -255 to 254,
    ``bias`` int32 (outputs,).

    y is int32, or of the type of ``requantise``.
    """
    parts, runs = [], []
    wide_range = w.dtype.itemsize > 1
    elements = Elements(1, x.dtype.kind == "i", True) if wide_range else Elements.of(x, w)
    problem = CompiledConvolutionProblem(geometry, layout, 0, elements, zero_point, bias is not None, requantise=requantise,
                                         addends=1 + wide_range)
    whole = remembered("groups", device.cfg, problem,
                       lambda: fitted(device.cfg, problem.name, lambda cfg: merged_groups(cfg, problem)))
    wide, geometry = expanded_weights(w, geometry.group, whole), whole.geometry
    if whole.filled:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, whole.filled)])
    for run in runs_of(whole):
        mine = slice((run.group or 0) * run.outputs, ((run.group or 0) + 1) * run.outputs)
        kernel = cast(CompiledConvolutionKernel, plan(device.cfg, run))
        y, stats = _group(device, kernel, x, wide[mine], None if bias is None else bias[mine], geometry)
        parts.append(layout.to_channels_last(y, run.outputs))
        runs += stats
    return layout.from_channels_last(np.concatenate(parts, axis=-1)), reduce(add, runs)


def _group(device: Host, kernel: CompiledConvolutionKernel, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None,
           geometry: Geometry) -> tuple[np.ndarray, list[Stats]]:
    """All images of a group."""
    memory, planes, result = device.memory, kernel.planes, kernel.output.planes
    stored = _padded(x.reshape(-1, planes.vector * prod(geometry.size)), planes.plane)
    with Placement(memory) as places:
        front = -kernel.start       # copies of the first band begin in front of x, those of the last one end behind it
        image = places.place_bytes(bytes(front) + stored.tobytes() + bytes(kernel.tail)) + front + kernel.first_plane * planes.pitch
        table = places.place_bytes(kernel.parameters(w, bias).tobytes())
        bases = places.place_bytes(kernel.bases().tobytes())
        nbytes = result.count * result.plane * geometry.images
        y = places.reserve((1, nbytes + kernel.result_tail), np.uint8)
        runs = [execute(device, kernel, Operands(image + number * planes.image, table, y + number * result.image, bases))
                for number in range(geometry.images)]
        return kernel.output.array(memory.bytes[y:y + nbytes]), runs


def _padded(rows: np.ndarray, pitch: int) -> np.ndarray:
    """Bytes of rows, each filled up to ``pitch`` bytes."""
    content = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    return np.pad(content, ((0, 0), (0, pitch - content.shape[1])))
