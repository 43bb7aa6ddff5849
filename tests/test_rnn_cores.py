"""Engines of several cores on the hardware: tasks go to all of them, and one that stops leaves the others running [S3.7]."""

import numpy as np
import pytest
from heddle import load_config
from heddle_sim import Device
from heddle_sim.rnn.network import Network, Sequence
from heddle_verif.rnn_networks import random_layer, random_sequences

CFG = load_config("tiny").without_level2(name="tiny_engines", cores=2, tensors=False, copy_within=False, factor_words=256,
                                         shared_memory_kib=32)
MEMORY_BYTES = 1 << 20

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def devices():
    with Device(CFG, memory_bytes=MEMORY_BYTES) as hardware, Device(CFG, "golden", memory_bytes=MEMORY_BYTES) as golden:
        yield hardware, golden


def run(devices, sequences):
    """Figures of the hardware; its results are those of the functional simulator."""
    (results, stats), (wanted, _) = (device.run_tasks(sequences) for device in devices)
    for result, golden in zip(results, wanted, strict=True):
        assert all(np.array_equal(result.outputs[name], golden.outputs[name]) for name in golden.outputs)
        assert all(np.array_equal(result.states[name], golden.states[name]) for name in golden.states)
    return stats


def drawn(kind="lstm", inputs=12, size=12):
    return Network.of_layer(random_layer(np.random.default_rng(3), kind, inputs, size), cats=1)


def sequence(network, steps, start=0):
    return Sequence(network, np.random.default_rng(steps).uniform(-1, 1, (steps, network.step.vectors["x"].size)), start=start)


def test_tasks_on_both_cores(devices):
    rng = np.random.default_rng(7)
    for _ in range(6):
        run(devices, random_sequences(rng, CFG, tasks=7, largest=16, longest=12))


def test_biases_that_are_loaded(devices):
    """Weights that fill the factor registers: both cores load their biases, also with other numbers of tasks."""
    network = drawn("lstm", 16, 16)
    assert network.step.macs() * 4 == CFG.factor_words * CFG.threads * CFG.dot
    for layers in (1, 4):
        networks = [drawn("lstm", 16, 16) for _ in range(layers)]
        run(devices, [sequence(networks[index % layers], 3 + index) for index in range(5)])


def test_each_core_has_half(devices):
    network = drawn()
    one, two = (run(devices, [sequence(network, 40) for _ in range(count)]) for count in (1, 2))
    assert two.counters["rnn_steps"] == 2 * one.counters["rnn_steps"]
    assert two.cycles < 1.2 * one.cycles


def test_one_stops_and_the_other_goes_on(devices):
    """The core with the longest sequence is the first. A short one ends on the other meanwhile; and the other begins so late that
    the first has ended: neither is stopped, slowed down or changed by that."""
    network = drawn()
    alone = run(devices, [sequence(network, 100)])
    both = run(devices, [sequence(network, 100), sequence(network, 3)])
    assert abs(both.cycles - alone.cycles) < 0.1 * alone.cycles
    late = 4 * alone.cycles
    both = run(devices, [sequence(network, 60), sequence(network, 50, start=late)])
    assert late < both.cycles < late + alone.cycles
