"""The complete device between models of AXI that nobody here wrote."""

import pytest
from heddle import load_config
from heddle.top import Top
from heddle_sim.toolchain.cocotb_runner import run_bench

ICARUS = r"matrix_product/shape=0/stalls=0\.5|short_program"       # it takes a second for some hundred cycles


TINY = load_config("tiny")
PLAIN = TINY.without_level2(tensors=False, rnn=False, sparse=False)       # the engines have tests of their own


def run(simulator, seed, test_filter=None, cfg=PLAIN, **parameters):
    return run_bench(Top(cfg), bench="heddle_verif.bench.top", cfg=cfg, simulator=simulator, seed=seed, test_filter=test_filter,
                     parameters=parameters, timeout_s=600)


@pytest.mark.soak
def test_verilator(seed):
    run("verilator", seed)


def test_icarus(seed):
    assert run("icarus", seed, ICARUS)["tests"] == 2


@pytest.mark.soak
def test_icarus_long(seed):
    run("icarus", seed)


@pytest.mark.soak
def test_every_engine(seed):
    run("verilator", seed, cfg=TINY, fewer=3)
