"""Programs that are run under a time limit, with all that they start."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

__all__ = ["run_limited"]


def run_limited(command: Sequence[str], seconds: float, **options: Any) -> int | None:
    """Exit status of a command, or ``None`` when the time was over; the processes that it started end with it.

    ``options`` are those of ``subprocess.Popen``. The command has a process group of its own, which is killed at the end.
    """
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
