"""Chains: fully connected layers of few rows behind each other become one run of the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..device import Device, Stats
from ..device.layer_chain import CHAINED_ROWS
from .errors import Refusal
from .graph import Graph, Node
from .operations import DeviceOperation, FullyConnected
from .rehearsal import Rehearsal

if TYPE_CHECKING:
    from .placement import PlacedNode

__all__ = ["Chain", "LayerChain", "chains", "few_rows"]


@dataclass(frozen=True, eq=False)
class LayerChain(DeviceOperation):
    """``Device.linear_chain`` of ``layers``."""

    method: ClassVar[str] = "linear_chain"
    layers: tuple[FullyConnected, ...]

    def call(self, device: Device, arrays: Sequence[np.ndarray], keep: bool) -> tuple[np.ndarray, Stats]:
        layers = [(layer.w, layer.bias, layer.requantise) for layer in self.layers]
        y, stats = device.linear_chain(arrays[0].reshape(-1, self.layers[0].w.shape[1]), layers,      # type: ignore[arg-type]    # see few_rows
                                       transpose=True)
        return y, stats


@dataclass(frozen=True, eq=False)
class Chain:
    """Nodes from ``first`` to ``last``, by name, that one operation runs."""

    nodes: tuple[str, ...]
    operation: LayerChain

    @property
    def first(self) -> str:
        """See above."""
        return self.nodes[0]

    @property
    def last(self) -> str:
        """See above."""
        return self.nodes[-1]

    @property
    def name(self) -> str:
        """Of the layer that it is in records."""
        return f"{self.first} … {self.last}"


def chains(rehearsal: Rehearsal, graph: Graph, placement: Sequence[PlacedNode], lowered: Sequence[DeviceOperation | None]) -> list[Chain]:
    """The longest chains of two nodes and more that a device takes; ``lowered``: what each node is as it stands in the file."""
    found, number = [], 0
    while number < len(placement):
        end = number
        while end < len(placement) and _may_stand(placement[end], lowered[end]) and (
                end == number or _follows(graph, placement, end) and _rows(lowered[end]) == _rows(lowered[number])):
            end += 1
        while end > number + 1:
            try:
                found.append(_chain(rehearsal, graph, [placed.node for placed in placement[number:end]], lowered[number:end]))
                break
            except Refusal:
                end -= 1
        number = max(end, number + 1)
    return found


def few_rows(operation: FullyConnected) -> bool:
    """Whether a layer has few rows, and bytes as results: then it may stand in a chain."""
    return operation.requantise is not None and not operation.point_computed and _rows(operation) <= CHAINED_ROWS


def _rows(operation: DeviceOperation | None) -> int:
    return prod(operation.shape) // len(operation.w) if isinstance(operation, FullyConnected) else 0


def _may_stand(placed: PlacedNode, operation: DeviceOperation | None) -> bool:
    return placed.where == "device" and isinstance(operation, FullyConnected) and few_rows(operation)


def _follows(graph: Graph, placement: Sequence[PlacedNode], number: int) -> bool:
    """Whether a node alone takes the result of the node before it."""
    (result,) = placement[number - 1].node.outputs
    takers = [name for node in graph.nodes for name in node.inputs if name == result]
    return takers == [result] == [placement[number].node.inputs[0]] and result not in graph.outputs


def _chain(rehearsal: Rehearsal, graph: Graph, nodes: Sequence[Node], layers: Sequence[DeviceOperation | None]) -> Chain:
    """Raises ``Refusal`` where the device does not take it."""
    first, last = layers[0], layers[-1]
    assert first is not None and last is not None
    operation = LayerChain(last.shape, tuple(layer for layer in layers if isinstance(layer, FullyConnected)), operands=first.operands)
    rehearsal.check(operation, [graph.operand(nodes[0], index, "x") for index in operation.operands])
    return Chain(tuple(node.name for node in nodes), operation)
