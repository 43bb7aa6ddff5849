"""The 32-bit integer ALU of a slot, also of the uniform registers."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..isa.layout import AluFunction, CompareFunction

__all__ = ["Alu"]


class Alu(Component):
    """Functions and comparisons of two 32-bit numbers; combinational, no state [S0.17].

    Area: one adder, one shifter and about five LUTs a bit. With ``one_adder`` the comparisons use the adder of the
    functions, so ``compare_result`` is meaningful only while ``function`` is not ``ADD``; otherwise they have a carry chain of
    their own and hold always.

    Members
    -------
    function, a, b
        ``result`` = function of a and b (see ``AluFunction``). Undefined codes give some result.
    compare, unsigned
        ``compare_result`` = comparison of a and b, signed unless ``unsigned``.
    """

    def __init__(self, *, one_adder=False):
        self.one_adder = one_adder
        super().__init__({
            "function": In(AluFunction),
            "compare": In(CompareFunction),
            "unsigned": In(1),
            "a": In(32),
            "b": In(32),
            "result": Out(32),
            "compare_result": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        subtract = Signal()
        total = Signal(33)
        m.d.comb += [
            subtract.eq(self.function != AluFunction.ADD),
            total.eq(self._add(subtract)),
        ]
        less_unsigned = ~total[32] if self.one_adder else self.a < self.b
        signs_differ = self.a[31] ^ self.b[31]
        smaller = Mux(signs_differ, self.a[31], ~total[32])       # signed; for MIN and MAX
        shifted = self._shift(m)
        logic = self._logic(m)

        with m.Switch(self.function):
            with m.Case(AluFunction.ADD, AluFunction.SUB):
                m.d.comb += self.result.eq(total[:32])
            with m.Case(AluFunction.SHL):
                m.d.comb += self.result.eq(shifted[::-1])
            with m.Case(AluFunction.SHR, AluFunction.SAR):
                m.d.comb += self.result.eq(shifted)
            with m.Case(AluFunction.MIN, AluFunction.MAX):
                m.d.comb += self.result.eq(Mux(smaller ^ (self.function == AluFunction.MAX), shifted, logic))
            with m.Default():
                m.d.comb += self.result.eq(logic)
        self._compare(m, Mux(signs_differ & ~self.unsigned, self.a[31], less_unsigned))
        return m

    def _add(self, subtract):
        """a + b or a - b with the carry in bit 32; the lowest bit of the sum only makes the carry in."""
        return (Cat(subtract, self.a) + Cat(subtract, self.b ^ subtract.replicate(32)))[1:]

    def _logic(self, m):
        """a and, or, xor b; b itself for the other functions."""
        logic = Signal(32)
        with m.Switch(self.function):
            with m.Case(AluFunction.AND):
                m.d.comb += logic.eq(self.a & self.b)
            with m.Case(AluFunction.OR):
                m.d.comb += logic.eq(self.a | self.b)
            with m.Case(AluFunction.XOR):
                m.d.comb += logic.eq(self.a ^ self.b)
            with m.Default():
                m.d.comb += logic.eq(self.b)
        return logic

    def _shift(self, m):
        """a shifted right; bit-reversed for SHL, and a itself for MIN and MAX."""
        stages = [Signal(32, name=f"shift_{level}") for level in range(6)]
        fill, amount = Signal(), Signal(5)
        pass_a = (self.function == AluFunction.MIN) | (self.function == AluFunction.MAX)
        m.d.comb += [
            fill.eq((self.function == AluFunction.SAR) & self.a[31]),
            amount.eq(Mux(pass_a, 0, self.b[:5])),
            stages[0].eq(Mux(self.function == AluFunction.SHL, self.a[::-1], self.a)),
        ]
        for level in range(5):
            distance = 1 << level
            moved = Cat(stages[level][distance:], fill.replicate(distance))
            m.d.comb += stages[level + 1].eq(Mux(amount[level], moved, stages[level]))
        return stages[5]

    def _compare(self, m, less):
        equal = Signal()
        m.d.comb += equal.eq(self.a == self.b)
        with m.Switch(self.compare):
            with m.Case(CompareFunction.EQ):
                m.d.comb += self.compare_result.eq(equal)
            with m.Case(CompareFunction.NE):
                m.d.comb += self.compare_result.eq(~equal)
            with m.Case(CompareFunction.LT):
                m.d.comb += self.compare_result.eq(less)
            with m.Case(CompareFunction.LE):
                m.d.comb += self.compare_result.eq(less | equal)
            with m.Case(CompareFunction.GT):
                m.d.comb += self.compare_result.eq(~(less | equal))
            with m.Default():
                m.d.comb += self.compare_result.eq(~less)
