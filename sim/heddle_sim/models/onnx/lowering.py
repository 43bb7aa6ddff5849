"""Quantised operators of ONNX as operations of the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...golden.pooling import add_factors
from ...golden.requantise import Requantise
from ..computed import ComputedProducts, Transposed
from ..errors import Refusal
from ..graph import Graph, Node, Tensor
from ..layers import fully_connected, points_of, shifted
from ..operations import AveragePool, Convolution, DeviceOperation, FullyConnected, MaximumPool, Products, Sum
from ..quantised import Integers, as_bytes, as_integers, constant, narrowed
from ..requantisation import most_sum, requantisation, with_one_shift, with_own_shifts
from ..wide import WideConvolution, WideOutput, WideProduct, weight_parts, wide_output
from .forms import Form, form_of
from .recurrent import RECURRENT, recurrent
from .windows import window_of

__all__ = ["lowered"]


def lowered(graph: Graph, node: Node) -> DeviceOperation:
    """What a node is on the device. Raises ``Refusal`` with the rule that it breaks."""
    if node.op in RECURRENT:
        return recurrent(graph, node)
    form = form_of(graph, node)
    if form.op not in _LOWERINGS:
        raise Refusal(f"{form.op} is no operation of the device")
    operation = _LOWERINGS[form.op](form)
    if isinstance(operation, ComputedProducts) or form.points == (None, None):
        return operation
    if form.points[1] is not None:
        raise Refusal("zero point of constant weights must be constant, not computed")
    assert isinstance(operation, (Convolution, FullyConnected)) and form.points[0] is not None
    return replace(operation, operands=(*operation.operands, form.points[0]), point_computed=True)


def _filters(form: Form, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, their scales and zero points, along ``axis`` where there are several."""
    assert form.other is not None
    w, quantisation = constant(form.other, "weights"), form.other.quantisation
    types = (np.int8, np.uint8, np.int16) if form.x.dtype.itemsize == 2 else (np.int8, np.uint8)
    if w.dtype not in types or quantisation is None:
        raise Refusal(f"weights must be {', '.join(str(np.dtype(one)) for one in types[:-1])} or {np.dtype(types[-1])}, not {w.dtype}")
    if not quantisation.per_tensor and quantisation.axis != axis % w.ndim:
        raise Refusal(f"weights must have scales along axis {axis % w.ndim}, not {quantisation.axis}")
    return w, quantisation.scale, quantisation.zero_point


def _bias(form: Form, scales: np.ndarray, filters: int) -> np.ndarray | None:
    """Biases in units of the sums, int32; ``scales``: values of these units."""
    values = _bias_values(form, scales, filters)
    if values is not None and np.abs(values).max() >= 2.0 ** 31:
        raise Refusal(f"bias must fit 32 bits in units of the sums, not {np.abs(values).max():g}")
    return None if values is None else values.astype(np.int32)


def _bias_values(form: Form, scales: np.ndarray, filters: int) -> np.ndarray | None:
    """Biases in units of the sums, whole numbers in float64."""
    if form.bias is None:
        return None
    values, quantisation = constant(form.bias, "bias").reshape(-1), form.bias.quantisation
    if values.size not in (1, filters):
        raise Refusal(f"bias must have {filters} elements, not {values.size}")
    if values.dtype.kind == "f" or quantisation is not None:
        real = values.astype(np.float64)
        if quantisation is not None:
            real = (real - quantisation.zero_point) * quantisation.scale
        values = np.rint(real / scales)
    return np.broadcast_to(values, filters).astype(np.float64)


def _output(form: Form, x: Integers, w: np.ndarray, scales: np.ndarray, points: np.ndarray,
            bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None, Requantise | None]:
    """Filters (filters, …), biases and requantisation of a layer, which is None where the sums are the result."""
    if form.y.quantisation is None:
        if form.y.dtype != np.int32 or (form.low, form.high) != (None, None):
            raise Refusal(f"the result must be quantised to 8 bits, or int32, not {form.y.dtype}")
        return w, bias, None
    y = as_bytes(form.y, "the result")
    return with_one_shift(x.scale * scales / y.scale, y.zero_point, y.dtype, narrowed(y, form.low, form.high), w, points, bias)


def _channel_output(form: Form, x: Integers, w: np.ndarray, scales: np.ndarray, points: np.ndarray,
                    bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None, Requantise | None]:
    """``_output`` of a convolution: with a shift for each filter where these have scales of their own and there is room."""
    if scales.size > 1 and form.y.quantisation is not None:
        y, zeros = as_bytes(form.y, "the result"), np.zeros(len(w), np.int32)
        own = with_own_shifts(x.scale * scales.astype(np.float64) / y.scale, y.zero_point, y.dtype, narrowed(y, form.low, form.high),
                              most_sum(shifted(w, points), None), zeros if bias is None else bias, double_rounding=False)
        if own is not None:
            return w, *own
    return _output(form, x, w, scales, points, bias)


