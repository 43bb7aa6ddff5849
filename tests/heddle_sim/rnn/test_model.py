"""Recurrent networks on the functional simulator: accuracy against float64, quantisation [S3.1-S3.5]."""

import os

import numpy as np
import pytest
from heddle import load_config
from heddle_sim import Device
from heddle_sim.onnx.conformance import cases
from heddle_sim.rnn.image import bias_digits
from heddle_sim.rnn.network import Network, Sequence
from heddle_sim.rnn.onnx import onnx_operands
from heddle_sim.rnn.quantise import quantise_layer
from heddle_sim.rnn.reference import FloatLayer, run_float
from heddle_verif.stimulus.recurrent_layers import GATES, layer_operands, reference
from onnx import helper

BASE, TINY, SMALL = (load_config(name).replace(rnn=True) for name in ("base", "tiny", "small"))
NARROW = load_config("resident64").replace(rnn=True)
NODE_CASES = {case.name: case for case in cases(("LSTM", "GRU", "RNN"))}


@pytest.fixture(scope="module")
def device():
    with Device(BASE, "golden", memory_bytes=1 << 20) as device:
        yield device


def error(results, expected):
    assert [array.shape for array in results] == [array.shape for array in expected]
    assert all(array.dtype == np.float32 for array in results)
    return max(np.abs(array - wanted).max() for array, wanted in zip(results, expected))


# -- accuracy -----------------------------------------------------------------------------------

@pytest.mark.parametrize("name", NODE_CASES)
def test_node_cases(name, device):
    """ONNX's own cases. Weights of the two with sequence lengths are normal numbers and inputs go up to 18: rounding to 8 bits shows."""
    case = NODE_CASES[name]
    node, (given, expected) = case.model.graph.node[0], case.data_sets[0]
    values = iter(given)
    operands = [next(values) if operand else None for operand in node.input]
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute if attribute.name != "hidden_size"}
    attributes = {key: value.decode() if isinstance(value, bytes) else value for key, value in attributes.items()}
    results, stats = getattr(device, node.op_type.lower())(*operands, **attributes)
    tolerance = 0.03 if "seq_length" in name else 0.002
    assert error([result for result, output in zip(results, node.output) if output], expected) < tolerance
    assert error(results, reference(node.op_type.lower(), *operands, **attributes)) < tolerance
    assert stats.cycles is None and stats.macs > 0
    assert device.memory.allocator.used == 0


@pytest.mark.parametrize("hidden", [1, 3, 8, 17, 64])
@pytest.mark.parametrize("kind, options", [("lstm", {}), ("gru", {}), ("gru", dict(linear_before_reset=1)), ("rnn", {})])
def test_sizes(hidden, kind, options, device):
    operands = layer_operands(np.random.default_rng(hidden), kind, hidden, hidden, 20)
    results, _ = getattr(device, kind)(*operands, **options)
    assert error(results, reference(kind, *operands, **options)) < (0.02 if kind == "rnn" else 0.01)


@pytest.mark.parametrize("cfg", [TINY, SMALL, NARROW], ids=lambda cfg: cfg.name)
@pytest.mark.parametrize("cats", [1, 2, 4])
def test_all_forms(cfg, cats):
    """Every recipe with every number of taps on lanes of other shapes: activations, states, lengths, directions, layouts."""
    rng = np.random.default_rng(cats)
    with Device(cfg, "golden", memory_bytes=1 << 18) as device:
        for kind, options in (("lstm", {}), ("lstm", dict(activations=["Sigmoid", "Relu", "Tanh"])), ("gru", {}),
                              ("gru", dict(linear_before_reset=1)), ("gru", dict(linear_before_reset=1, activations=["Sigmoid", "Relu"])),
                              ("rnn", dict(activations=["Relu"])), ("rnn", dict(activations=["Sigmoid"]))):
            operands = layer_operands(rng, kind, 5, 3, 6)
            operands += [np.array([4, 6]), rng.uniform(-0.5, 0.5, (1, 2, 5))]
            if kind == "lstm":
                operands += [rng.uniform(-1, 1, (1, 2, 5)), rng.uniform(-1, 1, (1, 15)) if "activations" not in options else None]
            for direction in ("forward", "reverse"):
                results, _ = getattr(device, kind)(*operands, direction=direction, cats=cats, **options)
                expected = reference(kind, *operands, direction=direction, **options)
                assert error(results, expected) < 0.03, (kind, options, direction)


