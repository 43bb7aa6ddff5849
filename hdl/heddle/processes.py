"""Programs that are run under a time limit, with all that they start."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["exit_when_terminated", "run_limited"]


def exit_when_terminated() -> None:
    """From now on SIGTERM ends this process as ``sys.exit`` does, so that what ``run_limited`` started ends with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


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
