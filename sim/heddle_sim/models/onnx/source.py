"""An ONNX file as ``Source``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..graph import Node
from ..operations import DeviceOperation
from ..source import Source
from .calibration import Calibration
from .folding import folded
from .lowering import lowered
from .reader import Shapes, read_onnx
from .recurrent import RECURRENT, Recurrent
from .sessions import NodeSession, all_values

__all__ = ["OnnxSource"]


class OnnxSource(Source):
    """Graph and operators of an ONNX file; nodes of the host run in onnxruntime, which is also the reference.

    ``path``: of the file; ``shapes``, ``constants`` and ``calibrate``: see ``read_onnx``. Raises ``ModelError`` for a file that holds no
    network that can be run.
    """

    reference_name = "onnxruntime without optimisations"

    def __init__(self, path: Path, shapes: Shapes | None = None, constants: Mapping[str, np.ndarray] | None = None,
                 calibration: Calibration | None = None) -> None:
        file = read_onnx(path, shapes, constants, calibration)
        self.path, self._model = path, file.model
        self.graph, self._members = folded(file.graph, file.protos)
        self._sessions: dict[str, NodeSession] = {}
        self._samples = self._recurrent_samples(file.samples)

    def lowered(self, node: Node) -> DeviceOperation:
        operation = lowered(self.graph, node)
        if not self._samples or not isinstance(operation, Recurrent):
            return operation
        names = [node.inputs[place] for place in operation.operands]
        return operation.calibrated([[values[name] for name in names if name is not None] for values in self._samples])

    def _recurrent_samples(self, runs: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
        """Operands of recurrent nodes in each run, by onnxruntime."""
        names = {name for node in self.graph.nodes if node.op in RECURRENT for name in node.inputs if name is not None}
        wanted = [name for name in names if self.graph.tensors[name].data is None and name not in self.graph.inputs]
        if not names:
            return []
        return [dict(inputs) | (all_values(self._model, wanted, inputs, str(self.path)) if wanted else {}) for inputs in runs]

    def host(self, node: Node, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        if node.name not in self._sessions:
            self._sessions[node.name] = NodeSession(self._model, self.graph, node, self._members[node.name])
        return self._sessions[node.name].run(arrays)

    def reference(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = [name for node in self.graph.nodes for name in node.outputs]
        return dict(inputs) | all_values(self._model, names, inputs, str(self.path))
