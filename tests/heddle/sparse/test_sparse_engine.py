"""The sparse engine."""

import pytest
from heddle import load_config
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.duts.sparse_system import SparseSystem

BENCH = "heddle_verif.bench.sparse_engine"
CONFIGS = {
    "tiny": dict(),
    "eight": dict(dot=8, shared_memory_kib=32),
    "pairs": dict(dot=8, threads=32, shared_memory_kib=64),
    "sixteen": dict(dot=16, threads=16, rnn_tap_registers=32, shared_memory_kib=32),
    "far": dict(dot=8, threads=16, far_registers=True, rnn_differences=True, shared_memory_kib=32),
    "wide": dict(dot=8, threads=64, wide_lanes=True, shared_memory_kib=64),
}


def config(name):
    return load_config("tiny").replace(sparse=True, **CONFIGS[name])


@pytest.mark.parametrize("name", ["tiny", "eight", *(pytest.param(name, marks=pytest.mark.variant) for name in ("sixteen", "far", "wide"))])
def test_engine(name, simulator, seed):
    cfg = config(name)
    run_bench(SparseSystem(cfg), bench=BENCH, cfg=cfg, simulator=simulator, seed=seed)


def test_groups_of_lanes(simulator, seed):
    """With several groups of lanes: products, and the cycles that rows take."""
    cfg = config("pairs")
    run_bench(SparseSystem(cfg), bench=BENCH, cfg=cfg, simulator=simulator, seed=seed, test_filter="shape=mixed|shape=short|pace")
