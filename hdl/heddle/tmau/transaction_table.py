"""Requests under way: a ring of slots."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..errors import UsageError

__all__ = ["TransactionTable"]


class TransactionTable(Component):
    """Hands out the numbers 0 … ``slots`` - 1 in turn and takes them back in any order.

    A slot that has finished is freed when all that were taken before it are free: one a cycle, in order, so that transfers
    complete in the order of their requests. Reset frees all slots; the first is handed out ``slots`` cycles after it [S1.13,
    docs/units/tmau.md].

    The bits of the slots lie in distributed RAM: a finished slot holds the parity of the lap of ``oldest`` round the ring, any other
    that of the lap before.

    Parameters
    ----------
    slots : int
        At least 2.
    kinds : int
        Kinds of transfers that are told apart.

    Members
    -------
    free : Out(1)
        Slot ``index`` may be taken.
    index : Out(range(slots))
    take : In(1)
        Take it; only while ``free``.
    ends_transfer : In(kinds)
        With ``take``: the slot is the last of a transfer, of the kind whose bit is set.
    finish, finish_index : In
        The slot's request has its last answer. A slot finishes once.
    completed : Out(kinds)
        The last slot of a transfer of this kind was freed in the cycle before.
    busy : Out(1)
        Some slot is taken, or ``completed``.
    clearing : Out(1)
        After reset: ``index`` goes round once, no slot is free.
    """

    def __init__(self, slots, kinds=1):
        if not isinstance(slots, int) or slots < 2:
            raise UsageError(f"slots must be an integer of at least 2, not {slots!r}")
        self.slots, self.kinds = slots, kinds
        super().__init__({
            "free": Out(1),
            "index": Out(range(slots)),
            "take": In(1),
            "ends_transfer": In(kinds),
            "finish": In(1),
            "finish_index": In(range(slots)),
            "completed": Out(kinds),
            "busy": Out(1),
            "clearing": Out(1, init=1),
        })

    def elaborate(self, platform):
        m = Module()
        taken = Signal(range(self.slots + 1))
        oldest = Signal(range(self.slots))
        lap = Signal(init=1)            # parity of the lap of ``oldest``
        release = Signal()
        finish, oldest_finished = self._bits(m, "finished", oldest)
        end, oldest_ends = self._bits(m, "ends", oldest, self.kinds)
        last = self.slots - 1
        m.d.comb += [
            self.free.eq((taken != self.slots) & ~self.clearing),
            release.eq((oldest_finished == lap) & (taken != 0)),
            self.busy.eq((taken != 0) | self.completed.any()),
            finish.addr.eq(Mux(self.clearing, self.index, self.finish_index)),
            # Slots before the oldest have been taken again: they are one lap ahead.
            finish.data.eq(~self.clearing & (lap ^ (self.finish_index < oldest))),
            finish.en.eq(self.clearing | self.finish),
            end.addr.eq(self.index),
            end.data.eq(self.ends_transfer),
            end.en.eq(self.take),
        ]
        with m.If(release):
            m.d.sync += [oldest.eq(self._next(oldest)), lap.eq(lap ^ (oldest == last))]
        with m.If(self.take | self.clearing):
            m.d.sync += self.index.eq(self._next(self.index))
        with m.If(self.index == last):
            m.d.sync += self.clearing.eq(0)
        with m.If(self.take & ~release):
            m.d.sync += taken.eq(taken + 1)
        with m.If(release & ~self.take):
            m.d.sync += taken.eq(taken - 1)
        m.d.sync += self.completed.eq(Mux(release, oldest_ends, 0))
        return m

    def _bits(self, m, name, address, width=1):
        """Bits for each slot in distributed RAM: its write port, and those of ``address``."""
        memory = Memory(shape=width, depth=self.slots, init=[])
        m.submodules[name] = memory
        read = memory.read_port(domain="comb")
        m.d.comb += read.addr.eq(address)
        return memory.write_port(), read.data

    def _next(self, number):
        return Mux(number == self.slots - 1, 0, number + 1)
