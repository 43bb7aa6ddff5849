"""Comparison of a network with its reference interpreter, node by node with equal operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .model import Model, ModelResult, NodeResult

__all__ = ["Comparison", "Difference", "compared", "difference"]


class Difference(NamedTuple):
    """Greatest difference of two arrays, in steps of integers or as real numbers, and the share of equal elements."""

    most: float
    equal_share: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """A run of a network beside that of its reference.

    Attributes
    ----------
    result : ModelResult
        Of the run, in which each node has what the nodes before it gave.
    nodes : list of Difference or None
        Of each node with the operands of the reference; None where it has no result that the reference gives, or reads state.
    outputs : dict of str to Difference
        Of the outputs of the run.
    same_class : bool
        The greatest element of the last axis is the same for all of the first output.
    """

    result: ModelResult
    nodes: list[Difference | None]
    outputs: dict[str, Difference]
    same_class: bool


def difference(found: np.ndarray, wanted: np.ndarray) -> Difference:
    """``Difference`` of two arrays of one shape; values that are no number in both are equal."""
    if not found.size:
        return Difference(0, 1.0)
    equal = found == wanted
    if found.dtype.kind == "f":
        equal |= np.isnan(found) & np.isnan(wanted)
        distances = np.where(equal, 0.0, np.abs(found.astype(np.float64) - wanted.astype(np.float64)))
        return Difference(float(distances.max()), float(equal.mean()))
    distances = np.abs(found.astype(np.int64) - wanted.astype(np.int64))
    return Difference(int(distances.max()), float(equal.mean()))


def compared(model: Model, inputs: Mapping[str, np.ndarray] | np.ndarray) -> Comparison:
    """Run a network and its reference on the same inputs.

    A node whose operands differ from those of the reference runs once more with these, a node of a chain alone. Raises as ``Model.run``,
    and ``MissingPackage`` without the package of the reference.
    """
    checked = model.checked(inputs)
    reference = model.source.reference(checked)
    result = model.run(checked)
    nodes = [_node(model, node, reference) for node in result.nodes]
    outputs = {name: difference(array, reference[name]) for name, array in result.outputs.items() if name in reference}
    first = model.graph.outputs[0]
    same = first in outputs and bool((_class(result.outputs[first]) == _class(reference[first])).all())
    return Comparison(result, nodes, outputs, same)


def _class(array: np.ndarray) -> np.ndarray:
    return np.argmax(np.atleast_1d(array), axis=-1)


def _node(model: Model, node: NodeResult, reference: Mapping[str, np.ndarray]) -> Difference | None:
    """Of a node with the operands of the reference."""
    names, given = node.placed.node.inputs, node.placed.node.outputs
    outputs = [name for name in given if name in reference]
    if not outputs or model.source.reads_state(node.placed.node):
        return None
    arrays = [array if name is None else reference.get(name, array) for name, array in zip(names, node.arrays)]
    equal = all(own is None or other is None or np.array_equal(own, other) for own, other in zip(node.arrays, arrays))
    results = node.results if equal and node.placed.chain is None else model.run_node(node.placed, arrays).results
    results = [array for name, array in zip(given, results) if name in reference]
    found = [difference(array, reference[name].reshape(array.shape)) for name, array in zip(outputs, results)]
    sizes = [array.size for array in results]
    share = sum(one.equal_share * size for one, size in zip(found, sizes)) / max(sum(sizes), 1)
    return Difference(max(one.most for one in found), share)
