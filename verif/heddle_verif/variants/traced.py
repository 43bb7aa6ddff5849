"""Which parameters of a configuration the structure of a unit depends on: those that are read while it is elaborated."""

import dataclasses
from functools import cache

from amaranth.lib.wiring import Component
from heddle import Config
from heddle.constants import BANK_BYTES, LINE_BYTES
from heddle.lib.shared_module import elaborate
from heddle.parameters.group import Parameters

__all__ = ["CLASSES", "SIZES", "kind", "parts_of", "read_while_elaborated", "structure"]

FIELDS = {field.name for field in dataclasses.fields(Config)}
NAMES = FIELDS | {name for group in Config.__mro__ for name, value in vars(group).items() if isinstance(value, property)}


def _few(value):
    """One, two or more: what is shared by one has no choice, and by two a plain one."""
    return min(value, 3)


def _beside(size):
    """Smaller than, equal to or larger than ``size``."""
    return lambda value: (value > size) - (value < size)


def _is_two(value):
    """A queue of two is a pair of registers, a longer one a memory."""
    return value == 2


def _power_of_two(value):
    """Numbers in a ring wrap by themselves, or by a comparison."""
    return value & (value - 1) == 0


# Integers that a unit branches on, and the class that decides.
CLASSES = {
    "axi_bytes": _beside(BANK_BYTES), "axi_data_bits": _beside(8 * BANK_BYTES), "line_beats": _beside(LINE_BYTES // BANK_BYTES),
    "axi_reads": _power_of_two, "axi_writes": _power_of_two,
    "cores": _few, "core_bits": _few, "l2_kib": bool, "l2_ways": _few, "shared_writes": int,
    "threads": lambda value: value >= 16, "positions": lambda value: value >= 16, "thread_groups": lambda value: value == 1,
    "dot": int, "word_bits": int, "numbers_per_word": int, "element_bits": int, "sum_bits": lambda value: value == 32,
    "engine_element_bits": int, "prefetched_blocks": bool,
    "fetch_words": int, "fetch_slots": int, "piece_slots": int, "thread_slots": int, "tail_lanes": int, "vector_lanes": int,
    "slot_multipliers": int, "thread_multipliers": int, "lane_slices": int, "register_read_latency": int, "rnn_contexts": _few,
    "shared_requests": int, "front_end_slices": int, "tmau_slices": int,
    "sparse_pairs": int, "compiled_offsets": bool, "byte_entries": bool,
    "matrix_queue": _is_two, "thread_queue": _is_two, "copy_queue": _is_two,
}
# Integers that only say how many bits, rows or items there are.
SIZES = {
    "thread_bits", "factor_words", "factor_address_bits", "factor_registers", "registers", "word_index_bits", "instruction_words",
    "program_counter_bits", "shared_memory_kib", "shared_bytes", "shared_rows", "shared_address_bits", "row_bits", "axi_address_bits",
    "axi_id_bits", "tag_bits", "transfer_blocks", "bank_patience", "rnn_elements", "rnn_records", "rnn_tap_registers", "engine_sum_latency",
    "offset_words", "sparse_columns", "sparse_rows", "sample_latency",
}


class _Trace:
    """Names of parameters that are read; those that a derived one reads in turn are not among them."""

    def __init__(self):
        self.names, self.depth = set(), 0


_trace = _Trace()


class _Traced(Parameters):
    """Parameters whose reads are noted, together with those of what units take of them."""

    def __getattribute__(self, name):
        if name not in NAMES:
            return super().__getattribute__(name)
        if not _trace.depth:
            _trace.names.add(name)
        _trace.depth += 1
        try:
            return super().__getattribute__(name)
        finally:
            _trace.depth -= 1

    def narrowed(self, kind):
        """The parameters of a unit; to take them, which reads all of them, is no use of any."""
        _trace.depth += 1
        try:
            return super().narrowed(_traced(kind))
        finally:
            _trace.depth -= 1

    def replace(self, **changes):
        """A copy, which reads every field, depends on none."""
        _trace.depth += 1
        try:
            return super().replace(**changes)
        finally:
            _trace.depth -= 1


@cache
def _traced(kind):
    """A class of parameters with noted reads."""
    return type(f"Traced{kind.__name__}", (_Traced, kind), {})


def read_while_elaborated(make, cfg):
    """Names of the fields and derived parameters of ``cfg`` that ``make(cfg)`` and the elaboration of the unit read.

    A unit whose elaboration reads equal values is equal: there is nothing else that its structure could depend on.
    """
    traced = _traced(Config)(**cfg.as_dict())
    _trace.names = set()
    elaborate(make(traced))
    return frozenset(_trace.names)


def parts_of(component):
    """Types of the components that the elaboration of ``component`` names as its submodules; these are not elaborated."""
    module = component.elaborate(None)
    return {type(part) for part, *_ in module._named_submodules.values() if isinstance(part, Component)}


def kind(cfg, name):
    """What of a parameter decides the structure of a unit: the value where it is true or false, its class, or None where it is a size.

    Raises ``KeyError`` for an integer that is neither in ``CLASSES`` nor in ``SIZES``.
    """
    value = getattr(cfg, name)
    if isinstance(value, bool):
        return value
    if name in SIZES:
        return None
    return CLASSES[name](value)


def structure(cfg, names):
    """The variant of a unit that reads ``names``: what decides its structure, by name."""
    return {name: kind(cfg, name) for name in sorted(names - SIZES)}
