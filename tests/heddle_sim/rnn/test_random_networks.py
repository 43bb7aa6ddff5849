"""Random recurrent networks on the hardware against the functional simulator [S3.5, S3.6]."""

import numpy as np
import pytest
from heddle import load_config
from heddle_sim import Device
from heddle_verif.stimulus.recurrent_networks import random_sequences

CFG = load_config("recurrent64").replace(name="recurrent64_differences", rnn_differences=True)
TINY = load_config("tiny").replace(factor_words=512, shared_memory_kib=32)


def equal(results, wanted):
    for result, golden in zip(results, wanted, strict=True):
        assert all(np.array_equal(result.outputs[name], golden.outputs[name]) for name in golden.outputs)
        assert all(np.array_equal(result.states[name], golden.states[name]) for name in golden.states)


@pytest.mark.parametrize("networks", [pytest.param(60, marks=pytest.mark.nightly), pytest.param(200, marks=pytest.mark.soak)])
def test_networks(networks, seed):
    """Sizes 1 to 130, lengths 1 to 20, one to four threads, up to three networks at once, all layers and options: equal, bit by bit, and
    as many columns are left out."""
    rng, count = np.random.default_rng(seed), 0
    with Device(CFG, memory_bytes=1 << 20) as hardware, Device(CFG, "golden", memory_bytes=1 << 20) as golden:
        while count < networks:
            sequences = random_sequences(rng, CFG)
            wanted, expected = golden.run_tasks(sequences)
            results, stats = hardware.run_tasks(sequences)
            equal(results, wanted)
            assert stats.counters["rnn_skipped"] == expected.counters["rnn_skipped"]
            count += len({id(sequence.network) for sequence in sequences})


def test_drawn_networks(seed):
    """What is drawn for the hardware runs, one sequence after the other as all together."""
    rng = np.random.default_rng(seed)
    with Device(TINY, "golden", memory_bytes=1 << 20) as device:
        for _ in range(5):
            sequences = random_sequences(rng, TINY, largest=20, longest=5)
            together, _ = device.run_tasks(sequences)
            equal([device.run_tasks([sequence])[0][0] for sequence in sequences], together)
