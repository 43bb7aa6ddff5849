"""Convolutions of random integers on a device, compared with numpy."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError

from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout
from ..golden.convolution import convolution
from ..golden.requantise import Requantise
from ..kernels.compiled_convolution import CompiledConvolutionProblem
from ..kernels.compiled_groups import merged_groups
from .common import CommandFailed, print_rows
from .convolution_suites import Layer

if TYPE_CHECKING:
    from ..device.device import Device

__all__ = ["conv_row", "layer_row", "print_conv", "total_row"]

MOST_MACS = 130_000_000         # of a row: more take over a minute to simulate


def _scaled_to(most: int, layer: Layer) -> Geometry:
    """The layer with as many rows of the image as leave at most ``most`` multiply-accumulates; channels, filters and stride are kept."""
    rows = layer.image[0]
    while rows > layer.filters[1] and layer.geometry(rows).macs > most:
        rows -= layer.stride[0]
    return layer.geometry(rows)


def _text(pair: tuple[int, int]) -> int | str:
    return pair[0] if pair[0] == pair[1] else f"{pair[0]}x{pair[1]}"


def conv_row(device: Device, layer: Layer, seed: int, check: bool, method: str = "im2col", requantise: bool = False) -> dict[str, Any]:
    """A benchmark row of one image, with fewer rows where it has over ``MOST_MACS`` (``scale``: rows of rows). ``bound``: useful part of
    what the lanes multiply when they never wait, with tiles and words that are not full. ``why_not``: why the configuration cannot compute
    the layer, which then has no cycles. Raises ``CommandFailed`` when the result differs from numpy's."""
    geometry = _scaled_to(MOST_MACS, layer)
    try:
        figures = _measured(device, geometry, ImageLayout("NHWC"), method, seed, check, requantise)
        figures["bound"] = _bound(device.cfg, geometry, method)
    except UsageError as error:
        figures = {"cycles": None, "macs": geometry.macs, "utilization": None, "bound": None, "checked": False, "why_not": str(error)}
    return {"image": "x".join(map(str, (*geometry.size, geometry.channels))), "filters": "x".join(map(str, layer.filters)),
            "pad": _text(layer.pad), "stride": _text(layer.stride), "group": layer.group, "method": method,
            "result": "int8" if requantise else "int32", "scale": f"{geometry.size[0]} of {layer.image[0]}",
            "seed": seed, "simulator": device.simulator} | figures


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
    y, stats = device.conv(layout.from_channels_last(x), w, pads=shape.padding, strides=shape.stride, dilations=shape.dilation,
                           group=shape.group, layout=layout.name, method=method, **options)
    if check:
        expected = convolution(x, np.moveaxis(w, 1, -1), shape.padding, shape.stride, shape.dilation, shape.group)
        if requantise:
            expected = options["requantise"].apply(expected + options["bias"])
        found = layout.to_channels_last(y, shape.outputs)
        if not np.array_equal(found, expected):
            place = tuple(int(index) for index in np.argwhere(found != expected)[0])
            raise CommandFailed(f"result must equal numpy's: y{list(place)} is {found[place]}, not {expected[place]} "
                                f"({shape} layout={layout.name} seed={seed}); please report it")
    return stats.as_row() | {"checked": bool(check)}


def total_row(cfg: Config, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Cycles and multiply-accumulates of all layers; without cycles on the functional simulator, as the rows."""
    macs, timed = sum(row["macs"] for row in rows), all(row["cycles"] for row in rows)
    cycles = sum(row["cycles"] for row in rows) if timed else None
    return {"suite": rows[0]["suite"], "image": "all layers", "method": rows[0]["method"], "result": rows[0]["result"], "cycles": cycles,
            "macs": macs, "utilization": macs / cycles / cfg.peak_macs(1) if cycles else None}


def layer_row(device: Device, geometry: Geometry, layout: ImageLayout, method: str, seed: int, check: bool,
              requantise: bool = False) -> dict[str, Any]:
    """Row of ``heddle run conv``: a layer of any layout. Raises ``CommandFailed`` when the result differs from numpy's."""
    figures = _measured(device, geometry, layout, method, seed, check, requantise)
    return {"layout": layout.name, "images": geometry.images, "size": "x".join(map(str, geometry.size)), "channels": geometry.channels,
            "outputs": geometry.outputs, "filter": "x".join(map(str, geometry.filter)), "group": geometry.group, "method": method,
            "result": "int8" if requantise else "int32", "seed": seed, "simulator": device.simulator} | figures


def _bound(cfg: Config, geometry: Geometry, method: str) -> float:
    def full(count: int, step: int) -> float:
        return count / (-(-count // step) * step)
    pixels, channels = math.prod(geometry.result), geometry.group_channels
    if method != "compiled":
        return full(pixels, cfg.threads) * full(channels, cfg.dot)
    # Pixels are columns, a filter is a list of elements.
    problem = merged_groups(cfg, CompiledConvolutionProblem(geometry, ImageLayout("NHWC")))
    elements = problem.geometry.group_channels * geometry.positions
    lanes, useful = cfg.threads // problem.ka, geometry.channels / problem.geometry.channels
    return full(problem.geometry.outputs // problem.geometry.group, lanes) * full(elements, cfg.dot) * useful / problem.merged


def print_conv(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    print_rows(options, "conv", cfg.name, rows, dict.fromkeys(
        ("image", "filters", "pad", "stride", "group", "method", "result", "scale", "cycles", "macs", "utilization", "bound", "checked")))
    for row in rows:
        if "why_not" in row and not options.json:
            print(f"{row['image']}, {row['filters']}: {row['why_not']}")
