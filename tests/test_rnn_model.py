"""Recurrent networks on the functional simulator: accuracy against float64, layout, images, errors [S3.1-S3.7]."""

import os

import numpy as np
import pytest
from heddle import load_config
from heddle.errors import ErrorCode
from heddle.rnn.layouts import header_layout
from heddle_sim import Device
from heddle_sim.device.errors import DeviceError
from heddle_sim.golden.rnn import EngineState, engine_run
from heddle_sim.kernels.recurrent import factor_table, plan_factors
from heddle_sim.rnn.image import bias_digits, build_image, weight_words
from heddle_sim.rnn.model import EngineModel
from heddle_sim.rnn.network import Network, Sequence
from heddle_sim.rnn.onnx import onnx_operands
from heddle_sim.rnn.quantise import quantise_layer
from heddle_sim.rnn.reference import FloatLayer, run_float
from heddle_sim.rnn.task import Task
from heddle_verif.rnn_cases import reference
from onnx import helper
from onnx.backend.test.case import node as node_cases
from onnx.backend.test.case.node import gru, lstm, rnn

BASE, TINY, SMALL = (load_config(name).replace(rnn=True) for name in ("base", "tiny", "small"))
NARROW = load_config("resident64").replace(rnn=True)
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
# Each module adds its cases when it is imported.
OPERATORS = {module.__name__.rsplit(".", 1)[-1].upper() for module in (gru, lstm, rnn)}
NODE_CASES = {case.name: case for case in node_cases._NodeTestCases
              if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in OPERATORS}


@pytest.fixture(scope="module")
def device():
    with Device(BASE, "golden", memory_bytes=1 << 20) as device:
        yield device


def drawn(rng, kind, hidden, inputs, steps, batch=2, directions=1, bias=True):
    """Operands as a framework initialises them: weights within ±1/√hidden, inputs normal."""
    gates = GATES[kind]

    def uniform(*shape):
        return rng.uniform(-1, 1, shape) / np.sqrt(hidden)

    return [rng.standard_normal((steps, batch, inputs)), uniform(directions, gates * hidden, inputs),
            uniform(directions, gates * hidden, hidden), *([uniform(directions, 2 * gates * hidden)] if bias else [])]


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
    operands = drawn(np.random.default_rng(hidden), kind, hidden, hidden, 20)
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
            operands = drawn(rng, kind, 5, 3, 6)
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
        operands = drawn(rng, kind, 7, 4, 9, batch=3, directions=2)
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
        operands = drawn(rng, kind, 6, 4, 7, batch=1)
        onnx = onnx_operands(kind, *operands, **options)
        y, h, _ = run_float(onnx.layers[0], onnx.x[:, 0])
        expected = reference(kind, *operands, **options)
        assert np.allclose(y, expected[0][:, 0, 0]) and np.allclose(h, expected[1][0, 0])


# -- quantisation -------------------------------------------------------------------------------

def test_quantiser_keeps_ranges():
    rng = np.random.default_rng(0)
    for scale in (0.01, 1.0, 100.0):
        operands = drawn(rng, "lstm", 12, 5, 30, batch=1)
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


# -- layout -------------------------------------------------------------------------------------

@pytest.mark.parametrize("cfg", [TINY, BASE, SMALL, NARROW], ids=lambda cfg: cfg.name)
@pytest.mark.parametrize("cat", [1, 2, 4])
def test_places_of_weights(cfg, cat):
    """Element by element, as the unit's page has it."""
    rng = np.random.default_rng(cat)
    blocks, columns, elements = 3, 2, cfg.dot // cat
    matrix = rng.integers(-128, 128, (blocks * cat * cfg.threads, columns * elements), np.int8)
    words = weight_words(cfg, cat, blocks, columns, matrix)
    groups = cfg.threads // cfg.tail_lanes
    for _ in range(200):
        row, column = rng.integers(matrix.shape[0]), rng.integers(matrix.shape[1])
        p, k = row // cfg.tail_lanes, row // cfg.tail_lanes // groups
        lane = p % groups * cfg.tail_lanes + row % cfg.tail_lanes
        word = column // elements * blocks + k // cat
        assert words[lane, word, column % elements * cat + k % cat] == matrix[row, column]


