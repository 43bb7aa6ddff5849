"""Tile scheduler: bench on both simulators, parameter errors [S4.7]."""

import pytest
from heddle.control.tile_scheduler import TileScheduler
from heddle_sim.toolchain.cocotb_runner import run_bench


@pytest.mark.parametrize("count", [
    pytest.param(4, marks=pytest.mark.smoke), *(pytest.param(count, marks=pytest.mark.nightly) for count in (2, 3, 16))])
def test_bench(count, simulator, seed):
    summary = run_bench(TileScheduler(count), bench="heddle_verif.bench.tile_scheduler", simulator=simulator, seed=seed,
                        parameters={"count": count}, name=f"tile_scheduler_{count}")
    assert summary["tests"] == 7


@pytest.mark.parametrize("count", [0, -1, 2.0])
def test_count(count):
    with pytest.raises(ValueError, match=f"^count must be an integer of at least 1, not {count}$"):
        TileScheduler(count)
