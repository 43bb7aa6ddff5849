"""Recurrent layers on the hardware: ONNX's own cases, onnxruntime, several networks at once, errors [S3.1-S3.7]."""

import numpy as np
import onnx
import onnxruntime
import pytest
from heddle import load_config
from heddle.isa.error_codes import ErrorCode
from heddle.rnn.layouts import header_layout
from heddle_sim import Device
from heddle_sim.cli.bench_rnn import layer_row
from heddle_sim.device.errors import DeviceError
from heddle_sim.device.recurrent import run_sequences
from heddle_sim.kernels.planner import plan
from heddle_sim.kernels.recurrent import EngineOperands, FactorLoad
from heddle_sim.onnx.conformance import cases
from heddle_sim.rnn.network import Network, Sequence
from heddle_sim.rnn.reference import FloatLayer
from onnx import helper

CONFIG = load_config("tiny")
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
CASES = {case.name: case for case in cases(tuple(GATES))}


@pytest.fixture(scope="module")
def devices():
    with Device(CONFIG, memory_bytes=1 << 20) as hardware, Device(CONFIG, "golden", memory_bytes=1 << 20) as golden:
        yield hardware, golden


def attributes(node):
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    values.pop("hidden_size")
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def placed(node, given):
    """Operands in the order of the operator, None where one is left out."""
    values = iter(given)
    return [next(values) if name else None for name in node.input]


def run(device, node, operands):
    """The outputs that the node names, and figures."""
    results, stats = getattr(device, node.op_type.lower())(*operands, **attributes(node))
    return [result for result, name in zip(results, node.output) if name], stats


@pytest.mark.parametrize("name", sorted(CASES))
def test_onnx_cases(name, devices):
    """Weights of the two cases with sequence lengths are normal numbers and inputs go up to 18: rounding to 8 bits shows."""
    case = CASES[name]
    node, (given, expected) = case.model.graph.node[0], case.data_sets[0]
    operands = placed(node, given)
    results, stats = run(devices[0], node, operands)
    wanted, _ = run(devices[1], node, operands)
    assert stats.cycles > 0 and sum(stats.breakdown.values()) == stats.cycles
    for result, golden, reference in zip(results, wanted, expected, strict=True):
        assert np.array_equal(result, golden)
        np.testing.assert_allclose(result, reference, rtol=0.001, atol=0.08 if "seq_length" in name else 0.001)


