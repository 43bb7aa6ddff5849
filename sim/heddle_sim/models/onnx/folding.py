"""Folding of QDQ forms: operators between DequantizeLinear and QuantizeLinear become operators on integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import MISFITS, Refusal
from ..graph import Graph, Node, Tensor
from ..quantised import constant
from .forms import Form, averages_images, with_quantisation

__all__ = ["folded"]

_WITH_OTHER, _WITH_BIAS = ("Conv", "MatMul", "Gemm", "Add"), ("Conv", "Gemm")
_OF_ONE = ("AveragePool", "GlobalAveragePool", "MaxPool", "ReduceMean")
# They run on the host, on integers from and to.
_PLAIN = ("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Softmax", "Sigmoid", "Tanh", "Relu", "Clip", "Mul", "Sub", "Concat",
          "Resize", "HardSwish", "HardSigmoid", "LeakyRelu", "Pad", "Slice")
_DEQUANTISE, _QUANTISE = "DequantizeLinear", "QuantizeLinear"


def folded(graph: Graph, protos: Mapping[str, Any]) -> tuple[Graph, dict[str, list[Any]]]:
    """The graph with QDQ forms folded, and the nodes of the file that each of its nodes stands for.

    Nodes whose results nothing needs any more are left out.
    """
    folding = _Folding(graph)
    members: dict[str, list[Any]] = {}
    made: dict[str, Node] = {}
    inside: set[str] = set()        # nodes whose results nothing else takes
    for node in graph.nodes:
        if group := folding.group(node):
            made[group[-1].name] = folding.node(node, group)
            members[node.name] = [protos[member.name] for member in group]
            inside.update(member.name for member in group[group.index(node):-1])
    nodes = []
    for node in graph.nodes:
        if node.name in made:
            nodes.append(made[node.name])
        elif node.name not in inside:
            nodes.append(folding.left(node))
            members[node.name] = [protos[node.name]]
    kept = _needed(nodes, graph.outputs)
    return Graph(graph.tensors, kept, graph.inputs, graph.outputs), {node.name: members[node.name] for node in kept}


def _needed(nodes: Sequence[Node], outputs: Sequence[str]) -> tuple[Node, ...]:
    """Nodes of which an output, or another node, needs a result."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(name for name in node.inputs if name is not None)
    return tuple(reversed(kept))


