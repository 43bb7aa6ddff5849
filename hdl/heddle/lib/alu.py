"""32-bit integer ALU of a SIMD lane and of the uniform registers."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..isa.encoding import AluFunction, CompareFunction
from ..lib.onehot import select_one_hot

__all__ = ["Alu", "AluDecode", "AluDatapath", "alu_control_layout"]

alu_control_layout = data.StructLayout({
    "subtract": 1,
    "keep_a": 1,            # else a counts as zero
    "logic": 2,             # and, or, xor, b
    "reverse": 1,           # shift left
    "arithmetic": 1,        # shifts in the sign
    "hold": 1,              # shifts by zero
    "take_sum": 1,          # terms of the result
    "take_logic": 1,
    "take_shifted": 1,
    "take_reversed": 1,
    "minimum": 1,           # the result is the lesser or greater of a and b
    "maximum": 1,
    "use_equal": 1,         # terms of the comparison
    "use_less": 1,
    "invert": 1,
    "unsigned": 1,
    "select": 1,            # ``minimum`` selects by ``choose`` instead of the comparison
})


class AluDecode(Component):
    """Decoder of the controls of ``AluDatapath``.

    *Ports*:
    function : In(AluFunction)
        Function of the result.
    compare : In(CompareFunction)
        Comparison.
    unsigned : In(1)
        The comparison is unsigned; MIN and MAX are always signed.
    comparing : In(1)
        The comparison counts: the datapath subtracts, whatever the function.
    control : Out(alu_control_layout)
        Controls of the datapath.

    *Latency*: combinational.

    *Reset*: no state.
    """

    def __init__(self):
        super().__init__({
            "function": In(AluFunction),
            "compare": In(CompareFunction),
            "unsigned": In(1),
            "comparing": In(1),
            "control": Out(alu_control_layout),
        })

    def elaborate(self, platform):
        m = Module()
        control, function, compare = self.control, self.function, self.compare

        def one_of(*functions):
            return Cat(function == member for member in functions).any()

        logic = {AluFunction.AND: 0, AluFunction.OR: 1, AluFunction.XOR: 2}
        with m.Switch(function):
            for member, code in logic.items():
                with m.Case(member):
                    m.d.comb += control.logic.eq(code)
            with m.Default():
                m.d.comb += control.logic.eq(3)
        m.d.comb += [
            control.subtract.eq(self.comparing | one_of(AluFunction.SUB, AluFunction.MIN, AluFunction.MAX)),
            control.keep_a.eq(self.comparing | ~one_of(AluFunction.MOV)),
            control.reverse.eq(one_of(AluFunction.SHL)),
            control.arithmetic.eq(one_of(AluFunction.SAR, AluFunction.NARROW, AluFunction.SCALE)),
            control.hold.eq(one_of(AluFunction.MIN, AluFunction.MAX, AluFunction.SEL)),
            control.take_sum.eq(one_of(AluFunction.ADD, AluFunction.SUB, AluFunction.MOV)),
            control.take_logic.eq(one_of(*logic)),
            control.take_shifted.eq(one_of(AluFunction.SHR, AluFunction.SAR)),
            control.take_reversed.eq(one_of(AluFunction.SHL)),
            control.minimum.eq(one_of(AluFunction.MIN, AluFunction.SEL)),
            control.select.eq(one_of(AluFunction.SEL)),
            control.maximum.eq(one_of(AluFunction.MAX)),
            control.use_equal.eq(~((compare == CompareFunction.LT) | (compare == CompareFunction.GE))),
            control.use_less.eq(~((compare == CompareFunction.EQ) | (compare == CompareFunction.NE))),
            control.invert.eq((compare == CompareFunction.NE) | (compare == CompareFunction.GT) | (compare == CompareFunction.GE)),
            control.unsigned.eq(self.unsigned & self.comparing),
        ]
        return m


class AluDatapath(Component):
    """ALU datapath: result and comparison of two 32-bit numbers by decoded controls.

    Area: one adder and one shifter, about eleven LUTs a bit. Controls from registers keep the area small, because synthesis then does not
    merge the decoder into the datapath.

    Parameters
    ----------
    registered : bool
        Pipeline register between the terms of ``result`` and their selection.

    *Ports*:
    control : In(alu_control_layout)
        Controls; the owner of ``a`` applies ``keep_a``.
    a, b : In(32)
        Operands.
    choose : In(1)
        SEL takes a, else b.
    result : Out(32)
        Result; zero when no term is selected.
    compare_result : Out(1)
        Comparison of a and b.
    shifted : Out(33)
        Bits 32 to 1: a shifted right. Bit 0: the last bit that was shifted out.

    *Latency*: combinational; ``result`` one cycle later with ``registered``.

    *Reset*: none.
    """

    def __init__(self, registered=False):
        self._registered = registered
        super().__init__({
            "control": In(alu_control_layout),
            "a": In(32),
            "b": In(32),
            "choose": In(1),
            "result": Out(32),
            "compare_result": Out(1),
            "shifted": Out(33),
        })

    def elaborate(self, platform):
        m = Module()
        control, a, b = self.control, self.a, self.b
        # Bit 0 of both operands makes the carry in; bit 32 of the result is the carry out.
        total = Signal(33)
        m.d.comb += total.eq((Cat(control.subtract, a) + Cat(control.subtract, b ^ control.subtract.replicate(32)))[1:])
        equal, less = Signal(), Signal()
        m.d.comb += [
            equal.eq(a == b),
            less.eq(Mux((a[31] ^ b[31]) & ~control.unsigned, a[31], ~total[32])),
            self.compare_result.eq(((equal & control.use_equal) | (less & control.use_less)) ^ control.invert),
        ]
        logic = Signal(32)
        m.d.comb += logic.eq(Mux(control.logic[1], Mux(control.logic[0], b, a ^ b), Mux(control.logic[0], a | b, a & b)))
        m.d.comb += self.shifted.eq(self._shift(m))
        shifted = self.shifted[1:]
        # One control bit for each term is cheaper than a multiplexer.
        first, take_logic, take_shifted = Signal(), Signal(), Signal()
        m.d.comb += [
            first.eq(Mux(control.select, self.choose, less)),
            take_logic.eq(control.take_logic | Mux(first, control.maximum, control.minimum)),
            take_shifted.eq(control.take_shifted | Mux(first, control.minimum, control.maximum)),
        ]
        takes, terms = Cat(control.take_sum, take_logic, take_shifted, control.take_reversed), Cat(total[:32], logic, shifted)
        if self._registered:
            takes, terms = self._register(m, takes, "takes"), self._register(m, terms, "terms")
        sum_term, logic_term, shifted_term = (terms.word_select(index, 32) for index in range(3))
        m.d.comb += self.result.eq(select_one_hot(takes, (sum_term, logic_term, shifted_term, shifted_term[::-1])))
        return m

    def _register(self, m, value, name):
        register = Signal(len(value), name=name, reset_less=True)
        m.d.sync += register.eq(value)
        return register

    def _shift(self, m):
        """a shifted right, bit-reversed before with ``reverse``; bit 0 is the last bit that was shifted out."""
        control = self.control
        shifted = Signal(33, name="unshifted")
        fill, amount = Signal(), Signal(5)
        m.d.comb += [
            fill.eq(control.arithmetic & self.a[31]),
            amount.eq(Mux(control.hold, 0, self.b[:5])),
            shifted.eq(Cat(0, Mux(control.reverse, self.a[::-1], self.a))),
        ]
        for level in range(5):
            after = Signal(33, name=f"shifted_{level}")
            moved = Cat(shifted[1 << level:], fill.replicate(1 << level))
            m.d.comb += after.eq(Mux(amount[level], moved, shifted))
            shifted = after
        return shifted


class Alu(Component):
    """ALU with its decoder: functions and comparisons of two 32-bit numbers [S0.17].

    *Ports*:
    function : In(AluFunction)
        One of ``UNIFORM_FUNCTIONS``; the result of any other code is undefined.
    compare : In(CompareFunction)
        Comparison.
    unsigned : In(1)
        The comparison is unsigned, else signed.
    a, b : In(32)
        Operands.
    result : Out(32)
        Function of a and b.
    compare_result : Out(1)
        Comparison of a and b, whatever the function.

    *Latency*: combinational.

    *Reset*: no state.
    """

    def __init__(self):
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
        for name, comparing in (("result", 0), ("compare_result", 1)):
            # A comparison always subtracts, so it has its own datapath, of which only the comparison remains after synthesis.
            decode, datapath = AluDecode(), AluDatapath()
            m.submodules[f"decode_{name}"], m.submodules[f"datapath_{name}"] = decode, datapath
            m.d.comb += [
                decode.function.eq(self.function), decode.compare.eq(self.compare), decode.unsigned.eq(self.unsigned),
                decode.comparing.eq(comparing), datapath.control.eq(decode.control),
                datapath.a.eq(Mux(decode.control.keep_a, self.a, 0)), datapath.b.eq(self.b),
                getattr(self, name).eq(getattr(datapath, name)),
            ]
        return m
