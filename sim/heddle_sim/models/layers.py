"""Layers with weights, from operands as files have them: zero points of weights, biases as integers."""

from __future__ import annotations

import numpy as np

from ..golden.requantise import Requantise
from .operations import Convolution, DeviceOperation, FullyConnected, Window

__all__ = ["fully_connected", "points_of", "shifted"]


def points_of(points: np.ndarray) -> int | tuple[int, ...]:
    """Zero points of filters, one where all are the same."""
    values = tuple(int(point) for point in points)
    return values[0] if len(set(values)) == 1 else values


def shifted(w: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Filters (filters, …) minus their zero points, int64."""
    return w.astype(np.int64) - points.reshape(-1, *[1] * (w.ndim - 1))


def fully_connected(shape: tuple[int, ...], rows: int, w: np.ndarray, points: np.ndarray, bias: np.ndarray | None, x_zero_point: int,
                    requantise: Requantise | None) -> DeviceOperation:
    """The product of ``rows`` rows with ``w`` (outputs, inputs), with a zero point of x and of each output of w, or one for all.

    Zero points of w are a matter of convolutions: there the rows are pixels. That of x becomes part of the bias.
    """
    w = np.ascontiguousarray(w)
    if points.any():
        window = Window((1, 1), ((0, 0), (0, 0)), "NHWC", (1, 1), (1, 1))
        return Convolution(shape, w.reshape(*w.shape, 1, 1), bias, window, 1, x_zero_point, points_of(points), requantise,
                           images=(1, rows, 1, w.shape[1]))
    if x_zero_point:
        bias = np.zeros(len(w), np.int64) if bias is None else bias
        bias = (bias - x_zero_point * w.astype(np.int64).sum(axis=1)).astype(np.int32)
    return FullyConnected(shape, w, bias, requantise)
