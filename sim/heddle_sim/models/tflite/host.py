"""TFLite's operators on the host, in numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ModelError, Refusal
from ..graph import Graph, Node
from .host_call import HostCall
from .host_functions import FUNCTIONS
from .host_layers import LAYERS
from .host_shapes import SHAPES
from .lstm import SEQUENCE_LSTM, layer_of, on_host
from .variables import STATES, Variables

__all__ = ["HostOperators"]

_HANDLERS = SHAPES | FUNCTIONS | LAYERS | {SEQUENCE_LSTM: on_host}
_MOST_REPEATS = 100_000         # of a loop


class HostOperators:
    """Runs nodes of a TFLite file on the host; keeps its variables from one call to the next.

    ``graphs``: those of the file, the main one first.
    """

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._graphs = tuple(graphs)
        self._variables = Variables()

    def check(self, source: str) -> None:
        """Raises ``ModelError`` where a node has no operator here; ``source``: the file."""
        for graph in self._graphs:
            for node in graph.nodes:
                if node.op not in _HANDLERS and node.op not in STATES and node.op not in _CALLS:
                    known = sorted((*_HANDLERS, *STATES, *_CALLS))
                    raise ModelError(f"operator {node.op} of {source} must be one of {', '.join(known)}")
                if node.op == SEQUENCE_LSTM:
                    try:
                        layer_of(graph, node)
                    except Refusal as error:
                        raise ModelError(f"{source} must have layers that the host has, but of {node.op} {node.name} {error}") from None

    def reset(self) -> None:
        """Variables as before the first call."""
        self._variables = Variables()

    def run(self, node: Node, arrays: Sequence[np.ndarray | None], graph: Graph | None = None) -> list[np.ndarray]:
        """Results of a node; ``graph``: the main one by default."""
        call = HostCall(graph or self._graphs[0], node, arrays)
        if node.op in _CALLS:
            return _CALLS[node.op](self, call)
        with np.errstate(all="ignore"):
            return STATES[node.op](self._variables, call) if node.op in STATES else _HANDLERS[node.op](call)

    def initialise(self, call: HostCall) -> list[np.ndarray]:
        """CALL_ONCE: a subgraph that gives variables their first values."""
        index = int(call.get("init_subgraph_index"))
        if index not in self._variables.initialised:
            self._variables.initialised.add(index)
            self._subgraph(index, [])
        return []

    def choose(self, call: HostCall) -> list[np.ndarray]:
        """IF: one of two subgraphs, on the operands behind the condition."""
        name = "then_subgraph_index" if bool(np.all(call.raw(0))) else "else_subgraph_index"
        return self._subgraph(int(call.get(name)), call.arrays[1:])

    def repeat(self, call: HostCall) -> list[np.ndarray]:
        """WHILE: a subgraph on the operands, then on its results, as long as another one says so of them."""
        values = list(call.arrays)
        for _ in range(_MOST_REPEATS):
            if not np.all(self._subgraph(int(call.get("cond_subgraph_index")), values)[0]):
                return [np.asarray(value) for value in values]
            values = list(self._subgraph(int(call.get("body_subgraph_index")), values))
        raise ModelError(f"WHILE {call.node.name} must end within {_MOST_REPEATS} repetitions")

    def call(self, call: HostCall) -> list[np.ndarray]:
        """CALL: a subgraph."""
        return self._subgraph(int(call.get("subgraph")), call.arrays)

    def _subgraph(self, index: int, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Results of a subgraph; all of it runs on the host."""
        graph = self._graphs[index]
        values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
        values.update((name, array) for name, array in zip(graph.inputs, arrays, strict=True) if array is not None)
        for node in graph.nodes:
            results = self.run(node, [None if name is None else values[name] for name in node.inputs], graph)
            values.update(zip(node.outputs, results))
        return [values[name] for name in graph.outputs]


_CALLS = {"CALL_ONCE": HostOperators.initialise, "IF": HostOperators.choose, "WHILE": HostOperators.repeat, "CALL": HostOperators.call}
