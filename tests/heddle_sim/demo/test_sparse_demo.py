"""The sparse demo: gradients, pruning, and fine-tuning on the functional simulator beside the host."""

import numpy as np
import pytest
from heddle_sim import Device
from heddle_sim.demo import sparse_digits as demo
from heddle_sim.demo.sparse_training import Device8, Float, Network, quantised


@pytest.fixture
def network():
    return Network.drawn((7, 6, 5), 1).pruned(0.5)


def sample():
    rng = np.random.default_rng(0)
    return rng.standard_normal((7, 9)), rng.integers(0, 5, 9)


def loss(network, x, labels):
    logits = network.logits(Float(), x)
    return float(np.mean(np.log(np.exp(logits).sum(axis=0)) - logits[labels, np.arange(len(labels))]))


def test_gradients_are_slopes(network):
    x, labels = sample()
    found = network.gradients(Float(), x, labels)
    for w, mask, slope in zip(network.weights, network.masks, found.weights):
        row, column = np.argwhere(mask)[0]
        kept, losses = w[row, column], []
        for change in (1e-6, -1e-6):
            w[row, column] = kept + change
            losses.append(loss(network, x, labels))
        w[row, column] = kept
        assert slope[row, column] == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-4, abs=1e-7)
        assert not slope[~mask].any()


def test_products_of_the_device(network):
    """Those of the host with operands that are rounded to int8."""
    rng = np.random.default_rng(2)
    w, mask, x, dy = network.weights[0], network.masks[0], rng.standard_normal((7, 9)), rng.standard_normal((6, 9))
    rounded = [values.astype(float) * scale for values, scale in map(quantised, (w, x, dy))]
    with Device("tiny", "golden", memory_bytes=1 << 20) as device:
        engine = Device8(device)
        np.testing.assert_allclose(engine.forward(w, mask, x), rounded[0] @ rounded[1])
        dx, dw = engine.backward(w, mask, x, dy)
    np.testing.assert_allclose(dx, rounded[0].T @ rounded[2])
    np.testing.assert_allclose(dw, np.where(mask, rounded[2] @ rounded[1].T, 0), atol=1e-12)
    assert engine.products == 3 and engine.macs == 3 * mask.sum() * 9


def test_fine_tuning(capsys):
    """Within 0.5 points of the host, and better than without it."""
    assert demo.main(["--config", "base", "--epochs", "1"]) == 0
    assert "int8" not in capsys.readouterr().err


@pytest.mark.nightly
def test_the_example():
    with Device("base", "golden") as device:
        outcome = demo.fine_tune(device, 10)
    assert outcome.device >= outcome.host - demo.ACCURACY_LOSS and outcome.device > outcome.pruned and outcome.host > 0.9


def test_exit_codes(capsys):
    for wrong in (["--config", "nope"], ["--epochs", "0"]):
        with pytest.raises(SystemExit) as end:
            demo.main(wrong)
        assert end.value.code == 2
    assert demo.main(["--config", "small", "--epochs", "1"]) == 1
    assert "must have sparse" in capsys.readouterr().err
