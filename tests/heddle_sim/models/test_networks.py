"""The networks of MLPerf Tiny on the functional simulator: each layer has the bytes of LiteRT's reference kernels on equal operands.

They lie in ``../shared/models`` or ``HEDDLE_MODELS``; tests of those that are not there are skipped.
"""

import numpy as np
import onnx
import pytest
from heddle_sim import Device, load_model
from heddle_sim.models.comparison import compared
from heddle_sim.models.folder import models_folder
from heddle_verif.networks import networks
from heddle_verif.stimulus.onnx_files import write_onnx
from onnx.helper import make_node

# Operators on the host.
KNOWN = {"ad01": [], "kws": ["RESHAPE", "SOFTMAX"], "resnet8": ["RESHAPE", "SOFTMAX"], "vww": ["RESHAPE", "SOFTMAX"]}
INPUTS = 200


@pytest.fixture(scope="module")
def device():
    with Device("base", "golden") as device:
        yield device


def random_inputs(model, seed):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-128, 128, tensor.shape, np.int8) for name, tensor in model.inputs().items()}


def path_of(name):
    path = models_folder() / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in {models_folder().name}")
    return path


@pytest.mark.parametrize("name", KNOWN)
def test_layers_equal_the_reference(name, device, record_property):
    with load_model(path_of(name), device) as model:
        assert [placed.node.op for placed in model.placement if placed.where == "host"] == KNOWN[name]
        assert all(placed.why.endswith(".") for placed in model.placement)
        found = compared(model, random_inputs(model, 0))
    assert found.nodes and max(one.most for one in found.nodes) == 0
    record_property("ran", f"{name}: all values of {len(found.nodes)} layers equal")


def test_how_many_are_there(record_property):
    names = [path.stem for path in networks(".tflite")]
    record_property("ran", f"{len(set(names) & set(KNOWN))} of {len(KNOWN)} known networks, {len(set(names) - set(KNOWN))} others")


def check_another(path, device):
    """Load a network with open dimensions of 1, run it on random inputs: each node is within 1 of its reference. The comparison."""
    rng, shapes = np.random.default_rng(0), {}
    if path.suffix == ".onnx":
        graph = onnx.load(path).graph
        constants = {tensor.name for tensor in graph.initializer}
        shapes = {value.name: tuple(max(dimension.dim_value, 1) for dimension in value.type.tensor_type.shape.dim)
                  for value in graph.input if value.name not in constants}
    with load_model(path, device, shapes=shapes) as model:
        inputs = {name: rng.integers(np.iinfo(tensor.dtype).min, np.iinfo(tensor.dtype).max, tensor.shape, tensor.dtype, endpoint=True)
                  if tensor.dtype.itemsize == 1 and tensor.dtype.kind in "iu" else rng.random(tensor.shape).astype(tensor.dtype)
                  for name, tensor in model.inputs().items()}
        found = compared(model, inputs)
    assert all(node is None or node.most <= 1 for node in found.nodes), found.nodes
    return found


@pytest.mark.parametrize("path", [path for suffix in (".tflite", ".onnx") for path in networks(suffix) if path.stem not in KNOWN],
                         ids=lambda path: path.name)
def test_other_networks_run(path, device, record_property):
    found = check_another(path, device)
    on_device = sum(node.stats is not None for node in found.result.nodes)
    record_property("ran", f"{path.name}: {on_device} of {len(found.nodes)} nodes on the device, all within 1")


def test_a_network_that_is_not_known(tmp_path, device):
    nodes = [make_node("MatMulInteger", ["x", "w"], ["sums"]), make_node("Cast", ["sums"], ["y"], to=onnx.TensorProto.FLOAT)]
    w = np.random.default_rng(1).integers(-128, 128, (8, 4), np.int8)
    path = write_onnx(tmp_path / "a.onnx", nodes, {"x": (np.int8, ("batch", 8))}, {"y": (np.float32, ["?", 4])}, {"w": w})
    assert [node.stats is None for node in check_another(path, device).result.nodes] == [False, True]


@pytest.mark.nightly
@pytest.mark.parametrize("name", KNOWN)
def test_classes_equal_the_reference(name, device, record_property):
    with load_model(path_of(name), device) as model:
        (output,), same = model.graph.outputs, 0
        for seed in range(INPUTS):
            inputs = random_inputs(model, seed)
            same += int(model.run(inputs).outputs[output].argmax() == model.source.reference(inputs)[output].argmax())
    record_property("ran", f"{name}: the same class for {same} of {INPUTS} inputs")
    assert same == INPUTS
