"""What the harness tells a bench: the child process of ``heddle_sim.toolchain.cocotb_runner`` and the environment that benches read."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heddle.config import Config

__all__ = ["CONFIG_VARIABLE", "bench_config", "bench_parameters"]

CONFIG_VARIABLE = "HEDDLE_BENCH"


def bench_config() -> Config | None:
    """The ``heddle.Config`` given to ``run_bench`` (None when there was none); for use inside a bench."""
    from heddle.config import Config

    values = json.loads(os.environ.get(CONFIG_VARIABLE, "{}")).get("cfg")
    return None if values is None else Config(**values)


def bench_parameters() -> dict[str, Any]:
    """The ``parameters`` dictionary given to ``run_bench``; for use inside a bench."""
    return json.loads(os.environ.get(CONFIG_VARIABLE, "{}")).get("parameters", {})


def _main(job_path: str) -> None:
    """Build or run with cocotb's runner, as the job file says; the exit status is that of the simulation."""
    from cocotb_tools.runner import get_runner

    job = json.loads(Path(job_path).read_text())
    getattr(get_runner(job["simulator"]), job["step"])(**job["arguments"])


if __name__ == "__main__":
    _main(sys.argv[1])
