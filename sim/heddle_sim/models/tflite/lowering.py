"""TFLite's operators as operations of the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...golden.pooling import add_factors
from ...golden.requantise import Bounds, Requantise
from ..computed import ComputedProducts, Transposed
from ..errors import Refusal
from ..graph import Graph, Node, Tensor
from ..layers import fully_connected, points_of, shifted
from ..operations import AveragePool, Convolution, DeviceOperation, MaximumPool, Sum, Window
from ..quantised import Integers, activation_bounds, as_bytes, as_integers, constant
from ..requantisation import mean_requantisation, most_sum, requantisation, with_one_shift, with_own_shifts
from ..wide import WideConvolution, WideOutput, WideProduct, weight_parts, wide_output
from .lstm import SEQUENCE_LSTM, on_device
from .options import activation_of, pairs_of, per_axis

__all__ = ["lowered"]

_LAYOUT = "NHWC"


def lowered(graph: Graph, node: Node) -> DeviceOperation:
    """What a node is on the device. Raises ``Refusal`` with the rule that it breaks."""
    if node.op not in _LOWERINGS:
        raise Refusal(f"{node.op} is no operation of the device")
    return _LOWERINGS[node.op](graph, node)


def _ends(graph: Graph, node: Node) -> tuple[Integers, Integers]:
    """First operand and result."""
    return as_bytes(graph.operand(node, 0, "x"), "x"), as_bytes(graph.tensors[node.outputs[0]], "the result")


def _layer_ends(graph: Graph, node: Node) -> tuple[Integers, Integers]:
    """``_ends`` of a layer with weights: both of 8 bits, or both int16."""
    x, y = as_integers(graph.operand(node, 0, "x"), "x"), as_integers(graph.tensors[node.outputs[0]], "the result")
    if x.wide != y.wide:
        raise Refusal(f"the result must have as many bits as x ({x.dtype}), not be {y.dtype}")
    return x, y


def _filters(graph: Graph, node: Node, axes: int) -> tuple[Tensor, np.ndarray, np.ndarray, np.ndarray]:
    """Weights as they are in the file, with their elements, scales and zero points."""
    tensor = graph.operand(node, 1, "weights")
    w = constant(tensor, "weights")
    if w.dtype not in (np.int8, np.uint8) or tensor.quantisation is None:
        raise Refusal(f"weights must be int8 or uint8 with a scale, not {w.dtype}")
    if w.ndim != axes:
        raise Refusal(f"weights must have {axes} axes, not {w.ndim}")
    return tensor, w, tensor.quantisation.scale, tensor.quantisation.zero_point


def _bias(graph: Graph, node: Node, filters: int, wide: bool = False) -> np.ndarray:
    """Biases, int32, or int64 for ``wide`` activations; zeros where they are left out."""
    tensor, dtype = graph.optional(node, 2), np.dtype(np.int64 if wide else np.int32)
    if tensor is None:
        return np.zeros(filters, dtype)
    bias = constant(tensor, "bias")
    if bias.dtype != dtype or bias.shape != (filters,):
        raise Refusal(f"bias must be {dtype} of shape ({filters},), not {bias.dtype} of shape {bias.shape}")
    return np.ascontiguousarray(bias)


def _spec(x: Integers, y: Integers, scales: np.ndarray, node: Node, w: np.ndarray, points: np.ndarray,
          bias: np.ndarray) -> tuple[np.ndarray, np.ndarray, Requantise]:
    """Filters, biases and requantisation of a layer."""
    if scales.size not in (1, len(w)):
        raise Refusal(f"weights must have one scale, or one for each of {len(w)} filters, not {scales.size}")
    bounds = activation_bounds(y, activation_of(node.attributes))
    w, biases, spec = with_one_shift(x.scale * scales / y.scale, y.zero_point, y.dtype, bounds, w, points, bias)
    assert biases is not None
    return w, biases, spec


def _wide_output(x: Integers, y: Integers, scales: np.ndarray, points: np.ndarray, bias: np.ndarray, node: Node) -> WideOutput:
    """Output stage of a layer of 16-bit activations, on the host."""
    if points.any():
        raise Refusal("weights must have zero point 0 with 16-bit activations")
    if scales.size not in (1, len(bias)):
        raise Refusal(f"weights must have one scale, or one for each of {len(bias)} filters, not {scales.size}")
    return wide_output(x, y, scales, bias, activation_bounds(y, activation_of(node.attributes)))


def _convolution_spec(x: Integers, y: Integers, scales: np.ndarray, node: Node, w: np.ndarray, points: np.ndarray,
                      bias: np.ndarray) -> tuple[np.ndarray, np.ndarray, Requantise]:
    """Filters, biases and requantisation of a convolution: TFLite's own, or the nearest where the output stage has no room for it."""
    bounds = activation_bounds(y, activation_of(node.attributes))
    if scales.size in (1, len(w)):
        exact = with_own_shifts(x.scale * scales.astype(np.float64) / y.scale, y.zero_point, y.dtype, bounds,
                                most_sum(shifted(w, points), None), bias, double_rounding=True)
        if exact is not None:
            return w, *exact
    w, bias, spec = _spec(x, y, scales, node, w, points, bias)
    return w, _rounded(bias, spec), spec


