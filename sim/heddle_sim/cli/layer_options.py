"""Options that say which convolution is meant, of ``heddle run conv`` and ``heddle show conv``."""

from __future__ import annotations

import argparse

from heddle.errors import UsageError

from ..compiled.geometry import Geometry
from ..compiled.layout import LAYOUTS, ImageLayout
from .bench_rnn_verb import numbers
from .common import from_zero, positive

__all__ = ["add_layer", "layer_of"]


def add_layer(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    for name, meaning in (("size", "of an image, as 28,28: one to three axes"), ("filter", "sizes of a filter, as 3,3")):
        parser.add_argument(f"--{name}", type=numbers, required=True, help=meaning)
    for name, meaning in (("channels", "of an image"), ("outputs", "filters")):
        parser.add_argument(f"--{name}", type=positive, required=True, help=meaning)
    for name, meaning in (("images", "images"), ("strides", "of all axes"), ("dilations", "of all axes"), ("group", "groups of channels")):
        parser.add_argument(f"--{name}", type=positive, default=1, help=f"{meaning} (default 1)")
    parser.add_argument("--pads", type=from_zero, default=0, help="zeros around an image, at each side (default 0)")
    parser.add_argument("--layout", choices=LAYOUTS, default="NCHW", help="of x and the result (default NCHW)")


def layer_of(options: argparse.Namespace) -> tuple[Geometry, ImageLayout]:
    """What the options say. Raises ``UsageError``."""
    spatial = len(options.size)
    if len(options.filter) != spatial or spatial > 3:
        raise UsageError(f"--filter must have as many numbers as --size, one to three, not {options.filter}")
    geometry = Geometry(options.images, tuple(options.size), options.channels, options.outputs, tuple(options.filter),
                        ((options.pads, options.pads),) * spatial, (options.strides,) * spatial, (options.dilations,) * spatial,
                        options.group)
    return geometry, ImageLayout.of(options.layout, spatial)
