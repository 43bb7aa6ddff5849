"""Several streams of lines into one."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

__all__ = ["LineJoin"]


class LineJoin(Component):
    """Takes from ``count`` streams in turn, those of one line together: one item a cycle, combinationally.

    A stream whose item waits at ``o``, or whose line has begun, keeps its turn. Reset forgets the turn.

    Parameters
    ----------
    shape : ShapeLike
    count : int

    Members
    -------
    i : In(stream.Signature(shape)).array(count)
    ends : In(1).array(count)
        The item at ``i`` is the last of its line.
    o : Out(stream.Signature(shape))
    """

    def __init__(self, shape, count):
        self.count = count
        super().__init__({"i": In(stream.Signature(shape)).array(count), "ends": In(1).array(count), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        numbers = range(self.count)
        last, chosen = Signal(numbers), Signal(numbers)     # the one that was served before; the one at o
        locked, ends = Signal(), Signal()
        valid = Cat(port.valid for port in self.i)
        behind = Signal(self.count)
        m.d.comb += behind.eq(valid & Cat(last < number for number in numbers))
        with m.If(locked):
            m.d.comb += chosen.eq(last)
        with m.Else():
            for number in reversed(numbers):
                with m.If(Mux(behind.any(), behind[number], valid[number])):
                    m.d.comb += chosen.eq(number)
        with m.Switch(chosen):
            for number, port in enumerate(self.i):
                with m.Case(number):
                    m.d.comb += [self.o.valid.eq(port.valid), self.o.payload.eq(port.payload), port.ready.eq(self.o.ready),
                                 ends.eq(self.ends[number])]
        with m.If(self.o.valid):
            m.d.sync += [last.eq(chosen), locked.eq(~(self.o.ready & ends))]
        return m
