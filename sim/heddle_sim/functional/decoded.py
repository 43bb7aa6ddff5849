"""Decoder of the functional simulator: instruction fields as attributes, each word decoded and checked once."""

from collections.abc import Callable
from types import SimpleNamespace

from heddle.config import Config
from heddle.constants import FIRST_FACTOR_REGISTER
from heddle.interfaces.layouts import CopyKind, ThreadKind
from heddle.isa.compiled_offsets import OffsetEntry
from heddle.isa.encoding import (
    GUARD_ALWAYS,
    Access,
    AluFunction,
    CompareFunction,
    ElementType,
    LoopOrder,
    Opcode,
    OperandSource,
    OutputUse,
    Reduction,
    Space,
    Special,
    Swizzle,
)
from heddle.isa.tensor_descriptor import TensorMode

from ..isa.checking import find_violation
from ..isa.fields import FIELDS, opcode_of

__all__ = ["THREAD_KINDS", "Decoder"]

_OUTPUT_USES = {use.value: use for use in OutputUse}        # a word with another value is refused

# The operation of the thread unit for each of its opcodes; special registers other than %tid arrive as values.
THREAD_KINDS = {
    Opcode.THREAD_ALU: ThreadKind.ALU,
    Opcode.THREAD_COMPARE: ThreadKind.COMPARE,
    Opcode.THREAD_SPECIAL: ThreadKind.ALU,
    Opcode.LANE_MASK: ThreadKind.LANE_MASK,
    Opcode.LOAD: ThreadKind.LOAD,
    Opcode.STORE: ThreadKind.STORE,
    Opcode.GATHER: ThreadKind.LOAD,
}
_TOP = ("guard", "guard_negate", "b_source", "dst", "a", "b", "c", "imm")