def _rounded(bias: np.ndarray, spec: Requantise) -> np.ndarray:
    """Biases with which results of convolutions are nearest to TFLite's, which rounds twice: the product to a multiple of 2**-s, from one
    to two times the factor, then that to the result.

    So results that are not negative before their zero point round up from 2**-(s + 1) below a half on. One more in the sums, which is
    between one and two of these, comes nearer to that than none. Results that may be negative round the other way there, and have none.
    """
    if spec.bounds[0] < spec.zero_point:
        return bias
    factors = np.asarray(spec.multiplier) / 2.0 ** int(spec.shift)
    return np.where((factors < 0.5) & (bias < np.iinfo(np.int32).max), bias + 1, bias).astype(np.int32)


def _convolution(graph: Graph, node: Node) -> DeviceOperation:
    """CONV_2D: filters (filters, rows, columns, channels / groups)."""
    x, y = _layer_ends(graph, node)
    _, w, scales, points = _filters(graph, node, 4)
    channels = x.shape[-1]
    if channels % w.shape[3]:
        raise Refusal(f"x must have a multiple of {w.shape[3]} channels, not {channels}")
    return _windowed(graph, node, x, y, w.transpose(0, 3, 1, 2), scales, points, channels // w.shape[3])


def _depthwise(graph: Graph, node: Node) -> DeviceOperation:
    """DEPTHWISE_CONV_2D: filters (1, rows, columns, channels · multiplier)."""
    x, y = _layer_ends(graph, node)
    tensor, w, scales, points = _filters(graph, node, 4)
    if scales.size > 1 and tensor.quantisation is not None and tensor.quantisation.axis != 3:
        raise Refusal(f"weights must have scales along axis 3, not {tensor.quantisation.axis}")
    return _windowed(graph, node, x, y, w.transpose(3, 0, 1, 2), scales, points, x.shape[-1])


def _windowed(graph: Graph, node: Node, x: Integers, y: Integers, w: np.ndarray, scales: np.ndarray, points: np.ndarray,
              group: int) -> DeviceOperation:
    """A convolution with filters (filters, channels / group, rows, columns)."""
    if len(x.shape) != 4:
        raise Refusal(f"x must have 4 axes, not {len(x.shape)}")
    attributes, kernel = node.attributes, (w.shape[2], w.shape[3])
    strides, dilations = per_axis(attributes, "stride_h", "stride_w"), per_axis(attributes, "dilation_h_factor", "dilation_w_factor")
    bias, w = _bias(graph, node, len(w), x.wide), np.ascontiguousarray(w)
    window = Window(strides, pairs_of(attributes, x.shape[1:3], kernel, strides, dilations), _LAYOUT, kernel, dilations)
    if x.wide:
        return WideConvolution(y.shape, weight_parts(w), _wide_output(x, y, scales, points, bias, node), group, window=window)
    w, bias, spec = _convolution_spec(x, y, scales, node, w, points, bias)
    return Convolution(y.shape, w, bias, window, group, x.zero_point, points_of(points), spec)


def _fully_connected(graph: Graph, node: Node) -> DeviceOperation:
    """FULLY_CONNECTED: weights (outputs, inputs)."""
    x, y = _layer_ends(graph, node)
    _, w, scales, points = _filters(graph, node, 2)
    if node.attributes.get("weights_format", 0):
        raise Refusal("weights must be in their default order, not a shuffled one")
    rows = int(np.prod(x.shape)) // w.shape[1]
    if rows * w.shape[1] != np.prod(x.shape):
        raise Refusal(f"x must have a multiple of {w.shape[1]} elements, not shape {x.shape}")
    bias = _bias(graph, node, len(w), x.wide)
    if x.wide:
        return WideProduct(y.shape, weight_parts(w), _wide_output(x, y, scales, points, bias, node))
    w, bias, spec = _spec(x, y, scales, node, w, points, bias)
    return fully_connected(y.shape, rows, w, points, bias, x.zero_point, spec)


def _batch_matmul(graph: Graph, node: Node) -> DeviceOperation:
    """BATCH_MATMUL: both factors may be computed."""
    a, b = (as_bytes(graph.operand(node, index, name), name) for index, name in enumerate("ab"))
    y = as_bytes(graph.tensors[node.outputs[0]], "the result")
    if min(len(a.shape), len(b.shape)) < 2:
        raise Refusal(f"factors must be matrices, not of shapes {a.shape} and {b.shape}")
    columns, transposed = (bool(node.attributes.get(name, 0)) for name in ("adj_x", "adj_y"))
    a_shape = (*a.shape[:-2], a.shape[-1], a.shape[-2]) if columns else a.shape
    spec = requantisation(np.array([a.scale * b.scale / y.scale]), y.zero_point, y.dtype, (None, None), 255.0 ** 2 * a_shape[-1])
    products = ComputedProducts(y.shape, a_shape, b.shape, (a.zero_point, b.zero_point), None, spec, transposed, operands=(0, 1))
    return Transposed(y.shape, products, operands=products.operands) if columns else products


def _pool_window(node: Node, x: Integers) -> Window:
    if len(x.shape) != 4:
        raise Refusal(f"x must have 4 axes, not {len(x.shape)}")
    kernel, strides = per_axis(node.attributes, "filter_height", "filter_width"), per_axis(node.attributes, "stride_h", "stride_w")
    return Window(strides, pairs_of(node.attributes, x.shape[1:3], kernel, strides), _LAYOUT, kernel)


def _average_spec(x: Integers, y: Integers, bounds: Bounds) -> Requantise:
    return requantisation(np.array([x.scale / y.scale]), y.zero_point, y.dtype, bounds, 255.0)


def _average_pool(graph: Graph, node: Node) -> DeviceOperation:
    """AVERAGE_POOL_2D: the average of the integers, halves away from zero, clamped."""
    x, y = _ends(graph, node)
    bounds, window = activation_bounds(y, activation_of(node.attributes)), _pool_window(node, x)
    if x.alike(y):
        return AveragePool(y.shape, window, x.zero_point, bounds=bounds)
    return AveragePool(y.shape, window, x.zero_point, _average_spec(x, y, bounds))


def _mean(graph: Graph, node: Node) -> DeviceOperation:
    """MEAN over rows and columns: the sum of an image by a filter of ones, with TFLite's rounding, or its average."""
    x, y = _ends(graph, node)
    given = np.atleast_1d(constant(graph.operand(node, 1, "axes"), "axes")).tolist()
    axes = sorted(int(axis) % len(x.shape) for axis in given)
    if len(x.shape) != 4 or axes != [1, 2]:
        raise Refusal(f"axes must be those of rows and columns of images (1, 2), not {', '.join(map(str, axes))} of {len(x.shape)}")
    window, channels = Window((1, 1), ((0, 0), (0, 0)), _LAYOUT, x.shape[1:3], (1, 1)), x.shape[3]
    spec, convolution = mean_requantisation(x.scale / y.scale, x.shape[1] * x.shape[2], y.zero_point, y.dtype), None
    if spec is not None:
        convolution = Convolution(y.shape, np.ones((channels, 1, *window.kernel), np.int8), None, window, channels, x.zero_point,
                                  requantise=spec)
    return AveragePool(y.shape, window, x.zero_point, _average_spec(x, y, (None, None)), convolution=convolution)


def _maximum_pool(graph: Graph, node: Node) -> DeviceOperation:
    x, y = _ends(graph, node)
    if not x.alike(y):
        raise Refusal("the result must have scale and zero point of x")
    return MaximumPool(y.shape, _pool_window(node, x), activation_bounds(y, activation_of(node.attributes)))


def _addends(graph: Graph, node: Node, shape: tuple[int, ...]) -> tuple[list[Integers], list[int], np.ndarray | None]:
    """Both addends of a sum of ``shape``, which of them are computed, and the elements of a constant one.

    A constant one has elements of its own where its shape is another one; the computed one comes first then.
    """
    tensors = [graph.operand(node, index, name) for index, name in enumerate("ab")]
    numbers = [as_bytes(replace(tensor, shape=tensor.shape or (1,)), name) for tensor, name in zip(tensors, "ab")]      # also scalars
    if tensors[0].shape == tensors[1].shape == shape:
        return numbers, [0, 1], None
    for index, other in ((0, 1), (1, 0)):
        added = tensors[other].data
        if tensors[index].data is None and tensors[index].shape == shape and added is not None:
            return [numbers[index], numbers[other]], [index], np.ascontiguousarray(np.broadcast_to(added, shape))
    raise Refusal(f"addends must have the shape {shape} of the result, or one of them be constant, not {tensors[0].shape} and "
                  f"{tensors[1].shape}")


def _sum(graph: Graph, node: Node) -> DeviceOperation:
    y = as_bytes(graph.tensors[node.outputs[0]], "the result")
    (a, b), operands, added = _addends(graph, node, y.shape)
    try:
        multipliers, shift = add_factors(a.scale, b.scale, y.scale)
    except ValueError as error:
        raise Refusal(str(error)) from None
    low, high = activation_bounds(y, activation_of(node.attributes))
    return Sum(y.shape, multipliers, (a.zero_point, b.zero_point), Requantise(1, shift, y.zero_point, low, high, dtype=y.dtype), added,
               operands=tuple(operands))


_LOWERINGS: dict[str, Callable[[Graph, Node], DeviceOperation]] = {
    "CONV_2D": _convolution, "DEPTHWISE_CONV_2D": _depthwise, "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul, "AVERAGE_POOL_2D": _average_pool,
    "MEAN": _mean, "MAX_POOL_2D": _maximum_pool, "ADD": _sum, SEQUENCE_LSTM: on_device}
