"""Golden model of the thread unit: one thread instruction on the state of a core, all threads at once in numpy."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Self

import numpy as np
from heddle.config import Config
from heddle.constants import PREDICATES
from heddle.interfaces.layouts import ThreadKind
from heddle.isa.encoding import (
    ACCESS_BYTES,
    CHANNEL_SETS,
    GUARD_ALWAYS,
    Access,
    AluFunction,
    CompareFunction,
    OutputUse,
    Space,
    Swizzle,
    output_bounds_layout,
)
from heddle.isa.error_codes import ErrorCode
from numpy.typing import ArrayLike

from .block_copy import swizzled
from .matrix import compiled_address
from .output_stage import output_bytes

__all__ = ["ThreadState", "ThreadError", "alu", "compare", "execute", "narrow", "active_threads"]


@dataclass
class ThreadState:
    """State that thread instructions read and write.

    Attributes
    ----------
    cfg : Config
        Configuration.
    registers : uint32 [threads, cfg.registers]
        Product registers, then the factor registers by register number.
    predicates : bool [7, threads]
        Thread predicates.
    lane_mask : bool [threads]
        Rows that take part in ``mm``.
    shared : uint8 [cfg.shared_bytes]
        Shared memory.
    entries : uint32 [cfg.compiled_offsets]
        Compiled-offset memory.
    channels : uint32 [sets, 2, threads]
        Biases and multipliers of the output stage.
    memory : uint8 [bytes]
        Global memory; an access beyond its end (below ``2**axi_address_bits``) is answered with an error.
    """

    cfg: Config
    registers: np.ndarray
    predicates: np.ndarray
    lane_mask: np.ndarray
    shared: np.ndarray
    entries: np.ndarray
    channels: np.ndarray
    memory: np.ndarray

    @classmethod
    def create(cls, cfg: Config, memory_bytes: int = 0) -> Self:
        """A state of zeros with the reset values of predicates and lane mask."""
        return cls(
            cfg=cfg,
            registers=np.zeros((cfg.threads, cfg.registers), np.uint32),
            predicates=np.zeros((PREDICATES, cfg.threads), bool),
            lane_mask=np.ones(cfg.threads, bool),
            shared=np.zeros(cfg.shared_bytes, np.uint8),
            entries=np.zeros(cfg.compiled_offsets, np.uint32),
            channels=np.zeros((CHANNEL_SETS, 2, cfg.threads), np.uint32),
            memory=np.zeros(memory_bytes, np.uint8),
        )

    def start(self) -> None:
        """Start of a run: all predicates become false, and every row takes part."""
        self.predicates[:] = False
        self.lane_mask[:] = True


@dataclass(frozen=True)
class ThreadError:
    """Error report of the thread unit: code, program counter and operand (a byte address)."""

    code: ErrorCode
    pc: int
    operand: int


def alu(function: AluFunction, a: ArrayLike, b: ArrayLike, unsigned: bool = False, select: ArrayLike = True) -> np.ndarray:      # type: ignore[return]    # of all but those
    """ALU: ``function`` of the uint32 arrays a and b, element by element, as uint32; NARROW and SCALE are in ``narrow``.

    ``unsigned`` applies to MULH, ``select`` (bool array) to SEL.
    """
    a, b = np.asarray(a, np.uint32), np.asarray(b, np.uint32)
    signed_a, signed_b = a.view(np.int32), b.view(np.int32)
    amount = b & np.uint32(31)
    match AluFunction(function):
        case AluFunction.ADD:
            return a + b
        case AluFunction.SUB:
            return a - b
        case AluFunction.AND:
            return a & b
        case AluFunction.OR:
            return a | b
        case AluFunction.XOR:
            return a ^ b
        case AluFunction.SHL:
            return a << amount
        case AluFunction.SHR:
            return a >> amount
        case AluFunction.SAR:
            return (signed_a >> amount.view(np.int32)).view(np.uint32)
        case AluFunction.MIN:
            return np.minimum(signed_a, signed_b).view(np.uint32)
        case AluFunction.MAX:
            return np.maximum(signed_a, signed_b).view(np.uint32)
        case AluFunction.MOV:
            return b + np.zeros_like(a)
        case AluFunction.SEL:
            return np.where(select, a, b)
        case AluFunction.MUL:
            return a * b
        case AluFunction.MULH:
            if unsigned:
                return ((a.astype(np.uint64) * b) >> np.uint64(32)).astype(np.uint32)
            return ((signed_a.astype(np.int64) * signed_b) >> 32).astype(np.int32).view(np.uint32)


def narrow(unsigned: bool, values: ArrayLike, shift: int) -> np.ndarray:
    """NARROW: the uint32 array ``values`` [threads, 4], shifted right with rounding (halves up) and saturated, as four bytes of one
    word.

    ``shift`` (uint32) counts modulo 32; ``unsigned`` selects uint8 instead of int8.
    """
    low, high = (0, 255) if unsigned else (-128, 127)
    return _packed(np.clip(_rounded(values, shift), low, high))


def _rounded(values: ArrayLike, shift: int) -> np.ndarray:
    """uint32 as signed numbers shifted right by ``shift`` modulo 32, halves up, as int64."""
    shift = int(shift) & 31
    return (np.asarray(values, np.uint32).view(np.int32).astype(np.int64) + (1 << shift >> 1)) >> shift


def _packed(values: np.ndarray) -> np.ndarray:
    """Four bytes of each thread as a word."""
    return np.ascontiguousarray(values.reshape(-1, 4).astype(np.uint8)).view("<u4")[:, 0]


def requantise(state: ThreadState, operation: SimpleNamespace, values: np.ndarray) -> np.ndarray:
    """Those that pack: SCALE with bias and multiplier of each thread, zero point and bounds, as a word of each thread."""
    bounds = output_bounds_layout.from_bits(operation.value & (1 << output_bounds_layout.size) - 1)
    bias, multiplier = (word[:, None] for word in state.channels[bounds.set])
    packed = output_bytes(values, bias, multiplier, bounds, operation.c & 31, bool(operation.unsigned))
    slots = min(state.cfg.thread_slots, state.cfg.threads)
    if operation.output is OutputUse.GROUPS:        # [group, thread, register] becomes [register, thread, group]
        packed = packed.reshape(4, slots, 4).transpose(2, 1, 0)
    if operation.output is OutputUse.TRANSPOSE:
        # Of each group: [word, lane of the word, byte] becomes [byte, word, lane of the word].
        packed = packed.reshape(-1, slots // 4, 4, 4).transpose(0, 3, 1, 2)
    return _packed(packed)


def compare(function: CompareFunction, unsigned: bool, a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """Comparison of the uint32 arrays a and b, element by element, as bool; signed unless ``unsigned``."""
    a, b = np.asarray(a, np.uint32), np.asarray(b, np.uint32)
    if not unsigned:
        a, b = a.view(np.int32), b.view(np.int32)
    operation = {
        CompareFunction.EQ: np.equal, CompareFunction.NE: np.not_equal, CompareFunction.LT: np.less,
        CompareFunction.LE: np.less_equal, CompareFunction.GT: np.greater, CompareFunction.GE: np.greater_equal,
    }[CompareFunction(function)]
    return operation(a, b)


def active_threads(state: ThreadState, guard: int, negate: int) -> np.ndarray:
    """bool [threads]: threads whose guard predicate holds."""
    value = np.ones(state.cfg.threads, bool) if guard == GUARD_ALWAYS else state.predicates[guard]
    return value ^ bool(negate)


def execute(state: ThreadState, operation: SimpleNamespace) -> list[ThreadError]:
    """Execute one operation (fields of ``thread_operation_layout`` as attributes, ``swizzle`` a ``Swizzle``) on ``state``; returns its
    errors. An address of a swizzled tile is checked as it is, and names the byte that the swizzle moved away from there.

    ``access`` V4 of kind ALU selects four registers; NARROW and SCALE always have V4. Without ``output`` it uses no output stage.

    An operation with an error changes no register. A store with an address error has written the groups of ``thread_slots`` threads
    before the first group with an error. Of several errors of an operation only that of the lowest thread is reported. Writes that
    memory answers with an error are all reported.
    """
    active = active_threads(state, operation.guard, operation.guard_negate)
    kind = ThreadKind(operation.kind)
    if kind is ThreadKind.LANE_MASK:
        state.lane_mask[:] = active
        return []
    if kind is ThreadKind.TID:
        state.registers[active, operation.dst] = np.arange(state.cfg.threads, dtype=np.uint32)[active]
        return []
    if kind in (ThreadKind.ALU, ThreadKind.COMPARE):
        if kind is ThreadKind.ALU and operation.access is Access.V4:
            _vector(state, operation, active)
            return []
        moves = kind is ThreadKind.ALU and operation.function is AluFunction.MOV     # does not look at field a, whatever it holds
        a = state.registers[:, 0 if moves else operation.a]
        if operation.b_is_register:
            b = state.registers[:, operation.b]
        else:
            b = np.full(state.cfg.threads, operation.value, np.uint32)
        if kind is ThreadKind.ALU and getattr(operation, "output", OutputUse.NONE) is OutputUse.CHANNEL:
            state.channels[operation.c & 3] = a, b
        elif kind is ThreadKind.ALU:
            written = np.ones_like(active) if operation.function is AluFunction.SEL else active
            result = alu(operation.function, a, b, operation.unsigned, active)
            state.registers[written, operation.dst] = result[written]
        else:
            result = compare(operation.compare, operation.unsigned, a, b)
            state.predicates[operation.dst][active] = result[active]
        return []
    if getattr(operation, "gathers", 0):
        return _gather(state, operation, active)
    return _access(state, operation, kind, active)


def _vector(state: ThreadState, operation: SimpleNamespace, active: np.ndarray) -> None:
    """A function of four registers."""
    values = state.registers[:, operation.a:operation.a + 4].copy()
    if getattr(operation, "output", OutputUse.NONE) is not OutputUse.NONE:
        state.registers[active, operation.dst] = requantise(state, operation, values)[active]
        return
    if operation.function is AluFunction.NARROW:
        state.registers[active, operation.dst] = narrow(operation.unsigned, values, operation.value)[active]
        return
    if operation.function is AluFunction.SCALE:
        products = alu(AluFunction.MULH, values, np.full(values.shape, operation.value, np.uint32))
        state.registers[active, operation.dst] = narrow(operation.unsigned, products, operation.c)[active]
        return
    b = np.full(values.shape, operation.value, np.uint32)
    written = np.ones_like(active) if operation.function is AluFunction.SEL else active
    result = alu(operation.function, values, b, operation.unsigned, active[:, None])
    state.registers[written, operation.dst:operation.dst + 4] = result[written]


def _access(state: ThreadState, operation: SimpleNamespace, kind: ThreadKind, active: np.ndarray) -> list[ThreadError]:
    """A load or a store."""
    cfg, access, space = state.cfg, Access(operation.access), Space(operation.space)
    size = ACCESS_BYTES[access]
    offset = state.registers[:, operation.a]
    addresses = (np.uint32(operation.value) + (offset << np.uint32(operation.element_shift))).astype(np.int64)
    limit = cfg.shared_bytes if space is Space.SHARED else 1 << cfg.axi_address_bits
    errors = _address_error(cfg, addresses, size, limit, active, operation.pc)
    if errors:
        slots = min(cfg.thread_slots, cfg.threads)
        first = np.flatnonzero(active & ((addresses % size != 0) | (addresses >= limit)))[0]
        active = active & (np.arange(cfg.threads) < first // slots * slots)
    memory, places = state.memory, addresses
    if space is Space.SHARED:
        memory, places = state.shared, swizzled(addresses, Swizzle(operation.swizzle))
    threads = np.flatnonzero(active)
    missing = threads[addresses[threads] + size > len(memory)]
    if kind is ThreadKind.STORE:
        threads = threads[addresses[threads] + size <= len(memory)]
        _store(state, operation.c, memory, threads, places[threads], size)
        return [ThreadError(ErrorCode.AXI_WRITE, operation.pc, int(addresses[t])) for t in missing] + errors
    if len(missing):
        return [ThreadError(ErrorCode.AXI_READ, operation.pc, int(addresses[missing[0]]))]
    if not errors:
        _load(state, operation.dst, memory, threads, places[threads], access)
    return errors


def _gather(state: ThreadState, operation: SimpleNamespace, active: np.ndarray) -> list[ThreadError]:
    """Elements by compiled offsets, one behind the other in the registers from ``dst`` on [S2.3]."""
    cfg, access, count = state.cfg, Access(operation.access), operation.entries + 1
    size, first = ACCESS_BYTES[access], operation.first_entry
    if active.any() and first + count > cfg.compiled_offsets:
        return [ThreadError(ErrorCode.OFFSET_RANGE, operation.pc, cfg.compiled_offsets)]
    threads = np.flatnonzero(active)
    entries, bases = state.entries[first:first + count].astype(np.int64), state.registers[threads, operation.a].astype(np.int64)
    addresses = compiled_address(entries[None, :], bases[:, None], operation.value, operation.padding)
    slots = min(cfg.thread_slots, cfg.threads)
    for group in range(cfg.thread_groups):      # entry by entry
        mine = threads // slots == group
        for column in addresses[mine].T:
            for address in column[(column % size != 0) | (column >= cfg.shared_bytes)].tolist():
                code = ErrorCode.MISALIGNED if address % size else ErrorCode.OUT_OF_RANGE
                return [ThreadError(code, operation.pc, address)]
    places = swizzled(addresses, Swizzle(operation.swizzle))
    raw = state.shared[places[:, :, None] + np.arange(size)].reshape(len(threads), count * size)
    words = np.zeros((len(threads), -(-raw.shape[1] // 4) * 4), np.uint8)
    words[:, :raw.shape[1]] = raw
    numbers = words.view("<u4")
    state.registers[threads, operation.dst:operation.dst + numbers.shape[1]] = numbers
    return []


def _address_error(cfg: Config, addresses: np.ndarray, size: int, limit: int, active: np.ndarray, pc: int) -> list[ThreadError]:
    for thread in np.flatnonzero(active & ((addresses % size != 0) | (addresses >= limit))):
        address = int(addresses[thread])
        code = ErrorCode.MISALIGNED if address % size else ErrorCode.OUT_OF_RANGE
        return [ThreadError(code, pc, address)]
    return []


def _load(state: ThreadState, register: int, memory: np.ndarray, threads: np.ndarray, addresses: np.ndarray, access: Access) -> None:
    size = ACCESS_BYTES[access]
    raw = np.ascontiguousarray(memory[addresses[:, None] + np.arange(size)])
    if size >= 4:
        words = raw.view("<u4")
    else:
        signed = access in (Access.S8, Access.S16)
        words = raw.view(f"<{'i' if signed else 'u'}{size}").astype(np.int32).view(np.uint32)
    for number in range(words.shape[1]):
        state.registers[threads, register + number] = words[:, number]


def _store(state: ThreadState, register: int, memory: np.ndarray, threads: np.ndarray, addresses: np.ndarray, size: int) -> None:
    """Stores in thread order: of two threads that store to one byte the higher one wins."""
    words = np.ascontiguousarray(state.registers[threads, register:register + max(1, size // 4)].astype("<u4"))
    raw = words.view(np.uint8)[:, :size]
    for thread in range(len(threads)):
        memory[addresses[thread]:addresses[thread] + size] = raw[thread]
