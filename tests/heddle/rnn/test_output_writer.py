"""Output writer of the recurrent engine."""

import pytest
from heddle import load_config
from heddle.rnn.output_writer import OutputWriter
from heddle_sim.toolchain.cocotb_runner import run_bench

# Lanes of the tail and words written in a cycle: parts of a bank, a bank, two banks.
SHAPES = [(4, 8), (16, 1), *(pytest.param(*shape, marks=pytest.mark.nightly) for shape in ((1, 1), (8, 1), (16, 8)))]


@pytest.mark.parametrize("lanes, writes", SHAPES)
def test_output_writer(lanes, writes, simulator, seed):
    cfg = load_config("tiny").replace(threads=16, thread_slots=lanes, shared_writes=writes, shared_memory_kib=4,
                                     gather_offsets=False, sparse=False)
    assert cfg.tail_lanes == lanes
    run_bench(OutputWriter(cfg), bench="heddle_verif.bench.output_writer", cfg=cfg, simulator=simulator, seed=seed)