@pytest.mark.parametrize("cfg", [TINY, BASE.replace(shared_memory_kib=4)], ids=lambda cfg: cfg.name)
def test_factor_registers(cfg):
    """The programs that load them, in several pieces where shared memory is small."""
    rng = np.random.default_rng(0)
    words = rng.integers(-128, 128, (cfg.threads, cfg.factor_words - 3, cfg.dot), np.int8)
    table = factor_table(cfg, words)
    with Device(cfg, "golden", memory_bytes=1 << 20) as device:
        source = device.memory.place(table.reshape(1, -1))
        for launch in plan_factors(cfg, source, len(table)):
            device.run(launch.program, launch.uniform)
        registers = device._backend.simulators[0].state.registers[:, 256:]
    found = np.ascontiguousarray(registers).view(np.int8).reshape(cfg.threads, cfg.factor_words, cfg.dot)
    assert np.array_equal(found[:, :words.shape[1]], words)


def networks(rng):
    """Three different models."""
    for kind, hidden, linear in (("lstm", 9, 0), ("gru", 5, 0), ("gru", 4, 1)):
        operands = drawn(rng, kind, hidden, 3, 11, batch=1)
        onnx = onnx_operands(kind, *operands, linear_before_reset=linear)
        yield Network.of_layer(onnx.layers[0], onnx.data(0)), onnx.x[:, 0]


def test_tasks_are_independent():
    """Different models at once, any number of contexts, whatever registers and vector memory held."""
    rng = np.random.default_rng(1)
    pairs = list(networks(rng))
    sequences = [Sequence(network, x[:rng.integers(1, 12)], start=int(rng.integers(100))) for network, x in pairs * 2]
    with Device(BASE, "golden", memory_bytes=1 << 20) as device:
        alone = [device.run_tasks([sequence])[0][0] for sequence in sequences]
        for contexts in (None, 1, 3):
            results, _ = device.run_tasks(sequences, contexts)
            for one, other in zip(alone, results):
                assert all(np.array_equal(one.outputs[name], other.outputs[name]) for name in one.outputs)
                assert all(np.array_equal(one.states[name], other.states[name]) for name in one.states)
    tasks = [Task(sequence.network.model(BASE), *sequence.quantised()) for sequence in sequences]
    image = build_image(BASE, tasks)
    factors = np.zeros((BASE.threads, BASE.factor_words, BASE.dot), np.int8)
    factors[:, :image.words.shape[1]] = image.words
    runs = []
    for seed in range(2):
        state, shared = EngineState.for_config(BASE, factors, seed), np.full(BASE.shared_bytes, seed, np.uint8)
        shared[:image.outputs_address] = image.shared[:image.outputs_address]
        engine_run(BASE, state, shared, image.bias_address)
        engine_run(BASE, state, shared, image.address)
        runs.append(image.results(shared))
    for sequence, one, other, plain in zip(sequences, *runs, alone):
        fraction = sequence.network.step.vectors["y.h"].fraction
        assert np.array_equal(one.outputs["y.h"], other.outputs["y.h"])
        assert np.array_equal(one.outputs["y.h"] * 2.0 ** -fraction, plain.outputs["y.h"])


@pytest.mark.parametrize("cores", [2, 4])
def test_several_cores(cores):
    """Tasks go to the engines of all cores: the same results, also in several pieces, and with a core that has nothing to do."""
    rng = np.random.default_rng(8)
    operands = drawn(rng, "lstm", 5, 3, 500, batch=2)
    with Device(TINY, "golden", memory_bytes=1 << 20) as one, Device(TINY.replace(cores=cores), "golden", memory_bytes=1 << 20) as several:
        expected, found = (device.lstm(*operands, np.array([500, 120]))[0] for device in (one, several))
        assert all(np.array_equal(a, b) for a, b in zip(expected, found))
        assert several.memory.allocator.used == 0


@pytest.mark.parametrize("cores", [1, 2])
def test_biases_without_room_for_their_words(cores):
    """Weights that fill the factor registers: biases are loaded, and results are those of lanes with room for them."""
    rng = np.random.default_rng(9)
    cfg = TINY.replace(cores=cores)
    for kind, hidden, options in (("lstm", 16, {}), ("gru", 16, dict(linear_before_reset=1)), ("gru", 16, {}), ("rnn", 24, {})):
        operands = drawn(rng, kind, hidden, {"lstm": 16, "gru": 24, "rnn": 60}[kind], 300, batch=3)
        expected, found = [], []
        for words, results in ((64, found), (128, expected)):
            with Device(cfg.replace(factor_words=words), "golden", memory_bytes=1 << 20) as device:
                results.append(getattr(device, kind)(*operands, np.array([5, 300, 2]), cats=1, **options)[0])
        assert all(np.array_equal(one, other) for one, other in zip(found[0], expected[0]))


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_sequences_longer_than_shared_memory(direction):
    rng = np.random.default_rng(4)
    operands = drawn(rng, "lstm", 5, 3, 700, batch=3)
    found = []
    for cfg in (TINY, BASE):
        with Device(cfg, "golden", memory_bytes=1 << 20) as device:
            found.append(device.lstm(*operands, np.array([700, 3, 650]), direction=direction)[0])
    assert all(np.array_equal(one, other) for one, other in zip(*found))


