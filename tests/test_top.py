"""The complete device between models of AXI that nobody here wrote."""

import pytest
from heddle import load_config
from heddle.top import Top
from heddle_sim.harness import run_bench

ICARUS = r"matrix_product/shape=0/stalls=0\.5|short_program"       # it takes a second for some hundred cycles


def run(simulator, seed, test_filter=None):
    cfg = load_config("tiny").replace(tensors=False)     # tests of their own: here it would be half of the build
    return run_bench(Top(cfg), bench="heddle_verif.bench.top", cfg=cfg, simulator=simulator, seed=seed, test_filter=test_filter,
                     timeout_s=600)


def test_verilator(seed):
    run("verilator", seed)


def test_icarus(seed):
    assert run("icarus", seed, ICARUS)["tests"] == 2


@pytest.mark.nightly
def test_icarus_long(seed):
    run("icarus", seed)
