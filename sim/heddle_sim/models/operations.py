"""Operations of the device: what a node becomes, as calls of the public methods of ``Device``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from operator import add
from typing import ClassVar

import numpy as np
from heddle.errors import UsageError

from ..device import Device, Stats
from ..golden.requantise import Bounds, Requantise

__all__ = ["AveragePool", "Convolution", "DeviceOperation", "FullyConnected", "MaximumPool", "Products", "Sum", "Window"]

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class DeviceOperation(ABC):
    """An operation with its constants.

    Attributes
    ----------
    shape : tuple of int
        Of the result.
    operands : tuple of int
        Which operands of the node are its activations.
    method : str
        Of ``Device``.
    in_place : bool
        Activations may be ``DeviceArray``s.
    """

    method: ClassVar[str]
    in_place: ClassVar[bool] = False
    shape: tuple[int, ...]
    operands: tuple[int, ...] = field(default=(0,), kw_only=True)

    def run(self, device: Device, arrays: Sequence[np.ndarray], keep: bool = False) -> tuple[list[np.ndarray], Stats]:
        """Results for the activations, and figures of the runs; ``keep``: results stay on the device where they can (``DeviceArray``)."""
        y, stats = self.call(device, arrays if self.in_place else [np.asarray(array) for array in arrays], keep)
        if y.size != prod(self.shape):
            raise UsageError(f"the result must have shape {self.shape} as its tensor has, not {y.shape}")
        return [y.reshape(self.shape)], stats

    @abstractmethod
    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        """``run`` with the shape that the device gives."""


@dataclass(frozen=True, eq=False)
class Window:
    """Window of a convolution or pool: a value for each spatial axis, padding as pairs, and the layout of images."""

    strides: tuple[int, ...]
    pads: Pairs
    layout: str
    kernel: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Convolution(DeviceOperation):
    """``Device.conv`` of ``w`` (filters, channels / group, …).

    ``images``: shape of x, where it differs from that of the operand. ``point_computed``: the second activation is the zero point of x.
    """

    method = "conv"
    in_place = True
    w: np.ndarray
    bias: np.ndarray | None
    window: Window
    group: int = 1
    x_zero_point: int = 0
    w_zero_point: int | tuple[int, ...] = 0
    requantise: Requantise | None = None
    images: tuple[int, ...] | None = None
    point_computed: bool = False

    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        x, window = arrays[0], self.window
        x_zero_point = int(arrays[1].ravel()[0]) if self.point_computed else self.x_zero_point
        y, stats = device.conv(x if self.images is None else x.reshape(self.images), self.w, self.bias, strides=window.strides,
                               pads=window.pads, dilations=window.dilations, group=self.group, layout=window.layout,
                               x_zero_point=x_zero_point, w_zero_point=self.w_zero_point, requantise=self.requantise,
                               keep=keep)
        return y, stats


@dataclass(frozen=True, eq=False)
class FullyConnected(DeviceOperation):
    """``Device.linear`` of ``w`` (outputs, inputs); the zero point of x is part of ``bias``.

    ``point_computed``: the second activation is that zero point.
    """

    method = "linear"
    w: np.ndarray
    bias: np.ndarray | None
    requantise: Requantise | None = None
    point_computed: bool = False

    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        bias = self.bias
        if self.point_computed:
            bias = (np.int64(0) if bias is None else bias) - int(arrays[1].ravel()[0]) * self.w.astype(np.int64).sum(axis=1)
            bias = bias.astype(np.int32)
        y, stats = device.linear(arrays[0].reshape(-1, self.w.shape[1]), self.w, bias, self.requantise, transpose=True)
        return y, stats


@dataclass(frozen=True, eq=False)
class Products(DeviceOperation):
    """A product for each matrix of a batch, one after the other.

    ``parts``: of each matrix of the result; ``matrices``: which matrix of the activation each of them takes.
    """

    method = "linear"
    parts: tuple[DeviceOperation, ...]
    matrices: tuple[int, ...]

    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        x = arrays[0].reshape(-1, *arrays[0].shape[-2:])
        found = [part.run(device, [x[matrix]]) for part, matrix in zip(self.parts, self.matrices)]
        return np.stack([y for (y,), _ in found]), reduce(add, (stats for _, stats in found))


@dataclass(frozen=True, eq=False)
class AveragePool(DeviceOperation):
    """``Device.average_pool``. ``bounds``: least and greatest result without ``requantise``.

    ``convolution``: one with the source's own rounding, where a device can do it.
    """

    method = "average_pool"
    in_place = True
    window: Window
    x_zero_point: int = 0
    requantise: Requantise | None = None
    include_pad: bool = False
    bounds: Bounds = (None, None)
    convolution: Convolution | None = None

    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        window, (minimum, maximum) = self.window, self.bounds
        y, stats = device.average_pool(arrays[0], window.kernel, strides=window.strides, pads=window.pads, layout=window.layout,
                                       count_include_pad=self.include_pad, x_zero_point=self.x_zero_point, requantise=self.requantise,
                                       minimum=minimum, maximum=maximum, keep=keep)
        return y, stats


@dataclass(frozen=True, eq=False)
class MaximumPool(DeviceOperation):
    """``Device.max_pool``. ``bounds``: least and greatest result."""

    method = "max_pool"
    in_place = True
    window: Window
    bounds: Bounds = (None, None)

    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        window, (minimum, maximum) = self.window, self.bounds
        y, stats = device.max_pool(arrays[0], window.kernel, strides=window.strides, pads=window.pads,
                                   dilations=window.dilations or 1, layout=window.layout, minimum=minimum, maximum=maximum, keep=keep)
        return y, stats


@dataclass(frozen=True, eq=False)
class Sum(DeviceOperation):
    """``Device.add`` of two activations, or of one and ``constant``; ``output`` has shift, zero point, bounds and type of the result."""

    method = "add"
    in_place = True
    multipliers: tuple[int, int]
    zero_points: tuple[int, int]
    output: Requantise
    constant: np.ndarray | None = None

    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        output, b = self.output, arrays[1] if self.constant is None else self.constant
        y, stats = device.add(arrays[0], b, self.multipliers, int(output.shift), a_zero_point=self.zero_points[0],
                              b_zero_point=self.zero_points[1], zero_point=output.zero_point, minimum=output.minimum,
                              maximum=output.maximum, dtype=output.dtype, exact=False, keep=keep)
        return y, stats
