"""Bank reader of the recurrent engine."""

import pytest
from heddle import load_config
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.bench.bank_reader import make_unit


@pytest.mark.parametrize("kib", [4, pytest.param(64, marks=pytest.mark.nightly)])
def test_bank_reader(kib, simulator, seed):
    cfg = load_config("tiny").replace(shared_memory_kib=kib)
    run_bench(make_unit(cfg), bench="heddle_verif.bench.bank_reader", cfg=cfg, simulator=simulator, seed=seed)
