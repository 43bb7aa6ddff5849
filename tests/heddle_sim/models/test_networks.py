"""The networks of MLPerf Tiny on the functional simulator: each layer within 1 of LiteRT's reference kernels on equal operands.

They lie in ``../shared/models`` or ``HEDDLE_MODELS``; tests of those that are not there are skipped.
"""

import numpy as np
import pytest
from heddle_sim import Device, load_model
from heddle_sim.models.comparison import compared
from heddle_verif.networks import folder, networks

# Operators on the host, and the least share of equal values of a node, for random bytes.
KNOWN = {"ad01": ([], 1.0), "kws": (["RESHAPE", "SOFTMAX"], 1.0), "resnet8": (["RESHAPE", "SOFTMAX"], 0.998),
         "vww": (["RESHAPE", "SOFTMAX"], 1.0)}
INPUTS = 200
SAME = {"resnet8": 0.95, "ad01": 1.0, "kws": 1.0, "vww": 1.0}       # of noise: differences of resnet8's sums by 1 add up


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
    on_host, least = KNOWN[name]
    with load_model(path_of(name), device) as model:
        assert [placed.node.op for placed in model.placement if placed.where == "host"] == on_host
        assert all(placed.why.endswith(".") for placed in model.placement)
        found = compared(model, random_inputs(model, 0))
    assert max(one.most for one in found.nodes) <= 1
    shares = [one.equal_share for one in found.nodes]
    record_property("ran", f"{name}: {100 * min(shares):.2f} % of the values of a layer equal, all within 1")
    assert min(shares) >= least


def test_how_many_are_there(record_property):
    names = [path.stem for path in networks(".tflite")]
    record_property("ran", f"{len(set(names) & set(KNOWN))} of {len(KNOWN)} known networks, {len(set(names) - set(KNOWN))} others")


def test_exact_sums(device):
    """With them every layer of ``resnet8`` is equal to the reference, too."""
    with load_model(path_of("resnet8"), device, exact_sums=True) as model:
        found = compared(model, random_inputs(model, 0))
        assert {placed.operation.method for placed in model.placement if placed.node.op == "ADD"} == {"add"}
    assert max(one.most for one in found.nodes) == 0


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "exact_sums"), [*((name, False) for name in KNOWN), ("resnet8", True)])
def test_classes_equal_the_reference(name, exact_sums, device, record_property):
    with load_model(path_of(name), device, exact_sums=exact_sums) as model:
        (output,), same = model.graph.outputs, 0
        for seed in range(INPUTS):
            inputs = random_inputs(model, seed)
            same += int(model.run(inputs).outputs[output].argmax() == model.source.reference(inputs)[output].argmax())
    record_property("ran", f"{name}: the same class for {same} of {INPUTS} inputs")
    assert same >= (1 if exact_sums else SAME[name]) * INPUTS
