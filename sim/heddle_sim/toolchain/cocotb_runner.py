"""Runs cocotb benches: emits the component, builds the simulator (cached) and runs the bench under a time limit."""

import importlib.metadata
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from amaranth.lib import wiring
from heddle.config import Config
from heddle.errors import UsageError
from heddle.processes import run_limited

from .build_cache import build_directory, cached_build, content_key
from .cocotb_process import CONFIG_VARIABLE, bench_config, bench_parameters
from .programs import SPLIT, simulator_environment, simulator_version
from .simulated import simulated_verilog

__all__ = ["BenchFailure", "SIMULATORS", "bench_config", "bench_parameters", "run_bench"]

SIMULATORS = ("icarus", "verilator")
# The run-time library dominates small builds and comes from a cache.
BUILD_ARGUMENTS = {
    "icarus": [],
    "verilator": ["--no-timing", "--no-assert", "-O3", "--x-initial", "unique", "--x-assign", "unique", "-Wno-fatal", "-Wno-lint",
                  "-Wno-style", *SPLIT],
}
# A bench spends its time in Python: without optimisation the build takes a part of the time, and the run as long.
OPTIMISE, SHORT_BUILD = "-Os", "-O0"        # of the C++ compiler
# cocotb has Verilator keep every signal. Benches use the ports: a quarter of the time to build, and faster runs.
PORTS_ONLY = {"icarus": [], "verilator": ["--no-public-flat-rw", "--public-depth", "1"]}
TOP = "dut"
EXECUTABLES = {"icarus": "sim.vvp", "verilator": TOP}       # what a run needs of a build
BUILD_LIMIT_S = 900


class BenchFailure(AssertionError):
    """A bench failed, hung or ran no test; the message has the end of the log, the seed and the command that repeats it."""


