"""Tail of the engine for recurrent networks."""

import numpy as np
import pytest
from heddle import load_config
from heddle.rnn.activation import interval_table
from heddle.rnn.layouts import Cell, Function, Pre, operation_layout
from heddle.rnn.tail import Tail
from heddle_sim.golden.recurrent_tail import activation, dequantise, tail
from heddle_sim.toolchain.cocotb_runner import run_bench

ALL = np.arange(-1 << 17, 1 << 17)


@pytest.mark.parametrize("function, reference, bound", [
    (Function.SIGMOID, lambda x: 1 / (1 + np.exp(-x)), 3.81),
    (Function.TANH, np.tanh, 6.61),
])
def test_every_argument(function, reference, bound):
    """Accuracy and monotonicity of the activations over all arguments, against double precision [S3.5]."""
    f = activation(function, ALL)
    error = np.abs(f - 65536 * reference(ALL / 8192)).max()
    assert bound - 0.01 < error < bound         # the page states it
    assert (np.diff(f) >= 0).all()
    assert abs(f).max() <= 65536


CONFIGURATIONS = {
    "two": {"thread_slots": 2},
    "far": {"thread_slots": 4, "far_registers": True, "rnn_contexts": 2},
    "one": {"thread_slots": 1, "far_registers": True, "rnn_contexts": 8, "rnn_elements": 2048},
    "eight": {"thread_slots": 8, "rnn_contexts": 2},
}


def bench(name, simulator, seed, tables):
    alone = {"sparse": False, "gather_offsets": False}          # they ask for slots of threads
    cfg = load_config("tiny").replace(**alone, **{"rnn_elements": 1024, "rnn_records": 64} | CONFIGURATIONS[name])
    run_bench(Tail(cfg), bench="heddle_verif.bench.rnn_tail", cfg=cfg, simulator=simulator, seed=seed,
              parameters={"tables": tables, "jobs": 11})


@pytest.mark.smoke
def test_rnn_tail(simulator, seed):
    bench("two", simulator, seed, 3)


def test_rnn_tail_far(simulator, seed):
    bench("far", simulator, seed, 3)


@pytest.mark.nightly
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_rnn_tail_long(name, simulator, seed):
    bench(name, simulator, seed, 12)


def plain_operation(**fields):
    return operation_layout.const({"multiplier": 1 << 15, "shift": 0} | fields)


def test_golden_lstm():
    """Integers of an LSTM's tail follow the cell in double precision [S3.5]."""
    rng = np.random.default_rng(5)
    sums = rng.integers(-1 << 17, 1 << 17, (4, 500))
    cell = rng.integers(-1 << 13, 1 << 13, 500)
    z = sums / 2 / 8192
    i, f, o = (1 / (1 + np.exp(-z[index])) for index in (0, 2, 3))
    c = f * cell / 2048 + i * np.tanh(z[1])
    sigmoid = {"function": Function.SIGMOID}
    operations = [
        plain_operation(**sigmoid, keep_activation=1),
        plain_operation(function=Function.TANH, shift_activation=3, cell=Cell.PRODUCT),
        plain_operation(**sigmoid, cell=Cell.STATE, read=1, load_state=1, wide_state=1, wide_result=1),
        plain_operation(**sigmoid, cell=Cell.OUTPUT, second=Function.TANH, shift_second=1),
    ]
    *_, new_cell, hidden = tail(operations, sums, [None, None, cell, None])
    assert np.abs(new_cell - 2048 * c).max() < 1.5
    assert np.abs(hidden - 32768 * o * np.tanh(c)).max() < 12


def test_golden_gru():
    rng = np.random.default_rng(6)
    sums = rng.integers(-1 << 17, 1 << 17, (4, 500))
    hidden = rng.integers(-1 << 15, 1 << 15, 500)
    z = sums / 2 / 8192
    update, reset = (1 / (1 + np.exp(-z[index])) for index in (0, 1))
    new = np.tanh(z[3] + reset * z[2])
    operations = [
        plain_operation(function=Function.SIGMOID, keep_activation=1),
        plain_operation(function=Function.SIGMOID, keep_gate=1),
        plain_operation(pre=Pre.KEEP),
        plain_operation(function=Function.TANH, shift_activation=1, pre=Pre.GATED, cell=Cell.BLEND, read=1, load_state=1),
    ]
    *_, result = tail(operations, sums, [None, None, None, hidden])
    assert np.abs(result - 32768 * (new + update * (hidden / 32768 - new))).max() < 12


@pytest.mark.parametrize("fields, missing", [
    ({"cell": Cell.PRODUCT}, "kept"), ({"cell": Cell.STATE, "read": 1, "load_state": 1}, "result before"), ({"cell": Cell.GATE}, "state"),
    ({"pre": Pre.PEEPHOLE}, "operand"), ({"pre": Pre.GATED}, "gate"), ({"cell": Cell.OUTPUT}, "cell state"),
])
def test_golden_refuses(fields, missing):
    with pytest.raises(ValueError, match=f"^{missing} must be set by an operation before it is used$"):
        tail([plain_operation(**fields)], [np.zeros(1, int)], [np.zeros(1, int)])


def test_dequantise():
    assert dequantise([0x7FFFFFFF, 0x80000000, 3, -3, 1 << 31], 1, 1 << 15).tolist() == [65536, -65536, 1, 0, -65536]
    assert interval_table()[0] == {"base": 0, "slope": 2047}
