"""A TFLite file as ``Source``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...packages import needed
from ..errors import ModelError
from ..graph import Node, Tensor
from ..operations import DeviceOperation
from ..source import Source
from .host import HostOperators
from .lowering import lowered
from .reader import read_tflite

__all__ = ["TfliteSource"]


class TfliteSource(Source):
    """Graph and operators of a TFLite file; its reference is LiteRT's interpreter with its reference kernels.

    ``path``: of the file. Raises ``ModelError`` for a file that holds no network that can be run.
    """

    reference_name = "LiteRT's reference kernels"

    def __init__(self, path: Path) -> None:
        graphs = read_tflite(path)
        self.path, self.graph = path, graphs[0]
        self._host = HostOperators(graphs)
        self._host.check(str(path))
        self._interpreter: Any = None

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
        litert = needed("ai_edge_litert.interpreter", "the reference interpreter", "test")
        try:
            if self._interpreter is None:
                self._interpreter = litert.Interpreter(
                    str(self.path), experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
                    experimental_preserve_all_tensors=True)
                self._interpreter.allocate_tensors()
            for name, array in inputs.items():
                self._interpreter.set_tensor(self.graph.tensors[name].number, array)
            self._interpreter.invoke()
        except (ValueError, RuntimeError) as error:
            self._interpreter = None
            raise ModelError(f"{self.path} must be a network that {self.reference_name} run: {error}") from None
        return {name: self._value(tensor) for name, tensor in self.graph.tensors.items() if not tensor.dtype.hasobject}

    def _value(self, tensor: Tensor) -> np.ndarray:
        return self._interpreter.get_tensor(tensor.number)

