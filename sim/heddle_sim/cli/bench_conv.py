"""Convolutions of random integers on a device, compared with numpy."""

from __future__ import annotations

import argparse
import math
import time
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError

from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout
from ..compiled.representation import compile_convolution
from ..device.convolution_choice import method_of
from ..device.observers import executed_kernels
from ..golden.convolution import convolution
from ..golden.requantise import Requantise
from ..kernels.compiled_plan import CompiledConvolutionPlan
from ..kernels.measured_kernel import MeasuredKernel
from .common import check_result, print_rows
from .convolution_suites import Layer

if TYPE_CHECKING:
    from ..device.device import Device
    from ..device.stats import Stats
    from ..kernels.kernel import Kernel

__all__ = ["conv_row", "layer_row", "print_conv", "total_row"]

MOST_MACS = 130_000_000         # of a row: more take over a minute to simulate
_LAYOUT = ImageLayout("NHWC")
_BYTES = ("read_bytes", "write_bytes", "line_lookups", "shared_bytes", "factor_bytes", "offset_bytes", "representation_bytes",
          "representation_ms", "line_fetches", "line_fetches_natural", "im2col_bytes", "bank_conflicts")


def _scaled_to(most: int, layer: Layer) -> Geometry:
    """The layer with as many rows of the image as leave at most ``most`` multiply-accumulates; channels, filters and stride are kept."""
    rows = layer.image[0]
    while rows > layer.filters[1] and layer.geometry(rows).macs > most:
        rows -= layer.stride[0]
    return layer.geometry(rows)


def _text(pair: tuple[int, int]) -> int | str:
    return pair[0] if pair[0] == pair[1] else f"{pair[0]}x{pair[1]}"


def conv_row(device: Device, layer: Layer, seed: int, check: bool, method: str = "im2col", requantise: bool = False) -> dict[str, Any]:
    """A benchmark row of one image, with fewer rows where it has over ``MOST_MACS`` (``scale``: rows of rows).

    ``bound``: useful part of what the lanes multiply when they never wait, with tiles and words that are not full. ``expected_cycles``: by
    the cycle model, by which the planner chooses. ``_memory`` has the bytes. ``representation_ms``: milliseconds to make the compiled
    representation of the layer with all its rows; ``line_fetches``: lines that the first threads fetch with its order of offsets,
    ``line_fetches_natural``: in natural order [S2.4]. ``why_not``: why the configuration cannot compute the layer, which then has no
    cycles. Raises ``CommandFailed`` when the result differs from numpy's.
    """
    geometry, whole = _scaled_to(MOST_MACS, layer), layer.geometry(layer.image[0])
    try:
        figures = _measured(device, geometry, _LAYOUT, method, seed, check, requantise)
    except UsageError as error:
        figures = {"cycles": None, "macs": geometry.macs, "utilization": None, "bound": None, "checked": False, "why_not": str(error)}
    return {"image": "x".join(map(str, (*geometry.size, geometry.channels))), "filters": "x".join(map(str, layer.filters)),
            "pad": _text(layer.pad), "stride": _text(layer.stride), "group": layer.group, "method": method,
            "result": "int8" if requantise else "int32", "scale": f"{geometry.size[0]} of {layer.image[0]}",
            "seed": seed, "simulator": device.simulator, **figures,
            **_representation(whole, device.cfg.threads, figures.get("method", method) == "compiled")}


def _representation(geometry: Geometry, threads: int, compiled: bool) -> dict[str, Any]:
    """Milliseconds of processor time to make the compiled representation of a layer, with the choice of the order. Also lines that its
    first ``threads`` threads fetch. None by another method."""
    if not compiled:
        return dict.fromkeys(("representation_ms", "line_fetches", "line_fetches_natural"))
    before = time.process_time()
    made = compile_convolution(geometry, _LAYOUT, threads=threads)
    return {"representation_ms": 1000 * (time.process_time() - before), "line_fetches": made.lines(threads),
            "line_fetches_natural": made.natural_lines(threads)}


