"""Convolutions of random integers on a device, compared with numpy."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.config import Config

from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout
from ..golden.convolution import convolution
from .common import CommandFailed, print_rows

if TYPE_CHECKING:
    from ..device.device import Device

__all__ = ["CONVOLUTIONS", "SUITES", "conv_row", "layer_row", "print_conv"]

# x and w (rows and columns of images, channels; outputs, rows and columns of filters), padding, stride.
CONVOLUTIONS = (
    ((32, 32, 64), (64, 3, 3), 1, 1),
    ((28, 28, 64), (64, 3, 3), 1, 1),
    ((14, 14, 128), (128, 3, 3), 1, 1),
    ((28, 28, 64), (64, 3, 3), 1, 2),
    ((14, 14, 256), (64, 1, 1), 0, 1),
    ((28, 28, 64), (64, 1, 1), 0, 1),
    ((56, 56, 3), (32, 7, 7), 3, 2),
    ((28, 28, 16), (32, 3, 3), 1, 1),
    ((8, 8, 16), (16, 3, 3), 1, 1),
)


def _resnet50() -> tuple[tuple[tuple[int, int, int], tuple[int, int, int], int, int], ...]:
    """Layers of ResNet-50 (stride in the 3 x 3 layers), each once."""
    layers = [((224, 224, 3), (64, 7, 7), 3, 2), ((56, 56, 64), (64, 1, 1), 0, 1)]
    size, into = 56, 64
    for stage, width in enumerate((64, 128, 256, 512)):
        stride, wide = 2 if stage else 1, 4 * width
        image = (size, size, into)
        layers += [(image, (width, 1, 1), 0, 1)] * bool(stage)
        layers += [((size, size, width), (width, 3, 3), 1, stride), (image, (wide, 1, 1), 0, stride)]
        size //= stride
        layers += [((size, size, width), (wide, 1, 1), 0, 1), ((size, size, wide), (width, 1, 1), 0, 1)]
        layers += [((size, size, width), (width, 3, 3), 1, 1)] * bool(stage)
        into = wide
    return tuple(dict.fromkeys(layers))


SUITES = {"list": CONVOLUTIONS, "resnet50": _resnet50()}
MOST_MACS = 130_000_000         # of a row: more take over a minute to simulate


def _scaled_to(most: int, image: tuple[int, int, int], filters: tuple[int, int, int], pad: int, stride: int) -> tuple[int, int, int]:
    """The image with as many rows as leave at most ``most`` multiply-accumulates; channels, filters and stride are kept."""
    rows, columns, channels = image
    outputs, high, wide = filters

    def macs(count: int) -> int:
        result = ((count + 2 * pad - high) // stride + 1) * ((columns + 2 * pad - wide) // stride + 1)
        return result * outputs * high * wide * channels

    while rows > high and macs(rows) > most:
        rows -= stride
    return rows, columns, channels


def conv_row(device: Device, image: tuple[int, int, int], filters: tuple[int, int, int], pad: int, stride: int, seed: int,
             check: bool, method: str = "im2col") -> dict[str, Any]:
    """A benchmark row of one image, with fewer rows where it has over ``MOST_MACS`` (``scale``: rows of rows). ``bound``: useful part of
    what the lanes multiply when they never wait, with tiles and words that are not full. Raises ``CommandFailed`` when the result differs
    from numpy's."""
    whole, image = image[0], _scaled_to(MOST_MACS, image, filters, pad, stride)
    geometry = Geometry(1, image[:2], image[2], filters[0], filters[1:], ((pad, pad),) * 2, (stride,) * 2, (1, 1))
    figures = _measured(device, geometry, ImageLayout("NHWC"), method, seed, check)
    return {"image": "x".join(map(str, image)), "filters": "x".join(map(str, filters)), "pad": pad, "stride": stride, "method": method,
            "scale": f"{image[0]} of {whole}", "bound": _bound(device.cfg, image, filters, pad, stride, method), "seed": seed,
            "simulator": device.simulator} | figures


def _measured(device: Device, geometry: Geometry, layout: ImageLayout, method: str, seed: int, check: bool) -> dict[str, Any]:
    """Figures of one convolution of random integers. Raises ``CommandFailed`` when the result differs from numpy's."""
    rng, shape = np.random.default_rng(seed), geometry
    x, w = (rng.integers(-128, 128, sizes, np.int8) for sizes in (
        (shape.images, *shape.size, shape.channels), (shape.outputs, shape.group_channels, *shape.filter)))
    y, stats = device.conv(layout.from_channels_last(x), w, pads=shape.padding, strides=shape.stride, dilations=shape.dilation,
                           group=shape.group, layout=layout.name, method=method)
    if check:
        expected = convolution(x, np.moveaxis(w, 1, -1), shape.padding, shape.stride, shape.dilation, shape.group)
        found = layout.to_channels_last(y, shape.outputs)
        if not np.array_equal(found, expected):
            place = tuple(int(index) for index in np.argwhere(found != expected)[0])
            raise CommandFailed(f"result must equal numpy's: y{list(place)} is {found[place]}, not {expected[place]} "
                                f"({shape} layout={layout.name} seed={seed}); please report it")
    return stats.as_row() | {"checked": bool(check)}


def layer_row(device: Device, geometry: Geometry, layout: ImageLayout, method: str, seed: int, check: bool) -> dict[str, Any]:
    """Row of ``heddle run conv``: a layer of any layout. Raises ``CommandFailed`` when the result differs from numpy's."""
    figures = _measured(device, geometry, layout, method, seed, check)
    return {"layout": layout.name, "images": geometry.images, "size": "x".join(map(str, geometry.size)), "channels": geometry.channels,
            "outputs": geometry.outputs, "filter": "x".join(map(str, geometry.filter)), "group": geometry.group, "method": method,
            "seed": seed, "simulator": device.simulator} | figures


def _bound(cfg: Config, image: tuple[int, int, int], filters: tuple[int, int, int], pad: int, stride: int, method: str) -> float:
    outputs, *positions = filters
    pixels = math.prod((size + 2 * pad - count) // stride + 1 for size, count in zip(image, positions))
    channels, places = image[2], math.prod(positions)

    def full(count: int, step: int) -> float:
        return count / (-(-count // step) * step)
    if method == "compiled":        # pixels are columns, a filter is a list of elements
        return full(outputs, cfg.threads) * full(channels * places, cfg.dot)
    return full(pixels, cfg.threads) * full(channels, cfg.dot)


def print_conv(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    print_rows(options, "conv", cfg.name, rows, dict.fromkeys(
        ("image", "filters", "pad", "stride", "method", "scale", "cycles", "macs", "utilization", "bound", "checked")))
