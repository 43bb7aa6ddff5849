"""Element window: the next non-zeros."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..isa.sparse_job import ELEMENTS_OF_WORD
from .layouts import element_layout, vector_layout

__all__ = ["ElementWindow"]


class ElementWindow(Component):
    """Element window: shows the next two non-zeros of a sequence of words of eight, or those of a step of sub-warps.

    Steps of sub-warps take 2, 4 or 8 non-zeros, and begin at a multiple of this number.

    *Ports*:
    i : In(stream.Signature(vector_layout))
        Words of non-zeros. An ``odd`` one is left out before the first non-zero of a job.
    begins : In(1)
        The next non-zero is at place ``start`` of its word.
    start : In(3)
        Place, with ``begins``.
    take : In(4)
        Non-zeros that leave in this cycle: up to two, 4 or 8.
    ends : In(1)
        The non-zeros that leave, if any, are the last of their job: the rest of their word is left out.
    o : Out(element_layout).array(8)
        Next two non-zeros; of a step of sub-warps all.
    present : Out(2)
        The next two are there. All of a step of sub-warps are with the first one.
    fault : Out(2)
        They are outside of shared memory.

    *Latency*: one cycle from ``i`` to ``present``.

    *Throughput*: two non-zeros a cycle, of sub-warps a word.

    *Back-pressure*: ``i.ready`` depends combinationally on ``take``, ``ends``, ``begins`` and ``start``.

    *Reset*: empty.
    """

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(vector_layout)), "begins": In(1), "start": In(3), "take": In(4), "ends": In(1),
            "o": Out(element_layout).array(ELEMENTS_OF_WORD), "present": Out(2), "fault": Out(2),
        })

    def elaborate(self, platform):
        m = Module()
        valid, held = Signal(), Signal(vector_layout, reset_less=True)
        kept, place, after = Signal(3), Signal(3), Signal(4)
        opened, open_now, leaves = Signal(), Signal(), Signal()     # non-zeros of the word at ``held`` have left
        fresh, foreign = Signal(init=1), Signal()       # no non-zero of the job has left; the word at ``held`` is of the job before
        behind, spent = self.i.payload, Signal()        # ``spent``: of the next word a non-zero leaves, and nothing else of it counts
        last = place == ELEMENTS_OF_WORD - 1
        values = [[value.as_value() for value in word.elements] for word in (held, behind)]
        m.d.comb += [
            place.eq(Mux(self.begins, self.start, kept)), after.eq(place + self.take),
            self.o[0].as_value().eq(Array(values[0])[place]),
            self.o[1].as_value().eq(Array([*values[0][1:], values[1][0]])[place]),
            *(self.o[number].as_value().eq(Mux(place[2], values[0][4 + number], values[0][number])) for number in (2, 3)),
            *(self.o[number].as_value().eq(values[0][number]) for number in range(4, ELEMENTS_OF_WORD)),
            foreign.eq(valid & fresh & held.odd),
            self.present.eq(Mux(foreign, 0, Cat(valid, valid & (~last | self.i.valid)))),
            self.fault.eq(Cat(held.fault, Mux(last, behind.fault, held.fault))),
            open_now.eq((self.take != 0) | (opened & ~self.begins)),
            leaves.eq(valid & (foreign | after[3] | (self.ends & open_now & (after[:3] != 0)))),
            spent.eq(self.ends & after[3] & (after[:3] != 0)), self.i.ready.eq(~valid | leaves),
        ]
        m.d.sync += [kept.eq(after), opened.eq(open_now)]
        with m.If(self.take != 0):
            m.d.sync += fresh.eq(0)
        with m.If(self.ends):
            m.d.sync += [opened.eq(0), fresh.eq(1)]
        with m.If(self.i.ready):
            m.d.sync += [valid.eq(self.i.valid & ~spent), held.eq(behind)]
        return m
