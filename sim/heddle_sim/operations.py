"""Matrix and copy operations of the functional simulator: the golden models, with a fast way for whole operations."""

import numpy as np
from heddle.config import BANK_BYTES, FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS
from heddle.errors import ErrorCode
from heddle.isa.layout import Space

from .golden.copy import check_copy
from .golden.copy import copy_block as golden_copy
from .golden.matrix import multiply as golden_multiply

__all__ = ["copy_block", "multiply"]


def multiply(state, operation):
    """Execute one ``mm`` (fields of ``matrix_operation_layout`` as attributes) on a ``ThreadState``.

    ``columns`` and ``lanes`` are bool [threads]. Returns the list of (code, operand) of its errors and the number of
    steps. Steps before an address error, in loop order, have been executed.
    """
    cfg = state.cfg
    slices = operation.k_length + 1
    numbers = np.arange(cfg.threads) + operation.product
    columns = np.flatnonzero(operation.columns)
    kept = columns[numbers[columns] < PRODUCT_REGISTERS]
    errors = [(ErrorCode.PRODUCT_RANGE, PRODUCT_REGISTERS)] if len(kept) < len(columns) else []
    if len(kept) == 0:
        return errors, 0
    offsets = state.registers[kept, FIRST_FACTOR_REGISTER + operation.offset_register]
    first = np.uint32(operation.base) + (offsets << np.uint32(operation.element_shift))
    addresses = (first[:, None] + np.arange(slices, dtype=np.uint32) * np.uint32(cfg.dot)).astype(np.int64)
    if ((addresses % cfg.dot != 0) | (addresses >= cfg.shared_bytes)).any():
        return _multiply_step_by_step(state, operation)

    b = state.shared[(addresses[:, :, None] + np.arange(cfg.dot)).reshape(len(kept), -1)]
    words = operation.factor_word * cfg.numbers_per_word + FIRST_FACTOR_REGISTER
    a = np.ascontiguousarray(state.registers[:, words:words + slices * cfg.numbers_per_word]).view(np.uint8)
    # Exact in single precision: at most 16 * 16 products below 2^16 each, so that every sum stays below 2^24.
    product = _numbers(a, operation.a_signed) @ _numbers(b, operation.b_signed).T
    product = product.astype(np.int32).view(np.uint32)
    lanes = np.flatnonzero(operation.lanes)
    target = np.ix_(lanes, numbers[kept])
    if operation.zero:
        state.registers[target] = product[lanes]
    else:
        state.registers[target] += product[lanes]
    return errors, len(kept) * slices


def _multiply_step_by_step(state, operation):
    registers = state.registers.view(np.uint8).reshape(state.cfg.threads, -1)
    factors = registers[:, 4 * FIRST_FACTOR_REGISTER:].reshape(state.cfg.threads, state.cfg.factor_words, state.cfg.dot)
    result = golden_multiply(state.registers[:, :PRODUCT_REGISTERS].view(np.int32), factors, state.shared, operation)
    state.registers[:, :PRODUCT_REGISTERS] = result.products.view(np.uint32)
    return [(code, operand) for code, _, operand in result.errors], len(result.addresses)


def _numbers(values, signed):
    return (values.view(np.int8) if signed else values).astype(np.float32)


def copy_block(state, operation):
    """Execute one ``copy_block`` (fields of ``copy_operation_layout`` as attributes) on a ``ThreadState``.

    Returns (code, operand) of its first error, or ``None``.
    """
    size = operation.blocks * BANK_BYTES
    ends = {operation.destination_space: operation.destination, operation.source_space: operation.source}
    if check_copy(state.cfg, operation) or (size and ends[Space.GLOBAL] + size > len(state.memory)):
        result = golden_copy(state.cfg, operation, state.shared, state.memory,
                             fails=lambda address: address >= len(state.memory))
        return (result.errors[0][0], result.errors[0][2]) if result.errors else None
    # The usual case, in one step instead of beat by beat.
    shared, memory = ends[Space.SHARED], ends[Space.GLOBAL]
    if operation.destination_space is Space.SHARED:
        state.shared[shared:shared + size] = state.memory[memory:memory + size]
    else:
        state.memory[memory:memory + size] = state.shared[shared:shared + size]
    return None