def test_layout_and_both_directions(device):
    rng = np.random.default_rng(5)
    for kind in GATES:
        operands = layer_operands(rng, kind, 7, 4, 9, batch=3, directions=2)
        options = dict(direction="bidirectional")
        plain, _ = getattr(device, kind)(*operands, np.array([9, 0, 5]), **options)
        assert error(plain, reference(kind, *operands, np.array([9, 0, 5]), **options)) < 0.02
        assert not plain[0][5:, :, 2].any() and not plain[0][:, :, 1].any()
        x = operands[0].swapaxes(0, 1)
        other, _ = getattr(device, kind)(x, *operands[1:], np.array([9, 0, 5]), layout=1, **options)
        assert np.array_equal(other[0].transpose(1, 2, 0, 3), plain[0])
        assert all(np.array_equal(a.swapaxes(0, 1), b) for a, b in zip(other[1:], plain[1:]))


def test_float_layers_equal_the_operators():
    """The float64 model that quantisation is measured with, against the one of these tests."""
    rng = np.random.default_rng(2)
    for kind, options in (("lstm", {}), ("gru", {}), ("gru", dict(linear_before_reset=1)), ("rnn", {})):
        operands = layer_operands(rng, kind, 6, 4, 7, batch=1)
        onnx = onnx_operands(kind, *operands, **options)
        y, h, _ = run_float(onnx.layers[0], onnx.x[:, 0])
        expected = reference(kind, *operands, **options)
        assert np.allclose(y, expected[0][:, 0, 0]) and np.allclose(h, expected[1][0, 0])


# -- quantisation -------------------------------------------------------------------------------

def test_quantiser_keeps_ranges():
    """With fewer steps than elements each weight is the nearest."""
    rng = np.random.default_rng(0)
    for scale in (0.01, 1.0, 100.0):
        operands = layer_operands(rng, "lstm", 12, 5, 16, batch=1)
        onnx = onnx_operands("lstm", operands[0] * scale, *operands[1:])
        layer = quantise_layer(onnx.layers[0], onnx.data(0))
        fraction = layer.fractions["x0"]
        assert np.abs(onnx.x).max() * 2.0 ** fraction <= 32767
        for gate, units in layer.scales().items():
            for vector, unit in units.items():
                found = layer.gates[gate].weights[vector] * unit
                wanted = onnx.layers[0].w["iofc".index(gate)] if vector == "x0" else onnx.layers[0].r["iofc".index(gate)]
                assert np.abs(found - wanted).max() <= unit / 2 * (1 + 1e-9)
            factor = layer.gates[gate].multiplier / 2 ** (16 + layer.gates[gate].shift)
            assert factor == pytest.approx(layer.gates[gate].scale * 2 ** layer.gates[gate].fraction, rel=2e-5)


def test_weights_are_rounded_for_their_vectors(monkeypatch):
    """Errors of rounding cancel in the sums of the sequences that were given, and of others of their kind."""
    rng = np.random.default_rng(5)
    mixing = rng.standard_normal((12, 40)) / 4          # inputs depend on each other, as those of networks do
    operands = layer_operands(rng, "lstm", 24, 40, 400, batch=1)
    operands[0][:] = np.tanh(rng.standard_normal((400, 1, 12)) @ mixing)
    onnx = onnx_operands("lstm", *operands)
    layer, seen = onnx.layers[0], onnx.data(0)
    others = np.tanh(rng.standard_normal((400, 12)) @ mixing)

    def errors():
        """Mean square error of the result on the sequence that was given and on another one."""
        quantised = quantise_layer(layer, seen)
        found = []
        for x in (np.asarray(seen[0][0]), others):
            (result,), _ = device.run_tasks([Sequence(Network.of_quantised(quantised), x)])
            found.append(np.mean((result.outputs["y.h"] - run_float(layer, x)[0]) ** 2))
        return np.array(found)

    with Device(BASE, "golden", memory_bytes=1 << 20) as device:
        for_vectors = errors()
        monkeypatch.setattr("heddle_sim.rnn.quantise.MOST_ELEMENTS", 0)
        nearest = errors()
    assert (for_vectors < nearest * (0.3, 0.6)).all(), f"{for_vectors} beside {nearest}"


