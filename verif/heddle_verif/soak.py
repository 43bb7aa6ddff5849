"""``python -m heddle_verif.soak [--hours H] [--seed S]``: the tests with mark ``soak`` again and again, each round with the next seed.

Ends with 1 at the end of the first round in which a test fails, and says the seed that repeats it; with 0 when the time is over.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from heddle.processes import run_limited

__all__ = ["main", "run_rounds"]

ROOT = Path(__file__).resolve().parents[2]


def run_rounds(hours, seed, jobs, run, clock=time.monotonic, report=print):
    """Rounds of ``run(arguments, seconds)``, which returns an exit status, or None when the seconds were over; returns the exit status.

    Tests with mark ``once``, for which the seed makes no difference, are in the first round only.
    """
    end, number = clock() + 3600 * hours, 0
    while (left := end - clock()) > 0:
        arguments = ["-n", str(jobs), "-m", "soak and not once" if number else "soak", "--seed", str(seed + number), "tests"]
        status = run(arguments, left)
        if status is None:
            report(f"soak: the time is over in the round of seed {seed + number}; {number} rounds before it passed")
            return 0
        if status:
            report(f"soak: failed with seed {seed + number}; again with make soak SEED={seed + number}")
            return 1
        number += 1
    report(f"soak: {number} rounds passed, seeds {seed} to {seed + number - 1}" if number else "soak: no time, nothing was run")
    return 0 if number else 1


def _pytest(arguments, seconds):
    return run_limited([sys.executable, "-m", "pytest", *arguments], seconds, cwd=ROOT)


def main(arguments=None):
    """Run rounds until the hours are over."""
    parser = argparse.ArgumentParser(prog="python -m heddle_verif.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=8, help="time limit (default 8)")
    parser.add_argument("--seed", type=int, default=1, help="of the first round (default 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="tests at a time (default: one for each processor)")
    options = parser.parse_args(arguments)
    if options.hours <= 0 or options.seed < 0:
        parser.error(f"hours must be positive and seed not negative, not {options.hours} and {options.seed}")
    return run_rounds(options.hours, options.seed, options.jobs, _pytest)


if __name__ == "__main__":
    sys.exit(main())
