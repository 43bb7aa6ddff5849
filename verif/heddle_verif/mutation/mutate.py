"""Mutation testing: how many broken versions of a unit its bench notices.

``python -m heddle_verif.mutation.mutate [--count N] [--minutes M] [--jobs J] [--store] [unit …]`` builds one simulator per unit with N
mutants in it. Each mutant goes through the steps of ``unit_mutants``, which end with the first test that fails: a step of all mutants of
all units before the next step, so that what the time does not reach are the last proofs. It prints a table, and the survivors with their
place in the source. What was found is kept (``results``): the next run goes on from there as long as Verilog, bench and choice of mutants
are the same. The row of a unit without anything left says ``unchanged``. Survivors that are understood are in
``verif/mutation_waivers.toml``.
"""

import argparse
import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from amaranth.hdl import UnusedElaboratable
from heddle.processes import exit_when_terminated

from .results import known_result, read_results, run_results, store_results, write_results
from .targets import UNITS, VARIANT_COUNT, unit_key
from .unit_mutants import SEED, STEPS, UnitMutants

__all__ = ["main", "row", "run_units", "workers"]

MINUTES = 40                    # of all units together
EVERY_S = 60                    # between lines that say how far the run is


def run_units(names, count, minutes, seed=SEED, jobs=1, again=False, report=print):
    """Judge the mutants of units until the time is over, ``jobs`` at a time; returns results by unit, with ``unchanged``.

    Raises ``BenchFailure`` when a bench fails on a unit as it is.
    """
    end, units, results = time.monotonic() + 60 * minutes, {}, {}
    for name in names:
        most = UNITS[name].count or count
        key = unit_key(name, most, seed)
        before = {} if again else known_result(name, key)
        units[name] = UnitMutants(name, most, seed, before.get("outcomes"))
        results[name] = before | {"key": key, "count": most, "unchanged": not any(units[name].open(step) for step in STEPS)}
    try:
        for step in STEPS:
            _take_step(step, [unit for unit in units.values() if unit.open(step)], end, jobs, report)
    finally:
        for name, unit in units.items():
            if not results[name]["unchanged"]:
                found = unit.result() | {"outcomes": unit.outcomes}
                results[name] |= found | {"seconds": results[name].get("seconds", 0) + found["seconds"]}
        write_results(run_results(), read_results(run_results()) | results)
    for name in names:
        for survivor in results[name]["survivors"]:
            report(f"    {name} survives: {survivor}")
    for name in names:
        report(row(name, results[name]))
    return results


def _take_step(step, units, end, jobs, report):
    """A step of all mutants: the first of each unit, the second of each, …, so that units get equally far in the time."""
    tasks = sorted(((number, unit) for unit in units for number in unit.open(step)), key=lambda task: task[0])
    said, done = time.monotonic(), 0

    def judge(task):
        in_time = time.monotonic() < end
        if in_time:
            task[1].judge(step, task[0])
        return in_time

    with workers(jobs) as pool:
        for in_time in pool.map(judge, tasks):
            done += in_time
            if time.monotonic() > said + EVERY_S:
                said = time.monotonic()
                report(f"{step.replace('_', ' ')}: {done} of {len(tasks)} mutants")


@contextmanager
def workers(count):
    """Threads that take no further work once the context is left by an exception."""
    with ThreadPoolExecutor(count) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def row(name, result):
    """A line of the table; without a score where no mutant was judged."""
    score = "at least " * (result["run"] < result["count"]) + f"{result['score']:.0%}" if result["killed"] or result["survivors"] else "-"
    return (f"{name:18} run {result['run']:3} of {result['count']:3}  killed {result['killed']:3}  equivalent {result['equivalent']:2}  "
            f"waived {result['waived']:2}  survive {len(result['survivors']):2}  score {score}  {result['seconds']} s"
            f"{'  unchanged' * result['unchanged']}")


def main(arguments=None):
    """Print the table of the units named (all without a name)."""
    parser = argparse.ArgumentParser(prog="python -m heddle_verif.mutation.mutate", description=__doc__.splitlines()[0])
    parser.add_argument("unit", nargs="*", help=f"one of {', '.join(UNITS)}; all without one")
    parser.add_argument("--count", type=int, default=60, help=f"mutants of a unit ({VARIANT_COUNT} of those that end with _base)")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="time limit of all units together")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at a time (default: one for each processor)")
    parser.add_argument("--seed", type=int, default=SEED, help="of the choice of mutants")
    parser.add_argument("--again", action="store_true", help="what earlier runs found too")
    parser.add_argument("--store", action="store_true", help="results in the repository, and write the page docs/mutation.md")
    options = parser.parse_args(arguments)
    unknown = set(options.unit) - UNITS.keys()
    if unknown:
        parser.error(f"unit must be one of {', '.join(UNITS)}, not {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore", UnusedElaboratable)     # components asked for their ports only
    exit_when_terminated()      # no mutant begins after it; those under way end, with all they started
    results = run_units(options.unit or list(UNITS), options.count, options.minutes, options.seed, options.jobs, options.again,
                        report=lambda line: print(line, flush=True))
    if options.store:
        store_results(results, UNITS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
