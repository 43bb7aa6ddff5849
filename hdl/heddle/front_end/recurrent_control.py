"""Issue control of the instruction that runs the engine for recurrent networks."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["RecurrentControl"]


class RecurrentControl(Component):
    """Issue control of the ``recurrent`` instruction: starts the engine when the PEs are idle and holds the instruction until the engine
    ends.

    *Ports*:
    execute : In(1)
        The instruction is at issue and legal, and a program runs.
    guarded : In(1)
        The uniform guard of the instruction holds.
    quiet : In(1)
        No thread or matrix operation is pending or in flight.
    busy : In(1)
        The engine runs; valid from the cycle after ``start``.
    start : Out(1)
        Starts the engine; high for one cycle.
    ended : Out(1)
        The engine has ended, or the guard does not hold: the instruction leaves issue in the next cycle.

    *Latency*: ``start`` is combinational from ``execute``, ``guarded`` and ``quiet``. ``ended`` is combinational from ``execute``,
    ``guarded`` and ``busy``.

    *Reset*: no run is in flight.
    """

    def __init__(self):
        super().__init__({"execute": In(1), "guarded": In(1), "quiet": In(1), "busy": In(1), "start": Out(1), "ended": Out(1)})

    def elaborate(self, platform):
        m = Module()
        started, left = Signal(), Signal()      # ``left``: ``ended`` was high a cycle before
        m.d.comb += [
            self.start.eq(self.execute & self.guarded & self.quiet & ~started & ~left),
            self.ended.eq(self.execute & ~left & (~self.guarded | (started & ~self.busy))),
        ]
        m.d.sync += left.eq(self.ended)
        with m.If(self.start):
            m.d.sync += started.eq(1)
        with m.If(self.ended | ~self.execute):
            m.d.sync += started.eq(0)
        return m