def runtime(kind, operands, **options):
    """What onnxruntime makes of an operator."""
    names = ["X", "W", "R", "B", "lengths", "h", "c", "P"][:len(operands)]
    outputs = ["Y", "Y_h", "Y_c"][:2 + (kind == "LSTM")]
    types = {np.dtype(np.float32): onnx.TensorProto.FLOAT, np.dtype(np.int32): onnx.TensorProto.INT32}
    node = helper.make_node(kind, [name if value is not None else "" for name, value in zip(names, operands)], outputs,
                            hidden_size=operands[2].shape[-1], **options)
    inputs = {name: value for name, value in zip(names, operands) if value is not None}
    graph = helper.make_graph([node], "layer", [helper.make_tensor_value_info(name, types[value.dtype], value.shape)
                                                for name, value in inputs.items()],
                              [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs)


@pytest.mark.parametrize("kind, options", [
    ("LSTM", {}), ("LSTM", {"direction": "bidirectional"}), ("GRU", {"linear_before_reset": 0}), ("GRU", {"linear_before_reset": 1}),
    ("RNN", {"direction": "reverse"})])
@pytest.mark.parametrize("hidden", [1, 3, 4, 5, 7])
def test_onnxruntime(kind, options, hidden, devices):
    """Weights as frameworks draw them, lengths that differ, initial states: within 0.02 of float32, equal to the golden model."""
    rng = np.random.default_rng(hidden)
    directions, gates, steps, batch, inputs = 1 + (options.get("direction") == "bidirectional"), GATES[kind], 5, 3, 3

    def drawn(*shape):
        return (rng.uniform(-1, 1, shape) / np.sqrt(hidden)).astype(np.float32)

    states = [np.clip(drawn(directions, batch, hidden), -0.9, 0.9) for _ in range(1 + (kind == "LSTM"))]
    operands = [rng.standard_normal((steps, batch, inputs)).astype(np.float32), drawn(directions, gates * hidden, inputs),
                drawn(directions, gates * hidden, hidden), drawn(directions, 2 * gates * hidden),
                np.array([steps, 1, 3], np.int32), *states]
    results, _ = getattr(devices[0], kind.lower())(*operands, **options)
    golden, _ = getattr(devices[1], kind.lower())(*operands, **options)
    for result, wanted, reference in zip(results, golden, runtime(kind, operands, **options), strict=True):
        assert np.array_equal(result, wanted)
        np.testing.assert_allclose(result, reference, rtol=0, atol=0.02)


def network(seed, kind, gates, inputs, hidden, activations):
    rng = np.random.default_rng(seed)
    scale = 1 / np.sqrt(hidden)
    layer = FloatLayer(kind, rng.uniform(-scale, scale, (gates, hidden, inputs)), rng.uniform(-scale, scale, (gates, hidden, hidden)),
                       *rng.uniform(-scale, scale, (2, gates, hidden)), activations)
    return Network.of_layer(layer)


def test_several_networks(devices):
    """Different networks take turns, begin at different times and end one by one; each has its own result."""
    rng = np.random.default_rng(1)
    networks = [network(1, "lstm", 4, 3, 4, ("Sigmoid", "Tanh", "Tanh")), network(2, "gru", 3, 4, 3, ("Sigmoid", "Tanh"))]
    sequences = [Sequence(networks[index % 2], rng.standard_normal((2 + index, (3, 4)[index % 2])), start=40 * index) for index in range(5)]
    results, stats = devices[0].run_tasks(sequences)
    wanted, _ = devices[1].run_tasks(sequences)
    for result, golden in zip(results, wanted, strict=True):
        assert np.array_equal(result.outputs["y.h"], golden.outputs["y.h"])
    assert stats.counters["rnn_steps"] > 0


@pytest.mark.nightly
@pytest.mark.parametrize("far", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_one_bus_for_writes(far):
    """With a tail of sixteen lanes a result has two banks, which one bus takes one after the other, also beside loads and stores."""
    cfg = CONFIG.without_level2(name="one_bus", sparse=False, threads=16, thread_slots=16, shared_writes=1, axi_data_bits=128,
                                factor_words=256, mm16=False, transpose=False, compiled_offsets=0, gather_offsets=False,
                                far_registers=far)
    rng = np.random.default_rng(0)
    with Device(cfg, memory_bytes=1 << 18) as hardware, Device(cfg, "golden", memory_bytes=1 << 18) as golden:
        for kind, hidden, inputs, steps, batch in (("lstm", 2, 3, 1, 1), ("lstm", 20, 7, 6, 3), ("gru", 17, 5, 5, 2), ("rnn", 40, 3, 7, 2)):
            x = rng.standard_normal((steps, batch, inputs))
            w, r = (rng.uniform(-0.5, 0.5, (1, GATES[kind.upper()] * hidden, columns)) for columns in (inputs, hidden))
            results, wanted = (getattr(device, kind)(x, w, r)[0] for device in (hardware, golden))
            assert all(np.array_equal(result, expected) for result, expected in zip(results, wanted, strict=True)), kind
            assert np.any(results[0])


@pytest.mark.parametrize("steps", [1, 20])
def test_stats_begin_with_weights_in_global_memory(devices, steps):
    """Every call reads weights and inputs from global memory: their beats are counted, and their cycles are part of the run."""
    layer = network(5, "lstm", 4, 8, 8, ("Sigmoid", "Tanh", "Tanh"))
    sequences = [Sequence(layer, np.random.default_rng(0).uniform(-1, 1, (steps, 8)))]
    first, second = (devices[0].run_tasks(sequences)[1] for _ in range(2))
    weights, inputs, beat = 4 * 8 * (8 + 8), 2 * 8 * steps, CONFIG.axi_data_bits // 8
    assert first.counters["read_beats"] >= (weights + inputs) / beat
    assert first.counters["read_beats"] == second.counters["read_beats"] and abs(first.cycles - second.cycles) < 10
    engine = first.counters["rnn_steps"] + first.counters["rnn_waits"]
    assert first.cycles >= engine + weights / beat and sum(first.breakdown.values()) == first.cycles
    assert first.utilization == 4 * 8 * (8 + 8) * steps / (first.cycles * CONFIG.peak_macs_per_cycle)
    there, without = run_sequences(devices[0], sequences, loaded=True)
    assert np.array_equal(there[0].outputs["y.h"], devices[1].run_tasks(sequences)[0][0].outputs["y.h"])
    assert without.cycles <= first.cycles - weights / beat


def test_rows_of_the_bench_say_what_loading_takes(devices):
    """``cycles`` are those of the whole run; a step of it takes as long as in one of another length."""
    one, few, many = (layer_row(*devices, "lstm", 8, 8, 1, 0, steps=steps) for steps in (1, 4, 40))
    bound = 4 * 8 * (8 + 8) / (CONFIG.axi_data_bits // 8)
    for row in (one, few, many):
        assert bound <= row["loading_cycles"] < row["cycles"] == sum(row["breakdown"].values()) and row["checked"]
        assert row["utilization"] == row["macs"] / (row["cycles"] * CONFIG.peak_macs_per_cycle)
    assert one["cycles_per_step"] is None and few["cycles_per_step"] == pytest.approx(many["cycles_per_step"], rel=0.1)
    assert one["utilization"] < 0.1 < many["step_utilization"]
    assert abs(few["loading_cycles"] - many["loading_cycles"]) < 50


def test_loading_takes_the_cycles_of_the_bus(devices):
    """Weights of all factor registers: pieces are moved to registers while others come."""
    table = np.arange(CONFIG.factor_words * CONFIG.threads * CONFIG.dot, dtype=np.uint32).astype(np.uint8)
    loads = table.size // (16 * CONFIG.threads)
    source = devices[0].memory.place(table.reshape(1, -1))
    launch, = plan(CONFIG, FactorLoad(loads)).launches(EngineOperands(source))
    stats = devices[0].run(launch.program, launch.uniform)
    devices[0].free(source)
    bound = table.size // (CONFIG.axi_data_bits // 8)
    assert stats.counters["read_beats"] == bound < stats.cycles < bound + 200


def test_copies_while_the_engine_runs(devices):
    """Many sequences: inputs of an image are loaded and outputs of one are stored while another is computed."""
    layer = network(6, "lstm", 4, 8, 8, ("Sigmoid", "Tanh", "Tanh"))
    rng = np.random.default_rng(3)
    sequences = [Sequence(layer, rng.uniform(-1, 1, (6, 8))) for _ in range(60)]
    results, stats = devices[0].run_tasks(sequences)
    wanted, _ = devices[1].run_tasks(sequences)
    for result, golden in zip(results, wanted, strict=True):
        assert np.array_equal(result.outputs["y.h"], golden.outputs["y.h"]) and np.array_equal(result.states["y.c"], golden.states["y.c"])
    beats = stats.counters["read_beats"] + stats.counters["write_beats"]
    engine = stats.counters["rnn_steps"] + stats.counters["rnn_waits"]
    assert sum(stats.breakdown.values()) == stats.cycles < engine + 0.6 * beats


def test_wrong_image(devices):
    """An image outside of shared memory, one that is not aligned, one that is empty; the device goes on."""
    device = devices[0]
    for address, code in ((CONFIG.shared_bytes, ErrorCode.OUT_OF_RANGE), (8, ErrorCode.OUT_OF_RANGE), (0, ErrorCode.RECURRENT_IMAGE)):
        source = device.memory.place(np.zeros((1, 64), np.uint8))
        with pytest.raises(DeviceError) as caught:
            device.run(device_program(device, address), {0: source})
        device.free(source)
        assert (caught.value.code, caught.value.operand) == (code, address)
    # One with sums that need more accumulators of taps than the lanes have.
    device = devices[0]
    header = header_layout.const(dict(sweeps=1, contexts=1, tap_registers=2 * CONFIG.rnn_tap_registers)).as_value().value
    source = device.memory.place(np.frombuffer(header.to_bytes(64, "little"), np.uint8).reshape(1, -1))
    with pytest.raises(DeviceError) as caught:
        device.run(device_program(device, 0), {0: source})
    device.free(source)
    assert (caught.value.code, caught.value.operand) == (ErrorCode.RECURRENT_IMAGE, 0)
    test_several_networks(devices)


def device_program(device, address):
    from heddle_sim.isa import assemble
    return assemble(f"umov ur1, 0\nbarrier.expect b0, 64\ncopy_block.shared.global ur1, ur0, 4, b0\nbarrier.wait b0\n"
                    f"umov ur2, {address}\nrnn ur2\nhalt\n", device.cfg)