class Decoder:
    """Decoder: converts instruction words to namespaces and caches each result.

    A namespace has the fields of the instruction (``guard``, ``dst``, ``imm`` …), ``opcode`` and its ``name``. ``violation`` is the
    first failed check at issue that needs no state, or ``None``. ``issues`` flags instructions that execute regardless of uniform
    predicates. ``operation`` has the fields of the unit's operation layout of ``heddle.interfaces.layouts``; state-dependent fields are
    set before each execution.

    Parameters
    ----------
    cfg : Config
        Configuration of the checks.
    """

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self._known: dict[int, SimpleNamespace] = {}

    def decode(self, word: int) -> SimpleNamespace:
        """Namespace of ``word``; the same object for equal words."""
        decoded = self._known.get(word)
        if decoded is None:
            decoded = self._known[word] = self._decode(word)
        return decoded

    def _decode(self, word: int) -> SimpleNamespace:
        decoded = SimpleNamespace(opcode=opcode_of(word), violation=find_violation(word, self.cfg), operation=None)
        for name in _TOP:
            setattr(decoded, name, FIELDS[name].get(word))
        if decoded.violation:
            return decoded

        def modifier(name: str) -> int:
            return FIELDS[f"modifiers.{name}"].get(word)

        opcode = decoded.opcode
        decoded.name = opcode.name
        always = decoded.guard == GUARD_ALWAYS and not decoded.guard_negate
        decoded.issues = always or opcode in THREAD_KINDS or opcode in (Opcode.MATRIX, Opcode.OFFSETS)
        decoded.b_is_uniform = decoded.b_source == OperandSource.UNIFORM.value
        decoded.function = AluFunction(modifier("alu.function")) if "ALU" in opcode.name else None
        decoded.compare = CompareFunction(modifier("alu.compare")) if "COMPARE" in opcode.name else None
        decoded.unsigned = modifier("alu.unsigned")
        decoded.special = Special(modifier("alu.special")) if "SPECIAL" in opcode.name else None
        decoded.units = modifier("wait.units")
        decoded.unfinished = modifier("wait.unfinished")
        decoded.read = modifier("wait.read")
        multicasts = opcode in (Opcode.COPY_BLOCK, Opcode.COPY_TENSOR) and modifier("copy.multicast")
        decoded.mask = modifier("copy.mask") if multicasts else None        # uniform register
        decoded.space = Space(modifier("segment.space"))
        decoded.element_shift = modifier("segment.element_shift")
        decoded.swizzle = Swizzle(modifier("segment.swizzle"))
        if opcode in THREAD_KINDS:
            decoded.operation = self._thread(decoded, modifier)
        elif opcode in (Opcode.MATRIX, Opcode.OFFSETS):
            decoded.operation = self._matrix(decoded, modifier)
        elif opcode in (Opcode.COPY_BLOCK, Opcode.COPY_ROWS):
            decoded.operation = self._copy(modifier)
        elif opcode is Opcode.COPY_TENSOR:
            decoded.operation = self._tensor(modifier)
        elif opcode is Opcode.PREFETCH_BLOCK:
            decoded.operation = SimpleNamespace(mask=0, kind=CopyKind.PREFETCH_BLOCK, source=0, blocks=0)
        elif opcode is Opcode.PREFETCH_TENSOR:
            decoded.operation = self._tensor(modifier, prefetch=True)
        return decoded

    def _thread(self, decoded: SimpleNamespace, modifier: Callable[[str], int]) -> SimpleNamespace:
        kind = THREAD_KINDS[decoded.opcode]
        if decoded.special is Special.TID:
            kind = ThreadKind.TID
        accesses = kind in (ThreadKind.LOAD, ThreadKind.STORE)
        vector = decoded.opcode is Opcode.THREAD_ALU and (
            modifier("alu.vector") or decoded.function in (AluFunction.NARROW, AluFunction.SCALE))
        access = Access(modifier("memory.access")) if accesses else Access.V4 if vector else Access.B32
        return SimpleNamespace(
            kind=kind, function=AluFunction.MOV if decoded.function is None else decoded.function,
            compare=decoded.compare, unsigned=decoded.unsigned,
            access=access, space=Space.SHARED,
            element_shift=0, swizzle=Swizzle.NONE, guard=decoded.guard, guard_negate=decoded.guard_negate, dst=decoded.dst, a=decoded.a,
            b=decoded.b, c=decoded.c, value=0, pc=0,
            gathers=int(decoded.opcode is Opcode.GATHER), entries=modifier("memory.entries"), first_entry=0, padding=0,
            output=_OUTPUT_USES.get(modifier("alu.output")) if decoded.opcode is Opcode.THREAD_ALU else OutputUse.NONE,
            b_is_register=decoded.special is None and decoded.b_source == OperandSource.REGISTER.value)

    def _matrix(self, decoded: SimpleNamespace, modifier: Callable[[str], int]) -> SimpleNamespace:
        fill = decoded.opcode is Opcode.OFFSETS
        return SimpleNamespace(
            product=decoded.dst, factor_word=decoded.c if fill else (decoded.c - FIRST_FACTOR_REGISTER) // self.cfg.numbers_per_word,
            fill=int(fill), compiled=OffsetEntry(modifier("matrix.compiled")),
            offset_register=decoded.a - FIRST_FACTOR_REGISTER, base=0, element_shift=0, swizzle=Swizzle.NONE, columns=None, lanes=None,
            a_signed=modifier("matrix.a_signed"), b_signed=modifier("matrix.b_signed"),
            k_length=modifier("matrix.k_length"), order=LoopOrder(modifier("matrix.order")),
            zero=modifier("matrix.zero"), ka=modifier("matrix.ka"), ka_interleaved=modifier("matrix.ka_interleaved"),
            kb=modifier("matrix.kb"), kb_destination=modifier("matrix.kb_destination"),
            lane_sum=modifier("matrix.lane_sum"), int16=int(modifier("matrix.element") == ElementType.INT16.value),
            transpose=modifier("matrix.transpose"), pitch=0, pc=0)

    def _copy(self, modifier: Callable[[str], int]) -> SimpleNamespace:
        return SimpleNamespace(
            mask=0, kind=CopyKind.COPY_BLOCK, destination_space=Space(modifier("copy.destination")),
            source_space=Space(modifier("copy.source")), destination=0, source=0, blocks=0,
            swizzle=Swizzle(modifier("copy.swizzle")), reduction=Reduction(modifier("copy.reduction")),
            format=modifier("copy.format"), barrier=modifier("copy.barrier"), has_barrier=modifier("copy.has_barrier"), pc=0)

    def _tensor(self, modifier: Callable[[str], int], prefetch: bool = False) -> SimpleNamespace:
        """Request of ``tensor_operation_layout`` with the address of its descriptor; coordinates and offsets are tuples."""
        return SimpleNamespace(
            mask=0, address=0, coordinates=(), offsets=(), shared_address=0, mode=TensorMode(modifier("copy.mode")),
            rank_minus_one=modifier("copy.rank_minus_one"), prefetch=int(prefetch),
            store=int(not prefetch and modifier("copy.destination") == Space.GLOBAL.value),
            reduction=Reduction.NONE if prefetch else Reduction(modifier("copy.reduction")), barrier=modifier("copy.barrier"),
            has_barrier=0 if prefetch else modifier("copy.has_barrier"), pc=0)
