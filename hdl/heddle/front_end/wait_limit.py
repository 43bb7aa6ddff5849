"""Counters of cycles in which an instruction waits."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["QuietCounter", "WaitLimit"]

QUIET_CYCLES = 8        # longer than a copy is between two units, where no busy signal covers it


class QuietCounter(Component):
    """Counter of consecutive cycles with ``quiet``, up to 8.

    *Ports*:
    quiet : In(1)
        No copy is in flight in this cycle.
    reached : Out(1)
        ``quiet`` was high in each of the last 8 cycles, so no copy of this core can still arrive.

    *Latency*: ``reached`` comes from a register. The signal is high from the cycle after the eighth quiet cycle to the first cycle without
    ``quiet``.

    *Reset*: ``reached`` is low and the count is zero.
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
    """Time-out of a wait: reports the cycle in which ``waits`` exceeds ``limit`` consecutive cycles.

    *Ports*:
    waits : In(1)
        An instruction waits in this cycle.
    limit : In(32)
        Cycles that it may wait. 0 is no limit in practice: the 32-bit counter then needs 2^32 cycles.
    over : Out(1)
        ``waits`` is high, and was high in each of the ``limit`` cycles before.

    *Latency*: ``over`` is combinational from ``waits`` and a register. ``limit`` is sampled in the last cycle without ``waits``.

    *Reset*: no cycle is counted. ``limit`` needs one cycle without ``waits`` to take effect.
    """

    def __init__(self):
        super().__init__({"waits": In(1), "limit": In(32), "over": Out(1)})

    def elaborate(self, platform):
        m = Module()
        left, last = Signal(32), Signal()
        m.d.sync += [left.eq(Mux(self.waits, left - 1, self.limit)), last.eq(self.waits & (left == 1))]
        m.d.comb += self.over.eq(self.waits & last)
        return m
