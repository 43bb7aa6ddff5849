"""Round-robin arbiter of streams whose items form lines."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

__all__ = ["LineJoin"]


class LineJoin(Component):
    """Round-robin arbiter that joins ``count`` streams into one and does not interleave items of different lines.

    Parameters
    ----------
    shape : ShapeLike
        Payload of all streams.
    count : int
        Number of input streams.

    *Ports*:
    i : In(stream.Signature(shape)).array(count)
        Inputs.
    ends : In(1).array(count)
        The item at input n is the last one of its line.
    o : Out(stream.Signature(shape))
        Items of the granted input.

    *Latency*: 0 cycles, combinational.

    *Throughput*: one item per cycle.

    *Back-pressure*: ``i[n].ready`` depends combinationally on ``o.ready`` and on ``valid`` of all inputs. The grant is held while the
    item at ``o`` waits, and until the item with ``ends`` is accepted.

    *Reset*: the round-robin pointer returns to input 0; no grant is held.
    """

    def __init__(self, shape, count):
        self.count = count
        super().__init__({"i": In(stream.Signature(shape)).array(count), "ends": In(1).array(count), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        numbers = range(self.count)
        last, chosen = Signal(numbers), Signal(numbers)     # input granted last; input granted now
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
