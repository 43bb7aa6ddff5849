"""Sessions of onnxruntime: nodes of a network on the host, and values of all its tensors."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...packages import needed
from ..errors import ModelError
from ..graph import Graph, Node

__all__ = ["NodeSession", "all_values", "constant_values"]

_LIMIT_S = 600          # of a run: a Loop may have no end


def _session(model: Any, what: str) -> Any:
    """A session without optimisations, so that each operator does what its definition says."""
    runtime = needed("onnxruntime", "an ONNX file")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error: # classes of onnxruntime have no common one
        raise ModelError(f"{what} must be of operators that onnxruntime has: {_line(error)}") from None


def _run(session: Any, names: Sequence[str], inputs: Mapping[str, np.ndarray], what: str) -> list[np.ndarray]:
    options = needed("onnxruntime", "an ONNX file").RunOptions()
    options.log_severity_level = 4
    timer = threading.Timer(_LIMIT_S, setattr, (options, "terminate", True))
    timer.daemon = True
    timer.start()
    try:
        return [np.asarray(array) for array in session.run(list(names), dict(inputs), options)]
    except Exception as error: # as above
        if options.terminate:
            raise ModelError(f"{what} must end within {_LIMIT_S} s on the host") from None
        raise ModelError(f"{what} must have operands that fit: {_line(error)}") from None
    finally:
        timer.cancel()


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def all_values(model: Any, names: Iterable[str], inputs: Mapping[str, np.ndarray], what: str) -> dict[str, np.ndarray]:
    """Values of the tensors ``names`` of a model; ``what`` names it in messages."""
    onnx = needed("onnx", "an ONNX file")
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    there = {value.name for value in copy.graph.output}
    wanted = list(dict.fromkeys(names))
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted if name not in there)
    return dict(zip(wanted, _run(_session(copy, what), wanted, inputs, what)))


def constant_values(model: Any, protos: Sequence[Any], constants: Mapping[str, np.ndarray], what: str) -> dict[str, np.ndarray]:
    """Results of nodes, in their order, that take ``constants`` and one another's results alone; ``what`` names them in messages."""
    onnx = needed("onnx", "an ONNX file")
    taken = [onnx.numpy_helper.from_array(constants[name], name)
             for name in dict.fromkeys(name for proto in protos for name in proto.input) if name in constants]
    made = onnx.helper.make_graph(list(protos), "constants", [], [], taken)
    copy = onnx.helper.make_model(made, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    return all_values(copy, [name for proto in protos for name in proto.output if name], {}, what)


class NodeSession:
    """A node of a graph on the host; constants are part of the session.

    ``protos``: the nodes of the file that it stands for. ``model``: the file, for its versions of operators.
    """

    def __init__(self, model: Any, graph: Graph, node: Node, protos: Sequence[Any]) -> None:
        onnx = needed("onnx", "an ONNX file")
        self.node, self.what = node, f"node {node.name} ({node.op})"
        names = list(dict.fromkeys(name for name in node.inputs if name is not None))
        self.inputs = [name for name in names if graph.tensors[name].data is None]
        constants = [onnx.numpy_helper.from_array(data, name) for name in names if (data := graph.tensors[name].data) is not None]
        values = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(graph.tensors[name].dtype),
                                                     graph.tensors[name].shape) for name in self.inputs]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.outputs]
        made = onnx.helper.make_graph(list(protos), "node", values, outputs, constants)
        self.session = _session(onnx.helper.make_model(made, opset_imports=list(model.opset_import), ir_version=model.ir_version),
                                self.what)

    def run(self, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Results of the node for its operands."""
        values = {name: array for name, array in zip(self.node.inputs, arrays) if name in self.inputs and array is not None}
        return _run(self.session, self.node.outputs, values, self.what)