def run_bench(component: wiring.Component, *, bench: str, cfg: Config | None = None, simulator: str = "icarus", seed: int | None = None,
              test_filter: str | None = None, parameters: dict[str, Any] | None = None, waves: bool = False, every_signal: bool = False,
              optimised: bool = False, timeout_s: float = 300, name: str | None = None, variant: str = "rtl", verilog: str | None = None,
              plusargs: Sequence[str] = (), max_failures: int = 0, report: Callable[[str], object] = print) -> dict[str, Any]:
    """Run the tests of a cocotb module on a component.

    Parameters
    ----------
    component : wiring.Component
        Design under test; its ports are the handles of ``dut`` (``i__payload`` …), with ``clk`` and ``rst``.
    bench : str
        Module with ``@cocotb.test`` coroutines, e.g. ``"heddle_verif.bench.stream"``.
    cfg : heddle.Config or None
        What ``bench_config()`` returns in the bench.
    simulator : str
        ``"icarus"`` or ``"verilator"``.
    seed : int or None
        Seed of every random choice; drawn when None. The environment variable ``COCOTB_RANDOM_SEED`` goes before it.
    test_filter : str or None
        Regular expression; only tests whose full name matches are run.
    parameters : dict or None
        JSON-ready values that ``bench_parameters()`` returns in the bench.
    waves : bool
        Record waveforms in the folder of the run (also by the environment variable ``WAVES=1``).
    every_signal : bool
        The bench may use every signal of the design, not only its ports.
    optimised : bool
        Compile for speed, as cocotb does for Verilator, where the speed of the simulation is measured.
    timeout_s : float
        Wall-clock limit of the run, without the build.
    name : str or None
        Folder of builds and runs under ``build/bench/``; the class of the component by default. No effect on results.
    variant : str
        Variant of ``emit_verilog``.
    verilog : str or None
        Text to simulate in place of the emitted one; its top module is called ``dut`` and has the ports of the component.
    plusargs : list of str
        Handed to the simulation (``+name=value``), for ``$value$plusargs``.
    max_failures : int
        Tests that fail before the rest is left out; 0: all tests run.
    report : callable
        Told a line about a run without failures.

    Returns
    -------
    dict
        ``tests`` (number run), ``names``, ``seed``, ``simulator``, ``directory`` of the run, ``seconds``.

    Raises
    ------
    BenchFailure
        When a test fails, no test runs, the simulator fails or the limit passes.
    ToolError
        When a tool is missing.
    """
    if simulator not in SIMULATORS:
        raise UsageError(f"simulator must be one of {', '.join(SIMULATORS)}, not {simulator!r}")
    seed = int(os.environ.get("COCOTB_RANDOM_SEED", seed if seed is not None else random.SystemRandom().randrange(1 << 31)))
    waves = waves or os.environ.get("WAVES", "0") not in ("", "0")
    name = name or re.sub(r"(?<!^)(?=[A-Z])", "_", type(component).__name__).lower()
    every_signal = every_signal or waves
    verilog = verilog if verilog is not None else simulated_verilog(component, TOP, every_signal=every_signal, variant=variant)
    environment = {**simulator_environment(simulator, build_directory() / "runtime"),
                   CONFIG_VARIABLE: json.dumps({"cfg": cfg.as_dict() if cfg is not None else None, "parameters": parameters or {}}),
                   "COCOTB_RANDOM_SEED": str(seed), "COCOTB_MAX_FAILURES": str(max_failures),
                   "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    if simulator == "verilator":
        environment["MAKEFLAGS"] += f" OPT_FAST={OPTIMISE if optimised else SHORT_BUILD}"
    extra = [] if every_signal else PORTS_ONLY[simulator]
    built = _build(verilog, name, simulator, waves, extra, environment)

    run = content_key(built.name, bench, seed, test_filter, list(plusargs), environment[CONFIG_VARIABLE],
                      os.environ.get("PYTEST_CURRENT_TEST"))
    directory = _run_directory(build_directory() / "bench" / name / "runs" / run)
    started = time.monotonic()
    arguments = {"test_module": bench, "hdl_toplevel": TOP, "hdl_toplevel_lang": "verilog", "build_dir": str(built), "seed": seed,
                 "test_dir": str(directory), "results_xml": str(directory / "results.xml"), "test_filter": test_filter, "waves": waves,
                 "plusargs": list(plusargs),
                 "timescale": ["1ns", "1ps"] if simulator == "icarus" else None}
    status = _step("test", simulator, arguments, directory, environment, timeout_s)
    names, failures = _results(directory / "results.xml")
    summary = {"tests": len(names), "names": names, "seed": seed, "simulator": simulator, "directory": str(directory),
               "seconds": round(time.monotonic() - started, 1)}
    report(f"{bench} on {simulator}: {len(names)} tests, seed {seed}, {summary['seconds']} s; repeat with {_rerun(seed)}")
    if status or failures or not names:
        reason = (f"must end within {timeout_s} s" if status is None else f"failed: {', '.join(failures)}" if failures
                  else "ended without running a test" if not names else f"ended with status {status}")
        raise BenchFailure(f"{bench} on {simulator} {reason}\n{_tail(directory / 'test.log')}\nseed {seed}, log {directory / 'test.log'}\n"
                           f"repeat with: {_rerun(seed)}")
    return summary


def _build(verilog: str, name: str, simulator: str, waves: bool, extra: list[str], environment: dict[str, str]) -> Path:
    arguments = BUILD_ARGUMENTS[simulator] + extra
    versions = [simulator_version(simulator), importlib.metadata.version("cocotb")]
    key = content_key(verilog, simulator, *versions, arguments, waves, environment.get("MAKEFLAGS", "").rpartition("OPT_FAST")[2])

    def build(directory: Path) -> None:
        source = directory / f"{TOP}.v"
        source.write_text(verilog)
        status = _step("build", simulator, {"sources": [str(source)], "hdl_toplevel": TOP, "build_args": arguments, "waves": waves,
                                            "build_dir": str(directory), "timescale": ["1ns", "1ps"]},
                       directory, environment, BUILD_LIMIT_S)
        if status != 0:
            raise BenchFailure(f"build of {name} for {simulator} failed\n{_tail(directory / 'build.log')}")

    return cached_build(f"bench/{name}", simulator, key, build, {"versions": versions, "arguments": arguments}, [EXECUTABLES[simulator]])


def _run_directory(directory: Path) -> Path:
    """An empty folder for a run, elsewhere where the build folder cannot be written."""
    shutil.rmtree(directory, ignore_errors=True)
    try:
        directory.mkdir(parents=True)
        return directory
    except OSError:
        return Path(tempfile.mkdtemp(prefix=f"heddle-{directory.name}-"))


def _step(step: str, simulator: str, arguments: dict[str, object], directory: Path, environment: dict[str, str],
          limit_s: float) -> int | None:
    """Run cocotb's runner in a process group of its own; the exit status, or None when the limit passed."""
    job = directory / f"{step}.json"
    job.write_text(json.dumps({"simulator": simulator, "step": step, "arguments": arguments}))
    full = {key: value for key, value in os.environ.items() if key not in ("PYTEST_CURRENT_TEST", "WAVES")} | environment
    with (directory / f"{step}.log").open("w") as log:
        return run_limited([sys.executable, "-m", "heddle_sim.toolchain.cocotb_process", str(job)], limit_s, cwd=directory, env=full,
                           stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def _results(path: Path) -> tuple[list[str], list[str]]:
    """Names of the tests that ran, and of those that failed."""
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return [], []
    ran = [case for case in cases if case.find("skipped") is None]
    failed = [case.get("name", "") for case in ran if case.find("failure") is not None or case.find("error") is not None]
    return [case.get("name", "") for case in ran], failed


def _tail(path: Path, lines: int = 40) -> str:
    return "\n".join(Path(path).read_text(errors="replace").splitlines()[-lines:])


def _rerun(seed: int) -> str:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" (", 1)[0]
    command = f"python -m pytest {shlex.quote(test)}" if test else shlex.join([Path(sys.executable).name, *sys.argv])
    return f"COCOTB_RANDOM_SEED={seed} {command}"
