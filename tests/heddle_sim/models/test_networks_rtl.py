"""The networks of MLPerf Tiny on the generated hardware: outputs equal those of LiteRT's reference kernels and of the functional simulator,
also where networks stay loaded."""

import time

import numpy as np
import pytest
from heddle_sim import Device, load_model
from heddle_sim.models.folder import models_folder

INPUTS = 5
NAMES = ("ad01", "kws", "resnet8", "vww")
QUICK = ("ad01",)       # on the functional simulator
SLOW = ("vww",)


@pytest.fixture(scope="module")
def device():
    with Device("base") as device:
        yield device


def path_of(name):
    path = models_folder() / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in {models_folder().name}")
    return path


def random_inputs(model):
    """Seeded inputs, one after the other."""
    rng = np.random.default_rng(0)
    for _ in range(INPUTS):
        yield {name: rng.integers(-128, 128, tensor.shape, np.int8) for name, tensor in model.inputs().items()}


def equal(found, wanted):
    return all(np.array_equal(found[name], wanted[name]) for name in found)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.nightly) if name in SLOW else name for name in NAMES])
def test_outputs_equal_the_reference(name, device, record_property):
    """All bytes, and with them the class."""
    with load_model(path_of(name), device) as model, device.load(model) as loaded:
        inputs, begin = list(random_inputs(model)), time.perf_counter()
        found = [loaded(values) for values in inputs]
        seconds = (time.perf_counter() - begin) / INPUTS
        assert all(equal(one.outputs, model.source.reference(values)) for one, values in zip(found, inputs))
    classes = {int(one.outputs[model.graph.outputs[0]].argmax()) for one in found}
    record_property("ran", f"{name}: all bytes equal for {INPUTS} inputs of {len(classes)} classes; {seconds:.1f} s and "
                           f"{found[-1].stats.cycles:,} cycles a call")


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.nightly) for name in NAMES])
def test_outputs_equal_the_functional_simulator(name, device, record_property):
    path = path_of(name)
    with (Device("base", "golden") as golden, load_model(path, golden) as wanted, load_model(path, device) as model,
          device.load(model) as loaded):
        for number, values in enumerate(random_inputs(model)):
            found, expected = loaded(values), wanted.run(values).outputs
            assert equal(found.outputs, expected)
            assert number or equal(model.run(values).outputs, expected)
        stats = found.stats
        record_property("ran", f"{name}: {stats.cycles:,} cycles a call, {100 * stats.utilization:.1f} % of peak; {loaded.weight_bytes:,} "
                               f"bytes of weights; {len(loaded.stayed)} tensors stay on the device")
    assert stats.cycles > 0
