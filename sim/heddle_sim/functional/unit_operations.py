"""Matrix and copy operations of the functional simulator: golden models, with a fast path for whole operations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS, ROW_BYTES
from heddle.interfaces.layouts import CopyKind
from heddle.isa.compiled_offsets import OFFSET_BITS, OffsetEntry
from heddle.isa.encoding import Reduction, Space, Swizzle
from heddle.isa.error_codes import ErrorCode

from ..golden.block_copy import check_copy, swizzled
from ..golden.block_copy import copy_block as golden_copy
from ..golden.matrix import compiled_address, group_lanes
from ..golden.matrix import multiply as golden_multiply

if TYPE_CHECKING:
    from ..golden.thread import ThreadState

__all__ = ["copy_block", "multiply"]


def multiply(state: ThreadState, operation: SimpleNamespace) -> tuple[list[tuple[ErrorCode, int]], int]:
    """Execute one ``mm`` or ``offsets`` (fields of ``matrix_operation_layout`` as attributes) on a ``ThreadState``.

    ``columns`` and ``lanes`` are bool [threads]. Returns the list of (code, operand) of its errors and the number of steps. Steps
    before an address error, in loop order, are executed.
    """
    cfg = state.cfg
    if operation.fill:
        return _multiply_step_by_step(state, operation)
    slices = operation.k_length + 1
    words_of_slice = cfg.threads if operation.lane_sum else operation.kb + 1
    columns, position, index = _columns(operation)
    numbers = index + operation.product
    kept = numbers < PRODUCT_REGISTERS
    errors = [] if kept.all() else [(ErrorCode.PRODUCT_RANGE, PRODUCT_REGISTERS)]
    columns, position, numbers = columns[kept], position[kept], numbers[kept]
    if len(columns) == 0:
        return errors, 0
    offsets = state.registers[columns, FIRST_FACTOR_REGISTER + operation.offset_register]
    if operation.compiled is not OffsetEntry.NONE:
        compiled = _compiled_addresses(state, operation, offsets)
        if compiled is None:
            return _multiply_step_by_step(state, operation)
        b = state.shared[compiled].reshape(len(columns), slices, 1, cfg.dot)
        return errors, _accumulate(state, operation, b, columns, position, numbers)
    first = np.uint32(operation.base) + (offsets << np.uint32(operation.element_shift))
    if operation.transpose:
        rows = slices * words_of_slice * (cfg.dot >> operation.int16)
        addresses = first.astype(np.int64)[:, None] + np.arange(rows) * operation.pitch
        if operation.pitch % BANK_BYTES or (operation.int16 and (addresses % 2).any()) or addresses.max() >= cfg.shared_bytes:
            return _multiply_step_by_step(state, operation)
        b = state.shared[swizzled(addresses, operation.swizzle)[:, :, None] + np.arange(1 + operation.int16)].reshape(
            len(columns), slices, words_of_slice, cfg.dot)
        _accumulate(state, operation, b, columns, position, numbers)
        return errors, len(columns) * slices * words_of_slice * cfg.passes(1 + operation.int16)
    addresses = (first[:, None] + np.arange(slices * words_of_slice, dtype=np.uint32) * np.uint32(cfg.dot)).astype(np.int64)
    if ((addresses % cfg.dot != 0) | (addresses >= cfg.shared_bytes)).any():
        return _multiply_step_by_step(state, operation)
    if operation.swizzle is not Swizzle.NONE:
        if (addresses[:, 0] // ROW_BYTES != addresses[:, -1] // ROW_BYTES).any():
            return _multiply_step_by_step(state, operation)
        addresses = swizzled(addresses, operation.swizzle)

    # k of a column: slices, lanes along k, elements; each lane has its part of it, slice by slice.
    b = state.shared[addresses[:, :, None] + np.arange(cfg.dot)].reshape(len(columns), slices, words_of_slice, cfg.dot)
    return errors, _accumulate(state, operation, b, columns, position, numbers)


def _compiled_addresses(state: ThreadState, operation: SimpleNamespace, offsets: np.ndarray) -> np.ndarray | None:
    """Shared addresses of the bytes of each word, [columns, slices, dot], by compiled offsets; ``None`` where there is an error."""
    cfg, by_byte = state.cfg, operation.compiled is OffsetEntry.BYTE
    first, count = operation.pitch >> OFFSET_BITS, (operation.k_length + 1) * (cfg.dot if by_byte else 1)
    if first + count > cfg.compiled_offsets or (by_byte and first % cfg.dot):
        return None
    entries = state.entries[first:first + count].astype(np.int64)
    addresses = compiled_address(entries, offsets.astype(np.int64)[:, None], operation.base, operation.pitch)
    if (addresses >= cfg.shared_bytes).any() or (not by_byte and (addresses % cfg.dot).any()):
        return None
    addresses = swizzled(addresses, operation.swizzle)
    return addresses.reshape(len(offsets), -1, cfg.dot) if by_byte else addresses[:, :, None] + np.arange(cfg.dot)


def _accumulate(state: ThreadState, operation: SimpleNamespace, b: np.ndarray, columns: np.ndarray, position: np.ndarray,
                numbers: np.ndarray) -> int:
    """Multiply by A and add to the product registers; returns the number of steps. ``b`` is uint8 [columns, slices, words of a slice,
    dot].
    """
    cfg, ka, slices = state.cfg, operation.ka + 1, operation.k_length + 1
    passes = cfg.passes(1 + operation.int16)
    words = operation.factor_word * cfg.numbers_per_word + FIRST_FACTOR_REGISTER
    a = np.ascontiguousarray(state.registers[:, words:words + slices * cfg.numbers_per_word]).view(np.uint8)
    a = np.where(operation.lanes[:, None], a, 0)
    if operation.lane_sum:
        _total(state, operation, a.reshape(cfg.threads, slices, cfg.dot), b, numbers)
        return len(columns) * slices * cfg.threads // 4 * passes
    lanes_a, lanes_b = group_lanes(operation)
    a = a.reshape(-1, lanes_a, lanes_b, slices * cfg.dot)
    targets = np.arange(cfg.threads).reshape(-1, lanes_a, lanes_b)[:, :, operation.kb_destination]
    for row in range(ka):
        mine = position == row
        product: Any = sum(_product(a[:, row, part], b[mine, :, part].reshape(-1, slices * cfg.dot), operation)
                      for part in range(operation.kb + 1))
        lanes = operation.lanes[targets[:, row]]
        target = np.ix_(targets[lanes, row], numbers[mine])
        if operation.zero:
            state.registers[target] = product[lanes]
        else:
            state.registers[target] += product[lanes]
    return len(np.unique(numbers)) * slices * passes


def _columns(operation: SimpleNamespace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fetched columns, each with its position in the group and its step."""
    columns = np.flatnonzero(operation.columns)
    ka = operation.ka + 1
    length = -(-len(operation.columns) // ka)
    if operation.ka_interleaved:
        return columns, columns % ka, columns // ka
    return columns, columns // length, columns % length


def _total(state: ThreadState, operation: SimpleNamespace, a: np.ndarray, b: np.ndarray, numbers: np.ndarray) -> None:
    """Dot products of all PEs together, for thread 0."""
    if operation.lanes[0]:
        product = _product(b.reshape(len(b), -1), a.transpose(1, 0, 2).reshape(1, -1), operation, swap=True)[:, 0]
        before = 0 if operation.zero else state.registers[0, numbers]
        state.registers[0, numbers] = before + product


def _product(a: np.ndarray, b: np.ndarray, operation: SimpleNamespace, swap: bool = False) -> np.ndarray:
    """A x B modulo 2^32, of rows of bytes along k; with ``swap`` the first operand is B.

    Exact in double precision: at most 2^13 bytes give sums below 2^44. Sums of 16 words of 8-bit integers are below 2^24, exact in
    single precision.
    """
    signs = (operation.a_signed, operation.b_signed)
    kind = np.float64 if operation.int16 or swap else np.float32
    left, right = (_numbers(values, signed, operation.int16, kind) for values, signed in zip((a, b), signs[::-1 if swap else 1]))
    return (left @ right.T).astype(np.int64).astype(np.uint32)


def _multiply_step_by_step(state: ThreadState, operation: SimpleNamespace) -> tuple[list[tuple[ErrorCode, int]], int]:
    registers = state.registers.view(np.uint8).reshape(state.cfg.threads, -1)
    factors = registers[:, 4 * FIRST_FACTOR_REGISTER:].reshape(state.cfg.threads, state.cfg.factor_words, state.cfg.dot)
    result = golden_multiply(state.registers[:, :PRODUCT_REGISTERS].view(np.int32), factors, state.shared, operation, state.entries)
    state.registers[:, :PRODUCT_REGISTERS] = result.products.view(np.uint32)
    state.entries[:] = result.entries
    return [(code, operand) for code, _, operand in result.errors], len(result.steps) * state.cfg.passes(1 + operation.int16)


def _numbers(values: np.ndarray, signed: int, int16: int, kind: type[np.floating]) -> np.ndarray:
    return np.ascontiguousarray(values).view(f"{'i' if signed else 'u'}{1 + int16}").astype(kind)


def copy_block(state: ThreadState, operation: SimpleNamespace) -> tuple[ErrorCode, int] | None:
    """Execute one ``copy_block`` (fields of ``copy_operation_layout`` as attributes) on a ``ThreadState``.

    Returns (code, operand) of its first error, or ``None``.
    """
    if operation.kind is CopyKind.PREFETCH_BLOCK:
        return check_copy(state.cfg, operation)
    size = operation.blocks * BANK_BYTES
    ends = {operation.destination_space: operation.destination, operation.source_space: operation.source}
    usual = len(ends) == 2 and operation.reduction is Reduction.NONE
    if not usual or check_copy(state.cfg, operation) or (size and ends[Space.GLOBAL] + size > len(state.memory)):
        result = golden_copy(state.cfg, operation, state.shared, state.memory,
                             fails=lambda address: address >= len(state.memory))
        return (result.errors[0][0], result.errors[0][2]) if result.errors else None
    # The usual case, in one step instead of beat by beat.
    shared, memory = ends[Space.SHARED], ends[Space.GLOBAL]
    places: slice | np.ndarray = slice(shared, shared + size)
    if operation.swizzle is not Swizzle.NONE:
        places = swizzled(np.arange(shared, shared + size), operation.swizzle)
    if operation.destination_space is Space.SHARED:
        state.shared[places] = state.memory[memory:memory + size]
    else:
        state.memory[memory:memory + size] = state.shared[places]
    return None