def test_sums_cannot_overflow():
    """Weights and elements of one sign and the largest magnitude, in a layer so long that elements must give way."""
    size = 900
    layer = FloatLayer("rnn", np.ones((1, size, size)), np.ones((1, size, size)), np.zeros((1, size)), np.zeros((1, size)), ("Tanh",))
    quantised = quantise_layer(layer, [(np.ones((2, size)), None, None)])
    gate = quantised.gates["i"]
    total = sum(np.abs(block.astype(np.int64)).sum(1).max() * quantised.limits[name] for name, block in gate.weights.items())
    assert total + np.abs(gate.bias).max() < 1 << 31
    assert min(np.abs(block).max() for block in gate.weights.values()) > 60


@pytest.mark.parametrize("function", ["Affine", "Relu"])
@pytest.mark.parametrize("weight", [0.26, 0.45, 0.51, 0.76, 0.99])
def test_linear_sums_are_not_clipped(function, weight, device):
    """Results of layers without a bounded function reach their whole range, whatever the scale of the weights."""
    for count in (1, 3, 7):
        layer = FloatLayer("dense", np.full((1, 1, count), weight), None, np.zeros((1, 1)), np.zeros((1, 1)), (function,))
        x = np.linspace(-1, 1, 9)[:, None] * np.ones(count)
        (result,), _ = device.run_tasks([Sequence(Network.of_layer(layer, [(x, None, None)]), x)])
        assert np.abs(result.outputs["y.h"] - run_float(layer, x)[0]).max() < 0.003 * weight * count


def test_given_scales():
    layer = FloatLayer("dense", np.array([[[0.5, -0.25]]]), None, np.array([[1.0]]), np.zeros((1, 1)), ("Affine",))
    quantised = quantise_layer(layer, fractions={"x0": 8, "h": 8}, weight_scales={"i": 2.0 ** -6})
    assert quantised.gates["i"].weights["x0"].tolist() == [[32, -16]]
    assert quantised.gates["i"].bias.tolist() == [1 << 14]
    for options, says in ((dict(weight_scales={"i": 2.0 ** -9}),
                           "weights of gate i for x0 must be from -128 to 127 in units of their scale, not -128 to 256"),
                          (dict(fractions={"y": 3}), "fractions must be among h, x0, not 'y'"),
                          (dict(weight_scales={"z": 1.0}), "weight_scales must be among i, not 'z'")):
        with pytest.raises(ValueError) as raised:
            quantise_layer(layer, **options)
        assert str(raised.value) == says


def test_bias_digits():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.integers(-(1 << 26), 1 << 26, 500), np.arange(-130, 130), [1 << 26, -(1 << 26), 127 * 16384 * 32]])
    top = (1 << 26) // (127 * 16384) + 1
    digits = bias_digits(values, top).astype(np.int64)
    assert np.array_equal(digits @ np.array([1, 128] + [16384] * top), values)
    with pytest.raises(ValueError, match="biases must be below 2080768 with 1 constants, not 67108864"):
        bias_digits(np.array([1 << 26]), 1)


# -- a published network ------------------------------------------------------------------------

@pytest.mark.skipif("HEDDLE_RNNOISE" not in os.environ, reason="HEDDLE_RNNOISE names the weights of RNNoise where they are at hand")
def test_rnnoise():
    from heddle_sim.rnn.rnnoise import float_gains, rnnoise_network, synthetic_features

    arrays = np.load(os.environ["HEDDLE_RNNOISE"])
    features = synthetic_features(200, seed=0)
    network = rnnoise_network(arrays, features)
    with Device(BASE, "golden", memory_bytes=1 << 20) as device:
        results, stats = device.run_tasks([Sequence(network, features)])
    gains, voice = float_gains(arrays, features)
    assert np.abs(results[0].outputs["denoise_output.h"] - gains).max() < 0.02
    assert np.abs(results[0].outputs["vad_output.h"][:, 0] - voice).max() < 0.02
