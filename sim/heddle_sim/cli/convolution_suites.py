"""Layers of ``heddle bench conv``: the list of the page, ResNet-50, MobileNet, depthwise layers, and those of DeepBench."""

from __future__ import annotations

from typing import NamedTuple

from ..compiled.geometry import Geometry

__all__ = ["CONVOLUTIONS", "SUITES", "Layer"]


class Layer(NamedTuple):
    """``image``: rows, columns, channels. ``filters``: outputs, rows, columns. ``pad``, ``stride``: of rows and of columns. ``group``:
    groups of channels."""

    image: tuple[int, int, int]
    filters: tuple[int, int, int]
    pad: tuple[int, int] = (0, 0)
    stride: tuple[int, int] = (1, 1)
    group: int = 1

    def geometry(self, rows: int) -> Geometry:
        """Of one image with so many rows."""
        return Geometry(1, (rows, self.image[1]), self.image[2], self.filters[0], self.filters[1:], tuple((pad, pad) for pad in self.pad),
                        self.stride, (1, 1), self.group)


def _square(size: int, channels: int, outputs: int, positions: int, stride: int = 1, group: int = 1) -> Layer:
    """A square image, padded so that stride 1 leaves its size."""
    pad = positions // 2
    return Layer((size, size, channels), (outputs, positions, positions), (pad, pad), (stride, stride), group)


CONVOLUTIONS = (
    _square(32, 64, 64, 3), _square(28, 64, 64, 3), _square(14, 128, 128, 3), _square(28, 64, 64, 3, 2), _square(14, 256, 64, 1),
    _square(28, 64, 64, 1), _square(56, 3, 32, 7, 2), _square(28, 16, 32, 3), _square(8, 16, 16, 3),
)


def _resnet50() -> tuple[Layer, ...]:
    """Layers of ResNet-50 (stride in the 3 x 3 layers), each once."""
    layers = [_square(224, 3, 64, 7, 2), _square(56, 64, 64, 1)]
    size, into = 56, 64
    for stage, width in enumerate((64, 128, 256, 512)):
        stride, wide = 2 if stage else 1, 4 * width
        layers += [_square(size, into, width, 1)] * bool(stage)
        layers += [_square(size, width, width, 3, stride), _square(size, into, wide, 1, stride)]
        size //= stride
        layers += [_square(size, width, wide, 1), _square(size, wide, width, 1)]
        layers += [_square(size, width, width, 3)] * bool(stage)
        into = wide
    return tuple(dict.fromkeys(layers))


def _mobilenet() -> tuple[Layer, ...]:
    """The 27 convolutions of MobileNet v1 0.25 for images of 96 x 96."""
    layers = [_square(96, 3, 8, 3, 2)]
    size, channels = 48, 8
    for outputs, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)):
        layers.append(_square(size, channels, channels, 3, stride, channels))
        size //= stride
        layers.append(_square(size, channels, outputs, 1))
        channels = outputs
    return tuple(layers)


# Image, outputs, rows and columns of filters, padding, stride; batches are left out.
_DEEPBENCH = (
    ((161, 700, 1), 32, 5, 20, 0, 2), ((79, 341, 32), 32, 5, 10, 0, 2), ((48, 480, 1), 16, 3, 3, 1, 1), ((24, 240, 16), 32, 3, 3, 1, 1),
    ((12, 120, 32), 64, 3, 3, 1, 1), ((6, 60, 64), 128, 3, 3, 1, 1), ((108, 108, 3), 64, 3, 3, 1, 2), ((54, 54, 64), 64, 3, 3, 1, 1),
    ((27, 27, 128), 128, 3, 3, 1, 1), ((14, 14, 128), 256, 3, 3, 1, 1), ((7, 7, 256), 512, 3, 3, 1, 1), ((224, 224, 3), 64, 3, 3, 1, 1),
    ((112, 112, 64), 128, 3, 3, 1, 1), ((56, 56, 128), 256, 3, 3, 1, 1), ((28, 28, 256), 512, 3, 3, 1, 1),
    ((14, 14, 512), 512, 3, 3, 1, 1), ((7, 7, 512), 512, 3, 3, 1, 1), ((224, 224, 3), 64, 7, 7, 3, 2), ((28, 28, 192), 32, 5, 5, 2, 1),
    ((28, 28, 192), 64, 1, 1, 0, 1), ((14, 14, 512), 48, 5, 5, 2, 1), ((14, 14, 512), 192, 1, 1, 0, 1), ((7, 7, 832), 256, 1, 1, 0, 1),
    ((7, 7, 832), 128, 5, 5, 2, 1), ((56, 56, 64), 64, 3, 3, 1, 1), ((56, 56, 64), 256, 1, 1, 0, 2), ((28, 28, 128), 128, 3, 3, 1, 1),
    ((28, 28, 128), 512, 1, 1, 0, 2), ((14, 14, 256), 256, 1, 1, 0, 1), ((14, 14, 256), 256, 3, 3, 1, 1),
    ((14, 14, 256), 1024, 1, 1, 0, 2), ((7, 7, 512), 512, 1, 1, 0, 1), ((7, 7, 2048), 512, 1, 1, 3, 2), ((161, 700, 1), 64, 5, 5, 1, 2),
    ((80, 350, 64), 64, 3, 3, 1, 1), ((80, 350, 64), 128, 5, 5, 1, 2), ((40, 175, 128), 128, 3, 3, 1, 1),
    ((40, 175, 128), 256, 5, 5, 1, 2), ((20, 84, 256), 256, 3, 3, 1, 1), ((20, 84, 256), 512, 5, 5, 1, 2),
    ((10, 42, 512), 512, 3, 3, 1, 1), ((112, 112, 64), 64, 1, 1, 0, 1), ((56, 56, 64), 256, 1, 1, 0, 1), ((56, 56, 256), 64, 1, 1, 0, 1),
    ((56, 56, 256), 128, 1, 1, 0, 2), ((28, 28, 128), 512, 1, 1, 0, 1), ((28, 28, 512), 128, 1, 1, 0, 1),
    ((28, 28, 512), 256, 1, 1, 0, 2), ((14, 14, 256), 1024, 1, 1, 0, 1), ((28, 28, 512), 1024, 1, 1, 0, 2),
    ((14, 14, 1024), 256, 1, 1, 0, 1), ((14, 14, 1024), 512, 1, 1, 0, 2), ((7, 7, 512), 2048, 1, 1, 0, 1),
    ((14, 14, 1024), 2048, 1, 1, 0, 2), ((7, 7, 2048), 512, 1, 1, 0, 1),
)

SUITES = {
    "list": CONVOLUTIONS,
    "resnet50": _resnet50(),
    "mobilenet": _mobilenet(),
    "depthwise": tuple(_square(size, channels, channels, 3, stride, channels) for size, channels, stride in (
        (56, 32, 1), (28, 64, 1), (28, 64, 2), (14, 128, 1), (7, 256, 1))),
    "deepbench": (*(Layer(image, (outputs, high, wide), (pad, pad), (stride, stride))
                    for image, outputs, high, wide, pad, stride in _DEEPBENCH),
                  Layer((40, 151, 1), (32, 5, 20), (8, 8), (2, 8))),
}
