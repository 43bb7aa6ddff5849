"""The demo: integer arithmetic between layers, and the comparison with the golden model."""

import numpy as np
import pytest
from heddle import load_config
from heddle_sim import Device
from heddle_sim.demo import digits as demo
from heddle_sim.demo.quantised import quantise

TINY = load_config("tiny")


@pytest.fixture(scope="module")
def digits():
    return demo.train()


def test_multipliers_are_close_to_the_real_factors():
    """The integers say what the scales say, to nine digits."""
    generator = np.random.default_rng(1)
    weights = [generator.normal(size=shape) for shape in ((12, 9), (9, 4))]
    biases = [generator.normal(size=size) for size in (9, 4)]
    images = generator.random((50, 12))
    first, last = quantise(weights, biases, images).layers
    hidden = np.maximum(images @ weights[0] + biases[0], 0)
    factor = (1 / 255) * (np.abs(weights[0]).max() / 127) / (np.percentile(hidden, 99.95) / 255)
    steps = first.requantise
    assert steps.multiplier / 2**steps.shift == pytest.approx(factor, rel=1e-9) and steps.multiplier < 1 << 30
    assert last.requantise is None and last.weights.dtype == np.int8


def test_quantisation_keeps_the_accuracy(digits):
    network = digits.network
    logits = network.activations(network.inputs(digits.test_images))[-1]
    assert np.mean(logits.argmax(axis=1) == digits.test_labels) >= digits.float_accuracy - demo.ACCURACY_LOSS
    assert len(digits.test_labels) == 450 and digits.train_count == 1347 and digits.float_accuracy > 0.95


@pytest.mark.parametrize("backend", ["golden", "verilator"])
def test_the_device_equals_the_model(digits, backend):
    images = digits.test_images[:30]
    with Device(TINY, backend, memory_bytes=1 << 20) as device:
        result = demo.classify(device, digits.network, images)
    assert not result.difference and result.compared == 30 * (128 + 64 + 10)
    assert np.array_equal(result.logits, digits.network.activations(digits.network.inputs(images))[-1])


def test_one_wrong_bit_is_found(digits):
    class Wrong:
        def linear(self, x, w, bias, requantise):
            y = x.astype(np.int32) @ w.astype(np.int32) + bias
            if requantise:
                return requantise.apply(y), None
            y[7, 3] ^= 1
            return y, None

    result = demo.classify(Wrong(), digits.network, digits.test_images[:9])
    assert result.difference.startswith("layer 3, image 7, output 3: ")


def test_exit_codes(capsys, monkeypatch, digits):
    small = demo.Digits(digits.network, digits.test_images[:40], digits.test_labels[:40], digits.train_count, 0.5)
    monkeypatch.setattr(demo, "train", lambda: small)
    assert demo.main(["--config", "tiny", "--simulator", "golden"]) == 0
    assert "all equal" in capsys.readouterr().out
    monkeypatch.setattr(
        demo,
        "train",
        lambda: demo.Digits(
            *[getattr(small, name) for name in ("network", "test_images", "test_labels", "train_count")], 1.5
        ),
    )
    assert demo.main(["--config", "tiny", "--simulator", "golden"]) == 1
    assert "quantisation must not cost" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        demo.main(["--config", "nope"])
    assert end.value.code == 2
