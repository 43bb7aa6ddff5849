"""Reductions of integers in a word of 64 bits."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

from .reduction_layouts import WORD_BITS, integer_control_layout

__all__ = ["INTEGER_LATENCY", "IntegerReducer"]

INTEGER_LATENCY = 2
HALF = WORD_BITS // 2


class IntegerReducer(Component):
    """Two elements of 32 bits or one of 64: add, min, max, inc, dec, and, or, xor; the new value without any of them [S1.9].

    Sums wrap. ``inc`` gives old + 1, 0 from new on; ``dec`` gives old - 1, new for an old value of 0 or above new.
    ``INTEGER_LATENCY`` (2) cycles in which ``enable`` is high, one word in each. No reset: who feeds it keeps track of what is valid.

    Members
    -------
    enable : In(1)
    control : In(integer_control_layout)
    old, new : In(64)
    result : Out(64)
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
        """The old value plus the new one, plus or minus one; between the halves a bit that lets the carry pass or stops it."""
        control = self.control
        one = Cat(Const(1, HALF), Mux(control.wide, 0, Const(1, HALF)))
        term = Mux(control.dec, Const(-1, WORD_BITS), Mux(control.inc, one, self.new))
        total = Cat(self.old[:HALF], control.wide, self.old[HALF:]) + Cat(term[:HALF], Const(0, 1), term[HALF:])
        return Cat(total[:HALF], total[HALF + 1:WORD_BITS + 1])

    def _choice(self, m):
        """For each half: whether the result is computed, the old value or the new one; zero else."""
        control = self.control
        less, equal, zero = (Signal(2, name=name) for name in ("less", "equal", "zero"))     # old against new, by halves
        for half in range(2):
            old, new = self.old.word_select(half, HALF), self.new.word_select(half, HALF)
            flip = control.signed & (~control.wide if half == 0 else 1)     # order of signed numbers: the top bit the other way
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
        restart = empty | ~(below | same)       # where dec begins again
        logic = (control.bit_and | control.bit_or | control.bit_xor).replicate(2)
        is_order = each["min"] | each["max"]
        return {
            "computed": each["add"] | logic | (each["inc"] & below) | (each["dec"] & ~restart),
            "old": (each["min"] & below) | (each["max"] & ~below),
            "new": (is_order & (below ^ each["min"])) | (each["dec"] & restart)
            | ~(is_order | each["add"] | each["inc"] | each["dec"] | logic),
        }
