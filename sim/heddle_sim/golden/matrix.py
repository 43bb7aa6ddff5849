"""Golden model of the matrix unit: one ``mm`` on the registers of all lanes."""

from dataclasses import dataclass, field

import numpy as np
from heddle.config import PRODUCT_REGISTERS
from heddle.errors import ErrorCode
from heddle.isa.layout import LoopOrder

__all__ = ["MatrixOperation", "MatrixResult", "matrix_steps", "multiply"]


@dataclass(frozen=True)
class MatrixOperation:
    """The fields of ``matrix_operation_layout``, for tests; any object with these attributes will do.

    ``columns`` and ``lanes`` are bool [threads]; ``k_length`` is the number of slices minus one.
    """

    columns: np.ndarray
    lanes: np.ndarray
    product: int = 0
    factor_word: int = 0
    offset_register: int = 0
    base: int = 0
    element_shift: int = 0
    a_signed: int = 1
    b_signed: int = 1
    k_length: int = 0
    order: LoopOrder = LoopOrder.SLICES_OUTER
    zero: int = 0
    pc: int = 0


@dataclass(frozen=True)
class MatrixResult:
    """What an operation does.

    Attributes
    ----------
    products : int32 [threads, 256]
        The product registers afterwards.
    errors : list of (ErrorCode, int, int)
        Code, program counter and operand of each report, in order.
    addresses : list of int
        Shared addresses of the words of B, in the order of the steps.
    """

    products: np.ndarray
    errors: list = field(default_factory=list)
    addresses: list = field(default_factory=list)


def matrix_steps(operation):
    """(column, slice) of every step in loop order [S0.4]; columns that are not fetched take none [S0.9]."""
    columns = [int(column) for column in np.flatnonzero(operation.columns)]
    slices = range(operation.k_length + 1)
    if operation.order == LoopOrder.COLUMNS_OUTER:
        return [(column, number) for column in columns for number in slices]
    return [(column, number) for number in slices for column in columns]


def multiply(products, factors, shared, operation):
    """Execute one ``mm``.

    Parameters
    ----------
    products : int32 [threads, 256]
        Product registers; not modified.
    factors : uint8 [threads, factor_words, dot]
        Factor registers; offset registers are 32-bit little-endian parts of them.
    shared : uint8 [bytes]
        Shared memory.
    operation : MatrixOperation

    Returns
    -------
    MatrixResult
    """
    threads, _, dot = factors.shape
    result = MatrixResult(products.copy())
    parts = np.ascontiguousarray(factors).reshape(threads, -1).view("<u4")
    offsets = [int(value) for value in parts[:, operation.offset_register]]
    lanes = np.asarray(operation.lanes, bool)
    for column, number in matrix_steps(operation):
        register = operation.product + column
        if register >= PRODUCT_REGISTERS:
            report = (ErrorCode.PRODUCT_RANGE, operation.pc, PRODUCT_REGISTERS)
            if report not in result.errors:
                result.errors.append(report)
            continue
        address = (operation.base + (offsets[column] << operation.element_shift) + number * dot) & 0xFFFFFFFF
        if address % dot or address >= len(shared):
            code = ErrorCode.MISALIGNED if address % dot else ErrorCode.OUT_OF_RANGE
            result.errors.append((code, operation.pc, address))
            break
        a = _elements(factors[:, operation.factor_word + number], operation.a_signed)
        b = _elements(shared[address:address + dot], operation.b_signed)
        # 64 bits hold the sum of a register and a dot product; the conversion back wraps.
        before = 0 if operation.zero and number == 0 else result.products[:, register].astype(np.int64)
        after = (before + a @ b).astype(np.uint64).astype(np.uint32).view(np.int32)
        result.products[lanes, register] = after[lanes]
        result.addresses.append(address)
    return result


def _elements(values, signed):
    return np.ascontiguousarray(values).view(np.int8 if signed else np.uint8).astype(np.int64)
