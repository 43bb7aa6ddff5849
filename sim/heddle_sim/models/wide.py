"""Layers of 16-bit activations: sums on the device, biases and requantisation on the host."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ..device import Device, Stats
from ..golden.requantise import Bounds
from .errors import Refusal
from .operations import DeviceOperation, Window
from .quantised import Integers

__all__ = ["WideConvolution", "WideOutput", "WideProduct", "weight_parts", "wide_output"]

_MOST_SUM = 2 ** 31 - 1
_MOST_ACTIVATION = 2 ** 15
_DIGIT = 256

Parts = tuple[tuple[int, np.ndarray], ...]


def weight_parts(w: np.ndarray) -> Parts:
    """(factor, part) whose sum of factor · part is ``w`` (filters, …), int16: sums of each part with int16 activations fit 32 bits.

    One part, or two digits to base 256 where the sums of ``w`` itself could be larger. Raises ``Refusal`` where those of the digits could.
    """
    w = w.astype(np.int32)
    parts: Parts = ((1, w),)
    if _most_sum(w) > _MOST_SUM:
        high = (w + _DIGIT // 2) // _DIGIT
        parts = ((_DIGIT, high), (1, w - _DIGIT * high))
    for _, part in parts:
        if _most_sum(part) > _MOST_SUM:
            raise Refusal(f"sums of 16-bit activations must be at most {_MOST_SUM}, not {_most_sum(part)} for {w[0].size} weights a filter")
    return tuple((factor, part.astype(np.int16)) for factor, part in parts)


def _most_sum(w: np.ndarray) -> int:
    """Greatest magnitude of the sums of filters (filters, …) with int16 activations."""
    return _MOST_ACTIVATION * int(np.abs(w.reshape(len(w), -1).astype(np.int64)).sum(axis=1).max())


@dataclass(frozen=True, eq=False)
class WideOutput:
    """Output stage of a layer of 16-bit activations: clamp(round(sum · factor + offset)), halves to even.

    Attributes
    ----------
    factors : float64 array (1,) or (filters,)
        Scale of the sums by that of the result.
    offsets : float64 array (1,) or (filters,)
        Biases and zero point in units of the result.
    low, high : int
        Bounds.
    dtype : numpy.dtype
        Of the result, 8 or 16 bits.
    """

    factors: np.ndarray
    offsets: np.ndarray
    low: int
    high: int
    dtype: np.dtype

    def apply(self, sums: np.ndarray, axis: int) -> np.ndarray:
        """Results for int64 sums with their filters along ``axis``."""
        shape = [1] * sums.ndim
        shape[axis] = -1
        y = sums * self.factors.reshape(shape) + self.offsets.reshape(shape)
        return np.clip(np.rint(y), self.low, self.high).astype(self.dtype)


def wide_output(x: Integers, y: Integers, scales: np.ndarray, bias: np.ndarray | None, bounds: Bounds) -> WideOutput:
    """Output stage for filters with ``scales``.

    ``bias``: of the filters, in units of the sums; ``bounds``: of the result, None where its type is the bound. Raises ``Refusal``.
    """
    factors = np.asarray(x.scale * scales / y.scale, np.float64).reshape(-1)
    if not (np.isfinite(factors).all() and factors.min() > 0):
        raise Refusal("scales must be positive and finite for the output stage")
    offsets = factors * (0 if bias is None else bias) + y.zero_point
    limits = np.iinfo(y.dtype)
    low, high = (limit if bound is None else bound for bound, limit in zip(bounds, (limits.min, limits.max)))
    return WideOutput(factors, offsets, int(low), int(high), y.dtype)


@dataclass(frozen=True, eq=False)
class _WideLayer(DeviceOperation):
    """A layer of int16 activations; ``parts``: of its weights, filters beside filters in one run. Multiply-accumulates are those of the
    layer. ``group``: of channels and filters."""

    parts: Parts
    output: WideOutput
    group: int = 1

    @property
    @abstractmethod
    def axis(self) -> int:
        """Of the filters in the result."""

    @abstractmethod
    def sums(self, device: Device, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, Stats]:
        """int32 sums of the activations and of filters."""

    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        factors, parts = zip(*self.parts)
        rest = parts[0].shape[1:]
        w = np.stack([part.reshape(self.group, -1, *rest) for part in parts], 1)       # a group has its filters of all parts
        found, stats = self.sums(device, arrays[0], w.reshape(-1, *rest))
        sums = np.moveaxis(found, self.axis, -1)
        sums = sums.reshape(*sums.shape[:-1], self.group, len(parts), -1).astype(np.int64)
        total = np.einsum("...gpf,p->...gf", sums, np.array(factors, np.int64)).reshape(*sums.shape[:-3], -1)
        return self.output.apply(np.moveaxis(total, -1, self.axis), self.axis), replace(stats, macs=stats.macs // len(parts))


@dataclass(frozen=True, eq=False)
class WideConvolution(_WideLayer):
    """``Device.conv`` with filters (filters, channels / group, …)."""

    method: ClassVar[str] = "conv"
    window: Window = field(kw_only=True)

    @property
    def axis(self) -> int:
        return 1 if self.window.layout.startswith("NC") else -1

    def sums(self, device: Device, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, Stats]:
        window = self.window
        y, stats = device.conv(x, w, strides=window.strides, pads=window.pads, dilations=window.dilations, group=self.group,
                               layout=window.layout)
        return np.asarray(y), stats


@dataclass(frozen=True, eq=False)
class WideProduct(_WideLayer):
    """``Device.matmul`` of activations in rows with weights (outputs, inputs)."""

    method: ClassVar[str] = "matmul"

    @property
    def axis(self) -> int:
        return -1

    def sums(self, device: Device, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, Stats]:
        c, stats = device.matmul(x.reshape(-1, w.shape[1]), w, transpose=True)
        return c, stats
