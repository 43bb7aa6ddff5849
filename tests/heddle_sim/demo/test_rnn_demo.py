"""The recurrent demo: training by hand, accuracy after quantisation, and the comparison with the functional simulator."""

import numpy as np
import pytest
from heddle import load_config
from heddle_sim import Device
from heddle_sim.demo import lstm_digits as demo
from heddle_sim.demo.lstm_training import Classifier, train_classifier
from heddle_sim.rnn.reference import run_float

TINY = load_config("tiny").replace(rnn=True, factor_words=256)


@pytest.fixture(scope="module")
def digits():
    return demo.train(hidden=24, epochs=20)


def test_gradients_are_slopes():
    """Against differences of the loss, in every array."""
    rng = np.random.default_rng(0)
    classifier = Classifier.drawn(rng, 3, 4, 5)
    x, labels = rng.standard_normal((6, 7, 3)), rng.integers(0, 5, 6)
    _, gradients = classifier.gradients(x, labels)
    for name, gradient in zip("wrbvu", gradients, strict=True):
        values = getattr(classifier, name)
        for _ in range(4):
            place = tuple(rng.integers(size) for size in values.shape)
            kept, losses = values[place], []
            for change in (1e-5, -1e-5):
                values[place] = kept + change
                losses.append(classifier.gradients(x, labels)[0])
            values[place] = kept
            assert gradient[place] == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-5, abs=1e-9), name


def test_layers_are_those_that_were_trained():
    rng = np.random.default_rng(1)
    classifier = Classifier.drawn(rng, 3, 4, 5)
    x = rng.standard_normal((7, 3))
    lstm, dense = classifier.layers()
    assert np.allclose(run_float(dense, run_float(lstm, x)[0])[0][-1], classifier.logits(x[None])[0])


def test_training_is_the_same_every_time():
    rng = np.random.default_rng(2)
    x, labels = rng.standard_normal((40, 3, 2)), rng.integers(0, 3, 40)
    first, second = (train_classifier(x, labels, 5, 2, seed=3) for _ in range(2))
    assert np.array_equal(first.w, second.w) and not np.array_equal(first.w, train_classifier(x, labels, 5, 2, seed=4).w)


def test_quantisation_keeps_the_accuracy(digits):
    """Within 0.5 points of float over the whole test split."""
    with Device(TINY, "golden", memory_bytes=1 << 20) as device:
        result = demo.classify(device, None, digits.network, digits.test_images)
    accuracy = np.mean(result.logits.argmax(axis=1) == digits.test_labels)
    assert abs(accuracy - digits.float_accuracy) <= demo.ACCURACY_LOSS and digits.float_accuracy > 0.93
    assert np.abs(result.logits - digits.classifier.logits(digits.test_images)).max() < 0.5
    assert len(digits.test_labels) == 450 and digits.train_count == 1347


def test_one_wrong_logit_is_found(digits):
    with Device(TINY, "golden", memory_bytes=1 << 20) as device:
        class Wrong:
            def run_tasks(self, sequences):
                results, stats = device.run_tasks(sequences)
                results[2].outputs["logits.h"][5, 3] += 1
                return results, stats

        assert demo.classify(Wrong(), device, digits.network, digits.test_images[:4]).difference.startswith("image 2, step 5, output 3: ")
        assert not demo.classify(device, device, digits.network, digits.test_images[:4]).difference


def test_exit_codes(capsys, monkeypatch, digits):
    monkeypatch.setattr(demo, "train", lambda progress=None: digits)
    command = ["--config", "recurrent64", "--simulator", "golden", "--images", "20"]
    assert demo.main(command) == 0
    out = capsys.readouterr().out
    assert "LSTM 24 - dense 10" in out and "20 others to test" in out
    monkeypatch.setattr(demo, "ACCURACY_LOSS", -1.0)
    assert demo.main(command) == 1
    assert "quantisation must not cost" in capsys.readouterr().err
    assert demo.main(["--config", "tiny", "--simulator", "golden", "--images", "2"]) == 1
    assert "factor_words" in capsys.readouterr().err
    for wrong in (["--config", "nope"], ["--images", "0"]):
        with pytest.raises(SystemExit) as end:
            demo.main(wrong)
        assert end.value.code == 2
