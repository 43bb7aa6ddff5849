"""Rounding and saturation to bytes, four of them in one word."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

__all__ = ["Narrow"]


class Narrow(Component):
    """Collects rounded and saturated numbers as the bytes of ``word``, the first one lowest [S0.17].

    Latency 2 cycles from the number in ``shifted`` to its byte in ``word``, throughput one a cycle. The four numbers of a word come in
    four cycles; between them nothing else does.

    Members
    -------
    shifted : In(33)
        A signed number, and below it the last bit that was shifted out of it: 1 rounds up.
    take : In(1)
        There is a number in ``shifted``.
    unsigned : In(1)
        Saturate to 0 … 255 instead of -128 … 127; constant for the four numbers and two cycles more.
    word : Out(32)
    """

    def __init__(self):
        super().__init__({"shifted": In(33), "take": In(1), "unsigned": In(1), "word": Out(32)})

    def elaborate(self, platform):
        m = Module()
        number = Signal(33, reset_less=True)
        valid = Signal()
        word = Signal(32, reset_less=True)
        m.d.sync += [valid.eq(self.take), number.eq(self.shifted)]
        sign = number[32]
        # Numbers from -256 to 255 are rounded; those beyond keep their side.
        near = Signal()
        rounded = Signal(signed(10))
        m.d.comb += [
            near.eq(~(number[9:32] ^ sign.replicate(23)).any()),
            rounded.eq(number[1:10].as_signed() + number[0]),
        ]
        low, high, byte = Signal(), Signal(), Signal(8)
        with m.If(self.unsigned):
            m.d.comb += [low.eq(Mux(near, rounded[9], sign)), high.eq(Mux(near, ~rounded[9] & rounded[8], ~sign))]
        with m.Else():
            m.d.comb += [low.eq(Mux(near, rounded[9] & ~(rounded[8] & rounded[7]), sign)),
                         high.eq(Mux(near, ~rounded[9] & (rounded[8] | rounded[7]), ~sign))]
        # 0 and 255, or -128 and 127: the top bit of the bounds is exchanged.
        bound = Cat(high.replicate(7), high ^ ~self.unsigned)
        m.d.comb += byte.eq(Mux(low | high, bound, rounded[:8]))
        with m.If(valid):
            m.d.sync += word.eq(Cat(word[8:], byte))
        m.d.comb += self.word.eq(word)
        return m
