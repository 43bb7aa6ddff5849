"""Round-robin arbiter of streams: packets leave whole, nothing is lost, every input gets its turn."""

from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Component
from heddle.lib.round_robin import RoundRobinArbiter

from .contract import any_sink, any_stream

__all__ = ["RoundRobinSpec"]

SHAPE = data.StructLayout({"source": 2, "last": 1, "value": 1})


class RoundRobinSpec(Component):
    """Items of one packet leave together; none is lost or changed; every input that waits gets its turn. Between packets an item
    leaves in every cycle in which one waits. Without ``packets`` each item is a packet.

    Environment: streams keep to the rules.
    """

    def __init__(self, count, packets):
        self._count, self._packets = count, packets
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = RoundRobinArbiter(SHAPE, self._count, last="last" if self._packets else None)
        for number, port in enumerate(dut.i):
            any_stream(m, port, f"i_{number}")
            m.d.comb += Assume(port.payload.source == number)
        any_sink(m, dut.o, "o")
        chosen, ends = dut.o.payload.source, dut.o.payload.last if self._packets else Const(1)
        taken = Signal()
        m.d.comb += [taken.eq(dut.o.valid & dut.o.ready), Assert(~dut.o.valid | (dut.grant == chosen))]
        within, before = Signal(), Signal(2)
        m.d.comb += Assert(within | (dut.o.valid == Cat(port.valid for port in dut.i).any()))
        with m.If(taken):
            m.d.comb += Assert(~within | (chosen == before))
            m.d.sync += [within.eq(~ends), before.eq(chosen)]
        for number, port in enumerate(dut.i):
            passed = Signal(range(self._count + 1), name=f"passed_{number}")     # packets of others that ended while this input waited
            mine = dut.o.valid & (chosen == number)
            m.d.comb += [Assert((port.valid & port.ready) == (taken & (chosen == number))),
                         Assert(~mine | (port.valid & (dut.o.payload.as_value() == port.payload.as_value()))),
                         Assert(passed < self._count), Cover(taken & (chosen == number))]
            with m.If(~port.valid | mine):
                m.d.sync += passed.eq(0)
            with m.Elif(taken & ends):
                m.d.sync += passed.eq(passed + 1)
        return m
