"""Random programs on the generated hardware and on the functional simulator: all of global memory must be equal."""

import numpy as np
import pytest
from heddle import load_config
from heddle_sim import Device
from heddle_sim.device.simulation import MemorySettings
from heddle_verif.programs import random_program

MEMORY_BYTES = 1 << 17
PROGRAMS_OF_A_DEVICE = 10       # programs one after the other: what registers and shared memory keep is compared too
LENGTH = 110


def settings(rng):
    """A memory that is fast, slow or disorderly."""
    return MemorySettings(latency=int(rng.integers(1, 80)), jitter=int(rng.choice([0, 7, 100])), stall=float(rng.choice([0, 0.2, 0.6])),
                          bandwidth=float(rng.choice([1.0, 0.4])), outstanding=int(rng.choice([2, 8, 256])),
                          interleave=bool(rng.integers(2)), seed=int(rng.integers(1 << 30)))


def differing(found, expected):
    """Text about the first bytes that differ."""
    places = np.flatnonzero(found != expected)
    return f"{len(places)} bytes differ, first at " + ", ".join(f"{place:#x}" for place in places[:8])


def fuzz(cfg, seed, count):
    rng = np.random.default_rng(seed)
    with (Device(cfg, "verilator", memory_bytes=MEMORY_BYTES, memory_settings=settings(rng), timeout_cycles=1_000_000) as device,
          Device(cfg, "golden", memory_bytes=MEMORY_BYTES) as golden):
        device.memory.bytes[:] = golden.memory.bytes[:] = rng.integers(0, 256, MEMORY_BYTES, np.uint8)
        for number in range(count):
            text = random_program(rng, cfg, LENGTH, memory_bytes=MEMORY_BYTES)
            device.run(text)
            golden.run(text)
            found, expected = device.memory.bytes, golden.memory.bytes
            assert np.array_equal(found, expected), f"seed {seed}, program {number}: {differing(found, expected)}\n{text}"


@pytest.mark.parametrize("seed", range(4))
def test_tiny(seed):
    fuzz(load_config("tiny"), seed, PROGRAMS_OF_A_DEVICE)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_tiny_long(seed):
    fuzz(load_config("tiny"), seed, PROGRAMS_OF_A_DEVICE)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", ["small", "base"])
def test_larger(name, seed):
    cfg = load_config(name)
    fuzz(cfg.replace(shared_memory_kib=32, factor_words=64), seed, PROGRAMS_OF_A_DEVICE)
