"""Coverage of presets: which of their units programs used, on the generated hardware and on the functional simulator."""

from heddle.config import load_config, preset_names
from heddle.isa.encoding import Opcode
from heddle_sim.isa.fields import FIELDS

from .model import Exclusion, Group

__all__ = ["RUN", "preset_of", "sample_run", "uses_of"]

UNITS = {
    "thread unit": (Opcode.THREAD_ALU, Opcode.THREAD_COMPARE, Opcode.LOAD, Opcode.STORE),
    "gathers": (Opcode.GATHER,),
    "matrix unit": (Opcode.MATRIX,),
    "recurrent engine": (Opcode.RECURRENT,),
    "sparse engine": (Opcode.SPARSE,),
    "copies of blocks": (Opcode.COPY_BLOCK, Opcode.COPY_ROWS),
    "copies of tensors": (Opcode.COPY_TENSOR,),
    "prefetches": (Opcode.PREFETCH_BLOCK, Opcode.PREFETCH_TENSOR),
    "barriers": (Opcode.BARRIER_EXPECT, Opcode.BARRIER_WAIT),
    "groups of stores": (Opcode.COMMIT_GROUP, Opcode.WAIT_GROUP),
    "multicast": (),
}
PRESETS = preset_names()
SIMULATORS = ("verilator", "golden")
_OF_OPCODE = {opcode.value: unit for unit, opcodes in UNITS.items() for opcode in opcodes}
_NEEDS = {"gathers": "gather_offsets", "recurrent engine": "rnn", "sparse engine": "sparse", "copies of tensors": "tensors",
          "prefetches": "tensors", "groups of stores": "tensors", "multicast": "multicast"}


def _lacking():
    """Exclusions of what a preset does not have."""
    for unit, parameter in _NEEDS.items():
        without = [name for name in PRESETS if not getattr(load_config(name), parameter)]
        if without:
            yield Exclusion(f"{parameter} is false", preset=without, uses=unit)


RUN = Group(
    "presets.run", "A run that ended without an error on a preset as it ships, for each unit that its program uses.",
    {"preset": PRESETS, "uses": list(UNITS), "simulator": SIMULATORS},
    crosses=[("preset", "simulator"), ("preset", "uses", "simulator")], exclude=_lacking())


def preset_of(cfg):
    """The name of the preset that a configuration is, as it ships; None for others."""
    return cfg.name if cfg.name in PRESETS and load_config(cfg.name) == cfg else None


def uses_of(words):
    """The units that the instruction words of a program use."""
    uses = {_OF_OPCODE.get(FIELDS["opcode"].get(word)) for word in words} - {None}
    multicast, copies = FIELDS["modifiers.copy.multicast"], (Opcode.COPY_BLOCK.value, Opcode.COPY_TENSOR.value)
    if any(FIELDS["opcode"].get(word) in copies and multicast.get(word) for word in words):
        uses.add("multicast")
    return uses


def sample_run(preset, words, simulator):
    """Count a run of a program on a preset."""
    for unit in uses_of(words):
        RUN.sample(preset=preset, uses=unit, simulator=simulator)
