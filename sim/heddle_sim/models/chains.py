"""Chains: fully connected layers of few rows behind each other become one run of the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..device import Device, Stats
from ..kernels.few_rows import has_few_rows
from .errors import Refusal
from .graph import Graph
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
        x = arrays[0].reshape(-1, self.layers[0].w.shape[1])
        y, stats = device.linear_chain(x, layers, transpose=True)       # type: ignore[arg-type]    # see few_rows
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


def chains(rehearsal: Rehearsal, graph: Graph, placement: Sequence[PlacedNode]) -> list[Chain]:
    """The longest chains of two nodes and more that a device takes, of those that run as chains of one."""
    found, number = [], 0
    while number < len(placement):
        end = number + 1
        while end < len(placement) and _goes_on(graph, placement[end - 1], placement[end]):
            end += 1
        while end > number + 1:
            try:
                found.append(_chain(rehearsal, graph, placement[number:end]))
                break
            except Refusal:
                end -= 1
        number = end
    return found


def few_rows(operation: FullyConnected) -> bool:
    """Whether a layer has few rows, and bytes as results: then it may stand in a chain."""
    return not operation.point_computed and has_few_rows(_rows(operation), operation.requantise)


def _rows(layer: FullyConnected) -> int:
    return prod(layer.shape) // len(layer.w)


def _goes_on(graph: Graph, before: PlacedNode, placed: PlacedNode) -> bool:
    """Whether two nodes are layers of equally many rows, and the second alone takes the result of the first."""
    first, second = before.operation, placed.operation
    if not (isinstance(first, LayerChain) and isinstance(second, LayerChain)) or _rows(first.layers[0]) != _rows(second.layers[0]):
        return False
    (result,) = before.node.outputs
    takers = [name for node in graph.nodes for name in node.inputs if name == result]
    return takers == [result] == [placed.node.inputs[0]] and result not in graph.outputs


def _chain(rehearsal: Rehearsal, graph: Graph, placement: Sequence[PlacedNode]) -> Chain:
    """Raises ``Refusal`` where the device does not take it."""
    parts = [placed.operation for placed in placement if isinstance(placed.operation, LayerChain)]
    operation = LayerChain(parts[-1].shape, tuple(layer for part in parts for layer in part.layers), operands=parts[0].operands)
    rehearsal.check(operation, [graph.operand(placement[0].node, index, "x") for index in operation.operands])
    return Chain(tuple(placed.node.name for placed in placement), operation)
