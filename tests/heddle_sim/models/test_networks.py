"""The networks of MLPerf Tiny on the functional simulator: each layer has the bytes of LiteRT's reference kernels on equal operands.

They lie in ``../shared/models`` or ``HEDDLE_MODELS``; tests of those that are not there are skipped.
"""

import numpy as np
import pytest
from heddle_sim import Device, load_model
from heddle_sim.models.comparison import compared
from heddle_verif.networks import folder, networks

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
    path = folder() / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in {folder().name}")
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
