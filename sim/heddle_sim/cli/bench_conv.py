"""Convolutions of random integers on a device, compared with numpy."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.config import Config

from ..golden.convolution import convolution
from .common import CommandFailed, print_rows

if TYPE_CHECKING:
    from ..device.device import Device

__all__ = ["CONVOLUTIONS", "conv_row", "print_conv"]

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


def conv_row(device: Device, image: tuple[int, int, int], filters: tuple[int, int, int], pad: int, stride: int, seed: int,
             check: bool, method: str = "im2col") -> dict[str, Any]:
    """A benchmark row of one image. Raises ``CommandFailed`` when the result differs from numpy's."""
    rng = np.random.default_rng(seed)
    x, w = (rng.integers(-128, 128, shape, np.int8) for shape in ((1, *image), (*filters, image[-1])))
    y, stats = device.conv(x, np.moveaxis(w, -1, 1), pads=pad, strides=stride, layout="NHWC", method=method)
    if check:
        expected = convolution(x, w, ((pad, pad),) * 2, (stride,) * 2, (1, 1))
        if not np.array_equal(y, expected):
            place = tuple(int(index) for index in np.argwhere(y != expected)[0])
            raise CommandFailed(f"result must equal numpy's: y{list(place)} is {y[place]}, not {expected[place]} "
                                f"(image={image} filters={filters} seed={seed}); please report it")
    return {"image": "x".join(map(str, image)), "filters": "x".join(map(str, filters)), "pad": pad, "stride": stride, "method": method,
            "seed": seed,
            "simulator": device.simulator} | stats.as_row() | {"checked": bool(check)}


def print_conv(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    print_rows(options, "conv", cfg.name, rows, dict.fromkeys(
        ("image", "filters", "pad", "stride", "method", "cycles", "macs", "utilization", "checked")))
