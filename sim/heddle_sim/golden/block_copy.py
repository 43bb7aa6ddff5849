"""Golden model of the TMAU: block copies on byte arrays, one operation at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import TypeVar

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, MAX_BURST_BYTES
from heddle.interfaces.layouts import CopyKind
from heddle.interfaces.swizzle import swizzles
from heddle.isa.encoding import Reduction, Space, Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import FLOAT_FORMATS, TensorFormat
from heddle.isa.tensor_rules import REDUCTION_FORMATS

from .reductions import reduce_elements

__all__ = ["CopyOperation", "CopyResult", "burst_ranges", "check_copy", "copy_block", "swizzled"]

_WORD = 0xFFFFFFFF
Address = TypeVar("Address", int, np.ndarray)


@dataclass(frozen=True)
class CopyOperation:
    """Operation of the TMAU: the fields of ``copy_operation_layout``, for tests; any object with these attributes is accepted.

    ``destination`` and ``source`` are exact byte addresses; rows of a matrix may be outside 32 bits.
    """

    destination_space: Space
    source_space: Space
    destination: int
    source: int
    blocks: int
    kind: CopyKind = CopyKind.COPY_BLOCK
    swizzle: Swizzle = Swizzle.NONE
    reduction: Reduction = Reduction.NONE
    format: TensorFormat = TensorFormat.U8
    barrier: int = 0
    has_barrier: int = 0
    mask: int = 0
    pc: int = 0

    @property
    def destination_outside(self) -> int:
        return int(not 0 <= self.destination <= _WORD)

    @property
    def source_outside(self) -> int:
        return int(not 0 <= self.source <= _WORD)


@dataclass(frozen=True)
class CopyResult:
    """Reports of an operation.

    Attributes
    ----------
    errors : list of (ErrorCode, int, int)
        Code, program counter and operand of each report, in ascending order of the addresses.
    arrived : int
        Bytes that arrive at the barrier of the operation, 0 without a barrier.
    bursts : int
        Requests to global memory.
    """

    errors: list[tuple[ErrorCode, int, int]]
    arrived: int
    bursts: int


def check_copy(cfg: Config, operation: CopyOperation | SimpleNamespace) -> tuple[ErrorCode, int] | None:
    """The first rule that ``operation`` violates as (code, operand), or ``None`` [docs/units/tmau.md].

    Integers are exact and never wrap. Addresses may be outside 32 bits on both sides; operands are their low 32 bits. The order is:
    unsupported features, alignment, range; shared memory before global memory.
    """
    prefetch = cfg.prefetches and _number(operation.kind) == CopyKind.PREFETCH_BLOCK.value
    if not prefetch and (problem := _unsupported(cfg, operation)):
        return problem
    if operation.blocks == 0:
        return None
    sides = [(operation.source, Space.GLOBAL)] if prefetch else _sides(operation)
    for address, _ in sides:
        if address % BANK_BYTES != 0:
            return ErrorCode.MISALIGNED, address & _WORD
    for address, space in sides:
        limit = cfg.shared_bytes if space == Space.SHARED else 1 << cfg.axi_address_bits
        if not 0 <= address < limit:
            return ErrorCode.OUT_OF_RANGE, address & _WORD
        if address + operation.blocks * BANK_BYTES > limit:
            return ErrorCode.OUT_OF_RANGE, limit & _WORD
    return None


def _unsupported(cfg: Config, operation: CopyOperation | SimpleNamespace) -> tuple[ErrorCode, int] | None:
    """Missing feature of the configuration, or undefined reduction, as (code, operand); else ``None``."""
    within, reduction = operation.source_space == operation.destination_space, _number(operation.reduction)
    if _number(operation.kind) != CopyKind.COPY_BLOCK.value:
        return ErrorCode.UNSUPPORTED, _number(operation.kind)
    if within and not cfg.copy_within:
        return ErrorCode.UNSUPPORTED, _number(operation.source_space)
    if operation.swizzle not in ((Swizzle.NONE,) if within else (Swizzle.NONE, *swizzles(cfg))):
        return ErrorCode.UNSUPPORTED, _number(operation.swizzle)
    if reduction == Reduction.NONE.value:
        return None
    into_shared = operation.destination_space == Space.SHARED
    if not cfg.reductions or into_shared and not within:
        return ErrorCode.UNSUPPORTED, reduction
    format = _number(operation.format)
    if format not in {kind.value for kind in REDUCTION_FORMATS.get(operation.reduction, ())}:
        return ErrorCode.TENSOR_REDUCTION, reduction
    if TensorFormat(format) in FLOAT_FORMATS and (into_shared or not cfg.reduction_floats):
        return ErrorCode.UNSUPPORTED, reduction
    return None


def swizzled(address: Address, swizzle: Swizzle = Swizzle.B128) -> Address:
    """Swizzled byte address of shared memory (integer or array): 1, 2 or 3 bits from bit 4 on (32B, 64B, 128B) XOR as many bits from
    bit 7 on.
    """
    return address ^ (address >> 7 & (1 << swizzle.value) - 1) << 4


def burst_ranges(cfg: Config, address: int, size: int) -> list[tuple[int, int]]:
    """Bursts that cover ``size`` bytes from byte address ``address``: a list of (first byte, end) of the copied bytes.

    Bursts end at multiples of ``MAX_BURST_BYTES``. On the bus each burst begins at the multiple of ``cfg.axi_bytes`` below its first
    byte.
    """
    ranges = []
    end = address + size
    while address < end:
        boundary = (address // MAX_BURST_BYTES + 1) * MAX_BURST_BYTES
        ranges.append((address, min(boundary, end)))
        address = boundary
    return ranges


def copy_block(cfg: Config, operation: CopyOperation | SimpleNamespace, shared: np.ndarray, memory: np.ndarray,
               fails: Callable[[int], bool] = lambda address: False) -> CopyResult:
    """Execute one operation on ``shared`` and ``memory`` (uint8 arrays, changed in place); returns ``CopyResult``.

    ``fails(address)`` is whether memory answers the beat at ``address`` with an error; such a beat changes nothing. A prefetch changes
    nothing.
    """
    problem = check_copy(cfg, operation)
    if problem:
        code, operand = problem
        return CopyResult([(code, operation.pc, operand)], 0, 0)
    if _number(operation.kind) == CopyKind.PREFETCH_BLOCK.value:
        return CopyResult([], 0, 0)
    if operation.source_space == operation.destination_space:
        return _copy_within(cfg, operation, shared, memory, fails)
    (shared_start, _), (global_start, _) = _sides(operation)
    load = operation.destination_space == Space.SHARED
    size = operation.blocks * BANK_BYTES
    errors = []
    bursts = burst_ranges(cfg, global_start, size)
    for first, end in bursts:
        address = first - first % cfg.axi_bytes
        failed = [beat for beat in range(address, end, cfg.axi_bytes) if fails(beat)]
        if load:        # each beat has its own answer, a written burst has one for all
            errors += [(ErrorCode.AXI_READ, operation.pc, address)] * len(failed)
        elif failed:
            errors.append((ErrorCode.AXI_WRITE, operation.pc, address))
        for beat in range(address, end, cfg.axi_bytes):
            if beat in failed:
                continue
            low, high = max(beat, first), min(beat + cfg.axi_bytes, end)
            start, stop = shared_start + low - global_start, shared_start + high - global_start
            places = np.arange(start, stop)
            places = swizzled(places, operation.swizzle)
            if load:
                shared[places] = memory[low:high]
            else:
                _write(operation, memory[low:high], shared[places])
    return CopyResult(errors, size if operation.has_barrier else 0, len(bursts))


def _copy_within(cfg: Config, operation: CopyOperation | SimpleNamespace, shared: np.ndarray, memory: np.ndarray,
                 fails: Callable[[int], bool]) -> CopyResult:
    """Copy within one memory. In global memory parts of at most 512 bytes are copied one after the other.

    No part crosses a multiple of 512 in source or destination. A part that cannot be read is not written.
    """
    size = operation.blocks * BANK_BYTES
    arrived = size if operation.has_barrier else 0
    source, destination, end = operation.source, operation.destination, operation.source + size
    if operation.source_space == Space.SHARED:
        _write(operation, shared[destination:destination + size], shared[source:end].copy())
        return CopyResult([], arrived, 0)
    errors, bursts = [], 0
    while source < end:
        part = min(end - source, *(MAX_BURST_BYTES - address % MAX_BURST_BYTES for address in (source, destination)))
        starts = [address - address % cfg.axi_bytes for address in (source, destination)]
        read, written = ([beat for beat in range(start, address + part, cfg.axi_bytes) if fails(beat)]
                         for start, address in zip(starts, (source, destination)))
        bursts += 1 if read else 2
        if read:
            errors.append((ErrorCode.AXI_READ, operation.pc, starts[0]))
        else:
            if written:
                errors.append((ErrorCode.AXI_WRITE, operation.pc, starts[1]))
            values = memory[source:source + part].copy()
            for beat in range(starts[1], destination + part, cfg.axi_bytes):
                if beat not in written:
                    low, high = max(beat, destination), min(beat + cfg.axi_bytes, destination + part)
                    _write(operation, memory[low:high], values[low - destination:high - destination])
        source, destination = source + part, destination + part
    return CopyResult(errors, arrived, bursts)


def _write(operation: CopyOperation | SimpleNamespace, target: np.ndarray, values: np.ndarray) -> None:
    """Writes ``values`` to ``target`` (a view), or the reduction of ``target`` and ``values``."""
    if operation.reduction == Reduction.NONE:
        target[:] = values
    else:
        target[:] = reduce_elements(operation.reduction, TensorFormat(_number(operation.format)), target, values)


def _number(field: int | Enum) -> int:
    found: int = getattr(field, "value", field)     # type: ignore[arg-type]    # of any object with a value
    return found


def _sides(operation: CopyOperation | SimpleNamespace) -> list[tuple[int, Space]]:
    """(address, space) in the order of the checks: shared memory, global memory; within one memory destination, source."""
    ends = [(operation.destination, operation.destination_space), (operation.source, operation.source_space)]
    return ends if operation.destination_space in (Space.SHARED, operation.source_space) else ends[::-1]
