"""Yosys from Python: runs a script over RTLIL texts in a process of its own.

Yosys ends its process on an error and does not return memory, so it never runs inside the caller's process.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from .errors import HeddleError
from .processes import run_limited

__all__ = ["YosysError", "run_yosys"]

CHILD = """
from pyosys import libyosys
design = libyosys.Design()
for command in open("script.ys").read().splitlines():
    design.run_pass(command)
"""


class YosysError(HeddleError, RuntimeError):
    """A Yosys command failed or ran out of time; the message ends with the last lines of the log."""


def run_yosys(rtlil_texts, commands, *, outputs=(), timeout_s=600):
    """Read RTLIL texts into one design, run commands on it and return the files they write.

    Parameters
    ----------
    rtlil_texts : list of str
        Designs, read in this order.
    commands : list of str
        Yosys commands; they run in an empty directory and name the files of ``outputs`` in it.
    outputs : iterable of str
        Files to return.
    timeout_s : float
        Wall-clock limit.

    Returns
    -------
    dict of str to str
        The text of each output file, and the log as ``"log"``.

    Raises
    ------
    YosysError
        When a command fails, an output is missing, or the limit passes.
    """
    with tempfile.TemporaryDirectory(prefix="heddle-yosys-") as directory:
        directory = Path(directory)
        reads = []
        for index, text in enumerate(rtlil_texts):
            (directory / f"design_{index}.il").write_text(text)
            reads.append(f"read_rtlil design_{index}.il")
        (directory / "script.ys").write_text("\n".join([*reads, *commands]) + "\n")
        log_path = directory / "log"
        with log_path.open("w") as log:
            code = run_limited([sys.executable, "-c", CHILD], timeout_s, cwd=directory, stdin=subprocess.DEVNULL, stdout=log,
                               stderr=subprocess.STDOUT)
        if code is None:
            raise YosysError(f"Yosys must end within {timeout_s} s:\n{_tail(log_path)}")
        missing = [name for name in outputs if not (directory / name).is_file()]
        if code != 0 or missing:
            raise YosysError(f"Yosys failed with status {code}:\n{_tail(log_path)}")
        return {name: (directory / name).read_text() for name in [*outputs, "log"]}


def _tail(path, lines=25):
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