class _Folding:
    """Producers and consumers of the tensors of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producers = {name: node for node in graph.nodes for name in node.outputs}
        self.consumers: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in node.inputs:
                if name is not None:
                    self.consumers.setdefault(name, []).append(node)

    def group(self, node: Node) -> list[Node]:
        """Nodes that become one with ``node``, in their order; empty where it stands in no QDQ form."""
        if node.op not in (*_WITH_OTHER, *_OF_ONE, *_PLAIN) or len(node.outputs) != 1:
            return []
        before = self._before(node)
        if not before or any(self.producers.get(name) not in before for name in self._real(node)):
            return []
        try:
            behind = self._behind(node)
        except Refusal:
            return []
        return [*dict.fromkeys(before), node, *behind]

    def left(self, node: Node) -> Node:
        """A node that stands in no QDQ form, with the rule that it breaks where DequantizeLinear gives its first operand."""
        before = self._before(node)
        if node.op not in (*_WITH_OTHER, *_OF_ONE) or len(node.outputs) != 1 or self.producers.get(node.inputs[0] or "") not in before:
            return node
        refusal = ""
        for name in self._real(node):
            if self.producers.get(name) not in before:
                refusal = f"operand {node.inputs.index(name)} of {node.op} must be quantised for the device, not float"
        if not refusal:
            try:
                self._behind(node)
            except Refusal as error:
                refusal = str(error)
        return replace(node, attributes=dict(node.attributes) | {"refusal": refusal}) if refusal else node

    def _before(self, node: Node) -> list[Node]:
        """Each DequantizeLinear that gives an operand of a node."""
        return [producer for name in node.inputs if (producer := self.producers.get(name or "")) and producer.op == _DEQUANTISE]

    def _real(self, node: Node) -> list[str]:
        """Operands of a node that are computed real numbers."""
        return [name for name in node.inputs if name is not None and self.graph.tensors[name].dtype.kind == "f" and
                self.graph.tensors[name].data is None]

    def _behind(self, node: Node) -> list[Node]:
        """A clamp, if any, and the QuantizeLinear that take the result of a node. Raises ``Refusal`` where something else takes it."""
        op, found = node.op, list[Node]()
        while not found or found[-1].op != _QUANTISE:
            (output,) = node.outputs
            consumers = self.consumers.get(output, [])
            takers = [consumer.op for consumer in consumers] + ["an output of the network"] * (output in self.graph.outputs)
            if takers != [_QUANTISE] and (found or takers not in (["Relu"], ["Clip"])):
                raise Refusal(f"one QuantizeLinear alone must take the result of {op}, behind Relu or Clip or none, not "
                              f"{', '.join(takers) or 'nothing'}")
            node = consumers[0]
            found.append(node)
        return found

    def node(self, node: Node, group: Sequence[Node]) -> Node:
        """The node that a group becomes."""
        inside = {name for member in group for name in member.outputs}
        names = tuple(dict.fromkeys(name for member in group for name in member.inputs if name is not None and name not in inside))
        attributes = dict(node.attributes)
        if node.op in (*_WITH_OTHER, *_OF_ONE):
            try:
                attributes["form"] = self._form(node, group, names)
            except Refusal as error:
                attributes["refusal"] = str(error)
            except MISFITS as error:
                attributes["refusal"] = f"attributes and operands of {node.op} must fit each other: {error}"
        return Node(node.op, node.name, names, group[-1].outputs, attributes)

    def _form(self, node: Node, group: Sequence[Node], names: Sequence[str]) -> Form:
        quantiser = group[-1]
        y = with_quantisation(self.graph.tensors[quantiser.outputs[0]], self.graph.operand(quantiser, 1, "scale of y"),
                              self.graph.optional(quantiser, 2))
        low, high = self._clamp(group[-2]) if group[-2] is not node else (None, None)
        x = self._integers(node, 0, node.op)
        other = self._integers(node, 1, node.op) if node.op in _WITH_OTHER else None
        if node.op == "Add" and other is not None and x.data is not None:
            x, other = other, x
        bias = self._integers(node, 2, node.op) if node.op in _WITH_BIAS and len(node.inputs) > 2 and node.inputs[2] else None
        op = node.op
        if op == "ReduceMean":
            op, axes = "GlobalAveragePool", self._axes(node)
            if not averages_images(axes, len(x.shape)):
                found = ", ".join(map(str, axes)) or "all"
                raise Refusal(f"axes of ReduceMean must be all behind the channels of images, not {found} of {len(x.shape)}")
        operands = tuple(names.index(tensor.name) for tensor in (x, other) if tensor is not None)
        return Form(op, x, other, bias, y, node.attributes, operands, low, high)

    def _integers(self, node: Node, index: int, op: str) -> Tensor:
        """What an operand was before DequantizeLinear, with its scale; a real constant as it is."""
        name = node.inputs[index]
        producer = self.producers.get(name or "")
        if producer is None or producer.op != _DEQUANTISE:
            tensor = self.graph.operand(node, index, f"operand {index}")
            if index < 2:
                raise Refusal(f"operand {index} of {op} must be quantised")
            return tensor
        if producer.attributes.get("block_size", 0):
            raise Refusal("scales of blocks must be those of whole axes")
        return with_quantisation(self.graph.operand(producer, 0, "x"), self.graph.operand(producer, 1, "scale"),
                                 self.graph.optional(producer, 2), int(producer.attributes.get("axis", 1)))

    def _axes(self, node: Node) -> list[int]:
        """Axes of a mean: an attribute, or from version 18 on an operand."""
        tensor = self.graph.optional(node, 1)
        given = node.attributes.get("axes", ()) if tensor is None else constant(tensor, "axes").ravel()
        return [int(axis) for axis in given]

    def _clamp(self, node: Node) -> tuple[float | None, float | None]:
        """Bounds of Relu or Clip. Raises ``Refusal`` where they are computed."""
        if node.op == "Relu":
            return 0.0, None
        bounds: list[float | None] = []
        for index, name in ((1, "min"), (2, "max")):
            tensor = self.graph.optional(node, index)
            if tensor is None:
                bounds.append(node.attributes.get(name))
            elif tensor.data is None:
                raise Refusal(f"{name} of Clip must be constant, not computed")
            else:
                bounds.append(float(np.ravel(tensor.data)[0]))
        return bounds[0], bounds[1]
