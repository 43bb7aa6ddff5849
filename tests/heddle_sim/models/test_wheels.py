"""Networks that wheels carry: streaming networks whose state is kept between calls, and a recurrent one.

The packages are installed without what they depend on (``pip install --no-deps silero-vad pymicro-wakeword``); where they are not there
their tests are skipped.
"""

from importlib import metadata

import numpy as np
import pytest
from heddle_sim import Device, load_model
from heddle_sim.models.comparison import compared

CALLS = 3


@pytest.fixture(scope="module")
def device():
    with Device("base", "golden") as device:
        yield device


def carried(package, name):
    try:
        found = [file for file in metadata.files(package) or [] if file.name == name]
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    assert found, name
    return found[0].locate()


@pytest.mark.parametrize("name", ["hey_jarvis", *(pytest.param(name, marks=pytest.mark.nightly) for name in
                                                  ("alexa", "hey_mycroft", "okay_nabu"))])
def test_streaming_networks(name, device, record_property):
    """Each node within 1 of LiteRT on equal operands, over calls that go on from the state of the one before."""
    rng = np.random.default_rng(0)
    with load_model(carried("pymicro-wakeword", f"{name}.tflite"), device) as model:
        layers = {placed.node.op for placed in model.placement if placed.where == "device"}
        assert layers == {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"}
        ((input_name, tensor),) = model.inputs().items()
        inputs = [{input_name: rng.integers(-128, 128, tensor.shape, tensor.dtype)} for _ in range(CALLS)]
        found = [compared(model, one) for one in inputs]
        assert all(node.most <= 1 for one in found for node in one.nodes if node is not None)
        share = min(node.equal_share for one in found for node in one.nodes if node is not None)
        record_property("ran", f"{name}: {100 * share:.2f} % of the values of a layer equal, all within 1")
        (output,) = model.graph.outputs
        later = [one.result.outputs[output] for one in found]
        model.reset()
        again = [model.run(one).outputs[output] for one in inputs]
        assert all(np.array_equal(first, second) for first, second in zip(later, again))


def test_voice_activity(device):
    """Silero VAD: the recurrent layer on the device, the probability near onnxruntime's."""
    frames = 31
    path = carried("silero-vad", "silero_vad_16k_sequence.onnx")
    with load_model(path, device, shapes={"sequence_length": frames}) as model:
        assert [placed.node.op for placed in model.placement if placed.where == "device"] == ["LSTM"]
        samples = 0.05 * np.random.default_rng(0).standard_normal((frames, 576)).astype(np.float32)
        state = np.zeros((1, 1, 128), np.float32)
        found = compared(model, {"input": samples, "h": state, "c": state})
    assert found.outputs["speech_probs"].most < 0.02
