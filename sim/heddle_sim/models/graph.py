"""Graph of a network: tensors with their types, shapes and quantisation, and the nodes between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from .errors import ModelError, Refusal

__all__ = ["Graph", "Node", "Quantisation", "Tensor"]

MOST_ELEMENTS = 1 << 28         # of a tensor


@dataclass(frozen=True, eq=False)
class Quantisation:
    """Real value of an integer: scale · (integer − zero point).

    Attributes
    ----------
    scale : float64 array (1,) or (channels,)
    zero_point : int64 array of the same shape
    axis : int
        Axis of the channels, where there are several scales.
    """

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int = 0

    @property
    def per_tensor(self) -> bool:
        """Whether all elements have one scale and one zero point."""
        return self.scale.size == 1

    def of_axis(self, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
        """Scale and zero point, shaped for an array of ``dimensions`` axes."""
        if self.per_tensor:
            return self.scale.reshape(()), self.zero_point.reshape(())
        shape = [1] * dimensions
        shape[self.axis] = -1
        return self.scale.reshape(shape), self.zero_point.reshape(shape)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value between nodes, or a constant.

    Attributes
    ----------
    name : str
    dtype : numpy.dtype
    shape : tuple of int
    quantisation : Quantisation or None
    data : numpy.ndarray or None
        Elements of a constant.
    number : int
        Of the tensor in its file.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    quantisation: Quantisation | None = None
    data: np.ndarray | None = None
    number: int = 0


@dataclass(frozen=True, eq=False)
class Node:
    """An operator with its operands.

    Attributes
    ----------
    op : str
        Name of the operator in the format of the file.
    name : str
        Unique in the graph.
    inputs : tuple of str or None
        Names of tensors; None for an operand that is left out.
    outputs : tuple of str
    attributes : mapping of str to value
    """

    op: str
    name: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Graph:
    """A network: tensors by name, nodes in an order in which they can run, names of inputs and outputs."""

    tensors: Mapping[str, Tensor]
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def tensor(self, name: str | None, what: str) -> Tensor:
        """The tensor of an operand. Raises ``Refusal`` where it is left out; ``what`` names it in the message."""
        if name is None:
            raise Refusal(f"{what} must be given")
        return self.tensors[name]

    def operand(self, node: Node, index: int, what: str) -> Tensor:
        """Operand ``index`` of a node. Raises ``Refusal`` where the node has none."""
        return self.tensor(node.inputs[index] if index < len(node.inputs) else None, what)

    def optional(self, node: Node, index: int) -> Tensor | None:
        """Operand ``index`` of a node, or None."""
        name = node.inputs[index] if index < len(node.inputs) else None
        return None if name is None else self.tensors[name]

    def check(self, source: str) -> None:
        """Raises ``ModelError`` where a shape is open or too large, or a node reads what neither an input, a constant nor an earlier node
        gives; ``source``: the file."""
        for tensor in self.tensors.values():
            if any(length < 0 for length in tensor.shape):
                raise ModelError(f"tensor {tensor.name} must have a shape without open dimensions, not {tensor.shape}")
            if prod(tensor.shape) > MOST_ELEMENTS:
                raise ModelError(f"tensor {tensor.name} must have at most {MOST_ELEMENTS} elements, not {prod(tensor.shape)}")
        known = {*self.inputs, *(name for name, tensor in self.tensors.items() if tensor.data is not None)}
        for node in self.nodes:
            for name in node.inputs:
                if name is not None and name not in known:
                    raise ModelError(f"{source} must have operands from earlier nodes, not {name} of {node.op} {node.name}")
            known.update(node.outputs)
        for name in self.outputs:
            if name not in known:
                raise ModelError(f"{source} must have outputs of its nodes, not {name}")
