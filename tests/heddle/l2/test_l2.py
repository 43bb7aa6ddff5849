"""Second level of global memory: reductions and cache."""

import pytest
from heddle import load_config
from heddle.l2.reduction_unit import ReductionUnit
from heddle.l2.unit import L2
from heddle_sim.toolchain.cocotb_runner import run_bench


@pytest.mark.parametrize("floats", [False, pytest.param(True, marks=pytest.mark.variant)])
def test_reducer(floats, simulator, seed):
    cfg = load_config("tiny").replace(reduction_floats=floats)
    run_bench(ReductionUnit(cfg), bench="heddle_verif.bench.reduction_unit", cfg=cfg, simulator=simulator, seed=seed,
              parameters={"beats": 4000 if floats else 1500})


TINY = load_config("tiny")
CONFIGURATIONS = {
    "tiny": TINY,
    "wide": TINY.without_level2().replace(l2_kib=4, axi_data_bits=512, l2_ways=1),
    "cores": TINY.replace(cores=4, l2_kib=8),
}


def test_level2(simulator, seed):
    """Integers only: the float units have a bench of their own."""
    cfg = TINY.replace(reduction_floats=False)
    run_bench(L2(cfg), bench="heddle_verif.bench.l2", cfg=cfg, simulator=simulator, seed=seed, parameters={"epochs": 2})


def test_level2_covers_the_latency(seed):
    """A bus of 256 bits and as many bursts under way as ``base`` has: rows of a beat come one a cycle too."""
    cfg = TINY.without_level2(axi_data_bits=256, axi_reads=96, axi_writes=96).replace(l2_kib=4)
    run_bench(L2(cfg), bench="heddle_verif.bench.l2", cfg=cfg, simulator="icarus", seed=seed, test_filter="short_rows|pace")


def test_level2_of_two_cores(simulator, seed):
    cfg = TINY.without_level2(cores=2).replace(l2_kib=4)
    run_bench(L2(cfg), bench="heddle_verif.bench.l2", cfg=cfg, simulator=simulator, seed=seed, parameters={"epochs": 1},
              test_filter="random_traffic|pace")


@pytest.mark.variant
@pytest.mark.parametrize("epochs", [pytest.param(2, marks=pytest.mark.nightly), pytest.param(12, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_level2_long(name, epochs, simulator, seed):
    cfg = CONFIGURATIONS[name]
    run_bench(L2(cfg), bench="heddle_verif.bench.l2", cfg=cfg, simulator=simulator, seed=seed, parameters={"epochs": epochs},
              timeout_s=800)
