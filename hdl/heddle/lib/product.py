"""Products in two clocks: one of which only the low bits count, and one that must fit."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

from ..errors import UsageError

__all__ = ["BoundedProduct", "PartialProduct"]


def _check(name, value, least):
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be an integer of at least {least}, not {value!r}")


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
        _check("width", width, 2)
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


class BoundedProduct(Component):
    """``a * b`` where it is below ``2 ** width``; ``over`` says that it is not.

    Of the two operands only one can have bits above half of the width then, so that two products of half the width are enough. Latency:
    outputs are combinational from the registers that the last clock loaded. One product a cycle. The registers have no reset.

    Parameters
    ----------
    width : int
        At least 2.
    a_width, b_width : int
        At least ``width``.

    Members
    -------
    a : In(a_width), b : In(b_width)
    o : Out(width)
        Undefined with ``over``.
    over : Out(1)
    """

    def __init__(self, width, a_width, b_width):
        _check("width", width, 2)
        _check("a_width", a_width, width)
        _check("b_width", b_width, width)
        self.width = width
        super().__init__({"a": In(a_width), "b": In(b_width), "o": Out(width), "over": Out(1)})

    def elaborate(self, platform):
        m = Module()
        half = -(-self.width // 2)      # both operands from 2 ** half on: the product is 2 ** width or more
        a, b = ((side[:half], side[half:self.width], side[self.width:]) for side in (self.a, self.b))
        high = a[1].any()
        low, cross = Signal(2 * half, reset_less=True), Signal(self.width, reset_less=True)
        large = Signal(reset_less=True)
        total = Signal(half + self.width + 1)
        m.d.sync += [
            low.eq(a[0] * b[0]), cross.eq(Mux(high, a[1], b[1]) * Mux(high, b[0], a[0])),
            large.eq((a[2].any() & self.b.any()) | (b[2].any() & self.a.any()) | (high & b[1].any())),
        ]
        m.d.comb += [total.eq(low + (cross << half)), self.o.eq(total), self.over.eq(large | total[self.width:].any())]
        return m