def test_stacked_layers(device):
    """Two LSTMs and a dense layer in one step: each sweep waits for the job that makes its vector."""
    rng = np.random.default_rng(6)
    layers = [onnx_operands("lstm", *drawn(rng, "lstm", 8, inputs, 10, batch=1)).layers[0] for inputs in (4, 8)]
    dense = FloatLayer("dense", rng.uniform(-1, 1, (1, 3, 8)), None, np.zeros((1, 3)), np.zeros((1, 3)), ("Sigmoid",))
    x = rng.standard_normal((10, 4))
    network, y = Network(), x
    network.add_input("x", 4, 13)
    last = "x"
    for number, layer in enumerate((*layers, dense)):
        fractions = {"x0": network.step.vectors[last].fraction}
        quantised = quantise_layer(layer, [(y, None, None)], fractions=fractions)
        last = network.add(f"l{number}", quantised, [last], ["x0", "h"] if number < 2 else None)
        y, _, _ = run_float(layer, y)
    network.step.outputs.append(last)
    results, stats = device.run_tasks([Sequence(network, x)])
    assert np.abs(results[0].outputs["l2.h"] - y).max() < 0.02
    assert set(results[0].states) == {"l0.h", "l0.c", "l1.h", "l1.c"}
    assert stats.macs == 10 * (4 * 8 * (4 + 8 + 8 + 8) + 24)


# -- errors -------------------------------------------------------------------------------------

X, W, R = np.zeros((2, 1, 3)), np.zeros((1, 8, 3)), np.zeros((1, 8, 2))


@pytest.mark.parametrize("arguments, options, says", [
    ((X, W, R), dict(direction="both"), "direction must be one of forward, reverse, bidirectional, not 'both'"),
    ((X, W, R), dict(layout=2), "layout must be 0 or 1, not 2"),
    ((X, W[:, :7], R), {}, "W must have shape (1, 8, inputs), not (1, 7, 3)"),
    ((X[:, 0], W, R), {}, "X must have shape (steps, batch, 3), not (2, 3)"),
    ((X, W, R[0]), {}, "R must have shape (1, 4 * hidden, hidden), not (8, 2)"),
    ((X, W, R, np.zeros((1, 8))), {}, "B must have shape (1, 16), not (1, 8)"),
    ((X, W, R, None, [3]), {}, "sequence_lens must be 1 integers from 0 to 2, not [3]"),
    ((X, W, R, None, None, np.zeros((1, 1, 3))), {}, "initial_h must have shape (1, 1, 2), not (1, 1, 3)"),
    ((X * np.nan, W, R), {}, "X must be finite, not nan at (0, 0, 0)"),
    ((X, W, R, None, None, None, np.full((1, 1, 2), 17.0)), {}, "initial_c must have magnitudes up to 16, not 17"),
    ((X, W, R), dict(activations=["Sigmoid", "Tanh"]), "activations must be 3 for each direction, not 2"),
    ((X, W, R), dict(activations=["Elu", "Tanh", "Tanh"]),
     "activations must be among Sigmoid, Tanh, Relu, Affine, not 'Elu'"),
    ((X, W, R), dict(cats=3), "cats must be 1, 2 or 4 for y, not 3 for y"),
    ((X, W, R), dict(contexts=5), "contexts must be from 1 to 4 (rnn_contexts), not 5"),
    ((X, W, R), dict(contexts="2"), "contexts must be from 1 to 4 (rnn_contexts), not '2'"),
    (([[[1.0], [2.0, 3.0]]], W, R), {}, "X must have shape (steps, batch, 3), not lists of different lengths"),
    ((X, W, None), {}, "R must be an array of numbers, not None"),
    ((X, W, R), dict(activations="Tanh"), "activations must be a list of names, not 'Tanh'"),
    ((X, W, R), dict(skip_zeros="no"), "skip_zeros must be True or False, not 'no'"),
    ((X, W, R), dict(threshold="0.1"), "threshold must be a number from 0 on, or None, not '0.1'"),
    ((X, W, R), dict(fractions={"x0": 30}), "fractions of x0 must be an integer from -8 to 15, not 30"),
    ((X, W, R), dict(fractions={"h": 20}), "fractions of h must be an integer from 9 to 15, not 20"),
    ((X, W, R), dict(weight_scales={"i": 0.0}), "weight_scales of i must be a positive number, not 0.0"),
    ((X, W, R), dict(quantised=[None]), "quantised must be layers of type QuantisedLayer, not NoneType"),
    ((X, np.ones((1, 2400, 3)), np.ones((1, 2400, 600))), {},
     "W and R must have at most 262144 elements (threads 32 x dot 8 x factor_words 1024 of configuration base), not 1447200"),
    ((X, W * 0 + 1e9, R), {}, "unit of the sums of gate i must be below 0.000122068, not 240.296: 127 of them are its largest weight times "
     "the unit of its vector, 2**26 its largest bias"),
])
def test_wrong_operands(arguments, options, says, device):
    with pytest.raises((TypeError, ValueError)) as raised:
        device.lstm(*arguments, **options)
    assert str(raised.value) == says


