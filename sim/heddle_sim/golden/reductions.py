"""Golden model of reductions: old and new elements to the written elements [S1.9]."""

import ml_dtypes
import numpy as np
from heddle.errors import UsageError
from heddle.isa.encoding import Reduction
from heddle.isa.tensor_descriptor import FORMAT_BYTES, NAN_BITS, TensorFormat

__all__ = ["reduce_elements"]

_F = TensorFormat
_INTEGERS = {_F.U32: np.uint32, _F.S32: np.int32, _F.U64: np.uint64, _F.S64: np.int64}
_FLOATS = {_F.F16: np.float16, _F.BF16: ml_dtypes.bfloat16, _F.F32: np.float32, _F.F32_FTZ: np.float32}


def reduce_elements(reduction: Reduction, format: TensorFormat, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Reduction of ``old`` and ``new``, uint8 arrays of whole elements; returns the bytes to write.

    Integers wrap; ``inc`` and ``dec`` count within 0 to ``new``. Floating-point sums round to nearest even. F32_FTZ flushes subnormal
    operands and results to zero. ``min`` and ``max`` return the other operand for a NaN and order -0 before +0. NaN results have the bits
    of ``NAN_BITS``.
    """
    bits = np.dtype(f"<u{FORMAT_BYTES[format]}")
    a, b = np.ascontiguousarray(old).view(bits), np.ascontiguousarray(new).view(bits)
    if format in _FLOATS:
        result = _floats(reduction, format, a, b)
    else:
        result = _integers(reduction, a.view(_INTEGERS[format]), b.view(_INTEGERS[format]))
    return np.ascontiguousarray(result.astype(result.dtype, copy=False)).view(np.uint8)


def _integers(reduction: Reduction, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    one = a.dtype.type(1)
    with np.errstate(over="ignore"):
        match reduction:
            case Reduction.ADD:
                return a + b
            case Reduction.MIN:
                return np.minimum(a, b)
            case Reduction.MAX:
                return np.maximum(a, b)
            case Reduction.INC:
                return np.where(a >= b, a.dtype.type(0), a + one)
            case Reduction.DEC:
                return np.where((a == 0) | (a > b), b, a - one)
            case Reduction.AND:
                return a & b
            case Reduction.OR:
                return a | b
            case Reduction.XOR:
                return a ^ b
    raise UsageError(f"reduction must be one of those for integers, not {reduction!r}")


def _flushed(bits: np.ndarray) -> np.ndarray:
    """32-bit floating-point numbers with subnormal numbers flushed to zero of the same sign."""
    return np.where(bits >> 23 & 0xFF, bits, bits & 0x8000_0000).astype(np.uint32)


def _floats(reduction: Reduction, format: TensorFormat, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    kind = _FLOATS[format]
    flushes = format == TensorFormat.F32_FTZ
    if flushes:
        a, b = _flushed(a), _flushed(b)
    # Sums of two numbers of 16 bits are exact enough in 32: the second rounding changes nothing.
    x, y = a.view(kind).astype(np.float32), b.view(kind).astype(np.float32)
    if reduction == Reduction.ADD:
        with np.errstate(all="ignore"):
            total = (x + y).astype(kind)
        bits, no_number = total.view(a.dtype), np.isnan(total.astype(np.float32))
        bits = _flushed(bits) if flushes else bits
    elif reduction in (Reduction.MIN, Reduction.MAX):
        sign = 8 * a.dtype.itemsize - 1
        less = (x < y) | ((x == y) & (a >> sign > b >> sign))
        chosen = np.where(less == (reduction == Reduction.MIN), a, b)
        bits = np.where(np.isnan(x), b, np.where(np.isnan(y), a, chosen))
        no_number = np.isnan(x) & np.isnan(y)
    else:
        raise UsageError(f"reduction must be add, min or max for {format.name}, not {reduction!r}")
    return np.where(no_number, a.dtype.type(NAN_BITS[format]), bits)
