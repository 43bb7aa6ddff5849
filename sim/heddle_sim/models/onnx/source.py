"""An ONNX file as ``Source``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..graph import Node
from ..operations import DeviceOperation
from ..source import Source
from .folding import folded
from .lowering import lowered
from .reader import Shapes, read_onnx
from .sessions import NodeSession, all_values

__all__ = ["OnnxSource"]


class OnnxSource(Source):
    """Graph and operators of an ONNX file; nodes of the host run in onnxruntime, which is also the reference.

    ``path``: of the file; ``shapes``, ``constants`` and ``calibrate``: see ``read_onnx``. Raises ``ModelError`` for a file that holds no
    network that can be run.
    """

    reference_name = "onnxruntime without optimisations"

    def __init__(self, path: Path, shapes: Shapes | None = None, constants: Mapping[str, np.ndarray] | None = None,
                 calibrate: Mapping[str, np.ndarray] | None = None) -> None:
        file = read_onnx(path, shapes, constants, calibrate)
        self.path, self._model = path, file.model
        self.graph, self._members = folded(file.graph, file.protos)
        self._sessions: dict[str, NodeSession] = {}

    def lowered(self, node: Node) -> DeviceOperation:
        return lowered(self.graph, node)

    def host(self, node: Node, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        if node.name not in self._sessions:
            self._sessions[node.name] = NodeSession(self._model, self.graph, node, self._members[node.name])
        return self._sessions[node.name].run(arrays)

    def reference(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = [name for node in self.graph.nodes for name in node.outputs]
        return dict(inputs) | all_values(self._model, names, inputs, str(self.path))
