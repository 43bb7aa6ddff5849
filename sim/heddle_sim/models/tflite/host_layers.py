"""TFLite's convolutions, fully connected layers and pools on the host: in real numbers, rounded once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..errors import Refusal
from ..graph import Node
from .host_call import HostCall, as_real, rounded
from .host_functions import activated
from .options import pairs_of, per_axis

__all__ = ["LAYERS"]

Handler = Callable[[HostCall], list[np.ndarray]]


def _windows(x: np.ndarray, node: Node, kernel: tuple[int, int], fill: float) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
    """((row, column), what windows have there) for all positions of a window; padding reads as ``fill``."""
    strides = per_axis(node.attributes, "stride_h", "stride_w")
    dilations = per_axis(node.attributes, "dilation_h_factor", "dilation_w_factor")
    pads = pairs_of(node.attributes, x.shape[1:3], kernel, strides, dilations)
    padded = np.pad(x, ((0, 0), *pads, (0, 0)), constant_values=fill)
    count = [(length - (size - 1) * gap - 1) // step + 1 for length, size, gap, step in
             zip(padded.shape[1:3], kernel, dilations, strides)]
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            first = (row * dilations[0], column * dilations[1])
            yield (row, column), padded[:, first[0]:first[0] + (count[0] - 1) * strides[0] + 1:strides[0],
                                        first[1]:first[1] + (count[1] - 1) * strides[1] + 1:strides[1]]


def _finished(call: HostCall, sums: np.ndarray, bias: int = 2) -> list[np.ndarray]:
    """Sums of real products with the biases, operand ``bias``, behind the activation function."""
    return [call.quantise(activated(call, sums + (call.real(bias) if call.has(bias) else 0.0)).reshape(call.result().shape))]


def _convolution(call: HostCall) -> list[np.ndarray]:
    x, w = call.real(0), call.real(1)
    group = x.shape[-1] // w.shape[3]
    total: np.ndarray | float = 0.0
    for (row, column), values in _windows(x, call.node, w.shape[1:3], 0.0):
        parts = zip(np.split(values, group, axis=-1), np.split(w[:, row, column], group))
        total = total + np.concatenate([part @ filters.T for part, filters in parts], axis=-1)
    return _finished(call, np.asarray(total))


def _depthwise(call: HostCall) -> list[np.ndarray]:
    x, w = call.real(0), call.real(1)
    repeated = np.repeat(x, w.shape[3] // x.shape[-1], axis=-1)
    return _finished(call, np.asarray(sum(values * w[0, row, column]
                                          for (row, column), values in _windows(repeated, call.node, w.shape[1:3], 0.0))))


def _transposed_convolution(call: HostCall) -> list[np.ndarray]:
    """Each element of x adds its products with a filter to the window of the result where it stands."""
    shape, w, x = call.result().shape, call.real(1), call.real(2)
    strides, kernel = per_axis(call.node.attributes, "stride_h", "stride_w"), w.shape[1:3]
    (top, _), (left, _) = pairs_of(call.node.attributes, shape[1:3], kernel, strides)
    spans = [max((count - 1) * step + size, before + length) for count, step, size, before, length in
             zip(x.shape[1:3], strides, kernel, (top, left), shape[1:3])]
    total = np.zeros((shape[0], *spans, shape[3]))
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            ends = (row + (x.shape[1] - 1) * strides[0] + 1, column + (x.shape[2] - 1) * strides[1] + 1)
            total[:, row:ends[0]:strides[0], column:ends[1]:strides[1]] += x @ w[:, row, column].T
    return _finished(call, total[:, top:top + shape[1], left:left + shape[2]], bias=3)


def _fully_connected(call: HostCall) -> list[np.ndarray]:
    w = call.real(1)
    if call.get("weights_format"):
        raise Refusal("weights must be in their default order, not a shuffled one")
    return _finished(call, call.real(0).reshape(-1, w.shape[1]) @ w.T)


def _pool(call: HostCall, function: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
    return [call.quantise(activated(call, function(_elements(call, call.real(0)))))]


def _elements(call: HostCall, x: np.ndarray) -> np.ndarray:
    """What the windows of a pool have, in front of the axes of the result; nan where they reach over the edge."""
    kernel = per_axis(call.node.attributes, "filter_height", "filter_width")
    return np.stack([values for _, values in _windows(x, call.node, kernel, np.nan)])


def _average(call: HostCall) -> list[np.ndarray]:
    """Of quantised images the average of the integers is rounded, halves away from zero, whatever their zero point is."""
    x = call.raw(0)
    if x.dtype.kind == "f":
        return _pool(call, lambda values: np.nanmean(values, axis=0))
    means = np.nanmean(_elements(call, x.astype(np.float64)), axis=0)
    return [call.quantise(activated(call, as_real(call.tensor(0), rounded(means))))]


def _places(call: HostCall, axis: int) -> tuple[np.ndarray, np.float32]:
    """Of a change of size: where the results of an axis lie in the operand, half an element further where centers are meant; and how
    much further, float32."""
    size, wanted = call.raw(0).shape[axis], call.result().shape[axis]
    aligned = call.get("align_corners") and wanted > 1
    step = np.float32(size - 1) / np.float32(wanted - 1) if aligned else np.float32(size) / np.float32(wanted)
    half = np.float32(0.5 if call.get("half_pixel_centers") else 0)
    return (np.arange(wanted, dtype=np.float32) + half) * step, half


def _nearest(call: HostCall) -> list[np.ndarray]:
    x = call.raw(0)
    for axis in (1, 2):
        found, _ = _places(call, axis)
        whole = np.floor(found + np.float32(0.5)) if call.get("align_corners") else np.floor(found)
        x = np.take(x, np.clip(whole, 0, x.shape[axis] - 1).astype(np.int64), axis=axis)
    return [x]


def _bilinear(call: HostCall) -> list[np.ndarray]:
    x = call.real(0)
    for axis in (1, 2):
        found, half = _places(call, axis)
        found = np.clip(found - half, 0, x.shape[axis] - 1)
        low = np.floor(found).astype(np.int64)
        share = (found - low).reshape([-1 if number == axis else 1 for number in range(x.ndim)])
        x = (1 - share) * np.take(x, low, axis=axis) + share * np.take(x, np.minimum(low + 1, x.shape[axis] - 1), axis=axis)
    return [call.quantise(x)]


def _batch_matmul(call: HostCall) -> list[np.ndarray]:
    a, b = call.real(0), call.real(1)
    a = np.swapaxes(a, -1, -2) if call.get("adj_x") else a
    b = np.swapaxes(b, -1, -2) if call.get("adj_y") else b
    return [call.quantise(a @ b)]


LAYERS: dict[str, Handler] = {
    "CONV_2D": _convolution, "DEPTHWISE_CONV_2D": _depthwise, "FULLY_CONNECTED": _fully_connected, "BATCH_MATMUL": _batch_matmul,
    "TRANSPOSE_CONV": _transposed_convolution, "RESIZE_NEAREST_NEIGHBOR": _nearest, "RESIZE_BILINEAR": _bilinear,
    "L2_POOL_2D": lambda call: _pool(call, lambda values: np.sqrt(np.nanmean(values ** 2, axis=0))),
    "AVERAGE_POOL_2D": _average,
    "MAX_POOL_2D": lambda call: _pool(call, lambda values: np.nanmax(values, axis=0))}
