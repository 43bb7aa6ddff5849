"""Units with the configurations that their benches run: the tests parametrize from this table, and it is compared with the presets."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from heddle import load_config
from heddle.config import preset_names
from heddle.control.tile_scheduler import TileScheduler
from heddle.core import Core
from heddle.datapath.pe import PE
from heddle.front_end.scoreboard import Scoreboard
from heddle.front_end.unit import FrontEnd
from heddle.l2.reduction_unit import ReductionUnit
from heddle.l2.unit import L2
from heddle.matrix.unit import MatrixUnit
from heddle.memory.axi_master import AxiMaster
from heddle.memory.barriers import Barriers
from heddle.memory.global_arbiter import GlobalArbiter
from heddle.memory.shared_memory import SharedMemory
from heddle.rnn.tail import Tail
from heddle.thread.shared_lsu import SharedLsu
from heddle.thread.unit import ThreadUnit
from heddle.tmau.multicast_network import MulticastNetwork
from heddle.tmau.row_expander import RowExpander
from heddle.tmau.unit import Tmau
from heddle.top import Top

from ..duts.control_system import ControlSystem
from ..duts.engine_system import EngineSystem
from ..duts.sparse_system import SparseSystem
from .traced import kind, parts_of, read_while_elaborated, structure

__all__ = ["PRESETS", "PROVED", "SCALED", "UNITS", "Unit", "missing_variants", "scaled", "units_without_bench"]


def scaled(cfg):
    """A preset with small memories and few lanes: the same structure of every unit, but for its sizes."""
    few = 4 * cfg.thread_slots if cfg.packs_groups else 16       # words of the output stage have a byte of each of four groups
    changes = {"threads": max(cfg.thread_slots, min(cfg.threads, few)),
               "shared_memory_kib": min(cfg.shared_memory_kib, 16),
               "factor_words": 64, "instruction_words": 512, "axi_address_bits": 17, "rnn_elements": 1024, "rnn_tap_registers": 16,
               "rnn_records": 32, "compiled_offsets": min(cfg.compiled_offsets, 64)}
    if cfg.l2_kib:
        changes["l2_kib"] = 4 * cfg.cores
    return cfg.replace(name=f"{cfg.name}_scaled", **changes)


PRESETS = {name: load_config(name) for name in preset_names()}
SCALED = {name: scaled(cfg) for name, cfg in PRESETS.items()}


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A unit as a core makes it, its bench, and the configurations that the bench runs.

    ``make`` gets a configuration, ``parameters`` too; ``has`` says whether a preset has the unit. ``make nightly`` runs the tests that
    match ``night`` (None: all) on all configurations, on ``simulator``, with a third of the random rounds, and ``make soak`` all tests with
    all rounds; ``make test`` runs those that match ``quick``, by configuration, on Icarus.
    """

    make: Callable
    bench: str
    configurations: dict
    parameters: Callable = lambda cfg: {}
    has: Callable = lambda cfg: True
    simulator: str = "icarus"
    night: str | None = None
    quick: dict = field(default_factory=dict)


def _scaled(*names):
    return {name: SCALED[name] for name in names}


def _shared_memory(cfg):
    return SharedMemory(cfg, readers=3 + cfg.rnn + cfg.sparse, writers=2 + cfg.rnn + cfg.sparse)


