"""Pipelined 32-bit multiplier."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

__all__ = ["MULTIPLIER_LATENCY", "Multiplier"]

MULTIPLIER_LATENCY = 3


class Multiplier(Component):
    """Pipelined multiplier: lower or upper 32-bit word of the 64-bit product of two 32-bit numbers [S0.17].

    Four multipliers of 17 x 17 bits, signed. Stages: operands, partial products, sum.

    Parameters
    ----------
    nudged : bool
        The product can be moved by 2^30, away from zero.

    *Ports*:
    valid : In(1)
        Operands come in this cycle.
    a, b : In(32)
        The operands.
    high : In(1)
        The upper word of the product is wanted; with the operands.
    unsigned : In(1)
        Both operands are unsigned, else both signed; with the operands.
    nudge : In(1)
        With ``nudged``: 2^30 is added to the product, or taken off where a is negative; with the operands.
    o : Out(32)
        The word, registered; zero in a cycle without a product.

    *Latency*: ``MULTIPLIER_LATENCY`` (3) cycles.

    *Throughput*: one product a cycle, no back-pressure.

    *Reset*: no product is in flight; data registers have no reset.
    """

    def __init__(self, nudged=False):
        self.nudged = nudged
        super().__init__({"valid": In(1), "a": In(32), "b": In(32), "high": In(1), "unsigned": In(1), "o": Out(32),
                          **({"nudge": In(1)} if nudged else {})})

    def elaborate(self, platform):
        m = Module()
        valid, high = Signal(MULTIPLIER_LATENCY - 1), Signal(MULTIPLIER_LATENCY - 1, reset_less=True)
        a, b = (Signal(signed(33), name=name, reset_less=True) for name in "ab")
        m.d.sync += [valid.eq(Cat(self.valid, valid)), high.eq(Cat(self.high, high))]
        for register, operand in ((a, self.a), (b, self.b)):
            m.d.sync += register.eq(Cat(operand, operand[31] & ~self.unsigned))

        def halves(number):
            return Cat(number[:16], 0).as_signed(), number[16:].as_signed()

        (a_low, a_high), (b_low, b_high) = halves(a), halves(b)
        lowest = Signal(32, reset_less=True)
        middle = Signal(signed(35), reset_less=True)
        highest = Signal(signed(34), reset_less=True)
        m.d.sync += [lowest.eq(a_low * b_low), middle.eq(a_low * b_high + a_high * b_low), highest.eq(a_high * b_high)]

        upper = Signal(signed(36))      # bits of the product from bit 16 on
        word = Signal(32)
        m.d.comb += [
            upper.eq(middle + self._nudged(m, a, lowest)),
            word.eq(Mux(high[-1], highest + (upper >> 16), Cat(lowest[:16], upper[:16]))),
        ]
        m.d.sync += self.o.eq(Mux(valid[-1], word, 0))
        return m

    def _nudged(self, m, a, lowest):
        """Bits of the lowest partial product from bit 16 on, moved where that is wanted."""
        if not self.nudged:
            return lowest[16:]
        nudge, more, less = Signal(reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        m.d.sync += [nudge.eq(self.nudge), more.eq(nudge & ~a[32]), less.eq(nudge & a[32])]
        top = Signal(signed(4))
        m.d.comb += top.eq(lowest[30:] + more - less)
        return Cat(lowest[16:30], top).as_signed()