def _measured(device: Device, geometry: Geometry, layout: ImageLayout, method: str, seed: int, check: bool,
              requantise: bool = False) -> dict[str, Any]:
    """Figures of one convolution of random integers, with ``requantise`` with biases and multipliers to int8. Raises ``CommandFailed`` when
    the result differs from numpy's."""
    rng, shape = np.random.default_rng(seed), geometry
    x, w = (rng.integers(-128, 128, sizes, np.int8) for sizes in (
        (shape.images, *shape.size, shape.channels), (shape.outputs, shape.group_channels, *shape.filter)))
    options: dict[str, Any] = {}
    if requantise:
        spread = math.sqrt(shape.group_channels * shape.positions) * 5000      # of the sums, roughly; 50 steps of the result
        options = {"bias": rng.integers(-9999, 9999, shape.outputs, np.int32),
                   "requantise": Requantise(rng.integers(1 << 29, 1 << 30, shape.outputs), 30 + max(0, round(math.log2(spread / 50))), 3)}
    with executed_kernels() as kernels:
        y, stats = device.conv(layout.from_channels_last(x), w, pads=shape.padding, strides=shape.stride,
                               dilations=shape.dilation, group=shape.group, layout=layout.name, method=method, **options)
    if check:
        expected = convolution(x, np.moveaxis(w, 1, -1), shape.padding, shape.stride, shape.dilation, shape.group)
        if requantise:
            expected = options["requantise"].apply(expected + options["bias"])
        check_result("y", layout.to_channels_last(y, shape.outputs), expected, "numpy", f"{shape} layout={layout.name} seed={seed}")
    kernel = cast(MeasuredKernel, kernels[0])
    return (stats.as_row() | {"method": method_of(kernel).name, "bound": kernel.lane_bound,
                              "expected_cycles": sum(type(each).estimate(each.cfg, each.problem) for each in kernels)}
            | _memory(geometry, kernels, stats) | {"checked": bool(check)})


def _memory(geometry: Geometry, kernels: list[Kernel], stats: Stats) -> dict[str, Any]:
    """Bytes of a convolution by the kernels that were executed.

    ``read_bytes``, ``write_bytes``: on the bus, by the counters of beats. ``line_lookups``: lines that copies looked up in the second-level
    cache, by its counters. ``shared_bytes``, ``factor_bytes``, ``offset_bytes``: on-chip memory (``Footprint``).
    ``representation_bytes``: bases and entries in global memory. ``im2col_bytes``: the left matrix, which no method writes down.
    ``bank_conflicts``: cycles in which words that ``mm`` fetches waited for their banks, by its counter.
    """
    cfg, counters, used = kernels[0].cfg, stats.counters, cast(MeasuredKernel, kernels[0]).footprint
    timed = stats.cycles is not None
    compiled = [kernel for kernel in dict.fromkeys(kernels) if isinstance(kernel, CompiledConvolutionPlan)]
    tables = 4 * sum(kernel.bands * kernel.base_count + kernel.entry_count for kernel in compiled)
    return {"read_bytes": counters["read_beats"] * cfg.axi_bytes if timed else None,
            "write_bytes": counters["write_beats"] * cfg.axi_bytes if timed else None,
            "line_lookups": counters["level2_hits"] + counters["level2_misses"] if timed and cfg.l2_kib else None,
            "shared_bytes": used.shared, "factor_bytes": used.factors, "offset_bytes": used.offsets,
            "representation_bytes": tables or None, "im2col_bytes": geometry.pixels * geometry.positions * geometry.channels,
            "bank_conflicts": counters["matrix_bank_conflicts"] if timed else None}


def total_row(cfg: Config, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Cycles and multiply-accumulates of all layers; without cycles on the functional simulator, as the rows."""
    macs, timed = sum(row["macs"] for row in rows), all(row["cycles"] for row in rows)
    cycles = sum(row["cycles"] for row in rows) if timed else None
    return {"suite": rows[0]["suite"], "image": "all layers", "method": rows[0]["method"], "result": rows[0]["result"], "cycles": cycles,
            "macs": macs, "utilization": macs / cycles / cfg.peak_macs(1) if cycles else None} | {
                name: sum(row[name] for row in rows) if timed else None for name in ("read_bytes", "write_bytes")}


def layer_row(device: Device, geometry: Geometry, layout: ImageLayout, method: str, seed: int, check: bool,
              requantise: bool = False) -> dict[str, Any]:
    """Row of ``heddle run conv``: a layer of any layout. Raises ``CommandFailed`` when the result differs from numpy's."""
    figures = _measured(device, geometry, layout, method, seed, check, requantise)
    return {"layout": layout.name, "images": geometry.images, "size": "x".join(map(str, geometry.size)), "channels": geometry.channels,
            "outputs": geometry.outputs, "filter": "x".join(map(str, geometry.filter)), "group": geometry.group, "method": method,
            "result": "int8" if requantise else "int32", "seed": seed, "simulator": device.simulator} | figures


def print_conv(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    """Print rows as JSON, or as two tables: cycles, then bytes."""
    layer = ("image", "filters", "pad", "stride", "group", "method")
    print_rows(options, "conv", cfg.name, rows, dict.fromkeys(
        (*layer, "result", "scale", "cycles", "expected_cycles", "macs", "utilization", "bound", "checked")))
    if options.json:
        return
    print()
    print_rows(options, "conv", cfg.name, [row for row in rows if "shared_bytes" in row], dict.fromkeys((*layer, *_BYTES)))
    for row in rows:
        if "why_not" in row:
            print(f"{row['image']}, {row['filters']}: {row['why_not']}")
