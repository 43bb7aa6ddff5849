"""What an instruction that waits counts."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["QuietCounter", "WaitLimit"]

QUIET_CYCLES = 8        # after which no copy is on its way between the units any more


class QuietCounter(Component):
    """Says when ``quiet`` has been high for 8 cycles without a break: no copy will come any more.

    Latency 1 cycle. Reset: not reached.

    Members
    -------
    quiet : In(1)
    reached : Out(1)
    """

    def __init__(self):
        super().__init__({"quiet": In(1), "reached": Out(1)})

    def elaborate(self, platform):
        m = Module()
        cycles = Signal(range(QUIET_CYCLES + 1))
        m.d.comb += self.reached.eq(cycles == QUIET_CYCLES)
        with m.If(~self.quiet):
            m.d.sync += cycles.eq(0)
        with m.Elif(~self.reached):
            m.d.sync += cycles.eq(cycles + 1)
        return m


class WaitLimit(Component):
    """Says in which cycle ``waits`` has been high for ``limit`` cycles without a break and still is.

    Latency none, out of registers but for ``waits``. Reset: none counted.

    Members
    -------
    waits : In(1)
    limit : In(32)
        0: there is none.
    over : Out(1)
    """

    def __init__(self):
        super().__init__({"waits": In(1), "limit": In(32), "over": Out(1)})

    def elaborate(self, platform):
        m = Module()
        left, last = Signal(32), Signal()
        m.d.sync += [left.eq(Mux(self.waits, left - 1, self.limit)), last.eq(self.waits & (left == 1))]
        m.d.comb += self.over.eq(self.waits & last)
        return m
