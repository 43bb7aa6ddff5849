"""The front end and its scoreboard in simulation."""

import re
from pathlib import Path

import pytest
from heddle import load_config
from heddle.front_end.scoreboard import Scoreboard
from heddle.front_end.unit import FrontEnd
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.variants.bench_cases import bench_cases, half_of

CONFIGS = {"tiny": load_config("tiny"), "small": load_config("small").replace(instruction_words=512)}


PART = ("throughput|masks|barriers|place_of|unused|kernel|violations|control_errors|wait_limits|hazards/finish=0.3|"
        "random_programs/.*finish=0.5$")
PART_OF_SCOREBOARD = "every_group|full_groups|finish=0.6/same=0.0$|finish=0.2/same=0.7$|finish=0.02/same=0.97$"


@bench_cases(PART, *CONFIGS)
def test_unit(name, test_filter, simulator, seed):
    cfg = CONFIGS[name]
    run_bench(FrontEnd(cfg), bench="heddle_verif.bench.front_end", cfg=cfg, simulator=simulator, seed=seed, test_filter=test_filter,
              parameters=half_of(test_filter), timeout_s=400)


def test_the_page_lists_the_cycles():
    """Of both values of ``front_end_slices``; the bench asserts ``FrontEnd.timing``."""
    page = (Path(__file__).parents[3] / "docs" / "units" / "front_end.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .* \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    timing = [FrontEnd(CONFIGS["tiny"].replace(front_end_slices=slices)).timing._asdict() for slices in (0, 1)]
    assert {name: (int(none), int(one)) for name, none, one in rows} == {name: (timing[0][name], timing[1][name]) for name in timing[0]}


@pytest.mark.parametrize("name", ["tiny", pytest.param("small", marks=pytest.mark.variant)])
def test_barriers_in_turn(name, simulator, seed):
    cfg = CONFIGS[name]
    summary = run_bench(FrontEnd(cfg), bench="heddle_verif.bench.front_end_barriers", cfg=cfg, simulator=simulator, seed=seed)
    assert summary["tests"] == 3


@pytest.mark.parametrize("name", ["tiny", pytest.param("small", marks=pytest.mark.variant)])
def test_program_end(name, simulator, seed):
    cfg = CONFIGS[name]
    summary = run_bench(FrontEnd(cfg), bench="heddle_verif.bench.front_end_program", cfg=cfg, simulator=simulator, seed=seed)
    assert summary["tests"] == 1


@pytest.mark.parametrize("name", ["tiny", pytest.param("small", marks=pytest.mark.variant)])
def test_exact_hazards(name, simulator, seed):
    cfg = CONFIGS[name]
    run_bench(FrontEnd(cfg), bench="heddle_verif.bench.front_end_hazards", cfg=cfg, simulator=simulator, seed=seed)


def test_recurrent(simulator, seed):
    cfg = CONFIGS["tiny"]
    summary = run_bench(FrontEnd(cfg), bench="heddle_verif.bench.front_end_recurrent", cfg=cfg, simulator=simulator, seed=seed)
    assert summary["tests"] == 5


def test_sparse(simulator, seed):
    cfg = CONFIGS["tiny"]
    summary = run_bench(FrontEnd(cfg), bench="heddle_verif.bench.front_end_sparse", cfg=cfg, simulator=simulator, seed=seed)
    assert summary["tests"] == 6


def test_tensors(simulator, seed):
    cfg = CONFIGS["tiny"]
    summary = run_bench(FrontEnd(cfg), bench="heddle_verif.bench.front_end_tensors", cfg=cfg, simulator=simulator, seed=seed)
    assert summary["tests"] == 2


PART_OF_MULTICAST = "random_programs/pause=1/finish=0.5|barriers|masks|tiles"


@pytest.mark.parametrize("slices, test_filter", [
    pytest.param(0, PART_OF_MULTICAST, id="part"),
    *(pytest.param(slices, PART_OF_MULTICAST + "|violations|stops", id=str(slices), marks=pytest.mark.nightly) for slices in (0, 1))])
def test_multicast(slices, test_filter, seed):
    cfg = CONFIGS["tiny"].without_level2(multicast=True, cores=3, front_end_slices=slices)
    run_bench(FrontEnd(cfg), bench="heddle_verif.bench.front_end", cfg=cfg, simulator="icarus", seed=seed, timeout_s=400,
              test_filter=test_filter)


@pytest.mark.smoke
@bench_cases(PART_OF_SCOREBOARD, *CONFIGS)
def test_scoreboard(name, test_filter, simulator, seed):
    cfg = CONFIGS[name]
    run_bench(Scoreboard(cfg), bench="heddle_verif.bench.scoreboard", cfg=cfg, simulator=simulator, seed=seed, test_filter=test_filter,
              parameters=half_of(test_filter))
