"""Transaction table: ring of the outstanding bursts."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..errors import UsageError

__all__ = ["TransactionTable"]


class TransactionTable(Component):
    """Transaction table: allocates entries 0 to ``slots`` - 1 in ring order; entries finish in any order and are released in ring order
    [S1.13].

    One entry is released per cycle, when it and all earlier ones have finished, so transfers complete in the order of their requests.
    The bits of the entries lie in distributed RAM. A finished entry holds the parity of the current lap of ``oldest`` round the ring;
    any other entry holds the parity of the preceding lap.

    Parameters
    ----------
    slots : int
        Number of entries, at least 2.
    kinds : int
        Kinds of transfers with a separate ``completed``.

    *Ports*:
    free : Out(1)
        Entry ``index`` may be allocated.
    index : Out(range(slots))
        Next entry. Registered.
    take : In(1)
        Allocate entry ``index``; only while ``free``.
    ends_transfer : In(kinds)
        With ``take``: the entry is the last one of a transfer of the kind whose bit is set.
    finish : In(1)
        The last answer of entry ``finish_index`` was received; once per entry.
    finish_index : In(range(slots))
        Entry that finishes.
    completed : Out(kinds)
        The last entry of a transfer of this kind was released in the cycle before.
    busy : Out(1)
        Some entry is allocated, or ``completed`` is not zero.
    clearing : Out(1)
        After reset: ``index`` steps through all entries, and none is free.

    *Latency*: ``completed`` is high 2 cycles after ``finish`` of the oldest entry.

    *Throughput*: one allocation, one finish and one release per cycle.

    *Back-pressure*: ``free``, a function of registers.

    *Reset*: all entries are free; the first one may be allocated ``slots`` cycles later.

    *Errors*: the constructor raises ``UsageError`` when ``slots`` is not an integer of at least 2.

    *Source*: [S1.13], docs/units/tmau.md.
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
            # Entries below ``oldest`` were allocated again: they belong to the next lap.
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
        """Distributed RAM of ``width`` bits per entry: its write port, and the data at ``address``."""
        memory = Memory(shape=width, depth=self.slots, init=[])
        m.submodules[name] = memory
        read = memory.read_port(domain="comb")
        m.d.comb += read.addr.eq(address)
        return memory.write_port(), read.data

    def _next(self, number):
        return Mux(number == self.slots - 1, 0, number + 1)
