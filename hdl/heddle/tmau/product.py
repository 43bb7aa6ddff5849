"""A product of which only the low bits count, in two clocks."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["PartialProduct"]


class PartialProduct(Component):
    """``a * b`` modulo ``2 ** width``: three products of half the width in registers, then their sum.

    Latency: ``o`` is combinational from the registers that the last clock loaded. One product a cycle. The registers have no reset.

    Parameters
    ----------
    width : int
        At least 2.

    Members
    -------
    a, b : In(width)
    o : Out(width)
    """

    def __init__(self, width):
        if isinstance(width, bool) or not isinstance(width, int) or width < 2:
            raise ValueError(f"width must be an integer of at least 2, not {width!r}")
        self.width = width
        super().__init__({"a": In(width), "b": In(width), "o": Out(width)})

    def elaborate(self, platform):
        m = Module()
        half = self.width // 2
        high = self.width - half
        low, left, right = Signal(2 * half, reset_less=True), Signal(high, reset_less=True), Signal(high, reset_less=True)
        a, b = (self.a[:half], self.a[half:]), (self.b[:half], self.b[half:])
        m.d.sync += [low.eq(a[0] * b[0]), left.eq(a[1] * b[0]), right.eq(a[0] * b[1])]
        m.d.comb += self.o.eq(low + ((left + right) << half))
        if self.width > 2 * half:       # the halves of an odd width differ: one more bit of the product of the high halves counts
            top = Signal(reset_less=True)
            m.d.sync += top.eq(a[1][0] & b[1][0])
            m.d.comb += self.o.eq(low + ((left + right) << half) + (top << 2 * half))
        return m
