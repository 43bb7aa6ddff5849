"""Mutation testing: how many broken versions of a unit its bench notices.

``python -m heddle_verif.mutation.mutate [--count N] [--minutes M] [--jobs J] [unit …]`` builds one simulator per unit with N mutants in it.
It runs the bench on each mutant, up to its first test that fails, and prints a table. Survivors are listed with their place in the source
after it was tried to prove them equivalent. The same goes to ``build/mutation.json``. A unit is skipped if that file has a complete result
for the same Verilog, bench and choice of mutants; its row says ``unchanged``. Survivors that are understood are in
``verif/mutation_waivers.toml``.
"""

import argparse
import json
import os
import re
import signal
import sys
import time
import tomllib
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from amaranth.hdl import UnusedElaboratable
from heddle import load_config
from heddle.datapath.pe import PE
from heddle.emit import emit_verilog
from heddle.front_end.scoreboard import Scoreboard
from heddle.front_end.unit import FrontEnd
from heddle.lib.adder_tree import AdderTree
from heddle.memory.shared_memory import SharedMemory
from heddle.rnn.output_writer import OutputWriter
from heddle.thread.shared_lsu import SharedLsu
from heddle.thread.unit import ThreadUnit
from heddle.tmau.beat_reader import BeatReader
from heddle.tmau.beat_writer import BeatWriter
from heddle.tmau.local_dma_shared import SharedDma
from heddle_sim.toolchain.build_cache import build_directory, content_key
from heddle_sim.toolchain.cocotb_runner import BenchFailure, run_bench

from ..bench import bank_reader, register_slice, round_robin, shared_port_merge
from ..variants.unit_variants import SCALED
from .mutants import SELECT, differs, make_mutants
from .sources import source_texts

__all__ = ["UNITS", "Target", "describe", "main", "mutate_unit", "run_units", "unit_key", "waivers", "workers"]

ROOT = Path(__file__).resolve().parents[3]
WAIVERS = ROOT / "verif" / "mutation_waivers.toml"
SEED = 1
VARIANT_COUNT = 30
MINUTES = 40                    # of all units together
SLOWER, SLACK_S = 4, 30         # a mutant whose tests take longer than so many times those of the unit, and seconds, hangs


@dataclass(frozen=True, kw_only=True)
class Target:
    """A unit, its benches and which modules of it are broken.

    ``tests`` are benches with test filters, tried in this order: quick tests that notice much first, and each test once. Large units run on
    Verilator: all tests of ``issue`` take 50 s there.
    """

    make: callable
    tests: tuple
    configuration: object = None
    parameters: dict = field(default_factory=dict)
    modules: str = "*"
    simulator: str = "icarus"
    limit_s: float = 300
    count: int | None = None        # of mutants; None: as the command says
    weight: int = 1                 # share of the time that is left


def _variant(unit, configuration, make):
    """The unit as a preset builds it, with the tests of another one."""
    return replace(unit, make=make, configuration=configuration, count=VARIANT_COUNT)


TINY = load_config("tiny")
PLAIN = TINY.replace(rnn=False, sparse=False)         # the lanes of the engine have a bench of their own
FRONT_END_TESTS = (("front_end", "throughput|masks|barriers|unused|place_of"), ("front_end_recurrent", None), ("front_end_tensors", None),
                   ("front_end", "violations|random_programs/.*finish=0.5$|control_errors"),
                   ("front_end", "kernel|hazards|undefined|limits|random_programs/.*finish=0.05$|stops"))
MEMORY, MEMORY_PORTS = TINY.replace(bank_patience=16), {"readers": 3, "writers": 2}
SMALL = TINY.replace(shared_memory_kib=4)
TWO_BANKS = SMALL.replace(sparse=False, threads=16, thread_slots=16, shared_writes=1)     # of an item, on one bus
LSU_TESTS = (("shared_lsu", "cycles_of|memory=some/offer=1.0/hold=0.3"), ("shared_lsu", "offer=0.3|reset_under_way"),
             ("shared_lsu", "memory=(free|few|late)/offer=1.0|memory=some/offer=1.0/hold=0.0"))