UNITS = {
    "front_end": Unit(make=FrontEnd, bench="front_end", configurations=SCALED, simulator="verilator",
                      quick={"base": "random_programs/pause=1/finish=0.5|throughput|masks|barriers"}),
    "scoreboard": Unit(make=Scoreboard, bench="scoreboard", configurations=_scaled("base", "resident64", "small"),
                   simulator="verilator", quick={"base": "finish=0.6/same=0.7|full_groups"}),
    "matrix_unit": Unit(make=MatrixUnit, bench="matrix", simulator="verilator",
                        configurations=_scaled("tiny", "base", "large", "recurrent64", "resident64", "small", "small_all"),
                        night="profile=(banks|operations)|repeats|every_merge|first_step|errors"),
    "compiled_offsets": Unit(make=MatrixUnit, bench="matrix_offsets", configurations=_scaled("tiny", "base", "large"),
                             has=lambda cfg: cfg.compiled_offsets > 0, simulator="verilator"),
    "pe": Unit(make=PE, bench="pe",
               configurations=_scaled("tiny", "large", "quad", "resident64", "recurrent64", "small", "small_all")),
    "thread_unit": Unit(make=ThreadUnit, bench="thread", simulator="verilator",
                        configurations=_scaled("tiny", "base", "large", "recurrent64", "resident64", "small", "small_all")),
    "shared_lsu": Unit(make=SharedLsu, bench="shared_lsu", simulator="verilator",
                       configurations=_scaled("tiny", "base", "resident64", "recurrent64", "small")),
    "tmau": Unit(make=Tmau, bench="tmau", simulator="verilator",
                      configurations=_scaled("tiny", "base", "large", "quad", "resident64", "small", "small_all")),
    "tensor_copies": Unit(make=Tmau, bench="tensor_copies", configurations=_scaled("tiny", "base", "large", "quad", "small_all"),
                          parameters=lambda cfg: {"legal": 100, "illegal": 30}, has=lambda cfg: cfg.tensors, simulator="verilator"),
    "local_dma": Unit(make=Tmau, bench="local_dma", configurations=_scaled("tiny", "base", "large", "quad", "small_all"),
                          parameters=lambda cfg: {"rounds": 1}, has=lambda cfg: cfg.copy_within, simulator="verilator"),
    "shared_memory": Unit(make=_shared_memory, bench="shared_memory",
                          configurations=_scaled("tiny", "resident64", "recurrent64", "small", "small_all"),
                          parameters=lambda cfg: {"readers": 3 + cfg.rnn + cfg.sparse, "writers": 2 + cfg.rnn + cfg.sparse}),
    "barriers": Unit(make=Barriers, bench="barriers", configurations=_scaled("tiny", "quad")),
    "arbiter": Unit(make=GlobalArbiter, bench="arbiter", configurations=_scaled("tiny", "base", "small", "small_all")),
    "axi_master": Unit(make=AxiMaster, bench="axi_master", configurations=_scaled("tiny", "base", "small", "small_all")),
    "l2": Unit(make=L2, bench="l2", configurations=_scaled("tiny", "base", "large", "quad", "small_all"),
                   parameters=lambda cfg: {"epochs": 1}, has=lambda cfg: cfg.l2_kib > 0, simulator="verilator"),
    "reduction_unit": Unit(make=ReductionUnit, bench="reduction_unit", configurations=_scaled("tiny", "base", "small_all"),
                    parameters=lambda cfg: {"beats": 1500}, has=lambda cfg: cfg.reductions),
    "multicast": Unit(make=MulticastNetwork, bench="multicast", configurations=_scaled("quad"), has=lambda cfg: cfg.multicast),
    "engine": Unit(make=EngineSystem, bench="rnn_engine", configurations=_scaled("tiny", "base", "large", "recurrent64", "small_all"),
                   has=lambda cfg: cfg.rnn, simulator="verilator"),
    "engine_lanes": Unit(make=MatrixUnit, bench="engine_lanes", configurations=_scaled("tiny", "base", "large", "recurrent64", "small_all"),
                         has=lambda cfg: cfg.rnn, simulator="verilator"),
    "tail": Unit(make=Tail, bench="rnn_tail", configurations=_scaled("tiny", "base", "small_all"),
                 parameters=lambda cfg: {"tables": 3, "jobs": 11}, has=lambda cfg: cfg.rnn),
    "sparse_engine": Unit(make=SparseSystem, bench="sparse_engine", has=lambda cfg: cfg.sparse, simulator="verilator",
                          configurations={name: SCALED[name].replace(shared_memory_kib=128) for name in ("tiny", "base", "large")}),
    "sparse_samples": Unit(make=SparseSystem, bench="sparse_samples", has=lambda cfg: cfg.sparse, simulator="verilator",
                           configurations={name: SCALED[name].replace(shared_memory_kib=128) for name in ("tiny", "base", "large")}),
    "sparse_depthwise": Unit(make=SparseSystem, bench="sparse_depthwise", has=lambda cfg: cfg.sparse, simulator="verilator",
                             configurations={name: SCALED[name].replace(shared_memory_kib=128) for name in ("tiny", "base", "large")}),
    "tile_scheduler": Unit(make=lambda cfg: TileScheduler(cfg.cores), bench="tile_scheduler", configurations=_scaled("quad"),
                           parameters=lambda cfg: {"count": cfg.cores}, has=lambda cfg: cfg.tile_scheduler),
    "control": Unit(make=ControlSystem, bench="control",
                    configurations=_scaled("tiny", "base", "large", "quad", "resident64", "small", "small_all")),
}


# Units without a bench, and the proof of the variant that a configuration builds.
PROVED = {RowExpander: lambda cfg: "row_expander"}


def units_without_bench(cfg):
    """Units that a device of ``cfg`` is made of, with its cores, that neither are in ``UNITS`` nor in the DUT of a bench there.

    A unit of ``UNITS`` that a configuration does not have, but names, is wires there: the second level.
    """
    benched, whole = {Core}, SCALED["quad"]
    for unit in UNITS.values():
        made = unit.make(cfg if unit.has(cfg) else whole)
        benched |= {type(made)} | (parts_of(made) if isinstance(made, ControlSystem | EngineSystem | SparseSystem) else set())
    return (parts_of(Top(cfg)) | parts_of(Core(cfg))) - benched


@cache
def _names(make, preset):
    few = {name: 6 if getattr(SCALED[preset], name) % 3 == 0 else 4 for name in ("axi_reads", "axi_writes")}    # the same, but small
    return read_while_elaborated(make, SCALED[preset].replace(**few))


def missing_variants(name):
    """Presets whose variant of a unit no configuration of its bench has, with the parameters in which the nearest one differs.

    A variant is what decides the structure of the unit: see ``traced``.
    """
    unit, read, missing = UNITS[name], [], {}
    for preset, cfg in PRESETS.items():
        if not unit.has(cfg):
            continue
        # Elaboration that reads equal values goes the same way: one preset tells which parameters matter for all that are equal in these.
        names = next((names for names, wanted in read if structure(cfg, names) == wanted), None)
        if names is None:
            names = _names(unit.make, preset)
            read.append((names, structure(SCALED[preset], names)))
        wanted = structure(cfg, names)
        found = [{key for key, value in wanted.items() if kind(other, key) != value} for other in unit.configurations.values()]
        if all(found):
            missing[preset] = sorted(min(found, key=len))
    return missing
