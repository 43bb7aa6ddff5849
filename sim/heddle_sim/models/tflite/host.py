"""TFLite's operators on the host, in numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ModelError
from ..graph import Graph, Node
from .host_call import HostCall
from .host_functions import FUNCTIONS
from .host_layers import LAYERS
from .host_shapes import SHAPES
from .variables import STATES, Variables

__all__ = ["HostOperators"]

_HANDLERS = SHAPES | FUNCTIONS | LAYERS


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
                if node.op not in _HANDLERS and node.op not in STATES:
                    raise ModelError(f"{source} must have operators among {', '.join(sorted(_HANDLERS | STATES))}, not {node.op}")

    def reset(self) -> None:
        """Variables as before the first call."""
        self._variables = Variables()

    def run(self, node: Node, arrays: Sequence[np.ndarray | None], graph: Graph | None = None) -> list[np.ndarray]:
        """Results of a node; ``graph``: the main one by default."""
        call = HostCall(graph or self._graphs[0], node, arrays)
        if node.op == "CALL_ONCE":
            return self._initialise(int(call.get("init_subgraph_index")))
        with np.errstate(all="ignore"):
            return STATES[node.op](self._variables, call) if node.op in STATES else _HANDLERS[node.op](call)

    def _initialise(self, index: int) -> list[np.ndarray]:
        """CALL_ONCE: a subgraph that gives variables their first values."""
        if index in self._variables.initialised:
            return []
        self._variables.initialised.add(index)
        graph = self._graphs[index]
        values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
        for node in graph.nodes:
            results = self.run(node, [None if name is None else values[name] for name in node.inputs], graph)
            values.update(zip(node.outputs, results))
        return []
