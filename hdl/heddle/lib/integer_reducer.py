"""Integer reduction of a 64-bit word."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..isa.encoding import Reduction
from ..isa.tensor_descriptor import FORMAT_BYTES, TensorFormat
from .onehot import is_one_of

__all__ = ["INTEGER_LATENCY", "WORD_BITS", "IntegerReducer", "integer_control_layout", "integer_controls"]

INTEGER_LATENCY = 2
WORD_BITS = 64          # width of the widest element
HALF = WORD_BITS // 2

# Control word, decoded once for all words of a beat.
integer_control_layout = data.StructLayout({
    "wide": 1,          # elements of 64 bits, else of 32
    "signed": 1,        # signed comparison, else unsigned
    "add": 1, "min": 1, "max": 1, "inc": 1, "dec": 1,       # operation, one-hot or none
    "bit_and": 1, "bit_or": 1, "bit_xor": 1,
})


def integer_controls(reduction, format):
    """Control word of a reduction of integers: each field of ``integer_control_layout`` as an expression of its operands."""
    return {
        "wide": is_one_of(format, [kind for kind, size in FORMAT_BYTES.items() if 8 * size == WORD_BITS]),
        "signed": is_one_of(format, [TensorFormat.S32, TensorFormat.S64]),
        **{name: reduction == Reduction[name.removeprefix("bit_").upper()]
           for name, _ in integer_control_layout if name not in ("wide", "signed")},
    }


class IntegerReducer(Component):
    """Integer reduction of a 64-bit word: two elements of 32 bits or one of 64 bits [S1.9].

    Operations: add, min, max, inc, dec, and, or, xor; without an operation the result is ``new``. Sums wrap. ``inc`` gives old + 1, and
    0 where old is not below new. ``dec`` gives old - 1, and new where old is 0 or above new.

    *Ports*:
    enable : In(1)
        All registers advance.
    control : In(integer_control_layout)
        Operation, signedness and element width.
    old, new : In(64)
        Word of memory, and word that is written.
    result : Out(64)
        New word of memory.

    *Latency*: ``INTEGER_LATENCY`` (2) cycles with ``enable``.

    *Throughput*: one word per cycle with ``enable``.

    *Back-pressure*: ``enable`` low holds the pipeline.

    *Reset*: none; the owner tracks valid words.

    *Source*: [S1.9].
    """

    def __init__(self):
        super().__init__({"enable": In(1), "control": In(integer_control_layout), "old": In(WORD_BITS), "new": In(WORD_BITS),
                          "result": Out(WORD_BITS)})

    def elaborate(self, platform):
        m = Module()
        old, new, control = self.old, self.new, self.control
        computed, kept_old, kept_new = (Signal(WORD_BITS, name=name, reset_less=True) for name in ("computed", "kept_old", "kept_new"))
        bits = (Mux(control.bit_and, old & new, 0) | Mux(control.bit_or, old | new, 0) | Mux(control.bit_xor, old ^ new, 0))
        takes = {name: Signal(2, name=f"takes_{name}", reset_less=True) for name in ("computed", "old", "new")}
        with m.If(self.enable):
            m.d.sync += [
                kept_old.eq(old), kept_new.eq(new),
                computed.eq(Mux(control.add | control.inc | control.dec, self._sum(), bits)),
                *(takes[name].eq(value) for name, value in self._choice(m).items()),
                self.result.eq(Cat(
                    Mux(takes["computed"][half], computed.word_select(half, HALF), 0)
                    | Mux(takes["old"][half], kept_old.word_select(half, HALF), 0)
                    | Mux(takes["new"][half], kept_new.word_select(half, HALF), 0) for half in range(2))),
            ]
        return m

    def _sum(self):
        """Old value plus the new value, plus 1 or minus 1.

        An additional bit between the halves passes the carry (64-bit elements) or stops it (32-bit elements).
        """
        control = self.control
        one = Cat(Const(1, HALF), Mux(control.wide, 0, Const(1, HALF)))
        term = Mux(control.dec, Const(-1, WORD_BITS), Mux(control.inc, one, self.new))
        total = Cat(self.old[:HALF], control.wide, self.old[HALF:]) + Cat(term[:HALF], Const(0, 1), term[HALF:])
        return Cat(total[:HALF], total[HALF + 1:WORD_BITS + 1])

    def _choice(self, m):
        """Select lines per half: result computed, old value or new value; none selected gives zero."""
        control = self.control
        less, equal, zero = (Signal(2, name=name) for name in ("less", "equal", "zero"))     # comparison of old with new, per half
        for half in range(2):
            old, new = self.old.word_select(half, HALF), self.new.word_select(half, HALF)
            flip = control.signed & (~control.wide if half == 0 else 1)     # signed order: the top bit inverted
            m.d.comb += [
                less[half].eq(Cat(old[:-1], old[-1] ^ flip) < Cat(new[:-1], new[-1] ^ flip)),
                equal[half].eq(old == new), zero[half].eq(old == 0),
            ]
        below, same, empty = (Signal(2, name=name) for name in ("below", "same", "empty"))
        m.d.comb += [
            below.eq(Mux(control.wide, (less[1] | (equal[1] & less[0])).replicate(2), less)),
            same.eq(Mux(control.wide, equal.all().replicate(2), equal)),
            empty.eq(Mux(control.wide, zero.all().replicate(2), zero)),
        ]
        each = {name: getattr(control, name).replicate(2) for name in ("add", "min", "max", "inc", "dec")}
        restart = empty | ~(below | same)       # ``dec`` gives new
        logic = (control.bit_and | control.bit_or | control.bit_xor).replicate(2)
        is_order = each["min"] | each["max"]
        return {
            "computed": each["add"] | logic | (each["inc"] & below) | (each["dec"] & ~restart),
            "old": (each["min"] & below) | (each["max"] & ~below),
            "new": (is_order & (below ^ each["min"])) | (each["dec"] & restart)
            | ~(is_order | each["add"] | each["inc"] | each["dec"] | logic),
        }
