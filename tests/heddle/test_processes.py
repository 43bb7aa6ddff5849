"""Programs under a time limit."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from heddle.processes import run_limited

SLEEPS = """
import sys
from heddle.processes import exit_when_terminated, run_limited
exit_when_terminated()
run_limited(["sh", "-c", "echo $$ > $0; sleep 60", sys.argv[1]], 50)
"""


def test_a_command_that_takes_too_long_ends():
    begun = time.monotonic()
    assert run_limited(["sleep", "60"], 0.2) is None and time.monotonic() - begun < 30
    assert run_limited(["sh", "-c", "exit 3"], 30) == 3


def test_a_process_that_is_terminated_leaves_nothing_behind(tmp_path):
    """The shell that it runs is gone too."""
    path = tmp_path / "number"
    with subprocess.Popen([sys.executable, "-c", SLEEPS, str(path)]) as process:
        while not (path.exists() and path.read_text().strip()):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert not Path("/proc", path.read_text().strip()).exists()