def _wide_output(form: Form, x: Integers, filters: int, scales: np.ndarray, points: np.ndarray) -> WideOutput:
    """Output stage for ``filters``, which a layer of 16-bit activations leaves to the host."""
    if points.any():
        raise Refusal("weights must have zero point 0 with 16-bit activations")
    y = as_integers(form.y, "the result")
    return wide_output(x, y, scales, _bias_values(form, x.scale * scales, filters), narrowed(y, form.low, form.high))


def _convolution(form: Form) -> DeviceOperation:
    x = as_integers(form.x, "x")
    w, scales, points = _filters(form, 0)
    if not 3 <= w.ndim <= 5 or len(x.shape) != w.ndim:
        raise Refusal(f"weights must have one to three spatial axes as x, not shape {w.shape} for {x.shape}")
    if scales.size not in (1, len(w)):
        raise Refusal(f"weights must have one scale, or one for each of {len(w)} filters, not {scales.size}")
    window, group = window_of(form.attributes, x.shape[2:], w.shape[2:]), int(form.attributes.get("group", 1))
    if x.wide:
        return WideConvolution(form.y.shape, weight_parts(w), _wide_output(form, x, len(w), scales, points), group, window=window)
    w, bias, spec = _channel_output(form, x, w, scales, points, _bias(form, x.scale * scales, len(w)))
    return Convolution(form.y.shape, np.ascontiguousarray(w), bias, window, group, x.zero_point, points_of(points), spec)


def _product(form: Form) -> DeviceOperation:
    """MatMul and Gemm; vectors are matrices of one row or column."""
    x, attributes = as_integers(form.x, "a"), form.attributes
    transposed = bool(attributes.get("transB", 0))
    if attributes.get("transA", 0):
        if len(x.shape) != 2:
            raise Refusal(f"a must be a matrix to be transposed (transA), not of shape {x.shape}")
        columns = replace(form, x=replace(form.x, shape=x.shape[::-1]), attributes=dict(attributes) | {"transA": 0})
        part = _product(columns)
        return Transposed(form.y.shape, part, operands=part.operands)
    assert form.other is not None
    if form.other.data is None:
        return _computed_product(form, x, form.other, transposed)
    b, scales, points = _filters(form, 0 if transposed else -1)
    b = b[:, None] if b.ndim == 1 else b
    if b.ndim < 2 or b.ndim > 2 and len(x.shape) < 2:
        raise Refusal(f"factors must be matrices, not of shapes {x.shape} and {b.shape}")
    form, scales = _with_factors(form, scales)
    if b.ndim > 2:
        return _products(form, x, b, scales, points)
    w = b if transposed else b.T
    if scales.size not in (1, len(w)):
        raise Refusal(f"b must have one scale, or one for each of {len(w)} columns, not {scales.size}")
    if x.wide:
        return WideProduct(form.y.shape, weight_parts(w), _wide_output(form, x, len(w), scales, points))
    w, bias, spec = _output(form, x, w, scales, points, _bias(form, x.scale * scales, len(w)))
    return fully_connected(form.y.shape, int(np.prod(x.shape[:-1])), w, points, bias, x.zero_point, spec)


