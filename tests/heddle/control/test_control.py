"""Control: registers, runs, errors and counters over AXI4-Lite on both simulators."""

import pytest
from heddle import load_config
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.duts.control_system import ControlSystem


@pytest.mark.smoke
def test_bench(simulator, seed):
    cfg = load_config("tiny")
    result = run_bench(ControlSystem(cfg), bench="heddle_verif.bench.control", cfg=cfg, simulator=simulator, seed=seed)
    assert result["tests"] == 6