LARGER = TINY.replace(shared_memory_kib=128)        # copies with several updates of their barrier
BEAT_TESTS = ("latency|held|divided|silent", "random_beats/.*late|reset", "random_beats/.*(least|refusing)")
PACKETS = {"count": 4, "last": "last", "first": 1}
UNITS = {
    "adder_tree": Target(make=lambda: AdderTree(18, 3), tests=(("adder_tree", None),), parameters={"width": 18, "depth": 3}),
    "pe": Target(make=lambda: PE(PLAIN), configuration=PLAIN, tests=(("pe", "steps"), ("pe", "accesses"))),
    "scoreboard": Target(make=lambda: Scoreboard(TINY), configuration=TINY, simulator="verilator", tests=(("scoreboard", None),)),
    "issue": Target(make=lambda: FrontEnd(TINY), configuration=TINY, simulator="verilator", weight=4, tests=FRONT_END_TESTS,
                    modules="mutated.issue mutated.issue.copies mutated.issue.waits mutated.issue.waits.*"),
    "issue_queue": Target(make=lambda: FrontEnd(TINY), configuration=TINY, simulator="verilator", weight=2, tests=FRONT_END_TESTS,
                          modules="mutated.queue"),
    "operands": Target(make=lambda: FrontEnd(TINY), configuration=TINY, simulator="verilator", weight=2, tests=FRONT_END_TESTS,
                       modules="mutated.operand_read mutated.decode"),
    "register_slice": Target(make=lambda: register_slice.make_unit("full", True), tests=(("register_slice", None),),
                             parameters={"mode": "full", "clears": True}),
    "shared_memory": Target(make=lambda: SharedMemory(MEMORY, **MEMORY_PORTS), configuration=MEMORY, parameters=MEMORY_PORTS,
                            tests=(("shared_memory", "density=1.0/rows=3|no_port"), ("shared_memory", "rows=0"))),
    "round_robin": Target(make=lambda: round_robin.make_unit(**PACKETS), tests=(("round_robin", None),), parameters=PACKETS),
    "shared_lsu": Target(make=lambda: SharedLsu(TINY), configuration=TINY, simulator="verilator", tests=LSU_TESTS),
    "bank_reader": Target(make=lambda: bank_reader.make_unit(SMALL), configuration=SMALL, tests=(("bank_reader", None),)),
    "output_writer": Target(make=lambda: OutputWriter(TWO_BANKS), configuration=TWO_BANKS, tests=(("output_writer", None),)),
    "beat_writer": Target(make=lambda: BeatWriter(TINY), configuration=TINY, tests=tuple(("beat_writer", part) for part in BEAT_TESTS)),
    "beat_reader": Target(make=lambda: BeatReader(TINY), configuration=TINY, tests=tuple(("beat_reader", part) for part in BEAT_TESTS)),
    "read_merge": Target(make=lambda: shared_port_merge.make_unit(TINY, "read"), configuration=TINY, tests=(("shared_port_merge", None),),
                         parameters={"kind": "read"}),
    "write_merge": Target(make=lambda: shared_port_merge.make_unit(TINY, "write"), configuration=TINY, tests=(("shared_port_merge", None),),
                          parameters={"kind": "write"}),
    "local_dma_shared": Target(make=lambda: SharedDma(LARGER), configuration=LARGER,
                               tests=(("local_dma_shared", "random_copies|large"), ("local_dma_shared", "stopping"))),
    "global_access": Target(make=lambda: ThreadUnit(TINY), configuration=TINY, modules="*global_access", simulator="verilator", weight=2,
                            tests=(("thread", "every_place.*GLOBAL|memory_errors|errors_at_once|stores_in_flight|reset_under_way"),
                                   ("thread", "every_place.*SHARED|dependent_operations|random_operations|_cycles|start_and_stop|"
                                              "address_errors"))),
}
# The default preset, scaled down: 8 multipliers a lane, a bus of two banks.
BASE = SCALED["base"]
PLAIN_BASE = BASE.replace(rnn=False, sparse=False)
UNITS |= {
    "pe_base": _variant(UNITS["pe"], PLAIN_BASE, lambda: PE(PLAIN_BASE)),
    "scoreboard_base": _variant(UNITS["scoreboard"], BASE, lambda: Scoreboard(BASE)),
    "shared_lsu_base": _variant(UNITS["shared_lsu"], BASE, lambda: SharedLsu(BASE)),
    "shared_lsu_small": _variant(UNITS["shared_lsu"], SCALED["small"], lambda: SharedLsu(SCALED["small"])),     # one lane, one write bus
    "beat_writer_base": _variant(UNITS["beat_writer"], BASE, lambda: BeatWriter(BASE)),
    "beat_reader_base": _variant(UNITS["beat_reader"], BASE, lambda: BeatReader(BASE)),
    "issue_base": _variant(UNITS["issue"], BASE, lambda: FrontEnd(BASE)),
    "global_access_base": _variant(UNITS["global_access"], BASE, lambda: ThreadUnit(BASE)),
}


