"""Whether two trees build the same device: ``python -m heddle_verif.traces OTHER_TREE [--config NAME …] [--programs N] [--seed S]``.

The Verilog of each preset is compared first: equal text is the same device. Where names differ, both are built, and seeded random
programs run on them; all top-level pins must be equal in every cycle, what an AXI channel sends while it is valid.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from heddle import load_config
from heddle.config import preset_names
from heddle_sim.backends.backend import VerilatorBackend
from heddle_sim.backends.verilator_build import device_verilog
from heddle_sim.backends.verilator_device import MemorySettings
from heddle_sim.isa import assemble
from heddle_sim.progress import Progress

from .stimulus.program_texts import random_program

__all__ = ["compare", "main", "other_verilog", "pins"]

MEMORY_BYTES = 1 << 22        # results of a program: all registers and shared memory
LENGTH, TIMEOUT_CYCLES = 110, 1_000_000
GENERATE = "import sys; from heddle_sim.cli import main; sys.exit(main(sys.argv[1:]))"


def other_verilog(tree, name):
    """The Verilog that the sources of another tree generate for a preset of theirs."""
    with tempfile.TemporaryDirectory(prefix="heddle-traces-") as folder:
        paths = [str(Path(tree, part).resolve()) for part in ("hdl", "sim")]
        subprocess.run([sys.executable, "-c", GENERATE, "generate", "--config", name, "--quiet", "-o", folder], check=True,
                       env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, stdout=subprocess.DEVNULL)
        return Path(folder, "heddle.v").read_text()


def pins(cfg, verilog, programs, seed):
    """What the pins of a design showed: a hash of all of them in all cycles, behind each of ``programs`` random programs in a row."""
    rng, found = np.random.default_rng(seed), []
    memory = rng.integers(0, 256, MEMORY_BYTES, np.uint8)
    settings = MemorySettings(latency=20, jitter=int(rng.integers(30)), stall=0.2, interleave=True, seed=seed)
    backend = VerilatorBackend(cfg, memory, settings, Progress(), verilog)
    try:
        backend.simulation.trace_pins()
        for _ in range(programs):
            program = assemble(random_program(rng, cfg, LENGTH, memory_bytes=MEMORY_BYTES), cfg)
            outcome = backend.run(program, {}, TIMEOUT_CYCLES)
            found.append((backend.simulation.trace_pins(), backend.simulation.cycles, outcome.cycles, outcome.error))
    finally:
        backend.close()
    return found


def compare(tree, name, programs, seed):
    """A row: ``config``, ``verilog`` ("equal" or "differs"), ``programs`` that ran, ``cycles``, ``equal``."""
    cfg = load_config(name)
    ours, theirs = device_verilog(cfg), other_verilog(tree, name)
    row = {"config": name, "verilog": "equal" if ours == theirs else "differs", "programs": 0, "cycles": 0, "equal": True}
    if ours == theirs:
        return row
    found, expected = (pins(cfg, text, programs, seed) for text in (ours, theirs))
    return row | {"programs": programs, "cycles": found[-1][1], "equal": found == expected}


def main(arguments=None):
    """Print a row for each preset; returns 0 when all are equal."""
    parser = argparse.ArgumentParser(prog="python -m heddle_verif.traces", description=__doc__)
    parser.add_argument("tree", help="folder of the other tree")
    parser.add_argument("--config", nargs="*", default=preset_names(), metavar="NAME", help="presets (default: all)")
    parser.add_argument("--programs", type=int, default=200, help="random programs of each (default 200)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    rows = []
    for name in options.config:
        rows.append(compare(options.tree, name, options.programs, options.seed))
        print(json.dumps(rows[-1]), flush=True)
    return 0 if all(row["equal"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
