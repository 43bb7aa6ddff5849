"""A TFLite file as ``Source``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from heddle.errors import UsageError

from ...packages import needed
from ..errors import ModelError
from ..graph import Graph, Node, Tensor
from ..operations import DeviceOperation
from ..source import Source
from .host import HostOperators
from .lowering import lowered
from .lstm import NEXT
from .padding import with_padding
from .reader import read_tflite

__all__ = ["TfliteSource"]


class TfliteSource(Source):
    """Graph and operators of a TFLite file; its reference is LiteRT's interpreter with its reference kernels.

    Parameters
    ----------
    path : Path
    shapes : dict of str to tuple of int, optional
        Shapes of inputs by name, in place of those of the file. The reference interpreter says which shapes follow from them.

    Raises ``ModelError`` for a file that holds no network that can be run, ``UsageError`` for shapes that it cannot have.
    """

    reference_name = "LiteRT's reference kernels"

    def __init__(self, path: Path, shapes: Mapping[str, int | tuple[int, ...]] | None = None) -> None:
        graphs = read_tflite(path)
        HostOperators(graphs).check(str(path))      # before operands: operators that are not there have some of their own kind
        for graph in graphs:
            graph.check(str(path))
        self.path, self.graph = path, graphs[0]
        self._interpreter: Any = None
        self._shapes: dict[int, tuple[int, ...]] = {}       # that were given, by the numbers of the inputs
        if shapes:
            if len(graphs) > 1:
                raise UsageError(f"shapes must be none for a TFLite file with {len(graphs)} subgraphs, not those of {', '.join(shapes)}")
            self.graph = self._with_shapes(self.graph, shapes)
            graphs = (self.graph,)
        self.graph = with_padding(self.graph)
        self._host = HostOperators((self.graph, *graphs[1:]))

    def lowered(self, node: Node) -> DeviceOperation:
        return lowered(self.graph, node)

    def host(self, node: Node, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        return self._host.run(node, arrays)

    def reads_state(self, node: Node) -> bool:
        return node.op == "READ_VARIABLE"

    def reset(self) -> None:
        self._host.reset()
        if self._interpreter is not None:
            self._interpreter.reset_all_variables()

    def reference(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        try:
            if self._interpreter is None:
                self._interpreter = self._opened()
            for name, array in inputs.items():
                self._interpreter.set_tensor(self.graph.tensors[name].number, array)
            self._interpreter.invoke()
        except (ValueError, RuntimeError) as error:
            self._interpreter = None
            raise ModelError(f"{self.path} must be a network that {self.reference_name} run: {error}") from None
        # States within an operator are those of its last step.
        within = {name for node in self.graph.nodes if "within" in node.attributes for name in node.outputs}
        return {name: self._value(tensor) for name, tensor in self.graph.tensors.items() if not tensor.dtype.hasobject and
                name.removesuffix(NEXT) not in within}

    def _value(self, tensor: Tensor) -> np.ndarray:
        return self._interpreter.get_tensor(tensor.number)

    def _opened(self) -> Any:
        """The interpreter, with the shapes of inputs that were given."""
        litert = needed("ai_edge_litert.interpreter", "the reference interpreter", "test")
        interpreter = litert.Interpreter(str(self.path), experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
                                         experimental_preserve_all_tensors=True)
        for number, shape in self._shapes.items():
            interpreter.resize_tensor_input(number, shape)
        interpreter.allocate_tensors()
        return interpreter

    def _with_shapes(self, graph: Graph, given: Mapping[str, int | tuple[int, ...]]) -> Graph:
        """The graph with other shapes of inputs, and those that follow from them in the interpreter."""
        for name, shape in given.items():
            if name not in graph.inputs:
                raise UsageError(f"shapes must be of the inputs {', '.join(graph.inputs)}, not of {name!r}")
            dimensions, length = len(graph.tensors[name].shape), 1 if isinstance(shape, int) else len(shape)
            if length != dimensions:
                raise UsageError(f"shape of input {name} must have {dimensions} dimensions, not {length}")
            self._shapes[graph.tensors[name].number] = (shape,) if isinstance(shape, int) else shape
        try:
            self._interpreter = self._opened()
        except (ValueError, RuntimeError) as error:
            shapes = ", ".join(f"{name}: {shape}" for name, shape in given.items())
            raise UsageError(f"shapes must be such that {self.path} can run, not {shapes}: {error}") from None
        found = {detail["index"]: tuple(map(int, detail["shape"])) for detail in self._interpreter.get_tensor_details()}
        return replace(graph, tensors={name: replace(tensor, shape=found.get(tensor.number, tensor.shape))
                                       for name, tensor in graph.tensors.items()})
