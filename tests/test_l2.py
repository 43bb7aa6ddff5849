"""Second level of global memory: reductions and cache."""

import pytest
from heddle import load_config
from heddle.memory.reduce import Reducer
from heddle_sim.harness import run_bench


@pytest.mark.parametrize("floats", [False, pytest.param(True, marks=pytest.mark.verilator_nightly)])
def test_reducer(floats, simulator, seed):
    cfg = load_config("tiny").replace(l2_kib=4, reductions=True, reduction_floats=floats)
    run_bench(Reducer(cfg), bench="heddle_verif.bench.reduce", cfg=cfg, simulator=simulator, seed=seed,
              parameters={"beats": 4000 if floats else 1500})
