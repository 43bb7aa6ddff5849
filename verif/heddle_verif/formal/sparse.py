"""The sparse engine: which non-zeros leave its window."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib.wiring import Component
from heddle.isa.sparse_job import ELEMENTS_OF_WORD
from heddle.sparse.element_window import ElementWindow

__all__ = ["ElementWindowSpec"]

WORDS = 4       # numbers of words, modulo: the window knows two at a time


class ElementWindowSpec(Component):
    """Every non-zero of a job leaves once, in order, and no other: from place ``start`` of the next word on, until the job ends; the rest
    of its last word is left out, and so is an odd word in front of a job. What is shown is the next non-zero, and the one behind it, or
    all of a step of sub-warps.

    Environment: words come as they please, each non-zero with its number, odd ones never after each other; jobs of any length, also without
    a non-zero, whose steps take what is shown, and no more. Each job has steps of sub-warps, of one size, or others.
    """

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = ElementWindow()
        word = Signal(range(WORDS))                                 # number of the word at ``i``
        position = Signal(range(WORDS * ELEMENTS_OF_WORD))          # number of the next non-zero; between jobs of the first of a word
        begun, met = Signal(), Signal()                             # the job has had a step; a non-zero of it has left
        start, ends, now, plain = Signal(3), Signal(), Signal.like(position), Signal.like(position)
        odd = Signal(WORDS)
        m.d.comb += [
            start.eq(AnySeq(3)), ends.eq(AnySeq(1)), dut.i.valid.eq(AnySeq(1)), dut.take.eq(AnySeq(4)), dut.begins.eq(AnySeq(1)),
            dut.start.eq(start), dut.ends.eq(ends), plain.eq(Mux(begun, position, position | start)),
            now.eq(plain + Mux(~met & odd.bit_select(plain >> 3, 1), ELEMENTS_OF_WORD, 0)),
            *(element.index.eq(Cat(Const(number, 3), word)) for number, element in enumerate(dut.i.payload.elements)),
            Assume(dut.begins == ~begun), Assume(~dut.take.any() | dut.present[0]),
        ]
        # Log2 of the non-zeros of a step of sub-warps; 0: steps take up to two, wherever they are.
        size, sized = Signal(2), Signal(2)
        m.d.comb += [
            size.eq(Mux(begun, sized, AnySeq(2))), Assume(start & ((1 << size) - 1) == 0),
            Assume(Mux(size == 0, (dut.take < 3) & (~dut.take[1] | dut.present[1]), (dut.take == 0) | (dut.take == 1 << size))),
        ]
        m.d.sync += sized.eq(size)
        # Of which words an odd one came, by their number; before any none did.
        after_odd = Signal()
        m.d.comb += [dut.i.payload.odd.eq(AnySeq(1)), Assume(~(dut.i.payload.odd & after_odd))]
        with m.If(dut.i.valid & dut.i.ready):
            m.d.sync += [odd.bit_select(word, 1).eq(dut.i.payload.odd), after_odd.eq(dut.i.payload.odd)]
        steps = Signal()        # a step is taken: of an empty row without a non-zero
        m.d.comb += [steps.eq(AnySeq(1)), Assume(steps | ~(dut.take.any() | ends))]
        # A job that begins holds its place and its steps until the first one.
        held, before = Signal(), Signal(3)
        m.d.sync += [held.eq(~begun & ~steps), before.eq(start)]
        m.d.comb += Assume(~held | ((start == before) & (size == sized)))
        with m.If(dut.i.valid & dut.i.ready):
            m.d.sync += word.eq(word + 1)
        after = Signal.like(position)
        m.d.comb += after.eq(Mux(dut.take == 0, plain, now + dut.take))     # a word that has not come may be odd
        with m.If(steps):
            m.d.sync += [begun.eq(1), position.eq(after), met.eq(met | dut.take.any())]
            with m.If(ends):
                whole = Mux(after[:3] == 0, after, Cat(Const(0, 3), (after >> 3) + 1))
                m.d.sync += [begun.eq(0), met.eq(0), position.eq(Mux(met | dut.take.any(), whole, Cat(Const(0, 3), position >> 3)))]
        for number, element in enumerate(dut.o):
            shown = dut.present[number] if number < 2 else 0
            m.d.comb += Assert(~(shown | (dut.present[0] & (number < 1 << size) & (size != 0)))
                               | (element.index[:len(position)] == (now + number)[:len(position)]))
        m.d.comb += [Assert(~dut.present[1] | dut.present[0]), Cover(steps & ends & (dut.take == 2) & (after[:3] == 1)),
                     Cover(steps & ends & ~met & ~dut.take.any()), Cover(dut.begins & dut.present.all() & (start == 7)),
                     Cover(steps & ~met & (now != plain) & (dut.take == 8))]
        return m