def describe(command):
    """What a mutant breaks: place in the source, module in the unit, cell port."""
    def option(name):
        match = re.search(rf" -{name} (\S+)", command)
        return match[1] if match else ""
    sources = [source for source in re.findall(r"-src (\S+)", command) if "/hdl/heddle/" in source]
    module = option("module").removeprefix("mutated").lstrip(".")
    source = re.sub(r".*/(hdl/heddle/)", r"\1", sources[-1]) if sources else f"cell {option('cell')}"
    place = " in ".join(part for part in (source, module) if part)
    wire = f" wire {option('wire')}[{option('wirebit')}]" if option("wire") else ""
    return f"{place}: {option('mode')} port {option('port')}[{option('portbit')}]{wire}"


def waivers(unit):
    """Reasons of a unit's waived mutants by their description.

    Raises ``ValueError`` when the line that a waiver names is not there once.
    """
    table = tomllib.loads(WAIVERS.read_text()).get("waiver", [])
    return {entry["mutant"].format(place=_place(entry["file"], entry["text"])): entry["reason"] for entry in table if entry["unit"] == unit}


def _place(file, text):
    lines = [number for number, line in enumerate((ROOT / file).read_text().splitlines(), 1) if text in line]
    if len(lines) != 1:
        raise ValueError(f"text of a waiver must be in one line of {file}, not in {len(lines)}: {text}")
    return f"{file}:{lines[0]}"


def unit_key(name, count, seed):
    """Changes when the unit, its benches with all that they import, the choice of mutants or a waiver does."""
    target = UNITS[name]
    benches = sorted({f"heddle_verif.bench.{bench}" for bench, _ in target.tests})
    texts = source_texts([*benches, "heddle_verif.mutation.mutants"])
    return content_key(emit_verilog(target.make(), "unit"), texts, target.tests, target.modules, target.parameters, target.simulator, count,
                       seed, waivers(name))


def mutate_unit(name, count, seconds=float("inf"), seed=SEED, report=print, jobs=1):
    """Run the bench of a unit on its mutants, ``jobs`` at a time, until the time is over.

    Returns ``run``, ``killed``, ``equivalent``, ``waived`` (numbers), ``survivors`` (descriptions) and ``score``: killed mutants of
    those that are neither equivalent nor waived.

    Raises ``BenchFailure`` when the bench fails on the unit as it is.
    """
    target, started = UNITS[name], time.monotonic()
    commands, verilog = make_mutants(target.make, count, seed, target.modules)
    limits = {}
    for tests in target.tests:
        before = time.monotonic()
        _run(name, target, verilog, 0, tests, target.limit_s)
        limits[tests] = SLOWER * (time.monotonic() - before) + SLACK_S
    reasons = waivers(name)

    def judge(numbered):
        """What becomes of a mutant: a key of the result."""
        number, command = numbered
        if time.monotonic() - started > seconds:
            return None
        if any(_killed(name, target, verilog, number, *limit) for limit in limits.items()):
            return "killed"
        if describe(command) in reasons:
            return "waived"
        return "equivalent" if differs(target.make, command) is False else "survivors"

    result = {"run": 0, "killed": 0, "equivalent": 0, "waived": 0, "survivors": []}
    with workers(jobs) as pool:
        for command, outcome in zip(commands, pool.map(judge, enumerate(commands, 1)), strict=True):
            if outcome is None:
                continue
            result["run"] += 1
            if outcome == "survivors":
                result["survivors"].append(describe(command))
                report(f"    survives: {describe(command)}")
            else:
                result[outcome] += 1
    judged = result["killed"] + len(result["survivors"])
    return result | {"score": round(result["killed"] / judged, 3) if judged else 0, "seconds": round(time.monotonic() - started)}


