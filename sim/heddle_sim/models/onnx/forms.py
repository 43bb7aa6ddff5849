"""Quantised operators of ONNX in one form, whichever of the format's ways they are written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import Refusal
from ..graph import Graph, Node, Quantisation, Tensor
from ..quantised import constant

__all__ = ["Form", "form_of", "with_quantisation"]

MICROSOFT = "com.microsoft."


@dataclass(frozen=True, eq=False)
class Form:
    """An operator on quantised tensors.

    Attributes
    ----------
    op : str
        The operator on real numbers.
    x : Tensor
    other : Tensor or None
        Filters, the second factor or the second addend.
    bias : Tensor or None
        Integers in units of the sums, quantised or real numbers.
    y : Tensor
        The result; int32 sums where it has no quantisation.
    attributes : mapping
        Of the operator.
    operands : tuple of int
        Which operands of the node are x and other.
    low, high : float or None
        Clamp of the result.
    points : tuple of int or None
        Which operands of the node are the zero points of x and other, where they are computed.
    """

    op: str
    x: Tensor
    other: Tensor | None
    bias: Tensor | None
    y: Tensor
    attributes: Mapping[str, Any]
    operands: tuple[int, ...] = (0,)
    low: float | None = None
    high: float | None = None
    points: tuple[int | None, int | None] = (None, None)


def averages_images(axes: Sequence[int], rank: int) -> bool:
    """Whether a mean over ``axes`` of a tensor of ``rank`` axes is one over whole images with channels in front."""
    return rank > 2 and sorted(axis % rank for axis in axes) == list(range(2, rank))


def with_quantisation(tensor: Tensor, scale: Tensor | None, zero_point: Tensor | None, axis: int = 0) -> Tensor:
    """A tensor with scale (1 where None) and zero point (0 where None). Raises ``Refusal`` where they are computed."""
    scales = np.ones(1) if scale is None else np.atleast_1d(constant(scale, f"scale of {tensor.name}")).astype(np.float64)
    points = np.zeros(1, np.int64)
    if zero_point is not None:
        points = np.atleast_1d(constant(zero_point, f"zero point of {tensor.name}")).astype(np.int64)
    if scales.ndim != 1 or points.ndim != 1 or len(scales) != len(points) and 1 not in (len(scales), len(points)):
        raise Refusal(f"scales of {tensor.name} must be one, or a vector as long as the zero points, not of shape {scales.shape}")
    shape = np.broadcast_shapes(scales.shape, points.shape)
    return replace(tensor, quantisation=Quantisation(np.broadcast_to(scales, shape), np.broadcast_to(points, shape),
                                                     axis % max(len(tensor.shape), 1)))


def form_of(graph: Graph, node: Node) -> Form:
    """``Form`` of a node that is written with scales or integers. Raises ``Refusal`` for others."""
    if isinstance(node.attributes.get("form"), Form):
        return node.attributes["form"]
    if "refusal" in node.attributes:
        raise Refusal(node.attributes["refusal"])
    if node.op not in _FORMS:
        raise Refusal(_why_not(graph, node))
    return _FORMS[node.op](graph, node)


def _why_not(graph: Graph, node: Node) -> str:
    if node.op not in ("Conv", "MatMul", "Gemm", "Add", "AveragePool", "GlobalAveragePool", "ReduceMean"):
        return f"{node.op} is no operation of the device"
    x = graph.operand(node, 0, "x")
    if node.op == "Add" and x.dtype in (np.int8, np.uint8):
        return f"addends must have scales on the device, not be plain {x.dtype}, whose sums wrap around"
    quantised = any(other.op == "QuantizeLinear" for other in graph.nodes)
    hint = "; calibrate quantises networks of float32" if x.dtype == np.float32 and not quantised else ""
    return f"x must be quantised to 8 bits for {node.op} on the device, not {x.dtype}{hint}"


def _scaled(graph: Graph, node: Node, index: int, what: str, axis: int = 0) -> Tensor:
    """Operand ``index``, whose scale and zero point are the next two."""
    return with_quantisation(graph.operand(node, index, what), graph.operand(node, index + 1, f"scale of {what}"),
                             graph.optional(node, index + 2), axis)


def _result(graph: Graph, node: Node, index: int) -> Tensor:
    """The result, whose scale and zero point are operands from ``index`` on."""
    return with_quantisation(graph.tensors[node.outputs[0]], graph.operand(node, index, "scale of y"), graph.optional(node, index + 1))


def _linear_conv(graph: Graph, node: Node) -> Form:
    return Form("Conv", _scaled(graph, node, 0, "x"), _scaled(graph, node, 3, "weights"), graph.optional(node, 8),
                _result(graph, node, 6), node.attributes)


def _linear_matmul(graph: Graph, node: Node) -> Form:
    return Form("MatMul", _scaled(graph, node, 0, "a"), _scaled(graph, node, 3, "b", axis=-1), None, _result(graph, node, 6),
                node.attributes, (0, 3))


def _integer(op: str) -> Callable[[Graph, Node], Form]:
    """ConvInteger and MatMulInteger: int32 sums."""
    def made(graph: Graph, node: Node) -> Form:
        points: list[int | None] = [None, None]
        operands: list[Tensor] = []
        for place, axis in ((0, 0), (1, -1 if op == "MatMul" else 0)):
            point = graph.optional(node, 2 + place)
            if point is not None and point.data is None and int(np.prod(point.shape)) == 1:
                point, points[place] = None, 2 + place
            operands.append(with_quantisation(graph.operand(node, place, ("x", "weights")[place]), None, point, axis))
        x, other = operands
        return Form(op, x, other, None, graph.tensors[node.outputs[0]], node.attributes, (0, 1), points=(points[0], points[1]))
    return made


def _linear_add(graph: Graph, node: Node) -> Form:
    return Form("Add", _scaled(graph, node, 0, "a"), _scaled(graph, node, 3, "b"), None, _result(graph, node, 6), node.attributes, (0, 3))


def _linear_pool(op: str) -> Callable[[Graph, Node], Form]:
    def made(graph: Graph, node: Node) -> Form:
        if node.attributes.get("channels_last", 0):
            raise Refusal("images must have channels first for this operator, not last")
        return Form(op, _scaled(graph, node, 0, "x"), None, None, _result(graph, node, 3), node.attributes)
    return made


def _gemm(graph: Graph, node: Node) -> Form:
    axis = 0 if node.attributes.get("transB", 0) else -1
    if len(node.inputs) < 8 or node.inputs[7] is None:
        raise Refusal("the result must be quantised")
    return Form("Gemm", _scaled(graph, node, 0, "a"), _scaled(graph, node, 3, "b", axis), graph.optional(node, 6), _result(graph, node, 7),
                node.attributes, (0, 3))


def _max_pool(graph: Graph, node: Node) -> Form:
    if node.attributes["kept outputs"] != (0,):
        raise Refusal("MaxPool must be without its second result (Indices) on the device")
    x = graph.operand(node, 0, "x")
    if x.dtype not in (np.int8, np.uint8):
        raise Refusal(f"x must be int8 or uint8 for MaxPool on the device, not {x.dtype}")
    y = graph.tensors[node.outputs[0]]
    return Form("MaxPool", with_quantisation(x, None, None), None, None, with_quantisation(y, None, None), node.attributes)


_FORMS: dict[str, Callable[[Graph, Node], Form]] = {
    "QLinearConv": _linear_conv, "QLinearMatMul": _linear_matmul, "ConvInteger": _integer("Conv"), "MatMulInteger": _integer("MatMul"),
    "MaxPool": _max_pool, MICROSOFT + "QLinearAdd": _linear_add, MICROSOFT + "QGemm": _gemm,
    MICROSOFT + "QLinearAveragePool": _linear_pool("AveragePool"),
    MICROSOFT + "QLinearGlobalAveragePool": _linear_pool("GlobalAveragePool")}
