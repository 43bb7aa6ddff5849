"""A node on the host: its operands as integers or as real numbers, and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph import Graph, Node, Tensor

__all__ = ["HostCall", "as_integers", "as_real", "rounded"]


def as_real(tensor: Tensor, array: np.ndarray) -> np.ndarray:
    """Real values of a quantised tensor, float64; other elements as float64."""
    if tensor.quantisation is None or tensor.dtype.kind not in "iu":
        return array.astype(np.float64)
    scale, zero_point = tensor.quantisation.of_axis(array.ndim)
    return (array.astype(np.float64) - zero_point) * scale


def rounded(values: np.ndarray) -> np.ndarray:
    """Whole numbers, float64; halves go away from zero."""
    return np.trunc(values + np.copysign(0.5, values))


def as_integers(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    """Real values as elements of a tensor: where it is quantised rounded, halves away from zero, and clamped."""
    if tensor.quantisation is None or tensor.dtype.kind not in "iu":
        return np.asarray(values).astype(tensor.dtype)
    scale, zero_point = tensor.quantisation.of_axis(np.ndim(values))
    limits = np.iinfo(tensor.dtype)
    return np.clip(rounded(np.asarray(values) / scale) + zero_point, limits.min, limits.max).astype(tensor.dtype)


@dataclass(frozen=True)
class HostCall:
    """A node with the arrays of its operands; None for those that are left out."""

    graph: Graph
    node: Node
    arrays: Sequence[np.ndarray | None]

    def __len__(self) -> int:
        return len(self.arrays)

    def has(self, index: int) -> bool:
        """Whether an operand is given."""
        return index < len(self.arrays) and self.arrays[index] is not None

    def raw(self, index: int) -> np.ndarray:
        """Elements of an operand as they are."""
        array = self.arrays[index]
        assert array is not None, f"operand {index} of {self.node.op} must be given"
        return array

    def tensor(self, index: int) -> Tensor:
        """Type, shape and quantisation of an operand."""
        name = self.node.inputs[index]
        assert name is not None
        return self.graph.tensors[name]

    def real(self, index: int) -> np.ndarray:
        """Real values of an operand, float64."""
        return as_real(self.tensor(index), self.raw(index))

    def integers(self, index: int) -> tuple[int, ...]:
        """A vector of integers, such as axes or sizes."""
        return tuple(int(value) for value in np.atleast_1d(self.raw(index)).ravel())

    def pairs(self, index: int) -> list[tuple[int, int]]:
        """A matrix of two columns, such as padding before and behind."""
        return [(int(before), int(behind)) for before, behind in self.raw(index)]

    def get(self, name: str, default: Any = 0) -> Any:
        """A field of the options."""
        return self.node.attributes.get(name, default)

    def result(self, index: int = 0) -> Tensor:
        """Type, shape and quantisation of a result."""
        return self.graph.tensors[self.node.outputs[index]]

    def quantise(self, values: np.ndarray, index: int = 0) -> np.ndarray:
        """Real values as elements of a result."""
        return as_integers(self.result(index), values)