@contextmanager
def workers(count):
    """Threads that take no further work once the context is left by an exception."""
    with ThreadPoolExecutor(count) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run(name, target, verilog, number, tests, limit_s):
    bench, test_filter = tests
    run_bench(target.make(), bench=f"heddle_verif.bench.{bench}", cfg=target.configuration, parameters=target.parameters,
              verilog=verilog, plusargs=[f"+{SELECT}={number}"], seed=SEED, name=f"mutants_{name}", test_filter=test_filter,
              timeout_s=limit_s, simulator=target.simulator, max_failures=1, report=lambda line: None)


def _killed(name, target, verilog, number, tests, limit_s):
    try:
        _run(name, target, verilog, number, tests, limit_s)
    except BenchFailure:
        return True
    return False


def stored_results(path):
    """Results of earlier runs by unit; none where there is no such file, or half of one."""
    try:
        found = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def run_units(names, count, minutes, seed=SEED, jobs=1, again=False, report=print):
    """Mutate units one after the other, each in its share of what is left of the time; returns results by unit, with ``unchanged``."""
    path, started, results = build_directory() / "mutation.json", time.monotonic(), {}
    known = {} if again else stored_results(path)
    for number, name in enumerate(names):
        most = UNITS[name].count or count
        key = unit_key(name, most, seed)
        before = known.get(name, {})
        if before.get("key") == key and before.get("run") == most:
            results[name] = before | {"unchanged": True}
        else:
            left = max(0, 60 * minutes - (time.monotonic() - started))
            share = left * UNITS[name].weight / sum(UNITS[other].weight for other in names[number:])
            results[name] = mutate_unit(name, most, share, seed, report=report, jobs=jobs) | {"count": most, "key": key, "unchanged": False}
        report(row(name, results[name]))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stored_results(path) | results, indent=2) + "\n")
    return results


def row(name, result):
    """A line of the table; without a score where no mutant was judged."""
    score = f"{result['score']:.0%}" if result["killed"] or result["survivors"] else "-"
    return (f"{name:18} run {result['run']:3} of {result['count']:3}  killed {result['killed']:3}  equivalent {result['equivalent']:2}  "
            f"waived {result['waived']:2}  survive {len(result['survivors']):2}  score {score}  {result['seconds']} s"
            f"{'  unchanged' * result['unchanged']}")


def main(arguments=None):
    """Print the table of the units named (all without a name)."""
    parser = argparse.ArgumentParser(prog="python -m heddle_verif.mutation.mutate", description=__doc__.splitlines()[0])
    parser.add_argument("unit", nargs="*", help=f"one of {', '.join(UNITS)}; all without one")
    parser.add_argument("--count", type=int, default=60, help=f"mutants of a unit ({VARIANT_COUNT} of those that end with _base)")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="time limit of all units; what is left is shared by those to come")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at a time (default: one for each processor)")
    parser.add_argument("--seed", type=int, default=SEED, help="of the choice of mutants")
    parser.add_argument("--again", action="store_true", help="units that have not changed too")
    options = parser.parse_args(arguments)
    unknown = set(options.unit) - UNITS.keys()
    if unknown:
        parser.error(f"unit must be one of {', '.join(UNITS)}, not {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore", UnusedElaboratable)     # components asked for their ports only
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))     # no mutant begins after it; those under way end, with all they started
    run_units(options.unit or list(UNITS), options.count, options.minutes, options.seed, options.jobs, options.again,
              report=lambda line: print(line, flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
