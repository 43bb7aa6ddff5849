"""Conversion of 32-bit floats by tensor loads: TF32 is rounded [S1.8]."""

from amaranth.hdl import Cat, Const, Mux, Signal

from ..isa.tensor_descriptor import TF32_NAN, TensorFormat
from .layouts import conversion_members

__all__ = ["CONVERTED_FORMATS", "convert", "converted"]

CONVERTED_FORMATS = (TensorFormat.TF32, TensorFormat.TF32_FTZ)
CUT_BITS = 13           # fraction bits of f32 that TF32 lacks
EXPONENT_BIT = 23


def convert(m, cfg, burst, format):
    """Drive ``rounds`` of ``burst`` for elements of ``format``; no effect without this member."""
    if conversion_members(cfg):
        m.d.comb += burst.rounds.eq(Cat(format == kind for kind in CONVERTED_FORMATS).any())


def converted(m, word, rounds):
    """``word`` of 32-bit floats after conversion; combinational.

    ``rounds``: the fraction is rounded to the 10 bits of TF32, to nearest even, also of subnormal numbers. NaNs become ``TF32_NAN``.
    """
    words = []
    for number in range(len(word) // 32):
        bits = word.word_select(number, 32)
        up, nan = Signal(name=f"up_{number}"), Signal(name=f"nan_{number}")
        m.d.comb += [
            up.eq(bits[CUT_BITS - 1] & (bits[:CUT_BITS - 1].any() | bits[CUT_BITS])),       # to nearest even
            nan.eq(bits[EXPONENT_BIT:31].all() & bits[:EXPONENT_BIT].any()),
        ]
        rounded = Cat(Const(0, CUT_BITS), (bits[CUT_BITS:] + up)[:32 - CUT_BITS])
        words.append(Mux(rounds, Mux(nan, Const(TF32_NAN, 32), rounded), bits))
    return Cat(words)
