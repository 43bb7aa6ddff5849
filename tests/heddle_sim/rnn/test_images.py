"""Recurrent networks on the functional simulator: places of weights, images of several tasks, what must fit [S3.2, S3.6, S3.7]."""

import numpy as np
import pytest
from heddle import load_config
from heddle.rnn.layouts import header_layout
from heddle_sim import Device
from heddle_sim.golden.recurrent_engine import EngineState, engine_run
from heddle_sim.kernels.planner import plan
from heddle_sim.kernels.recurrent import EngineOperands, FactorLoad, factor_table
from heddle_sim.rnn.image import build_image, weight_words
from heddle_sim.rnn.network import Network, Sequence
from heddle_sim.rnn.onnx import onnx_operands
from heddle_sim.rnn.quantise import quantise_layer
from heddle_sim.rnn.reference import FloatLayer, run_float
from heddle_sim.rnn.task import Task
from heddle_verif.stimulus.recurrent_layers import layer_operands

BASE, TINY, SMALL = (load_config(name).replace(rnn=True) for name in ("base", "tiny", "small"))
NARROW = load_config("resident64").replace(rnn=True)


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
        for launch in plan(cfg, FactorLoad(len(table))).launches(EngineOperands(source)):
            device.run(launch.program, launch.uniform)
        registers = device._backend.simulators[0].state.registers[:, 256:]
    found = np.ascontiguousarray(registers).view(np.int8).reshape(cfg.threads, cfg.factor_words, cfg.dot)
    assert np.array_equal(found[:, :words.shape[1]], words)


def networks(rng):
    """Three different models."""
    for kind, hidden, linear in (("lstm", 9, 0), ("gru", 5, 0), ("gru", 4, 1)):
        operands = layer_operands(rng, kind, hidden, 3, 11, batch=1)
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
    operands = layer_operands(rng, "lstm", 5, 3, 500, batch=2)
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
        operands = layer_operands(rng, kind, hidden, {"lstm": 16, "gru": 24, "rnn": 60}[kind], 300, batch=3)
        expected, found = [], []
        for words, results in ((64, found), (128, expected)):
            with Device(cfg.replace(factor_words=words), "golden", memory_bytes=1 << 20) as device:
                results.append(getattr(device, kind)(*operands, np.array([5, 300, 2]), cats=1, **options)[0])
        assert all(np.array_equal(one, other) for one, other in zip(found[0], expected[0]))


@pytest.mark.parametrize("cores, count, programs", [(1, 60, 1), (2, 90, 2)])
def test_sequences_in_halves_of_shared_memory(cores, count, programs):
    """Many whole sequences: images of half of shared memory follow each other in a program; results are those of a larger one."""
    cfg, rng = TINY.replace(cores=cores, factor_words=128), np.random.default_rng(10)
    pairs = list(networks(rng))
    sequences = [Sequence(network, x[:rng.integers(1, 12)]) for network, x in (pairs[rng.integers(3)] for _ in range(count))]
    runs = []
    with Device(cfg, "golden", memory_bytes=1 << 20) as device, Device(BASE, "golden", memory_bytes=1 << 20) as whole:
        run, device.run = device.run, lambda *arguments: runs.append(arguments) or run(*arguments)
        results, stats = device.run_tasks(sequences)
        assert device.memory.allocator.used == 0
        expected, wanted = whole.run_tasks(sequences)
    assert len(runs) == programs and all(program.source.count("wait.copy") >= 3 * cores for program, *_ in runs)
    assert stats.macs == wanted.macs and sum("ld.v4" in program.source for program, *_ in runs) == 1
    for one, other in zip(results, expected, strict=True):
        assert all(np.array_equal(one.outputs[name], other.outputs[name]) for name in one.outputs)
        assert all(np.array_equal(one.states[name], other.states[name]) for name in one.states)


@pytest.mark.parametrize("shared_kib", [16, 4])
def test_small_instruction_memory(shared_kib):
    """Several programs load the weights, also where shared memory has no room for them beside the image; one of them runs the engine."""
    cfg = TINY.replace(instruction_words=64, factor_words=256, shared_memory_kib=shared_kib)
    operands = layer_operands(np.random.default_rng(11), "lstm", 24, 40, 8, batch=1)
    runs = []
    with Device(cfg, "golden", memory_bytes=1 << 20) as device, Device(BASE, "golden", memory_bytes=1 << 20) as whole:
        run, device.run = device.run, lambda *arguments: runs.append(arguments) or run(*arguments)
        results, stats = device.lstm(*operands)
        expected, _ = whole.lstm(*operands)
    loads = [program.source.count("ld.v4") for program, *_ in runs]
    assert len(loads) > 2 and sum(loads) >= 4 * 24 * 64 / 128 and stats.macs == 8 * 4 * 24 * 64
    assert all(np.array_equal(one, other) for one, other in zip(results, expected, strict=True))
    with pytest.raises(ValueError, match="^instruction_words must be at least [0-9]+ for this network .configuration tiny., not 64$"):
        with Device(cfg.replace(cores=16, l2_kib=0, reductions=False, reduction_floats=False), "golden", memory_bytes=1 << 20) as device:
            device.lstm(*(np.repeat(operands[0], 16, axis=1), *operands[1:]))


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_sequences_longer_than_shared_memory(direction):
    rng = np.random.default_rng(4)
    operands = layer_operands(rng, "lstm", 5, 3, 700, batch=3)
    found = []
    for cfg in (TINY, BASE):
        with Device(cfg, "golden", memory_bytes=1 << 20) as device:
            found.append(device.lstm(*operands, np.array([700, 3, 650]), direction=direction)[0])
    assert all(np.array_equal(one, other) for one, other in zip(*found))


def test_stacked_layers():
    """Two LSTMs and a dense layer in one step: each sweep waits for the job that makes its vector."""
    rng = np.random.default_rng(6)
    layers = [onnx_operands("lstm", *layer_operands(rng, "lstm", 8, inputs, 10, batch=1)).layers[0] for inputs in (4, 8)]
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
    with Device(BASE, "golden", memory_bytes=1 << 20) as device:
        results, stats = device.run_tasks([Sequence(network, x)])
    assert np.abs(results[0].outputs["l2.h"] - y).max() < 0.02
    assert set(results[0].states) == {"l0.h", "l0.c", "l1.h", "l1.c"}
    assert stats.macs == 10 * (4 * 8 * (4 + 8 + 8 + 8) + 24)


def test_tap_registers():
    """Sums that do not fit the accumulators of the taps: one sum a lane where that is left to choose, else an error."""
    rng = np.random.default_rng(3)
    small = BASE.replace(threads=16, thread_slots=1, output_stage=False, gather_offsets=False, sparse=False)
    few, many = (small.replace(rnn_tap_registers=registers) for registers in (16, 256))
    onnx = onnx_operands("lstm", *layer_operands(rng, "lstm", 80, 8, 3, batch=1))
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
