"""The instruction that runs the engine for recurrent networks."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..isa.error_codes import ErrorCode

__all__ = ["RecurrentControl", "recurrent_error_layout"]

# How a run of the engine ended, in the cycle after. ``of_image``: the operand is the address of the image.
recurrent_error_layout = data.StructLayout({"failed": 1, "of_image": 1, "code": ErrorCode, "operand": 20})


class RecurrentControl(Component):
    """Starts the engine when the lanes are at rest, and lets the instruction go when the engine has ended.

    Members
    -------
    execute, guarded : In(1)
        The instruction stands at issue; its guard holds.
    quiet : In(1)
        No thread or matrix instruction is under way.
    busy : In(1)
        From the cycle after ``start``.
    start : Out(1)
    ended : Out(1)
        The instruction leaves in the next cycle.
    """

    def __init__(self):
        super().__init__({"execute": In(1), "guarded": In(1), "quiet": In(1), "busy": In(1), "start": Out(1), "ended": Out(1)})

    def elaborate(self, platform):
        m = Module()
        started, left = Signal(), Signal()      # ``left``: it is gone already
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
