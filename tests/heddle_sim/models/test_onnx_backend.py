"""ONNX's backend interface: outputs equal those of ``load_model``, by whatever way inputs are given."""

import numpy as np
import onnx
import pytest
from heddle_sim import load_model
from heddle_sim.onnx.backend import HeddleBackend, prepare, run_model, supports_device
from heddle_verif.stimulus.onnx_files import write_onnx
from onnx.helper import make_node

DEVICE = "tiny:golden"


@pytest.fixture
def path(tmp_path):
    """A product of a batch of any size, and a function on the host."""
    w = np.random.default_rng(0).integers(-128, 128, (8, 4), np.int8)
    nodes = [make_node("MatMulInteger", ["x", "w"], ["sums"]), make_node("Cast", ["sums"], ["real"], to=onnx.TensorProto.FLOAT),
             make_node("Sigmoid", ["real"], ["y"])]
    outputs = {"sums": (np.int32, ["?", 4]), "y": (np.float32, ["?", 4])}
    return write_onnx(tmp_path / "a.onnx", nodes, {"x": (np.int8, ("batch", 8))}, outputs, {"w": w})


def test_prepare(path):
    """Shapes of inputs bind open dimensions; a network is placed once for each of them."""
    rng = np.random.default_rng(1)
    with prepare(onnx.load(path), DEVICE) as prepared:
        for batch in (1, 3, 1):
            x = rng.integers(-128, 128, (batch, 8), np.int8)
            sums, y = prepared.run(x)
            again = prepared.run({"x": x})
            assert np.array_equal(sums, x.astype(np.int32) @ load_w(path)) and np.array_equal(y, again.y)
            assert np.array_equal(prepared.run([x])["sums"], sums)
            with load_model(path, prepared.device, shapes={"batch": batch}) as model:
                assert np.array_equal(model.run(x).outputs["y"], y)
        assert [placed.where for placed in prepared.model.placement] == ["device", "host", "host"]
        for inputs, says in (([x, x], "inputs must be 1 arrays (x), not list"), ({"z": x}, "inputs must be x, not z")):
            with pytest.raises(ValueError) as error:
                prepared.run(inputs)
            assert str(error.value) == says


def load_w(path):
    return onnx.numpy_helper.to_array(onnx.load(path).graph.initializer[0]).astype(np.int32)


def test_run_model(path):
    x = np.random.default_rng(2).integers(-128, 128, (2, 8), np.int8)
    assert np.array_equal(run_model(onnx.load(path), [x], DEVICE)[0], x.astype(np.int32) @ load_w(path))


def test_devices():
    assert all(map(supports_device, ("base", "base:golden", "tiny:verilator", "CPU")))
    assert not any(map(supports_device, ("CUDA", "base:gold", "")))
    with pytest.raises(ValueError, match="a node must be in a model"):
        HeddleBackend.run_node(make_node("Relu", ["x"], ["y"]), [np.ones(3, np.float32)])
    with pytest.raises(ValueError, match="options must be calibrate or constants, not speed"):
        prepare(onnx.ModelProto(), DEVICE, speed=3)
