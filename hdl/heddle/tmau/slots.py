"""Requests under way: a ring of slots."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["SlotRing"]


class SlotRing(Component):
    """Hands out the numbers 0 … ``slots`` - 1 in turn and takes them back in any order.

    A slot that has finished is freed when all that were taken before it are free: one a cycle, in order, so that transfers
    complete in the order of their requests. Reset frees all slots [S1.13, docs/units/tmau.md].

    Parameters
    ----------
    slots : int
        At least 2.

    Members
    -------
    free : Out(1)
        Slot ``index`` may be taken.
    index : Out(range(slots))
    take : In(1)
        Take it; only while ``free``.
    ends_transfer : In(1)
        With ``take``: the slot is the last of its transfer.
    finish, finish_index : In
        The slot's request has its last answer. A slot finishes once.
    completed : Out(1)
        A transfer's last slot was freed in the cycle before.
    busy : Out(1)
        Some slot is taken, or ``completed``.
    """

    def __init__(self, slots):
        if not isinstance(slots, int) or slots < 2:
            raise ValueError(f"slots must be an integer of at least 2, not {slots!r}")
        self.slots = slots
        super().__init__({
            "free": Out(1),
            "index": Out(range(slots)),
            "take": In(1),
            "ends_transfer": In(1),
            "finish": In(1),
            "finish_index": In(range(slots)),
            "completed": Out(1),
            "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        taken = Signal(range(self.slots + 1))
        oldest = Signal(range(self.slots))
        finished = Signal(self.slots)
        ends = Signal(self.slots)
        release = Signal()
        m.d.comb += [
            self.free.eq(taken != self.slots),
            release.eq(finished.bit_select(oldest, 1)),
            self.busy.eq((taken != 0) | self.completed),
        ]
        with m.If(self.finish):
            m.d.sync += finished.bit_select(self.finish_index, 1).eq(1)
        with m.If(release):
            m.d.sync += [finished.bit_select(oldest, 1).eq(0), oldest.eq(self._next(oldest))]
        with m.If(self.take):
            m.d.sync += [ends.bit_select(self.index, 1).eq(self.ends_transfer), self.index.eq(self._next(self.index))]
        with m.If(self.take & ~release):
            m.d.sync += taken.eq(taken + 1)
        with m.If(release & ~self.take):
            m.d.sync += taken.eq(taken - 1)
        m.d.sync += self.completed.eq(release & ends.bit_select(oldest, 1))
        return m

    def _next(self, number):
        return Mux(number == self.slots - 1, 0, number + 1)
