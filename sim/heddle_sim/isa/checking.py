"""The checks at issue of ``heddle.isa.issue_rules``, applied to instruction words."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from heddle.config import Config
from heddle.constants import (
    BARRIERS,
    FIRST_FACTOR_REGISTER,
    PREDICATES,
    PRODUCT_REGISTERS,
    REGISTER_BITS,
    SEGMENTS,
    UNIFORM_REGISTERS,
)
from heddle.interfaces.swizzle import swizzles
from heddle.isa.compiled_offsets import GATHERED_BYTES, OffsetEntry
from heddle.isa.encoding import (
    ACCESS_BYTES,
    UNIFORM_FUNCTIONS,
    Access,
    AluFunction,
    CompareFunction,
    ElementType,
    Opcode,
    OperandSource,
    OutputUse,
    Reduction,
    Space,
    Special,
    Swizzle,
)
from heddle.isa.error_codes import ErrorCode
from heddle.isa.issue_rules import CHECKS
from heddle.isa.tensor_descriptor import MAX_RANK, TensorMode

from .fields import FIELDS, opcode_of

__all__ = ["Violation", "find_violation"]


@dataclass(frozen=True)
class Violation:
    """An instruction that must not execute: ``field`` must be ``rule`` (a phrase), and its value is ``operand``."""

    code: ErrorCode
    field: str
    operand: int
    rule: str


Rule = Callable[[int, int, Config | None], str | None]


def _get(word: int, name: str) -> int:
    return FIELDS[name].get(word)


def _below(limit: int, what: str) -> Rule:
    def rule(value: int, word: int, cfg: Config | None) -> str | None:
        return None if value < limit else f"from {what}0 to {what}{limit - 1}"
    return rule


def _one_of(field: str, members: Iterable[Enum], spelling: str) -> Rule:
    values = {member.value for member in members}

    def rule(value: int, word: int, cfg: Config | None) -> str | None:
        return None if _get(word, field) in values else spelling
    return rule


def _aligned(value: int, word: int) -> str | None:
    step = {Access.V2.value: 2, Access.V4.value: 4}.get(_get(word, "modifiers.memory.access"), 1)
    return f"a multiple of {step}" if value % step else None


def _register(value: int, word: int, cfg: Config | None) -> str | None:
    limit = cfg.registers if cfg else 1 << REGISTER_BITS
    return None if value < limit else f"from r0 to r{limit - 1}"


def _vector(value: int, word: int, cfg: Config | None) -> str | None:
    return _register(value, word, cfg) or _aligned(value, word)


_product = _below(PRODUCT_REGISTERS, "r")


def _product_vector(value: int, word: int, cfg: Config | None) -> str | None:
    return _product(value, word, cfg) or _aligned(value, word)


def _offset(value: int, word: int, cfg: Config | None) -> str | None:
    limit = cfg.registers if cfg else 1 << REGISTER_BITS
    return None if FIRST_FACTOR_REGISTER <= value < limit else f"from r{FIRST_FACTOR_REGISTER} to r{limit - 1}"


def _factors(value: int, word: int, cfg: Config | None) -> str | None:
    if (reason := _offset(value, word, cfg)) or cfg is None:
        return reason
    index, remainder = divmod(value - FIRST_FACTOR_REGISTER, cfg.numbers_per_word)
    if remainder:
        return f"the first register of a factor word ({cfg.numbers_per_word} registers each)"
    slices = _get(word, "modifiers.matrix.k_length") + 1
    if index + slices > cfg.factor_words:
        last = FIRST_FACTOR_REGISTER + (cfg.factor_words - slices) * cfg.numbers_per_word
        return f"at most r{last} with .k{slices}"
    return None


def _narrows(word: int) -> bool:
    return _get(word, "modifiers.alu.function") in (AluFunction.NARROW.value, AluFunction.SCALE.value)


def _alu_target(value: int, word: int, cfg: Config | None) -> str | None:
    if reason := _register(value, word, cfg):
        return reason
    return "a multiple of 4 with .v4" if _get(word, "modifiers.alu.vector") and not _narrows(word) and value % 4 else None


def _alu_operand(value: int, word: int, cfg: Config | None) -> str | None:
    if not _get(word, "modifiers.alu.vector") and not _narrows(word):
        return _register(value, word, cfg)
    reading = "for narrow and scale" if _narrows(word) else "with .v4"
    return f"a multiple of 4 from r0 to r{PRODUCT_REGISTERS - 4} {reading}" if value % 4 or value >= PRODUCT_REGISTERS else None


def _alu_source(value: int, word: int, cfg: Config | None) -> str | None:
    vector = _get(word, "modifiers.alu.vector") or _narrows(word)
    return _FUNCTIONS["uniform_source" if vector else "thread_source"](value, word, cfg)


def _output(value: int, word: int, cfg: Config | None) -> str | None:
    use, function = (_get(word, f"modifiers.alu.{name}") for name in ("output", "function"))
    if use == OutputUse.NONE.value:
        return None
    if cfg and not cfg.output_stage:
        return "without output: the configuration has no output_stage"
    if use not in [known.value for known in OutputUse]:
        return f"with output up to {max(known.value for known in OutputUse)}"
    if use == OutputUse.GROUPS.value and cfg and not cfg.packs_groups:
        return f"without .g: threads / thread_slots must be 4 for it, not {cfg.thread_groups}"
    expected = AluFunction.ADD if use == OutputUse.CHANNEL.value else AluFunction.SCALE
    if function != expected.value or _get(word, "modifiers.alu.vector"):
        return f"of function {expected.name} without .v4 with output {OutputUse(use).name}"
    return None


def _predicate(value: int, word: int, cfg: Config | None) -> str | None:
    prefix = "up" if opcode_of(word) is Opcode.UNIFORM_COMPARE else "p"
    return None if value < PREDICATES else f"from {prefix}0 to {prefix}{PREDICATES - 1}"


def _source_number(value: int, word: int, cfg: Config | None) -> str | None:
    source = _get(word, "b_source")
    if source == OperandSource.REGISTER.value:
        return _register(value, word, cfg)
    return _uniform(value, word, cfg) if source == OperandSource.UNIFORM.value else None


def _all_zero(fields: Sequence[str], spelling: str) -> Rule:
    def rule(value: int, word: int, cfg: Config | None) -> str | None:
        return spelling if any(_get(word, field) for field in fields) else None
    return rule


def _element(value: int, word: int, cfg: Config | None) -> str | None:
    wide = cfg is None or cfg.mm16
    elements = [ElementType.INT8.value] + [ElementType.INT16.value] * wide
    return None if _get(word, "modifiers.matrix.element") in elements else f"mm8{' or mm16' * wide}"


def _transpose(value: int, word: int, cfg: Config | None) -> str | None:
    if _get(word, "modifiers.matrix.transpose") and cfg and not cfg.transpose:
        return ".t0 (the configuration has no transpose)"
    return None


def _merges(value: int, word: int, cfg: Config | None) -> str | None:
    ka, kb, destination, interleaved, lane_sum = (
        _get(word, f"modifiers.matrix.{name}") for name in ("ka", "kb", "kb_destination", "ka_interleaved", "lane_sum"))
    if lane_sum and (ka or kb or destination or interleaved):
        return "without merges with .sum"
    if destination > kb:
        return f"a destination from d0 to d{kb} with .kb{kb + 1}"
    lanes = (1, 2, 4, 4)[ka] * (1, 2, 4, 4)[kb]
    if cfg and lanes > cfg.threads:
        return f"groups of at most {cfg.threads} threads, not the {lanes} of .ka{ka + 1}.kb{kb + 1}"
    return None


def _compiled(value: int, word: int, cfg: Config | None) -> str | None:
    entry, ka, kb, lane_sum, transpose = (
        _get(word, f"modifiers.matrix.{name}") for name in ("compiled", "ka", "kb", "lane_sum", "transpose"))
    if entry == OffsetEntry.NONE.value:
        return None
    if entry not in (OffsetEntry.WORD.value, OffsetEntry.BYTE.value):
        return "without .ow and .ob, or with one of them"
    if cfg and not cfg.compiled_offsets:
        return "without .ow and .ob: the configuration has no compiled_offsets"
    if entry == OffsetEntry.BYTE.value and cfg and not cfg.byte_entries:
        return f"without .ob: fetch_words and threads must be at least dot = {cfg.dot} for it"
    if kb or lane_sum or transpose or (ka and entry == OffsetEntry.BYTE.value):
        return "without .kb, .sum and .t1 with .ow, and also without .ka with .ob"
    return None


def _offset_memory(value: int, word: int, cfg: Config | None) -> str | None:
    return "absent: the configuration has no compiled_offsets" if cfg and not cfg.compiled_offsets else None


def _offset_words(value: int, word: int, cfg: Config | None) -> str | None:
    slices = _get(word, "modifiers.matrix.k_length") + 1
    if cfg is None or value + slices <= cfg.offset_words:
        return None
    return f"from 0 to {cfg.offset_words - slices} with .k{slices}"


def _gather(value: int, word: int, cfg: Config | None) -> str | None:
    return "absent: the configuration has no gather_offsets" if cfg and not cfg.gather_offsets else None


def _gather_access(value: int, word: int, cfg: Config | None) -> str | None:
    access, entries = (_get(word, f"modifiers.memory.{name}") for name in ("access", "entries"))
    sizes = {known.value: ACCESS_BYTES[known] for known in (Access.U8, Access.B32, Access.V2, Access.V4)}
    if access not in sizes:
        return "a gather of b8, b32, v2 or v4"
    most = GATHERED_BYTES // sizes[access]
    return None if entries < most else f"of at most {most} entries (.k{most}) of {sizes[access]} bytes"


def _four_registers(value: int, word: int, cfg: Config | None) -> str | None:
    return _register(value, word, cfg) or ("a multiple of 4" if value % 4 else None)


def _element_shift(value: int, word: int, cfg: Config | None) -> str | None:
    return "at most 16 bytes" if _get(word, "modifiers.segment.element_shift") > 4 else None


def _unknown(cfg: Config | None) -> list[str]:
    """Modifiers of the swizzles that the configuration lacks."""
    known = tuple(Swizzle) if cfg is None else (Swizzle.NONE, *swizzles(cfg))
    return [f".{mode.name[1:]}B" for mode in Swizzle if mode not in known]


def _swizzle(value: int, word: int, cfg: Config | None) -> str | None:
    mode = Swizzle(_get(word, "modifiers.segment.swizzle"))
    if mode is Swizzle.NONE:
        return None
    if _get(word, "modifiers.segment.space") != Space.SHARED.value:
        return "a segment without swizzle unless it is .shared"
    missing = _unknown(cfg)
    return f"a segment without {', '.join(missing)}" if f".{mode.name[1:]}B" in missing else None


def _loads(word: int) -> bool:
    """Whether a copy is one from global to shared memory."""
    return (_get(word, "modifiers.copy.destination"), _get(word, "modifiers.copy.source")) == (Space.SHARED.value, Space.GLOBAL.value)


def _plain_copy(value: int, word: int, cfg: Config | None) -> str | None:
    swizzle, reduction = (_get(word, f"modifiers.copy.{name}") for name in ("swizzle", "reduction"))
    missing = _unknown(cfg)
    defined = reduction in {member.value for member in Reduction}
    reduces = (cfg is None or cfg.reductions) and defined and not _loads(word)
    if f".{Swizzle(swizzle).name[1:]}B" not in missing and (reduces or reduction == Reduction.NONE.value):
        return None
    allowed = "without reduction" if cfg and not cfg.reductions else "without reduction, or with a defined one unless it is .shared.global"
    return f"a copy {allowed}" + (f", and without {', '.join(missing)}" if missing else "")


def _multicast(value: int, word: int, cfg: Config | None) -> str | None:
    if not _get(word, "modifiers.copy.multicast"):
        return None
    if cfg and not cfg.multicast:
        return "a copy without .multicast: the configuration has none"
    return None if _loads(word) else "a copy without .multicast unless it is .shared.global"


def _recurrent(value: int, word: int, cfg: Config | None) -> str | None:
    return "absent: the configuration has no rnn" if cfg and not cfg.rnn else None


def _sparse(value: int, word: int, cfg: Config | None) -> str | None:
    return "absent: the configuration has no sparse engine" if cfg and not cfg.sparse else None


def _tiles(value: int, word: int, cfg: Config | None) -> str | None:
    return "absent: the configuration has one core, and no tile scheduler" if cfg and not cfg.tile_scheduler else None


def _tensors(value: int, word: int, cfg: Config | None) -> str | None:
    return "absent: the configuration has no tensors" if cfg and not cfg.tensors else None


def _tensor(word: int) -> tuple[int, bool]:
    """Number of dimensions, and whether the mode is im2col."""
    mode, rank_minus_one = (_get(word, f"modifiers.copy.{name}") for name in ("mode", "rank_minus_one"))
    return rank_minus_one + 1, mode == TensorMode.IM2COL.value


def _tensor_rank(value: int, word: int, cfg: Config | None) -> str | None:
    defined = _get(word, "modifiers.copy.mode") in {mode.value for mode in TensorMode}
    rank, im2col = _tensor(word)
    least = 3 if im2col else 1
    return None if defined and least <= rank <= MAX_RANK else f"of rank {least}d to {MAX_RANK}d"


def _tensor_copy(value: int, word: int, cfg: Config | None) -> str | None:
    destination, source, reduction = (_get(word, f"modifiers.copy.{name}") for name in ("destination", "source", "reduction"))
    if destination == source:
        return "a copy between shared and global memory"
    if reduction and destination != Space.GLOBAL.value:
        return "a copy without reduction into shared memory"
    return None if reduction in {member.value for member in Reduction} else "a copy with a defined reduction"


def _coordinates(value: int, word: int, cfg: Config | None) -> str | None:
    rank, _ = _tensor(word)
    return None if value <= UNIFORM_REGISTERS - rank else f"from ur0 to ur{UNIFORM_REGISTERS - rank} with .{rank}d"


def _offsets(value: int, word: int, cfg: Config | None) -> str | None:
    rank, im2col = _tensor(word)
    last = UNIFORM_REGISTERS + 2 - rank
    return f"from ur0 to ur{last} with .{rank}d" if im2col and value > last else None


_uniform = _below(UNIFORM_REGISTERS, "ur")
_FUNCTIONS = {
    "register": _register,
    "vector": _vector,
    "product": _product,
    "product_vector": _product_vector,
    "offset": _offset,
    "factors": _factors,
    "uniform": _uniform,
    "uniform_pair": _below(UNIFORM_REGISTERS - 1, "ur"),
    "predicate": _predicate,
    "segment": _below(SEGMENTS, "ur"),
    "barrier": _below(BARRIERS, "b"),
    "thread_source": _one_of("b_source", OperandSource, "a register, a uniform register or an immediate"),
    "uniform_source": _one_of("b_source", (OperandSource.UNIFORM, OperandSource.IMMEDIATE),
                              "a uniform register or an immediate"),
    "source_number": _source_number,
    "alu_target": _alu_target,
    "alu_operand": _alu_operand,
    "alu_source": _alu_source,
    "uniform_function": _one_of("modifiers.alu.function", UNIFORM_FUNCTIONS, "a function of uniform registers"),
    "compare_function": _one_of("modifiers.alu.compare", CompareFunction, "a defined comparison"),
    "thread_special": _one_of("modifiers.alu.special", Special, "defined"),
    "uniform_special": _one_of("modifiers.alu.special", set(Special) - {Special.TID}, "one other than %tid"),
    "load_access": _one_of("modifiers.memory.access", Access, "a defined access"),
    "store_access": _one_of("modifiers.memory.access", set(Access) - {Access.S8, Access.S16}, "an access of a store"),
    "element_shift": _element_shift,
    "rank": _all_zero(["modifiers.segment.rank"], "rank 1"),
    "swizzle": _swizzle,
    "element": _element,
    "transpose": _transpose,
    "merges": _merges,
    "compiled": _compiled,
    "output": _output,
    "offset_memory": _offset_memory,
    "gather": _gather,
    "gather_access": _gather_access,
    "four_registers": _four_registers,
    "offset_words": _offset_words,
    "plain_copy": _plain_copy,
    "multicast": _multicast,
    "recurrent": _recurrent,
    "sparse": _sparse,
    "tiles": _tiles,
    "tensors": _tensors,
    "tensor_rank": _tensor_rank,
    "tensor_copy": _tensor_copy,
    "coordinates": _coordinates,
    "offsets": _offsets,
}


def find_violation(word: int, cfg: Config | None = None, segment_spaces: Sequence[int] | None = None) -> Violation | None:
    """The first check at issue that ``word`` fails, as a ``Violation``, or ``None``.

    Without ``cfg`` only what no configuration allows is refused. ``segment_spaces`` (space number by segment) is the
    state that ``shared_segment`` looks at; without it that check passes.
    """
    opcode = opcode_of(word)
    if opcode is None:
        number = _get(word, "opcode")
        return Violation(ErrorCode.ILLEGAL_INSTRUCTION, "opcode", number, "a defined instruction")
    for check in CHECKS[opcode]:
        value = _get(word, check.field)
        if check.rule == "shared_segment":
            failed = segment_spaces is not None and segment_spaces[value] != Space.SHARED.value
            reason = "a segment in shared memory" if failed else None
        else:
            reason = _FUNCTIONS[check.rule](value, word, cfg)
        if reason:
            return Violation(check.code, check.field, value & 0xFFFFFFFF, reason)
    return None
