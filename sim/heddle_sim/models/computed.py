"""Products of two factors that are both computed, and products whose first factor lies in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import ClassVar

import numpy as np

from ..device import Device, Stats
from ..device.device_array import placing_constants
from ..golden.requantise import Requantise
from ..kernels.plan_cache import caching_plans
from .layers import fully_connected
from .operations import DeviceOperation

__all__ = ["ComputedProducts", "Transposed"]


@dataclass(frozen=True, eq=False)
class ComputedProducts(DeviceOperation):
    """``Device.linear`` of two activations, once for each matrix of a batch.

    A zero point of b that is not 0 makes it ``Device.conv``, whose filters may have one. The host transposes b and makes the biases.

    Attributes
    ----------
    a_shape, b_shape : tuple of int
        (…, rows, inputs) and (…, inputs, outputs); with ``transposed`` that of b is (…, outputs, inputs).
    points : (int, int)
        Zero points of a and b, where they are constant.
    bias : int32 array (outputs,) or None
    requantise : Requantise or None
    transposed : bool
    computed : tuple of int
        Which of ``points`` are further activations, in their order: 0, 1.
    """

    method: ClassVar[str] = "linear"
    a_shape: tuple[int, ...]
    b_shape: tuple[int, ...]
    points: tuple[int, int]
    bias: np.ndarray | None = None
    requantise: Requantise | None = None
    transposed: bool = False
    computed: tuple[int, ...] = ()

    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        points = list(self.points)
        for which, array in zip(self.computed, arrays[2:]):
            points[which] = int(array.ravel()[0])
        a, w = arrays[0].reshape(self.a_shape), arrays[1].reshape(self.b_shape)
        w = w if self.transposed else np.swapaxes(w, -1, -2)
        batch = np.broadcast_shapes(a.shape[:-2], w.shape[:-2])
        if w.size == w.shape[-1] * w.shape[-2]:         # all matrices of a meet the same one
            a, w = a.reshape(1, -1, a.shape[-1]), w.reshape(1, *w.shape[-2:])
        else:
            a, w = (np.broadcast_to(array, (*batch, *array.shape[-2:])).reshape(-1, *array.shape[-2:]) for array in (a, w))
        found = []
        with placing_constants(None), caching_plans({}):        # nothing of other calls is met again
            for rows, columns in zip(a, w):
                shape = len(rows), len(columns)
                part = fully_connected(shape, shape[0], columns, np.array([points[1]]), self.bias, points[0], self.requantise)
                found.append(part.run(device, [np.ascontiguousarray(rows)]))
        return np.stack([np.asarray(y) for (y,), _ in found]), reduce(add, (stats for _, stats in found))


@dataclass(frozen=True, eq=False)
class Transposed(DeviceOperation):
    """An operation whose first activation is matrices (…, inputs, rows), which the host transposes."""

    part: DeviceOperation

    @property
    def method(self) -> str:        # type: ignore[override]    # that of the operation
        return self.part.method

    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        return self.part.call(device, [np.ascontiguousarray(np.swapaxes(arrays[0], -1, -2)), *arrays[1:]], keep)
