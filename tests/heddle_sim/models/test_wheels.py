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


VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410), (660, 1720, 2410))     # formants, Hz
RATE, SYLLABLE, HARMONICS = 16_000, 4_000, 29      # samples a second, of a syllable


def vowel(formants, rng):
    """A syllable: harmonics of a falling pitch, weighted by their distance from three formants."""
    time = np.arange(SYLLABLE) / RATE
    pitch = rng.uniform(100, 150) * (1 - 0.2 * time / time[-1]) * (1 + 0.01 * np.sin(2 * np.pi * 5 * time))
    phase, voice = 2 * np.pi * np.cumsum(pitch) / RATE, np.zeros(SYLLABLE)
    for harmonic in range(1, HARMONICS + 1):
        parts = [gain / (1 + ((harmonic * pitch.mean() - centre) / width) ** 2)
                 for centre, width, gain in zip(formants, (90, 110, 160), (1, 0.6, 0.3))]
        voice += sum(parts) / harmonic ** 0.3 * np.sin(harmonic * phase + rng.uniform(0, 6))
    return voice * np.clip(np.minimum(time / 0.04, (time[-1] - time) / 0.06), 0, 1)


def synthetic_speech(seconds, rng):
    """Four seconds of random vowels, two of silence, and so on, with noise."""
    parts = [vowel(VOWELS[rng.integers(len(VOWELS))], rng) if start // RATE % 6 < 4 else np.zeros(SYLLABLE)
             for start in range(0, RATE * seconds, SYLLABLE)]
    audio = np.concatenate(parts)
    return (0.3 * audio / np.abs(audio).max() + 0.003 * rng.standard_normal(len(audio))).astype(np.float32)


@pytest.mark.nightly
@pytest.mark.parametrize("bits, most", [(None, 0.04), (16, 0.02)])
def test_a_minute_of_voice_activity(device, bits, most, record_property):
    """Probabilities of 60 s beside onnxruntime's: recurrent weights of 8 bits, rounded for the activations; with ``bits`` the convolutions
    of the encoder on the device too, calibrated by another minute."""
    window, context = 512, 64

    def framed(audio):
        padded = np.concatenate([np.zeros(context, np.float32), audio])
        return np.stack([padded[start:start + window + context] for start in range(0, len(audio) - window + 1, window)])

    frames = framed(synthetic_speech(60, np.random.default_rng(1)))
    path, state = carried("silero-vad", "silero_vad_16k_sequence.onnx"), np.zeros((1, 1, 128), np.float32)
    inputs = {"input": frames, "h": state, "c": state}
    shapes, calibration = {"sequence_length": len(frames)}, {}
    if bits:
        samples = inputs | {"input": framed(synthetic_speech(60, np.random.default_rng(2)))}
        calibration = {"calibrate": samples, "activation_bits": bits}
    with load_model(path, device, shapes=shapes) as floats, load_model(path, device, shapes=shapes, **calibration) as model:
        on_device = [placed.node.op for placed in model.placement if placed.where == "device"]
        assert on_device == (["Conv"] * 4 + ["LSTM", "Conv"] if bits else ["LSTM"])
        found, wanted = model.run(inputs).outputs["speech_probs"], floats.source.reference(inputs)["speech_probs"]
    differences = np.abs(found - wanted)
    near = float((differences <= 0.02).mean())
    record_property("ran", f"{100 * near:.2f} % of {differences.size} frames within 0.02, at most {differences.max():.4f}; speech in "
                           f"{100 * float((wanted > 0.5).mean()):.0f} %")
    assert near >= 0.99 and differences.max() < most and 0.05 < (wanted > 0.5).mean() < 0.95
