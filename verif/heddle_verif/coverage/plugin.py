"""Part of pytest that collects functional coverage: a folder for the processes of a session, merged when the session ends."""

import os
import shutil
from collections import Counter

from heddle_sim.toolchain.build_cache import build_directory

from . import GROUPS
from .devices import watch_devices
from .storage import FOLDER_VARIABLE, merged, write, write_samples

__all__ = ["RUN_VARIABLE", "SessionCoverage", "run_path"]

RUN_VARIABLE = "HEDDLE_COVERAGE_RUN"    # name of the run: test, nightly; session where it is not given


def run_path(name):
    """The merged file of a run."""
    return build_directory() / "coverage" / f"{name}.json"


class SessionCoverage:
    """Plugin of a session. Workers of xdist find the folder in their environment; one that is given from outside is left alone.

    A test that fails leaves its samples; how many failed is noted in the merged file.
    """

    def __init__(self, run=None):
        self.run = run or os.environ.get(RUN_VARIABLE, "session")
        self.own = FOLDER_VARIABLE not in os.environ
        self.tests = Counter()
        if self.own:
            self.folder = build_directory().resolve() / "coverage" / f"{self.run}-{os.getpid()}"
            os.environ[FOLDER_VARIABLE] = str(self.folder)
        watch_devices()

    def pytest_runtest_logreport(self, report):
        """Note the file of a test that ran, and that one failed."""
        if report.when == "call" and not report.skipped:
            self.tests[report.nodeid.split("::")[0]] += 1
        if report.failed:
            self.tests["failed"] += 1

    def pytest_unconfigure(self):
        """Write what this process has sampled; the process that began the session merges all."""
        write(GROUPS)
        if not self.own:
            return
        os.environ.pop(FOLDER_VARIABLE, None)
        parts = sorted(self.folder.glob("*.json")) if self.folder.is_dir() else []
        if parts:
            samples, _ = merged(parts, GROUPS)
            failed = self.tests.pop("failed", 0)
            path = run_path(self.run)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_samples(path, samples, run=self.run, failed=failed, tests=dict(sorted(self.tests.items())))
        shutil.rmtree(self.folder, ignore_errors=True)
