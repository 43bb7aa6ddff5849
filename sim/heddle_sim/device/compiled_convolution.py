"""Convolutions by compiled offsets on a device: tables and operands to global memory, a run for each image and group, the result back."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from math import prod
from operator import add
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from heddle.config import Config

from ..compiled.geometry import Geometry
from ..compiled.hardware import within_masks
from ..kernels.compiled_convolution import CompiledConvolutionKernel, CompiledConvolutionProblem
from ..kernels.compiled_groups import expanded_weights, expected_cycles, merged_groups, runs_of
from ..kernels.parts.fitting import fitted
from ..kernels.plan_cache import cached_plan
from ..kernels.planner import plan
from ..kernels.problem import Operands, Problem
from .convolution_method import Convolution, ConvolutionLayer, ConvolutionMethod, Expectation
from .device_array import DeviceArray, place_constant
from .execution import execute
from .host import Host
from .memory import UNWRITTEN, GlobalMemory, Placement

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["CompiledMethod"]


class CompiledMethod(ConvolutionMethod):
    """``mm`` finds its elements by a list of offsets that is made before the run."""

    name, kernel, tabled, general = "compiled", CompiledConvolutionKernel, True, True

    def expected(self, cfg: Config, layer: ConvolutionLayer) -> Expectation:
        """See ``ConvolutionMethod``."""
        problem = merged_groups(cfg, _problem(layer))
        return Expectation(expected_cycles(cfg, problem), problem.geometry.images * len(runs_of(problem)), problem)

    def run(self, device: Host, convolution: Convolution) -> tuple[np.ndarray | DeviceArray, Stats]:
        """See ``ConvolutionMethod``."""
        return _compiled(device, convolution)

    def cuts(self, cfg: Config, problem: Problem) -> dict[str, Any]:
        """See ``ConvolutionMethod``."""
        problem = cast(CompiledConvolutionProblem, problem)
        kernel = CompiledConvolutionKernel(cfg, problem)
        tile, stores = kernel.tile * kernel.parts * kernel.steps // problem.ka, kernel.output.cycles(kernel.tile)
        decides = "stores" if stores > tile else "products"
        place = "beside the filters before them" if kernel.halves else "among the mm of their first tile" if kernel.together else "once"
        if kernel.streamed:
            place = f"for each tile, {kernel.part_words} at a time"
        refilled = f", {kernel.entry_count - kernel.entries.resident:,} of which are loaded for each tile" if kernel.entries.window else ""
        return {
            "groups_made_one": problem.merged,
            "channels_filled": problem.filled,
            "lanes_of_a_filter": problem.ka,
            "entries": f"{kernel.entry_count:,} of a {'word' if kernel.by_word else 'byte'} each{refilled}",
            "tiles_of_filters": kernel.filter_tiles,
            "bands": f"{kernel.bands} of {kernel.rows} rows of the result, {kernel.band_tiles} tiles of {kernel.tile} pixels each"
                     + ", in one place" * kernel.waits,
            "cycles_of_a_tile": f"{tile:,} of mm, {stores:,.0f} of stores: the {decides} decide",
            "weights": f"{kernel.words} words a lane, loaded {place}",
            "shared_memory": f"{kernel.footprint.shared:,} of {cfg.shared_bytes:,} bytes",
        }


def _problem(layer: ConvolutionLayer) -> CompiledConvolutionProblem:
    """Of all groups; the host pads x where threads have too few mask bits for its padding."""
    return CompiledConvolutionProblem(within_masks(layer.geometry), layer.layout, 0, layer.elements, layer.zero_point, layer.bias,
                                      layer.requantise, addends=layer.addends)


def _compiled(device: Host, convolution: Convolution) -> tuple[np.ndarray | DeviceArray, Stats]:
    """``(y, stats)``; y stays in global memory where one run computes it."""
    layer, bias = convolution.layer, convolution.bias
    layout, problem, parts, runs = layer.layout, _problem(layer), [], []
    x = layout.padded(convolution.x, layer.geometry, problem.geometry, layer.zero_point)
    whole = cached_plan("groups", device.cfg, problem,
                        lambda: fitted(device.cfg, problem.name, lambda cfg: merged_groups(cfg, problem)))
    wide, geometry = expanded_weights(convolution.w, layer.geometry.group, whole), whole.geometry
    if whole.filled:
        x = np.asarray(x)
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, whole.filled)])
    problems = runs_of(whole)
    keep = convolution.keep and len(problems) == 1
    for run in problems:
        mine = slice((run.group or 0) * run.outputs, ((run.group or 0) + 1) * run.outputs)
        kernel = cast(CompiledConvolutionKernel, plan(device.cfg, run))
        y, stats = _group(device, kernel, x, wide[mine], None if bias is None else bias[mine], geometry, keep)
        if isinstance(y, DeviceArray):
            return y, reduce(add, stats)
        parts.append(layout.to_channels_last(y, run.outputs))
        runs += stats
    return layout.from_channels_last(np.concatenate(parts, axis=-1)), reduce(add, runs)


def _group(device: Host, kernel: CompiledConvolutionKernel, x: np.ndarray | DeviceArray, w: np.ndarray, bias: np.ndarray | None,
           geometry: Geometry, keep: bool) -> tuple[np.ndarray | DeviceArray, list[Stats]]:
    """All images of a group."""
    memory, planes, result = device.memory, kernel.planes, kernel.output.planes
    nbytes = result.count * result.plane * geometry.images
    with Placement(memory) as places:
        image, pitch = _image(memory, places, kernel, x, geometry)
        table = place_constant(places, memory, kernel.parameters(w, bias).tobytes())
        bases = place_constant(places, memory, kernel.bases().tobytes())
        y = memory.reserve((1, nbytes + kernel.result_tail), np.uint8, UNWRITTEN)
        array = _result(memory, kernel, y, nbytes, geometry)
        runs = [execute(device, kernel, Operands(image + number * planes.image, table, y + number * result.image, bases, pitch))
                for number in range(geometry.images)]
        return (array if keep else np.asarray(array)), runs


def _image(memory: GlobalMemory, places: Placement, kernel: CompiledConvolutionKernel, x: np.ndarray | DeviceArray,
           geometry: Geometry) -> tuple[int, int]:
    """Address of the first plane of x that the kernel reads, where x lies or in a place of its own; distance of its planes, 0 for those
    side by side."""
    planes, front = kernel.planes, -kernel.start       # copies of the first band begin in front of x, those of the last one end behind it
    if isinstance(x, DeviceArray):
        if x.in_place(memory, planes, geometry.images, front, kernel.tail):
            return x.address + kernel.first_plane * planes.pitch, x.planes.pitch if x.planes.count > 1 else 0
        x = np.asarray(x)
    stored = _padded(x.reshape(-1, planes.vector * prod(geometry.size)), planes.plane)
    return places.place_bytes(bytes(front) + stored.tobytes() + bytes(kernel.tail)) + front + kernel.first_plane * planes.pitch, 0


def _result(memory: GlobalMemory, kernel: CompiledConvolutionKernel, address: int, nbytes: int, geometry: Geometry) -> DeviceArray:
    """The result at ``address``, which has the memory. Where pixels have gaps, as those of less than 16 bytes, its rows have more bytes
    than a layer wants."""
    output = kernel.output
    shape, planes = output.layout.shape(geometry.images, output.outputs, output.size), output.planes
    if output.layout.channels_last:
        planes = replace(planes, row_bytes=planes.plane // output.size[0])
    return DeviceArray.owning(memory, address, planes, geometry.images, shape, output.dtype,
                              lambda: output.array(memory.bytes[address:address + nbytes]))


def _padded(rows: np.ndarray, pitch: int) -> np.ndarray:
    """Bytes of rows, each filled up to ``pitch`` bytes."""
    content = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    return np.pad(content, ((0, 0), (0, pitch - content.shape[1])))