@pytest.mark.parametrize("given, says", [
    (("network", X[:, 0]), "network must be of type Network, not str"),
    ((None, X), "input x must have shape (steps, 3), not (2, 1, 3)"),
    ((None, X[:, 0, :2]), "input x must have shape (steps, 3), not (2, 2)"),
    ((None, X[:0, 0]), "input x must have no empty axis, not shape (0, 3)"),
    ((None, X[:, 0] + np.inf), "input x must be finite, not inf at (0, 0)"),
    ((None, {"z": X[:, 0]}), "inputs must be x, not z"),
    ((None, X[:, 0], {"y.q": np.zeros(2)}), "states must be among y.h, y.c, not 'y.q'"),
    ((None, X[:, 0], {"y.h": np.zeros(3)}), "states y.h must have shape (2,), not (3,)"),
    ((None, X[:, 0], [0, 0]), "states must be a dictionary, not list"),
    ((None, X[:, 0], {}, 1.5), "start must be an integer from 0 to 16777215, not 1.5"),
])
def test_wrong_sequences(given, says):
    network = given[0] or Network.of_layer(onnx_operands("lstm", X, W, R).layers[0])
    with pytest.raises((TypeError, ValueError)) as raised:
        Sequence(network, *given[1:])
    assert str(raised.value) == says


def test_wrong_layers():
    fields = dict(kind="gru", w=np.ones((3, 2, 4)), r=np.ones((3, 2, 2)), wb=np.zeros((3, 2)), rb=np.zeros((3, 2)),
                  activations=("Sigmoid", "Tanh"))
    for change, says in ((dict(w=np.ones((2, 2, 4))), "w must have shape (3, size, inputs), not (2, 2, 4)"),
                         (dict(r=None), "r must be an array of numbers, not None"),
                         (dict(rb=np.zeros(6)), "rb must have shape (3, 2), not (6,)"),
                         (dict(w=np.full((3, 2, 4), np.nan)), "w must be finite, not nan at (0, 0, 0)"),
                         (dict(activations=("Tanh",)), "activations must be 2 for kind gru, not 1")):
        with pytest.raises((TypeError, ValueError)) as raised:
            FloatLayer(**fields | change)
        assert str(raised.value) == says
    for call, says in ((lambda: Network.of_layer(onnx_operands("lstm", X, W, R)), "layer must be of type FloatLayer, not OnnxOperands"),
                       (lambda: Network.of_quantised(FloatLayer(**fields)), "layer must be of type QuantisedLayer, not FloatLayer")):
        with pytest.raises(TypeError) as raised:
            call()
        assert str(raised.value) == says


