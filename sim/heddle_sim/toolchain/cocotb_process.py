"""What the harness tells a bench: the child process of ``heddle_sim.toolchain.cocotb_runner`` and the environment that benches read."""

import json
import os
import sys
from pathlib import Path

__all__ = ["CONFIG_VARIABLE", "bench_config", "bench_parameters"]

CONFIG_VARIABLE = "HEDDLE_BENCH"


def bench_config():
    """The ``heddle.Config`` given to ``run_bench`` (None when there was none); for use inside a bench."""
    from heddle.config import Config

    values = json.loads(os.environ.get(CONFIG_VARIABLE, "{}")).get("cfg")
    return None if values is None else Config(**values)


def bench_parameters():
    """The ``parameters`` dictionary given to ``run_bench``; for use inside a bench."""
    return json.loads(os.environ.get(CONFIG_VARIABLE, "{}")).get("parameters", {})


def _main(job_path):
    """Build or run with cocotb's runner, as the job file says; the exit status is that of the simulation."""
    from cocotb_tools.runner import get_runner

    job = json.loads(Path(job_path).read_text())
    getattr(get_runner(job["simulator"]), job["step"])(**job["arguments"])


if __name__ == "__main__":
    _main(sys.argv[1])
