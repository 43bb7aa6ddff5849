"""PAD of an image as padding of the convolutions that read it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..graph import Graph, Node, Quantisation
from .options import PADS, VALID

__all__ = ["with_padding"]

_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")

Pairs = tuple[tuple[int, int], ...]     # elements before and behind an axis


def with_padding(graph: Graph) -> Graph:
    """The graph without each PAD that convolutions can do themselves: they read what PAD read, with its padding as attribute ``PADS``.

    PAD adds to rows and columns alone, and only convolutions without padding of their own read its result. Both pad integers with the
    zero point.
    """
    found = {node.outputs[0]: (node, pairs) for node in graph.nodes if (pairs := _pairs(graph, node)) is not None}
    for node in graph.nodes:
        for index, name in enumerate(node.inputs):
            if name in found and (index or node.op not in _CONVOLUTIONS or node.attributes.get("padding") != VALID):
                del found[name]
    for name in graph.outputs:
        found.pop(name, None)
    dropped = {pad.name for pad, _ in found.values()}
    return replace(graph, nodes=tuple(_padded(node, found) for node in graph.nodes if node.name not in dropped))


def _padded(node: Node, found: dict[str, tuple[Node, Pairs]]) -> Node:
    name = node.inputs[0] if node.inputs else None
    if name not in found:
        return node
    pad, pairs = found[name]
    return replace(node, inputs=(pad.inputs[0], *node.inputs[1:]), attributes={**node.attributes, PADS: pairs})


def _pairs(graph: Graph, node: Node) -> Pairs | None:
    """What PAD adds to rows and columns; None of another node, and where it adds to other axes or changes the quantisation."""
    if node.op != "PAD" or len(node.outputs) != 1:
        return None
    x, amounts, y = graph.optional(node, 0), graph.optional(node, 1), graph.tensors[node.outputs[0]]
    if x is None or amounts is None or amounts.data is None or amounts.data.shape != (4, 2) or amounts.data.dtype.kind != "i":
        return None
    batch, rows, columns, channels = map(tuple, amounts.data.tolist())
    if batch != (0, 0) or channels != (0, 0) or min(*rows, *columns) < 0 or not _same(x.quantisation, y.quantisation):
        return None
    return rows, columns


def _same(x: Quantisation | None, y: Quantisation | None) -> bool:
    if x is None or y is None:
        return x is y
    return np.array_equal(x.scale, y.scale) and np.array_equal(x.zero_point, y.zero_point)