def _with_factors(form: Form, scales: np.ndarray) -> tuple[Form, np.ndarray]:
    """Gemm's alpha as part of the scales of its weights, and beta as part of its bias."""
    alpha, beta = (float(form.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    if not alpha > 0:
        raise Refusal(f"alpha must be positive, not {alpha:g}")
    bias = form.bias
    if alpha != 1 and bias is not None and bias.dtype.kind != "f" and bias.quantisation is None:
        raise Refusal(f"alpha must be 1 with a bias of plain integers, not {alpha:g}")
    if bias is not None and beta != 1:
        if bias.quantisation is not None:
            bias = replace(bias, quantisation=replace(bias.quantisation, scale=bias.quantisation.scale * beta))
        else:
            bias = replace(bias, data=constant(bias, "bias") * beta)
    return replace(form, bias=bias), scales * alpha


def _computed_product(form: Form, x: Integers, other: Tensor, transposed: bool) -> DeviceOperation:
    """MatMul and Gemm whose second factor is an activation too."""
    if x.wide:
        raise Refusal("b must be constant with 16-bit activations, not computed")
    b = as_bytes(other, "b")
    form, scales = _with_factors(form, np.array([b.scale]))
    a_shape = x.shape if len(x.shape) > 1 else (1, *x.shape)
    b_shape = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    inputs, outputs = b_shape[:-3:-1] if transposed else b_shape[-2:]
    if a_shape[-1] != inputs:
        raise Refusal(f"factors must have one inner length, not {a_shape[-1]} and {inputs}")
    bias = _bias(form, x.scale * scales, outputs)
    spec = None
    if form.y.quantisation is not None:
        y = as_bytes(form.y, "the result")
        spec = requantisation(x.scale * scales / y.scale, y.zero_point, y.dtype, narrowed(y, form.low, form.high), 255.0 ** 2 * inputs)
    elif form.y.dtype != np.int32:
        raise Refusal(f"the result must be quantised to 8 bits, or int32, not {form.y.dtype}")
    computed = tuple(which for which, operand in enumerate(form.points) if operand is not None)
    operands = (*form.operands, *(operand for operand in form.points if operand is not None))
    return ComputedProducts(form.y.shape, a_shape, b_shape, (x.zero_point, b.zero_point), bias, spec, transposed,
                            computed=computed, operands=operands)


def _products(form: Form, x: Integers, b: np.ndarray, scales: np.ndarray, points: np.ndarray) -> DeviceOperation:
    """MatMul whose second factor is a batch of matrices (…, inputs, outputs)."""
    if x.wide:
        raise Refusal(f"b must be one matrix with 16-bit activations, not of shape {b.shape}")
    if form.points[0] is not None or form.bias is not None:
        raise Refusal(f"b must be one matrix for a bias, or a zero point that is computed, not of shape {b.shape}")
    if scales.size not in (1, b.shape[-1]) or points.size not in (1, b.shape[-1]):
        raise Refusal(f"b must have one scale, or one for each of {b.shape[-1]} columns, not {scales.size}")
    batch = np.broadcast_shapes(x.shape[:-2], b.shape[:-2])
    matrices = np.broadcast_to(np.arange(int(np.prod(x.shape[:-2]))).reshape(x.shape[:-2]), batch).reshape(-1)
    weights = np.broadcast_to(b, (*batch, *b.shape[-2:])).reshape(-1, *b.shape[-2:])
    shape, parts = form.y.shape[-2:], []
    for matrix in weights:
        w, bias, spec = _output(form, x, np.ascontiguousarray(matrix.T), scales, points, None)
        parts.append(fully_connected(shape, shape[0], w, points, bias, x.zero_point, spec))
    return Products(form.y.shape, tuple(parts), tuple(matrices.tolist()))


def _sum(form: Form) -> DeviceOperation:
    assert form.other is not None
    other = form.other if form.other.shape else replace(form.other, shape=(1,))        # a scalar
    a, b, y = as_bytes(form.x, "a"), as_bytes(other, "b"), as_bytes(form.y, "the result")
    added, operands = None, form.operands
    if form.x.data is not None:
        raise Refusal("a must be computed where b is constant, not constant")
    if other.data is not None:
        if np.broadcast_shapes(a.shape, b.shape) != a.shape:
            raise Refusal(f"a constant addend must have the shape {a.shape} of the other one, or less, not {b.shape}")
        added, operands = np.ascontiguousarray(np.broadcast_to(other.data, a.shape)), operands[:1]
    elif a.shape != b.shape:
        raise Refusal(f"addends must have one shape, not {a.shape} and {b.shape}")
    try:
        multipliers, shift = add_factors(a.scale, b.scale, y.scale)
    except ValueError as error:
        raise Refusal(str(error)) from None
    low, high = narrowed(y, form.low, form.high)
    return Sum(y.shape, multipliers, (a.zero_point, b.zero_point), Requantise(1, shift, y.zero_point, low, high, dtype=y.dtype), added,
               operands=operands)


def _average_pool(form: Form) -> DeviceOperation:
    x, y = as_bytes(form.x, "x"), as_bytes(form.y, "the result")
    kernel = x.shape[2:] if form.op == "GlobalAveragePool" else tuple(form.attributes.get("kernel_shape", ()))
    window = window_of({} if form.op == "GlobalAveragePool" else form.attributes, x.shape[2:], kernel)
    if any(gap != 1 for gap in window.dilations):
        raise Refusal(f"dilations of averages must be 1, not {window.dilations}")
    bounds = narrowed(y, form.low, form.high)
    spec = None
    if not x.alike(y) or bounds != (None, None):
        spec = requantisation(np.array([x.scale / y.scale]), y.zero_point, y.dtype, bounds, 255.0)
    return AveragePool(y.shape, window, x.zero_point, spec, bool(form.attributes.get("count_include_pad", 0)))


def _maximum_pool(form: Form) -> DeviceOperation:
    x, y = as_bytes(form.x, "x"), as_bytes(form.y, "the result")
    if not x.alike(y):
        raise Refusal("the result must have scale and zero point of x")
    if narrowed(y, form.low, form.high) != (None, None):
        raise Refusal("the result of a maximum must not be clamped")
    if len(x.shape) not in (3, 4):
        raise Refusal(f"x must have one or two spatial axes, not {len(x.shape) - 2}")
    return MaximumPool(y.shape, window_of(form.attributes, x.shape[2:], tuple(form.attributes.get("kernel_shape", ()))))


_LOWERINGS: dict[str, Callable[[Form], DeviceOperation]] = {
    "Conv": _convolution, "MatMul": _product, "Gemm": _product, "Add": _sum, "AveragePool": _average_pool,
    "GlobalAveragePool": _average_pool, "MaxPool": _maximum_pool}
