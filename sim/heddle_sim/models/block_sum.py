"""Sums of two tensors as convolutions: both are channels of one image, and filters have one weight for each of them.

The bytes of a and behind them those of b are an image of blocks of 32 channels (layout "NCHWc32"), whatever their layout: pixel i of
channel c is byte 32 i + c. Filter c has the weight p for channel c of a and q for that of b. One factor of the output stage then gives
p · factor and q · factor, which are near the two factors of the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ..device import Device, Stats
from ..device.device_array import DeviceArray
from .errors import Refusal
from .operations import DeviceOperation, Sum
from .requantisation import requantisation

__all__ = ["BlockSum"]

_BLOCK = 32             # channels of a block, the largest there is
_MOST_WEIGHT = 127
_MOST_ERROR = 0.25      # of a result before it is rounded
_EXACT_ERROR = 255 / 2 ** 22


@dataclass(frozen=True, eq=False)
class BlockSum(DeviceOperation):
    """``Device.conv`` for a ``Sum``.

    Attributes
    ----------
    of : Sum
        What it stands for.
    weights : (int, int)
        Of a and of b.
    factor : float
        Of the output stage.
    """

    method = "conv"
    in_place = True
    of: Sum
    weights: tuple[int, int]
    factor: float

    @classmethod
    def of_sum(cls, one: Sum, exact: bool = False) -> Self | None:
        """The convolution of a sum. None where weights of 8 bits could change a result by more than one quarter before its rounding, with
        ``exact`` by more than ``Device.add`` does."""
        factors = np.array(one.multipliers) / 2.0 ** one.output.shift
        numbers = np.arange(1, _MOST_WEIGHT + 1)
        p, q = np.meshgrid(numbers, numbers, indexing="ij")
        factor = factors.sum() / (p + q)
        errors = 255 * (np.abs(p * factor - factors[0]) + np.abs(q * factor - factors[1]))
        place = np.unravel_index(errors.argmin(), errors.shape)
        if errors[place] > (_EXACT_ERROR if exact else _MOST_ERROR):
            return None
        return cls(one.shape, one, (int(p[place]), int(q[place])), float(factor[place]), operands=one.operands)

    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        one, spec = self.of, self.of.output
        a, b = arrays[0], arrays[1] if one.constant is None else one.constant
        if a.dtype != b.dtype:
            raise Refusal(f"addends must have one type for a convolution, not {a.dtype} and {b.dtype}")
        x, swapped = _image(a, b)
        weights = self.weights[::-1] if swapped else self.weights
        w = np.concatenate([np.diag(np.full(_BLOCK, weight, np.int8)) for weight in weights], axis=1)[:, :, None, None]
        offset = sum(weight * point for weight, point in zip(self.weights, one.zero_points))
        bias = np.full(_BLOCK, -offset, np.int32)
        requantise = requantisation(np.array([self.factor]), int(spec.zero_point), spec.dtype, (spec.minimum, spec.maximum),
                                    255.0 * sum(self.weights))
        y, stats = device.conv(x, w, bias, layout=f"NCHWc{_BLOCK}", requantise=requantise, keep=keep and a.size % _BLOCK == 0)
        found = y.reshape(self.shape) if y.size == a.size else y.reshape(-1)[:a.size]
        return found, replace(stats, macs=0)


def _image(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, bool]:
    """Both addends as an image, and whether b is its first block of channels: where they lie, or from the host."""
    if isinstance(a, DeviceArray) and isinstance(b, DeviceArray) and (blocks := a.as_blocks(b, _BLOCK)):
        return blocks
    blocks_of_each = -(-a.size // _BLOCK)
    x = np.zeros((1, 2, blocks_of_each, 1, _BLOCK), a.dtype)
    for index, array in enumerate((a, b)):
        x[0, index].reshape(-1)[:array.size] = np.asarray(array).reshape(-1)
    return x, False
