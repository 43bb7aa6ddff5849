"""Loops of ONNX on the host: results beside onnxruntime, and loops that have no end."""

import numpy as np
import pytest
from heddle_sim.models import load_model
from heddle_sim.models.comparison import compared
from heddle_sim.models.onnx import sessions
from heddle_verif.onnx_checks import F32
from heddle_verif.stimulus.onnx_files import write_onnx
from onnx import TensorProto
from onnx.helper import make_graph, make_node, make_tensor_value_info


def doubling(path, counted, branch=False):
    """A file that doubles x four times, or, not ``counted``, for ever; also in the taken ``branch`` of an If."""
    said, value = (make_tensor_value_info(name, kind, shape) for name, kind, shape in (("go", TensorProto.BOOL, []),
                                                                                     ("v", TensorProto.FLOAT, [2])))
    body = make_graph([make_node("Identity", ["go"], ["goes"]), make_node("Add", ["v", "v"], ["twice"])], "body",
                      [make_tensor_value_info("number", TensorProto.INT64, []), said, value],
                      [make_tensor_value_info("goes", TensorProto.BOOL, []), make_tensor_value_info("twice", TensorProto.FLOAT, [2])])
    loop = make_node("Loop", ["count" if counted else "", "yes", "x"], ["z" if branch else "y"], body=body, name="doubling")
    constants = {"count": np.array(4, np.int64), "yes": np.array(True)}
    if branch:
        result = [make_tensor_value_info("z", TensorProto.FLOAT, [2])]
        other = make_graph([make_node("Identity", ["x"], ["z"])], "other", [], result)
        loop = make_node("If", ["yes"], ["y"], then_branch=make_graph([loop], "taken", [], result), else_branch=other, name="doubling")
    return write_onnx(path, [loop], {"x": (F32, (2,))}, {"y": (F32, (2,))}, constants)


@pytest.mark.parametrize("branch", [False, True])
def test_a_loop_that_ends(tmp_path, device, branch):
    with load_model(doubling(tmp_path / "a.onnx", True, branch), device) as model:
        found = compared(model, {"x": F32([1.5, -2])})
    assert found.result.outputs["y"].tolist() == [24, -32] and [node.most for node in found.nodes] == [0]


@pytest.mark.parametrize("branch", [False, True])
def test_a_loop_without_an_end(tmp_path, device, monkeypatch, branch):
    """Refused after the limit of time: in a run, by the reference, and where samples are to give the ranges. The model still runs."""
    monkeypatch.setattr(sessions, "_LIMIT_S", 0.2)
    path = doubling(tmp_path / "a.onnx", False, branch)
    op, says = "If" if branch else "Loop", r"must end within 0\.2 s on the host$"
    with load_model(path, device) as model:
        for _ in range(2):
            with pytest.raises(ValueError, match=rf"^node 0 doubling \({op}\) {says}"):
                model.run({"x": F32([1, 1])})
    with pytest.raises(ValueError, match=says):
        load_model(path, device, calibrate={"x": F32([[1, 2]])})
