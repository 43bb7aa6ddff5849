"""Columns of zeros, and elements that hardly changed: the same results, and the cycles that they save."""

import numpy as np
import pytest
from heddle import load_config
from heddle_sim import Device
from heddle_sim.rnn.network import Network, Sequence
from heddle_sim.rnn.quantise import quantise_layer
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.duts.engine_system import EngineSystem, with_lanes
from heddle_verif.stimulus.recurrent_networks import KINDS, random_layer

TINY = load_config("tiny").replace(rnn=True, rnn_tap_registers=64, factor_words=512, shared_memory_kib=32, rnn_elements=1024)
# Two layers of 16 units and 8 inputs on 8 multipliers: 336 cycles a step without skipping.
EDGE = TINY.replace(dot=4, sparse=False, thread_slots=2, gather_offsets=False, rnn_contexts=1, rnn_differences=True)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["icarus", "verilator"])
@pytest.mark.parametrize("linear, held, most, gain", [
    (True, 600, 160, 0.6), (True, None, 345, None), (False, None, 345, None), (False, 600, 175, 0.5)])
def test_two_layers_on_eight_multipliers(linear, held, most, gain, kind):
    """Dense, and with most elements left out. One thread then waits for its last columns and for the tail: the rest of the gain."""
    given = dict(lanes=2, inputs=8, size=16, linear=linear, cat=4, steps=6, change=0.02, held=held, tasks=1, most=most)
    given |= {} if gain is None else {"gain": gain}
    run_bench(EngineSystem(with_lanes(EDGE, 2)), bench="heddle_verif.bench.rnn_stacked", cfg=EDGE, simulator=kind, seed=1,
              parameters=given)


def slow(rng, steps, inputs):
    """A random walk [steps, 1, inputs]."""
    return np.cumsum(rng.normal(0, 0.02, (steps, 1, inputs)), axis=0)


@pytest.mark.parametrize("operator, gates", [("lstm", 4), ("gru", 3), ("rnn", 1)])
def test_functional(operator, gates):
    """Skipping changes no result; a threshold of zero changes none either, others little."""
    rng = np.random.default_rng(2)
    x, w, r = slow(rng, 12, 5), *(rng.uniform(-0.4, 0.4, (1, gates * 6, columns)) for columns in (5, 6))
    with Device(TINY.replace(rnn_differences=True), "golden", memory_bytes=1 << 18) as device:
        plain, skipping, exact, rough = (getattr(device, operator)(x, w, r, **options)[0][0] for options in (
            {}, {"skip_zeros": True}, {"threshold": 0}, {"threshold": 0.05}))
    assert np.array_equal(plain, skipping) and np.array_equal(plain, exact)
    assert 0 < np.abs(plain - rough).max() < 0.1


def test_zero_threshold_is_exact():
    """Of 60 small layers whose elements jump from end to end of their range, no output or state differs in a bit: the differences have 17
    bits. Inputs and states that fill 16 bits, all kinds of layers, every CAT."""
    rng, jumps = np.random.default_rng(5), 0
    cfg = TINY.replace(rnn_differences=True)
    with Device(cfg, "golden", memory_bytes=1 << 18) as device:
        for number in range(60):
            kind, inputs, size = KINDS[number % len(KINDS)], int(rng.integers(1, 6)), int(rng.integers(1, 9))
            float_layer, steps = random_layer(rng, kind, inputs, size), int(rng.integers(3, 9))
            x = rng.choice([-1.0, 1.0], (steps, inputs)) * rng.uniform(0.8, 1, (steps, inputs))
            layer = quantise_layer(float_layer, [(x, None, None)])
            sequences = []
            for threshold in (None, 0):
                network = Network.of_quantised(layer, cats=(1, 2, 4)[number % 3], threshold=threshold)
                state = {name: np.sign(x[0, 0]) * np.full(size, 0.9) for name in network.step.states()}
                sequences.append(Sequence(network, x, state))
            jumps += np.abs(np.diff(sequences[0].quantised()[0]["x"].astype(int), axis=0)).max(initial=0) >= 1 << 15
            (plain,), (exact,) = (device.run_tasks([sequence])[0] for sequence in sequences)
            assert all(np.array_equal(plain.outputs[name], exact.outputs[name]) for name in plain.outputs), (number, kind)
            assert all(np.array_equal(plain.states[name], exact.states[name]) for name in plain.states), (number, kind)
    assert jumps > 30       # differences that 16 bits do not hold


def test_errors():
    x, w, r = np.ones((2, 1, 3)), np.ones((1, 8, 3)), np.ones((1, 8, 2))
    with Device(TINY, "golden", memory_bytes=1 << 18) as device:
        for threshold, says in ((0.1, "threshold must be None with rnn_differences = False .configuration tiny., not 0.1"),
                                (-1, "threshold must be a number from 0 on, or None, not -1")):
            with pytest.raises(ValueError, match=says):
                device.lstm(x, w, r, threshold=threshold)
