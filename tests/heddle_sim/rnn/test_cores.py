"""Engines of several cores on the hardware: tasks go to all of them, and one that stops leaves the others running [S3.7]."""

import numpy as np
import pytest
from heddle import load_config
from heddle.constants import LINE_BYTES
from heddle_sim import Device
from heddle_sim.rnn.network import Network, Sequence
from heddle_verif.stimulus.recurrent_networks import random_layer, random_sequences
from heddle_verif.variants.shared_devices import FOUR_CORES, TWO_CORES

CFG = FOUR_CORES
MEMORY_BYTES = 1 << 20


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


def filling(cfg=CFG, layers=1):
    """One of so many networks whose weights fill the factor registers."""
    return drawn("lstm", cfg.factor_words * cfg.threads * cfg.dot // (4 * 16 * layers) - 16, 16)


def sequence(network, steps, start=0):
    return Sequence(network, np.random.default_rng(steps).uniform(-1, 1, (steps, network.step.vectors["x"].size)), start=start)


@pytest.mark.parametrize("cfg", [TWO_CORES, pytest.param(FOUR_CORES, marks=pytest.mark.nightly)], ids=lambda cfg: cfg.name)
def test_several_cores(cfg):
    """Tasks of several networks: results are those of the functional simulator, and each core has read all weights."""
    with Device(cfg, memory_bytes=MEMORY_BYTES) as hardware, Device(cfg, "golden", memory_bytes=MEMORY_BYTES) as golden:
        devices = hardware, golden
        run(devices, random_sequences(np.random.default_rng(7), cfg, tasks=7, largest=16, longest=12))
        run(devices, [sequence(drawn(), 2)])            # one core works
        network = filling(cfg)
        weights = network.step.macs()
        assert weights == cfg.factor_words * cfg.threads * cfg.dot
        assert cfg is TWO_CORES or weights == 2 * cfg.shared_bytes
        stats = run(devices, [sequence(network, steps) for steps in (3, 60, 5, 4, 2)])      # several rounds, biases are loaded
        lines = stats.counters.get("level2_hits", 0) + stats.counters.get("level2_misses", 0)
        loaded = lines * LINE_BYTES if cfg.l2_kib else stats.counters["read_beats"] * cfg.axi_bytes
        assert loaded >= cfg.cores * weights
        assert sum(stats.breakdown.values()) == stats.cycles


@pytest.mark.nightly
def test_tasks_on_all_cores(devices):
    rng = np.random.default_rng(7)
    for _ in range(6):
        run(devices, random_sequences(rng, CFG, tasks=7, largest=16, longest=12))


@pytest.mark.nightly
def test_biases_that_are_loaded(devices):
    """Weights that fill the factor registers: all cores load their biases, also with other numbers of tasks."""
    for layers in (1, 4):
        networks = [filling(layers=layers) for _ in range(layers)]
        run(devices, [sequence(networks[index % layers], 3 + index) for index in range(5)])


@pytest.mark.nightly
def test_quad_as_shipped():
    """A layer on each core of the preset."""
    cfg = load_config("quad")
    rng = np.random.default_rng(2)
    network = Network.of_layer(random_layer(rng, "lstm", 32, 32))
    with Device(cfg, memory_bytes=MEMORY_BYTES) as hardware, Device(cfg, "golden", memory_bytes=MEMORY_BYTES) as golden:
        stats = run((hardware, golden), [sequence(network, 8) for _ in range(5)])
    lines = stats.counters["level2_hits"] + stats.counters["level2_misses"]         # each core reads the weights, memory once
    assert lines * LINE_BYTES >= cfg.cores * 4 * 32 * 64


@pytest.mark.nightly
def test_each_core_has_half(devices):
    network = drawn()
    one, two = (run(devices, [sequence(network, 40) for _ in range(count)]) for count in (1, 2))
    assert two.counters["rnn_steps"] == 2 * one.counters["rnn_steps"]
    assert two.cycles < 1.2 * one.cycles


@pytest.mark.nightly
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
