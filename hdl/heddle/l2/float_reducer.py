"""Floating-point reduction: adder and comparator for f32, f16 and bf16."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..isa.encoding import Reduction
from ..isa.tensor_descriptor import NAN_BITS, TensorFormat
from ..lib.onehot import is_one_of

__all__ = ["FLOAT_LATENCY", "FloatReducer", "float_control_layout", "float_controls"]

FLOAT_LATENCY = 6
EXPONENT = 8            # exponent bits; an f16 exponent is zero-extended and has its own bias
EXTRA = 3               # bits below a significand: guard, round and sticky
# Bits of the exponent and of the fraction.
_SINGLE, _HALF, _BRAIN = (8, 23), (5, 10), (8, 7)

# Control word, decoded once for all words of a beat.
float_control_layout = data.StructLayout({
    "single": 1,        # f32
    "half": 1,          # f16; bf16 with neither
    "flushes": 1,       # f32: subnormal operands and results are zero
    "order": 1,         # min or max, else add
    "max": 1,
})


def float_controls(reduction, format):
    """Control word of a reduction of floating-point numbers: each field of ``float_control_layout`` as an expression."""
    return {
        "single": is_one_of(format, [TensorFormat.F32, TensorFormat.F32_FTZ]),
        "half": format == TensorFormat.F16,
        "flushes": format == TensorFormat.F32_FTZ,
        "order": reduction != Reduction.ADD,
        "max": reduction == Reduction.MAX,
    }


def _leading_zeros(value):
    """Number of leading zeros of a value of 2**n bits, in n bits; all ones also for the value zero."""
    if len(value) == 1:
        return Const(0, 0)
    middle = len(value) // 2
    low, high = value[:middle], value[middle:]
    return Mux(high.any(), Cat(_leading_zeros(high), Const(0, 1)), Cat(_leading_zeros(low), Const(1, 1)))


class FloatReducer(Component):
    """Floating-point reduction of one element: sum of two numbers, or minimum or maximum of two 16-bit numbers [S1.9].

    Sums are rounded to nearest even. Subnormal numbers are numbers; f32 with ``control.flushes`` replaces subnormal operands and results
    by zero of the same sign. ``min`` and ``max`` give the other operand for a NaN and order -0 below +0. NaN results have the bits of
    ``NAN_BITS``.

    Parameters
    ----------
    single : bool
        Supports f32 (24-bit significands) besides f16 and bf16; else significands have 11 bits.

    *Ports*:
    enable : In(1)
        All registers advance.
    control : In(float_control_layout)
        Operation and format.
    old, new : In(32), or In(16) unless ``single``
        Element of memory, and element that is written. A 16-bit number occupies the low bits.
    result : Out(32), or Out(16) unless ``single``
        New element of memory.

    *Latency*: ``FLOAT_LATENCY`` (6) cycles with ``enable``.

    *Throughput*: one element per cycle with ``enable``.

    *Back-pressure*: ``enable`` low holds the pipeline.

    *Reset*: none; the owner tracks valid elements.

    *Source*: [S1.9].
    """

    def __init__(self, single):
        self.single = single
        self._width = 32 if single else 16
        self._bits = 1 + (_SINGLE if single else _HALF)[1]      # of a significand
        super().__init__({"enable": In(1), "control": In(float_control_layout), "old": In(self._width), "new": In(self._width),
                          "result": Out(self._width)})

    def elaborate(self, platform):
        m = Module()
        control, ordered = self.control, self._order(m)
        for stage in (self._align, self._add, self._count, self._shift, self._round):
            ordered["control"] = control = self._register(m, {"control": control}, stage.__name__)["control"]
            ordered = stage(m, ordered, control)
        return m

    def _register(self, m, values, stage):
        """Pipeline registers at the end of a stage, for ``values`` by name."""
        kept = {}
        for name, value in values.items():
            kept[name] = Signal(value.shape(), name=f"{name}_{stage.strip('_')}", reset_less=True)
            with m.If(self.enable):
                m.d.sync += kept[name].eq(value)
        return kept

    # -- before the first register: compare the operands ------------------------------------

    def _formats(self, control):
        """(selected, exponent bits, fraction bits) per format; exactly one is selected."""
        formats = [(control.half, *_HALF), (~control.half, *_BRAIN)]
        if self.single:
            formats = [(chosen & ~control.single, *rest) for chosen, *rest in formats] + [(control.single, *_SINGLE)]
        return formats

    def _unpack(self, m, name, word):
        """Sign, exponent, significand, is infinite, is NaN."""
        sign, exponent, significand = Signal(name=f"{name}_sign"), Signal(EXPONENT, name=f"{name}_exponent"), Signal(
            self._bits, name=f"{name}_significand")
        infinite, no_number = Signal(name=f"{name}_infinite"), Signal(name=f"{name}_nan")
        for chosen, exponent_bits, fraction_bits in self._formats(self.control):
            with m.If(chosen):
                field, fraction = word[fraction_bits:fraction_bits + exponent_bits], word[:fraction_bits]
                keep = field.any() | ~self.control.flushes if fraction_bits == _SINGLE[1] else 1
                m.d.comb += [
                    sign.eq(word[fraction_bits + exponent_bits]), exponent.eq(field),
                    significand.eq(Cat(Const(0, self._bits - 1 - fraction_bits), Mux(keep, fraction, 0), field.any())),
                    infinite.eq(field.all() & ~fraction.any()), no_number.eq(field.all() & fraction.any()),
                ]
        return sign, exponent, significand, infinite, no_number

    def _order(self, m):
        a_sign, a_exponent, a_significand, a_infinite, a_nan = self._unpack(m, "old", self.old)
        b_sign, b_exponent, b_significand, b_infinite, b_nan = self._unpack(m, "new", self.new)
        control = self.control
        a_larger, a_first, take_a = Signal(), Signal(), Signal()       # a larger in magnitude; a before b in order; select a
        distance = Signal(EXPONENT)
        a_power, b_power = a_exponent | ~a_exponent.any(), b_exponent | ~b_exponent.any()     # exponent 1 for subnormal numbers
        order, subtract = control.order, a_sign ^ b_sign
        m.d.comb += [
            a_larger.eq(Cat(a_significand[:-1], a_exponent) > Cat(b_significand[:-1], b_exponent)),
            a_first.eq(Mux(a_sign ^ b_sign, a_sign, a_larger == a_sign)),
            take_a.eq(Mux(order, b_nan | (~a_nan & (a_first ^ control.max)), a_larger)),
            distance.eq(Mux(a_larger, a_power - b_power, b_power - a_power)),
        ]
        chosen_sign = Mux(take_a, a_sign, b_sign)
        return self._register(m, {
            "sign": chosen_sign,
            "zero_sign": Mux(order, chosen_sign, a_sign & b_sign),
            "power": Mux(take_a, a_power, b_power),
            "large": Mux(take_a, a_significand, b_significand),
            "small": Mux(order, 0, Mux(take_a, b_significand, a_significand)),      # min, max: the selected operand plus zero
            "distance": distance,
            "subtract": subtract & ~order,
            "infinite": Mux(order, Mux(take_a, a_infinite, b_infinite), a_infinite | b_infinite),
            "nan": Mux(order, a_nan & b_nan, a_nan | b_nan | (a_infinite & b_infinite & subtract)),
        }, "order")

    # -- stages between registers ----------------------------------------------------------

    def _align(self, m, v, control):
        """Shift the smaller significand right; the bits shifted out are combined into the sticky bit."""
        width = self._bits + EXTRA
        amount = Signal(range(width + 1), name="amount")
        m.d.comb += amount.eq(Mux(v["distance"] > width, width, v["distance"]))
        lost = Signal(width, name="lost")
        shifted = Signal(width, name="shifted")
        whole = Cat(Const(0, width), Const(0, EXTRA), v["small"]) >> amount
        m.d.comb += [shifted.eq(whole[width:]), lost.eq(whole[:width])]
        return self._register(m, {**self._pass(v, "sign", "zero_sign", "power", "large", "subtract", "infinite", "nan"),
                                  "aligned": Cat(shifted[0] | lost.any(), shifted[1:])}, "aligned")

    def _add(self, m, v, control):
        large = Cat(Const(0, EXTRA), v["large"])
        total = Signal(self._bits + EXTRA + 1, name="total")
        m.d.comb += total.eq(Mux(v["subtract"], large - v["aligned"], large + v["aligned"]))
        return self._register(m, {**self._pass(v, "sign", "zero_sign", "power", "infinite", "nan"), "total": total}, "added")

    def _count(self, m, v, control):
        """Left shift of the sum: to its leading one, at most to the position of subnormal numbers."""
        total = v["total"]
        size = 1 << (len(total) - 1).bit_length()
        zeros = _leading_zeros(Cat(Const(0, size - len(total)), total))
        amount = Signal(len(zeros), name="left")
        m.d.comb += amount.eq(Mux(zeros < v["power"], zeros, v["power"]))
        return self._register(m, {**self._pass(v, "power", "infinite", "nan", "total"), "left": amount,
                                  "sign": Mux(total.any(), v["sign"], v["zero_sign"])}, "counted")

    def _shift(self, m, v, control):
        moved = Signal(len(v["total"]), name="moved")
        field = Signal(EXPONENT + 1, name="field")
        m.d.comb += [moved.eq(v["total"] << v["left"]), field.eq(Mux(moved[-1], v["power"] + 1 - v["left"], 0))]
        return self._register(m, {**self._pass(v, "sign", "infinite", "nan"), "moved": moved, "field": field}, "shifted")

    def _round(self, m, v, control):
        moved, below = v["moved"], EXTRA + 1
        up = Signal(self._bits - 1, name="up")              # increment at the last bit of the format's fraction
        for chosen, _, fraction_bits in self._formats(control):
            last = self._bits - 1 - fraction_bits
            position = last + below
            m.d.comb += up[last].eq(chosen & moved[position - 1] & (moved[position] | moved[:position - 1].any()))
        rounded = Signal(self._bits - 1 + EXPONENT + 1, name="rounded")
        m.d.comb += rounded.eq(Cat(moved[below:-1], v["field"]) + up)
        fraction, field = rounded[:self._bits - 1], rounded[self._bits - 1:]
        result = Signal(self._width, name="packed")
        kinds = (TensorFormat.F16, TensorFormat.BF16, *([TensorFormat.F32] if self.single else []))
        for (chosen, exponent_bits, fraction_bits), kind in zip(self._formats(control), kinds, strict=True):
            infinite = v["infinite"] | field[exponent_bits:].any() | field[:exponent_bits].all()
            clear = infinite | (control.flushes & ~field.any() if kind == TensorFormat.F32 else 0)
            with m.If(chosen):
                m.d.comb += result.eq(Mux(v["nan"], NAN_BITS[kind], Cat(
                    Mux(clear, 0, fraction[-fraction_bits:]),
                    field[:exponent_bits] | infinite.replicate(exponent_bits), v["sign"])))
        with m.If(self.enable):
            m.d.sync += self.result.eq(result)
        return {}

    def _pass(self, v, *names):
        return {name: v[name] for name in names}
