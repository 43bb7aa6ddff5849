"""Options and fixtures of all tests."""

from pathlib import Path

import pytest
from heddle_sim.toolchain.cocotb_runner import SIMULATORS
from heddle_verif.coverage.plugin import SessionCoverage

UNITS = Path(__file__).with_name("heddle")      # their benches: Icarus in make test, Verilator at night
# Files that take minutes at night come first, so that no process has one alone at the end.
LONG = (
    "test_unit_variants.py", "test_presets.py", "test_formal.py", "test_tutorials.py", "test_random_configurations.py", "test_thread.py",
    "test_matrix.py", "test_networks.py", "test_emit.py", "test_random_programs.py", "test_sparse_engine.py", "test_engine.py",
    "test_tmau.py", "test_tensor_units.py", "test_front_end.py", "test_top.py", "test_timing.py", "test_memory.py")
FIXED_SEED = 20240229       # of every bench, unless --seed or COCOTB_RANDOM_SEED says otherwise


def pytest_addoption(parser):
    parser.addoption("--sim", choices=SIMULATORS, action="append", help="run benches on this simulator only")
    parser.addoption("--seed", help="seed of the benches: a number, or random for a new one each time")


def pytest_configure(config):
    config.pluginmanager.register(SessionCoverage())


def pytest_generate_tests(metafunc):
    if "simulator" in metafunc.fixturenames:
        metafunc.parametrize("simulator", metafunc.config.getoption("--sim") or SIMULATORS)


@pytest.hookimpl(tryfirst=True)     # before tests are chosen by their marks
def pytest_collection_modifyitems(config, items):
    for item in items:
        simulator = item.callspec.params.get("simulator") if hasattr(item, "callspec") else None
        variant = item.get_closest_marker("variant")
        if variant and simulator == "icarus" or item.get_closest_marker("short") and simulator == "verilator":
            item.add_marker("soak")
        of_unit = item.path.is_relative_to(UNITS)
        if variant or item.get_closest_marker("soak") or (simulator == "verilator" and of_unit):
            item.add_marker("nightly")      # what leaves nightly tests out leaves them out too
    # A file stays with one process. The processes themselves do not know the option, but the command.
    if "loadfile" in getattr(config, "workerinput", {}).get("mainargv", ()):
        items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


@pytest.fixture
def seed(pytestconfig):
    """Seed of a bench; None lets the harness draw one."""
    value = pytestconfig.getoption("--seed")
    return None if value == "random" else int(value or FIXED_SEED)


def pytest_terminal_summary(terminalreporter):
    """What tests say of data that is not at hand everywhere: how much of it they ran."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "ran":
                terminalreporter.write_line(f"{report.nodeid}: {value}")