def test_what_does_not_fit():
    rng = np.random.default_rng(0)
    cases = [
        (TINY, ("lstm", 17, 8), "weights must fit 64 (factor_words of configuration tiny), not take 96"),
        (BASE.replace(rnn_elements=256), ("rnn", 200, 100), "vectors of a context must fit 256 elements (rnn_elements), not take 408"),
        (BASE.replace(rnn_records=8), ("lstm", 4, 4, 3),
         "sweeps of all models must fit 8 (rnn_records of configuration base), not take 12"),
        (load_config("base").replace(rnn=False), ("rnn", 4, 4), "configuration base must have rnn (rnn is false)"),
    ]
    for cfg, (kind, hidden, inputs, *copies), says in cases:
        sequences = []
        for _ in range(2 * (copies[0] if copies else 0) or 1):
            onnx = onnx_operands(kind, *drawn(rng, kind, hidden, inputs, 2, batch=1))
            sequences.append(Sequence(Network.of_layer(onnx.layers[0], onnx.data(0), cats=1), onnx.x[:, 0]))
        with Device(cfg, "golden", memory_bytes=1 << 20) as device, pytest.raises(ValueError) as raised:
            device.run_tasks(sequences)
        assert str(raised.value) == says


def test_tap_registers():
    """Sums that do not fit the accumulators of the taps: one sum a lane where that is left to choose, else an error."""
    rng = np.random.default_rng(3)
    few, many = (BASE.replace(threads=16, thread_slots=1, rnn_tap_registers=registers) for registers in (16, 256))
    onnx = onnx_operands("lstm", *drawn(rng, "lstm", 80, 8, 3, batch=1))
    plain, two = (Network.of_layer(onnx.layers[0], onnx.data(0), cats=cats) for cats in (1, 2))

    def header(cfg, network):
        sequence = Sequence(network, onnx.x[:, 0])
        image = build_image(cfg, [Task(network.model(cfg), *sequence.quantised())])
        return header_layout.from_bits(int.from_bytes(image.shared[image.address:][:16].tobytes(), "little"))

    assert header(few, plain).tap_registers == 0
    assert header(many, two).tap_registers == 32        # 320 rows: 10 registers of 16 lanes, for each parity and for biases
    with pytest.raises(ValueError) as raised:
        header(few, two)
    assert str(raised.value) == ("sums with cat above 1 must have registers that differ modulo 16 (rnn_tap_registers of configuration "
                                 "base), not 30 of them up to 29; cat 1 or fewer contexts need fewer")
    assert header(few, Network.of_layer(onnx.layers[0], onnx.data(0))).tap_registers <= 16
    results = []
    for cfg in (few, many):
        with Device(cfg, "golden", memory_bytes=1 << 20) as device:
            results.append(device.run_tasks([Sequence(Network.of_layer(onnx.layers[0], onnx.data(0)), onnx.x[:, 0])])[0][0])
    assert np.array_equal(results[0].outputs["y.h"], results[1].outputs["y.h"])


def test_errors_of_the_instruction():
    program = "umov ur1, 4096\numov ur2, 16\nrnn ur1\nhalt"
    with Device(TINY.replace(shared_memory_kib=4), "golden", memory_bytes=4096) as device, pytest.raises(DeviceError) as raised:
        device.run(program)
    assert (raised.value.code, raised.value.pc, raised.value.operand) == (ErrorCode.OUT_OF_RANGE, 2, 4096)
    with Device(TINY, "golden", memory_bytes=4096) as device:
        for address, code, operand in ((16, ErrorCode.RECURRENT_IMAGE, 16), (20, ErrorCode.OUT_OF_RANGE, 20)):
            with pytest.raises(DeviceError) as raised:
                device.run(f"umov ur1, {address}\nrnn ur1\nhalt")
            assert (raised.value.code, raised.value.operand) == (code, operand)
        for wrong in (dict(contexts=2, elements=8192), dict(contexts=1, tap_registers=2 * TINY.rnn_tap_registers)):
            header = header_layout.const(dict(sweeps=1) | wrong).as_value().value.to_bytes(16, "little")
            device.memory.write(0, np.frombuffer(header, np.uint8))
            with pytest.raises(DeviceError) as raised:
                device.run("umov ur0, 0\nbarrier.expect b0, 16\ncopy_block.shared.global ur0, ur0, 1, b0\nbarrier.wait b0\nrnn ur0\nhalt")
            assert (raised.value.code, raised.value.operand) == (ErrorCode.RECURRENT_IMAGE, 0)
    with Device(TINY.replace(rnn=False), "golden", memory_bytes=4096) as device, pytest.raises(DeviceError) as raised:
        device.run("rnn ur1\nhalt")
    assert raised.value.code is ErrorCode.UNSUPPORTED


def test_cats_must_exist():
    network, _ = next(networks(np.random.default_rng(0)))
    with pytest.raises(ValueError, match="cats must be 1, 2 or 4 for y, not 8 for y"):
        EngineModel(BASE, network.step, 8)


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
