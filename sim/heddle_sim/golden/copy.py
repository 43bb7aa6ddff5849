"""Golden model of the copy unit: one operation at a time on byte arrays."""

from dataclasses import dataclass

import numpy as np
from heddle.constants import BANK_BYTES, MAX_BURST_BYTES
from heddle.errors import ErrorCode
from heddle.isa.layout import Reduction, Space, Swizzle
from heddle.layouts import CopyKind
from heddle.tmau.swizzle import swizzles

__all__ = ["CopyOperation", "CopyResult", "burst_ranges", "check_copy", "copy_block", "swizzled"]


@dataclass(frozen=True)
class CopyOperation:
    """The fields of ``copy_operation_layout``, for tests; any object with these attributes will do."""

    destination_space: Space
    source_space: Space
    destination: int
    source: int
    blocks: int
    kind: int = CopyKind.COPY_BLOCK
    swizzle: Swizzle = Swizzle.NONE
    reduction: Reduction = Reduction.NONE
    barrier: int = 0
    has_barrier: int = 0
    pc: int = 0


@dataclass(frozen=True)
class CopyResult:
    """What an operation does besides moving bytes.

    Attributes
    ----------
    errors : list of (ErrorCode, int, int)
        Code, program counter and operand of each report, in ascending order of the addresses.
    arrived : int
        Bytes that the barrier of the operation is told, 0 without a barrier.
    bursts : int
        Requests to global memory.
    """

    errors: list
    arrived: int
    bursts: int


def check_copy(cfg, operation):
    """The first rule that ``operation`` breaks as (code, operand), or ``None`` [docs/units/tmau.md].

    Works on plain integers: nothing wraps.
    """
    if _number(operation.kind) != CopyKind.COPY_BLOCK.value:
        return ErrorCode.UNSUPPORTED, _number(operation.kind)
    if operation.source_space == operation.destination_space:
        return ErrorCode.UNSUPPORTED, _number(operation.source_space)
    if operation.swizzle not in (Swizzle.NONE, *swizzles(cfg)):
        return ErrorCode.UNSUPPORTED, _number(operation.swizzle)
    if operation.reduction != Reduction.NONE:
        return ErrorCode.UNSUPPORTED, _number(operation.reduction)
    if operation.blocks == 0:
        return None
    shared, global_ = _sides(operation)
    for address in (shared, global_):
        if address % BANK_BYTES != 0:
            return ErrorCode.MISALIGNED, address
    for address, limit in ((shared, cfg.shared_bytes), (global_, 1 << cfg.axi_address_bits)):
        if address >= limit:
            return ErrorCode.OUT_OF_RANGE, address
        if address + operation.blocks * BANK_BYTES > limit:
            return ErrorCode.OUT_OF_RANGE, limit & 0xFFFFFFFF
    return None


def swizzled(address, swizzle=Swizzle.B128):
    """Where the byte of a shared address (integer or array) lies: 1, 2 or 3 bits from bit 4 on (32B, 64B, 128B) XOR those from 7 on."""
    return address ^ (address >> 7 & (1 << swizzle.value) - 1) << 4


def burst_ranges(cfg, address, size):
    """The bursts that cover ``size`` bytes from ``address``: a list of (first byte, end), in bytes that belong to the copy.

    They end at multiples of ``MAX_BURST_BYTES``; on the bus each begins at the multiple of ``cfg.axi_bytes`` below its first byte.
    """
    ranges = []
    end = address + size
    while address < end:
        boundary = (address // MAX_BURST_BYTES + 1) * MAX_BURST_BYTES
        ranges.append((address, min(boundary, end)))
        address = boundary
    return ranges


def copy_block(cfg, operation, shared, memory, fails=lambda address: False):
    """Execute one operation on ``shared`` and ``memory`` (uint8 arrays, changed in place).

    ``fails(address)`` says whether memory answers the beat that begins at ``address`` with an error; such a beat changes nothing.
    """
    problem = check_copy(cfg, operation)
    if problem:
        code, operand = problem
        return CopyResult([(code, operation.pc, operand)], 0, 0)
    shared_start, global_start = _sides(operation)
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
                memory[low:high] = shared[places]
    return CopyResult(errors, size if operation.has_barrier else 0, len(bursts))


def _number(field):
    return getattr(field, "value", field)


def _sides(operation):
    """Shared address and global address."""
    if operation.destination_space == Space.SHARED:
        return operation.destination, operation.source
    return operation.source, operation.destination
