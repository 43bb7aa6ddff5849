"""Functions and comparisons of uniform instructions on single integers, which are faster than arrays."""

import operator

from heddle.isa.encoding import AluFunction, CompareFunction

__all__ = ["ALU", "COMPARE", "signed"]

_WORD = 0xFFFFFFFF


def signed(value: int) -> int:
    """Signed value of a 32-bit word."""
    return value - (1 << 32) if value >> 31 else value


# Functions of two words (integers from 0 to 2^32 - 1) that return a word.
ALU = {
    AluFunction.ADD: lambda a, b: a + b & _WORD,
    AluFunction.SUB: lambda a, b: a - b & _WORD,
    AluFunction.AND: operator.and_,
    AluFunction.OR: operator.or_,
    AluFunction.XOR: operator.xor,
    AluFunction.SHL: lambda a, b: a << (b & 31) & _WORD,
    AluFunction.SHR: lambda a, b: a >> (b & 31),
    AluFunction.SAR: lambda a, b: signed(a) >> (b & 31) & _WORD,
    AluFunction.MIN: lambda a, b: min(a, b, key=signed),
    AluFunction.MAX: lambda a, b: max(a, b, key=signed),
    AluFunction.MOV: lambda a, b: b,
}

# Functions of two numbers; of words for unsigned, of ``signed`` words for signed comparisons.
COMPARE = {
    CompareFunction.EQ: operator.eq,
    CompareFunction.NE: operator.ne,
    CompareFunction.LT: operator.lt,
    CompareFunction.LE: operator.le,
    CompareFunction.GT: operator.gt,
    CompareFunction.GE: operator.ge,
}
