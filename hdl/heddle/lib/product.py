"""Multipliers with one register stage: a product modulo a power of two, and a product with overflow flag."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

from ..errors import UsageError

__all__ = ["BoundedProduct", "PartialProduct"]


def _check(name, value, least):
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be an integer of at least {least}, not {value!r}")


class PartialProduct(Component):
    """Multiplier: ``a * b`` modulo ``2 ** width``, as three products of half the width.

    Parameters
    ----------
    width : int
        Bits of operands and product, at least 2.

    *Ports*:
    a : In(width)
        Unsigned operand.
    b : In(width)
        Unsigned operand.
    o : Out(width)
        Product.

    *Latency*: 1 cycle; ``o`` is the sum of three product registers.

    *Throughput*: one product a cycle.

    *Reset*: the registers have no reset.

    *Errors*: ``UsageError`` where ``width`` is not an integer of at least 2.
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
        if self.width > 2 * half:       # an odd width: bit 0 of the product of the high halves counts too
            top = Signal(reset_less=True)
            m.d.sync += top.eq(a[1][0] & b[1][0])
            m.d.comb += self.o.eq(low + ((left + right) << half) + (top << 2 * half))
        return m


class BoundedProduct(Component):
    """Multiplier with overflow flag: ``a * b`` if the product is below ``2 ** width``, else ``over``.

    Without overflow at most one operand has bits above half of the width. Two products of half the width are therefore enough.

    Parameters
    ----------
    width : int
        Bits of the product, at least 2.
    a_width : int
        Bits of ``a``, at least ``width``.
    b_width : int
        Bits of ``b``, at least ``width``.

    *Ports*:
    a : In(a_width)
        Unsigned operand.
    b : In(b_width)
        Unsigned operand.
    o : Out(width)
        Product; undefined with ``over``.
    over : Out(1)
        The product is ``2 ** width`` or more.

    *Latency*: 1 cycle; ``o`` and ``over`` are combinational from registers.

    *Throughput*: one product a cycle.

    *Reset*: the registers have no reset.

    *Errors*: ``UsageError`` where a width is not an integer or too small.
    """

    def __init__(self, width, a_width, b_width):
        _check("width", width, 2)
        _check("a_width", a_width, width)
        _check("b_width", b_width, width)
        self.width = width
        super().__init__({"a": In(a_width), "b": In(b_width), "o": Out(width), "over": Out(1)})

    def elaborate(self, platform):
        m = Module()
        half = -(-self.width // 2)      # if both operands are 2 ** half or more, the product overflows
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
