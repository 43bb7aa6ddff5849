"""The harness reports what happened; the checkers of the benches find faults."""

import time

import pytest
from heddle.lib.register_slice import RegisterSlice
from heddle_sim.toolchain.cocotb_runner import BenchFailure, run_bench
from heddle_sim.toolchain.programs import Tool, ToolError, find, report, require, simulator_version

BENCH = "heddle_verif.bench.selftest"


def behave(behaviour, **options):
    return run_bench(RegisterSlice(8), bench=BENCH, parameters={"behaviour": behaviour}, name="selftest", **options)


@pytest.mark.parametrize("kind", [pytest.param("icarus", marks=pytest.mark.smoke), pytest.param("verilator", marks=pytest.mark.nightly)])
def test_summary(kind):
    summary = behave("pass", simulator=kind, seed=5)
    assert (summary["tests"], summary["names"], summary["seed"]) == (1, ["behaves"], 5)


@pytest.mark.parametrize("behaviour, message", [
    ("fail", "told to fail"), ("stall", "something must move within 50 cycles"), ("withdraw", "valid must stay until the item is accepted"),
    ("change", "payload must stay .* until it is accepted"),
])
def test_failures_are_reported(behaviour, message):
    with pytest.raises(BenchFailure, match=f"(?s)failed: behaves.*{message}.*seed 7.*COCOTB_RANDOM_SEED=7 python -m pytest "):
        behave(behaviour, seed=7)


def test_hanging_simulators_are_ended():
    started = time.monotonic()
    with pytest.raises(BenchFailure, match="must end within 5 s"):
        behave("hang", timeout_s=5)
    assert time.monotonic() - started < 120


def test_zero_tests_are_a_failure():
    with pytest.raises(BenchFailure, match="ended without running a test"):
        behave("pass", test_filter="no_such_test")


def test_environment_seed_goes_first(monkeypatch):
    monkeypatch.setenv("COCOTB_RANDOM_SEED", "11")
    assert behave("pass", seed=5)["seed"] == 11


def test_simulator_must_be_known():
    with pytest.raises(ValueError, match="^simulator must be one of icarus, verilator, not 'spice'"):
        behave("pass", simulator="spice")


def test_tools_are_found():
    rows = {tool.name: tool for tool in report()}
    assert all(isinstance(tool, Tool) for tool in rows.values())
    assert all(rows[name].ok for name in ("g++", "make", "iverilog", "vvp", "verilator", "cocotb", "pyosys"))
    assert simulator_version("icarus") == rows["iverilog"].version


def test_missing_tools_say_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find("iverilog").remedy == "install the package iverilog"
    with pytest.raises(ToolError, match="^iverilog must be version 11 or newer, not missing: install the package iverilog"):
        require("iverilog")
