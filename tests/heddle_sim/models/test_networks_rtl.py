"""The networks of MLPerf Tiny on the generated hardware: outputs equal the functional simulator's, also where they stay loaded."""

import numpy as np
import pytest
from heddle_sim import Device, load_model
from heddle_verif.networks import folder

# Inputs in ``make nightly``; the first one runs in ``make test`` where it takes seconds.
INPUTS = {"ad01": 5, "kws": 3, "resnet8": 5, "vww": 1}
QUICK = ("ad01",)


@pytest.fixture(scope="module")
def device():
    with Device("base") as device:
        yield device


def outputs_equal(name, device, inputs):
    """Outputs of both simulators for random inputs; returns the figures of the last call."""
    path, rng = folder() / f"{name}.tflite", np.random.default_rng(0)
    if not path.is_file():
        pytest.skip(f"{path.name} is not in {folder().name}")
    with (Device("base", "golden") as golden, load_model(path, golden) as wanted, load_model(path, device) as model,
          device.load(model) as loaded):
        for number in range(inputs):
            values = {key: rng.integers(-128, 128, tensor.shape, np.int8) for key, tensor in model.inputs().items()}
            found, expected = loaded(values), wanted.run(values)
            assert all(np.array_equal(found.outputs[key], expected.outputs[key]) for key in expected.outputs)
            if number == 0:
                plain = model.run(values)
                assert all(np.array_equal(plain.outputs[key], expected.outputs[key]) for key in expected.outputs)
        return found.stats, loaded.weight_bytes, len(loaded.stayed)


@pytest.mark.parametrize("name, inputs", [
    *((name, 1) for name in QUICK), *(pytest.param(name, count, marks=pytest.mark.nightly) for name, count in INPUTS.items())])
def test_outputs_equal_the_functional_simulator(name, inputs, device, record_property):
    stats, weights, stayed = outputs_equal(name, device, inputs)
    record_property("ran", f"{name}: {stats.cycles:,} cycles a call, {100 * stats.utilization:.1f} % of peak; {weights:,} bytes of "
                           f"weights; {stayed} tensors stay on the device")
    assert stats.cycles > 0
