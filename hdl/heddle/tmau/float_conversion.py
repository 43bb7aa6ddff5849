"""Conversion of 32-bit floats by tensor loads: TF32 is rounded, FTZ flushes subnormal numbers [S1.8]."""

from amaranth.hdl import Cat, Const, Mux, Signal

from ..isa.tensor_descriptor import TensorFormat
from .layouts import conversion_members

__all__ = ["CONVERTED_FORMATS", "convert", "converted"]

_ROUNDED = (TensorFormat.TF32, TensorFormat.TF32_FTZ)
_FLUSHED = (TensorFormat.F32_FTZ, TensorFormat.TF32_FTZ)
CONVERTED_FORMATS = frozenset(_ROUNDED + _FLUSHED)
CUT_BITS = 13           # fraction bits of f32 that TF32 lacks
EXPONENT = slice(23, 31)


def convert(m, cfg, burst, format):
    """Drive ``rounds`` and ``flushes`` of ``burst`` for elements of ``format``; no effect without these members."""
    if conversion_members(cfg):
        for member, formats in ((burst.rounds, _ROUNDED), (burst.flushes, _FLUSHED)):
            m.d.comb += member.eq(Cat(format == kind for kind in formats).any())


def converted(m, word, rounds, flushes):
    """``word`` of 32-bit floats after conversion; combinational.

    ``rounds``: the fraction is rounded to the 10 bits of TF32, to nearest even. ``flushes``: subnormal numbers become zero of the same
    sign. Infinities and NaNs do not change.
    """
    words = []
    for number in range(len(word) // 32):
        bits = word.word_select(number, 32)
        cut, up = Signal(name=f"cut_{number}"), Signal(name=f"up_{number}")
        rounded = Signal(32, name=f"rounded_{number}")
        m.d.comb += [
            cut.eq(rounds & ~bits[EXPONENT].all()),
            up.eq(cut & bits[CUT_BITS - 1] & (bits[:CUT_BITS - 1].any() | bits[CUT_BITS])),     # to nearest even
            rounded.eq(Cat(bits[:CUT_BITS] & (~cut).replicate(CUT_BITS), (bits[CUT_BITS:] + up)[:32 - CUT_BITS])),
        ]
        words.append(Cat(Mux(flushes & ~rounded[EXPONENT].any(), Const(0, 31), rounded[:31]), rounded[31]))
    return Cat(words)
