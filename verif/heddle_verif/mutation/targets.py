"""The units whose benches are tested by mutation, and what need not be noticed."""

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path

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
from heddle_sim.toolchain.build_cache import content_key

from ..bench import bank_reader, register_slice, round_robin, shared_port_merge
from ..variants.unit_variants import SCALED
from .sources import source_texts

__all__ = ["UNITS", "Target", "unit_key", "waivers"]

ROOT = Path(__file__).resolve().parents[3]
WAIVERS = ROOT / "verif" / "mutation_waivers.toml"
VARIANT_COUNT = 30


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


def _variant(unit, configuration, make):
    """The unit as a preset builds it, with the tests of another one."""
    return replace(unit, make=make, configuration=configuration, count=VARIANT_COUNT)


TINY = load_config("tiny")
PLAIN = TINY.replace(rnn=False, sparse=False)         # the lanes of the engine have a bench of their own
FRONT_END_TESTS = (("front_end", "random_programs/.*finish=0.5$|throughput|masks|barriers|unused|place_of|cycle_register|violations|"
                                 "control_errors"),
                   ("front_end_hazards", None), ("front_end_sparse", None), ("front_end_recurrent", None), ("front_end_tensors", None),
                   ("front_end_program", None), ("front_end_barriers", None),
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
    "issue": Target(make=lambda: FrontEnd(TINY), configuration=TINY, simulator="verilator", tests=FRONT_END_TESTS,
                    modules="mutated.issue mutated.issue.copies mutated.issue.waits mutated.issue.waits.*"),
    "issue_queue": Target(make=lambda: FrontEnd(TINY), configuration=TINY, simulator="verilator", tests=FRONT_END_TESTS,
                          modules="mutated.queue"),
    "operands": Target(make=lambda: FrontEnd(TINY), configuration=TINY, simulator="verilator", tests=FRONT_END_TESTS,
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
    "global_access": Target(make=lambda: ThreadUnit(TINY), configuration=TINY, modules="*global_access", simulator="verilator",
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
    "issue_queue_base": _variant(UNITS["issue_queue"], BASE, lambda: FrontEnd(BASE)),
    "operands_base": _variant(UNITS["operands"], BASE, lambda: FrontEnd(BASE)),
    "output_writer_base": _variant(UNITS["output_writer"], BASE, lambda: OutputWriter(BASE)),
    "global_access_base": _variant(UNITS["global_access"], BASE, lambda: ThreadUnit(BASE)),
}


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
