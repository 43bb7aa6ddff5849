"""Second level of global memory: reductions and cache."""

import pytest
from heddle import load_config
from heddle.memory.l2 import Level2
from heddle.memory.reduce import Reducer
from heddle_sim.harness import run_bench


@pytest.mark.parametrize("floats", [False, pytest.param(True, marks=pytest.mark.verilator_nightly)])
def test_reducer(floats, simulator, seed):
    cfg = load_config("tiny").replace(l2_kib=4, reductions=True, reduction_floats=floats)
    run_bench(Reducer(cfg), bench="heddle_verif.bench.reduce", cfg=cfg, simulator=simulator, seed=seed,
              parameters={"beats": 4000 if floats else 1500})


CONFIGURATIONS = {
    "tiny": {"reductions": True},
    "wide": {"axi_data_bits": 512, "l2_ways": 1},
    "cores": {"cores": 4, "l2_kib": 8, "reductions": True},
}


@pytest.mark.verilator_nightly
def test_level2(simulator, seed):
    cfg = load_config("tiny").replace(l2_kib=4, reductions=True)
    run_bench(Level2(cfg), bench="heddle_verif.bench.level2", cfg=cfg, simulator=simulator, seed=seed, parameters={"epochs": 2})


@pytest.mark.verilator_nightly
def test_level2_of_two_cores(simulator, seed):
    cfg = load_config("tiny").replace(cores=2, l2_kib=4)
    run_bench(Level2(cfg), bench="heddle_verif.bench.level2", cfg=cfg, simulator=simulator, seed=seed, parameters={"epochs": 1},
              test_filter="random_traffic|pace")


@pytest.mark.nightly
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_level2_long(name, simulator, seed):
    cfg = load_config("tiny").replace(**{"l2_kib": 4} | CONFIGURATIONS[name])
    run_bench(Level2(cfg), bench="heddle_verif.bench.level2", cfg=cfg, simulator=simulator, seed=seed, parameters={"epochs": 12},
              timeout_s=800)
