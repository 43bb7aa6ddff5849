"""Rounding and saturation of numbers to bytes, packed by four."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

__all__ = ["Narrow"]


class Narrow(Component):
    """Narrowing unit: rounds and saturates signed numbers to bytes, and packs four of them into a word, the first one lowest [S0.17].

    Parameters
    ----------
    bounded : bool
        A zero point is added to the rounded number, and the bounds of bytes are ports [S2.3].

    *Ports*:
    shifted : In(33)
        Bits 32 to 1: a signed number. Bit 0: the last bit that was shifted out of it, which is added for rounding.
    take : In(1)
        ``shifted`` has a number. The four numbers of a word come without numbers of other words between them.
    unsigned : In(1)
        Bytes are unsigned: without ``bounded`` they saturate to 0 … 255, else to -128 … 127. Constant for the four numbers and two cycles
        more.
    zero_point, minimum, maximum : In(8)
        With ``bounded``: zero point, and bounds of the bytes, of which the maximum comes first; constant like ``unsigned``.
    word : Out(32)
        The last four bytes; registered.

    *Latency*: two cycles from a number to its byte in ``word``.

    *Throughput*: one number a cycle, no back-pressure.

    *Reset*: no number is in flight; ``word`` has no reset.
    """

    def __init__(self, bounded=False):
        self.bounded = bounded
        super().__init__({"shifted": In(33), "take": In(1), "unsigned": In(1), "word": Out(32),
                          **(dict.fromkeys(("zero_point", "minimum", "maximum"), In(8)) if bounded else {})})

    def elaborate(self, platform):
        m = Module()
        number = Signal(33, reset_less=True)
        valid = Signal()
        word = Signal(32, reset_less=True)
        m.d.sync += [valid.eq(self.take), number.eq(self.shifted)]
        sign = number[32]
        # Numbers from -256 to 255 are rounded; all others saturate by their sign.
        near = Signal()
        m.d.comb += near.eq(~(number[9:32] ^ sign.replicate(23)).any())
        byte = self._within_bounds(m, number, near, sign) if self.bounded else self._saturated(m, number, near, sign)
        with m.If(valid):
            m.d.sync += word.eq(Cat(word[8:], byte))
        m.d.comb += self.word.eq(word)
        return m

    def _within_bounds(self, m, number, near, sign):
        """The byte by zero point and bounds."""
        def extended(byte):
            return Cat(byte, byte[7] & ~self.unsigned).as_signed()

        total, byte = Signal(signed(11)), Signal(8)
        m.d.comb += total.eq(number[1:10].as_signed() + extended(self.zero_point) + number[0])
        with m.If(Mux(near, total > extended(self.maximum), ~sign)):
            m.d.comb += byte.eq(self.maximum)
        with m.Elif(Mux(near, total < extended(self.minimum), sign)):
            m.d.comb += byte.eq(self.minimum)
        with m.Else():
            m.d.comb += byte.eq(total)
        return byte

    def _saturated(self, m, number, near, sign):
        """The byte within the limits of its type."""
        rounded = Signal(signed(10))
        m.d.comb += rounded.eq(number[1:10].as_signed() + number[0])
        low, high, byte = Signal(), Signal(), Signal(8)
        with m.If(self.unsigned):
            m.d.comb += [low.eq(Mux(near, rounded[9], sign)), high.eq(Mux(near, ~rounded[9] & rounded[8], ~sign))]
        with m.Else():
            m.d.comb += [low.eq(Mux(near, rounded[9] & ~(rounded[8] & rounded[7]), sign)),
                         high.eq(Mux(near, ~rounded[9] & (rounded[8] | rounded[7]), ~sign))]
        # Bounds 0 and 255, or -128 and 127: they differ in their top bit only.
        bound = Cat(high.replicate(7), high ^ ~self.unsigned)
        m.d.comb += byte.eq(Mux(low | high, bound, rounded[:8]))
        return byte
