"""Barriers: counters of pending bytes that synchronise a program with its copies."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.memory import Memory, ReadPort, WritePort
from amaranth.lib.wiring import Component, In, Out, Signature

from ..constants import BANK_BYTES, BARRIERS, MOST_EXPECTED
from ..interfaces.front_end import BarrierPort
from ..interfaces.layouts import barrier_arrival_layout, barrier_blocks_signature
from ..parameters.memory import MemoryParameters

__all__ = ["Barriers"]

COUNT_BITS = 32
BLOCK_BITS = BANK_BYTES.bit_length() - 1
ROUND_BITS = MOST_EXPECTED.bit_length()
OPEN_BITS = 4           # counters of opened and closed copies, modulo 16: at most 15 copies of a barrier are open


class _Addition(NamedTuple):
    """Addition of ``count`` to the sum of ``barrier``."""

    valid: Value
    barrier: Value
    count: Value | int


class _Sums(NamedTuple):
    """Memory of running sums, one per barrier, in the cycle of an addition.

    A memory cannot be cleared in one cycle. Bit ``used`` of a barrier therefore marks its word as valid.
    """

    memory: Memory
    update: ReadPort    # the sum of the barrier of the addition
    write: WritePort
    used: Signal
    addition: _Addition
    counts: Value       # bit ``used`` of the barrier of the addition

    def total(self):
        """The new sum."""
        return Mux(self.counts, self.update.data, 0) + self.addition.count


class Barriers(Component):
    """Barrier unit: ``BARRIERS`` (16) counters of pending bytes and of the copies in flight.

    The pending bytes of a barrier are its expected bytes minus its arrived bytes, modulo 2^32. A round of a barrier ends with
    ``passed``. A round with more than ``MOST_EXPECTED`` (2^31 - 1) bytes is never complete, so no sum that wraps is ambiguous. A copy
    of this core is in flight from ``opened`` until its last part is ``sized`` and the bytes of all its parts arrived.

    Parameters
    ----------
    cfg : MemoryParameters

    *Ports*:
    issue : In(BarrierPort())
        Expected bytes, opened copies and waits of the program.
    sized : In(Signature({"valid": 1, "barrier": 4, "blocks": 28, "ends": 1}))
        ``valid``: a part of the oldest open copy to ``barrier`` has ``blocks`` blocks of 16 bytes. ``ends``: the part is the last one.
    arrive : In(stream.Signature(barrier_arrival_layout, always_ready=True))
        Barrier update: subtract ``bytes`` from the pending bytes of ``barrier``. ``remote``: the bytes belong to a copy of another
        core.
    clear : In(1)
        Set all counters to zero.

    *Latency*: the answers of ``issue`` depend combinationally on its ``index`` and contain all updates of earlier cycles.
    ``answered`` is high.

    *Throughput*: every input once per cycle, also all together and on the same barrier.

    *Back-pressure*: none.

    *Reset*: all counters are zero, so every barrier is complete. ``clear`` does the same and has priority over the updates of its
    cycle.

    *Area*: eight distributed memories of 16 words of 28 to 32 bits (ten with ``cfg.multicast``), four of 16 x 4 bits and 144 registers.

    *Errors*: none are reported here. The issue unit derives its errors from ``overrun``, ``excess`` and a barrier that cannot complete.

    *Source*: [S1.13], docs/units/shared_memory.md.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MemoryParameters.of(cfg)
        super().__init__({
            "issue": In(BarrierPort()),
            "sized": In(Signature({**barrier_blocks_signature().members, "ends": Out(1)})),
            "arrive": In(stream.Signature(barrier_arrival_layout, always_ready=True)),
            "clear": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        opened, sized, arrive = self.issue.opened, self.sized, self.arrive.payload
        expect = _Addition(self.issue.expect.valid, self.issue.expect.barrier, self.issue.expect.bytes)
        found = {
            "expected": self._total(m, "expected", expect),
            "arrived": self._total(m, "arrived", _Addition(self.arrive.valid, arrive.barrier, arrive.bytes)),
            "announced": self._total(m, "announced", _Addition(sized.valid, sized.barrier, sized.blocks), len(sized.blocks)),
            "opened": self._total(m, "opened", _Addition(opened.valid, opened.barrier, 1), OPEN_BITS),
            "closed": self._total(m, "closed", _Addition(sized.valid & sized.ends, sized.barrier, 1), OPEN_BITS),
            "excess": self._round(m, "expected", expect),
            "surplus": self._round(m, "announced", _Addition(sized.valid, sized.barrier, sized.blocks << BLOCK_BITS)),
        }
        if self.cfg.multicast:
            found["remote"] = self._total(m, "remote", _Addition(self.arrive.valid & arrive.remote, arrive.barrier, arrive.bytes))
        self._answer(m, found)
        return m

    def _answer(self, m, found):
        pending, own, settled = Signal(COUNT_BITS), Signal(COUNT_BITS), Signal()
        m.d.comb += [
            pending.eq(found["expected"] - found["arrived"]),
            own.eq(found["arrived"] - found["remote"] if self.cfg.multicast else found["arrived"]),
            settled.eq((found["opened"] == found["closed"]) & (found["announced"] == own[BLOCK_BITS:])),
        ]
        m.d.comb += [
            self.issue.complete.eq((pending == 0) & settled & ~found["excess"] & ~found["surplus"]),
            self.issue.overrun.eq(pending[-1] | found["surplus"]), self.issue.excess.eq(found["excess"]), self.issue.answered.eq(1),
        ]

    def _total(self, m, name, addition, bits=COUNT_BITS):
        """Running sum per barrier; returns the sum of ``index``."""
        sums = self._sums(m, name, addition, bits)
        used = sums.used
        query = sums.memory.read_port(domain="comb")
        m.d.comb += [query.addr.eq(self.issue.index), sums.write.data.eq(sums.total())]
        with m.If(self.clear):
            m.d.sync += used.eq(0)
        with m.Elif(addition.valid):
            m.d.sync += used.bit_select(addition.barrier, 1).eq(1)
        return Mux(used.bit_select(self.issue.index, 1), query.data, 0)

    def _round(self, m, name, addition):
        """Whether the sum of the current round of ``index`` is above ``MOST_EXPECTED``."""
        sums = self._sums(m, f"{name}_in_round", addition, ROUND_BITS)
        used = sums.used
        above, total = Signal(BARRIERS, name=f"{name}_above"), Signal(COUNT_BITS + 1, name=f"{name}_total")
        m.d.comb += [total.eq(sums.total()), sums.write.data.eq(total)]
        with m.If(addition.valid):
            m.d.sync += used.bit_select(addition.barrier, 1).eq(1)
            with m.If(total[ROUND_BITS:].any()):
                m.d.sync += above.bit_select(addition.barrier, 1).eq(1)
        with m.If(self.issue.passed):
            m.d.sync += [used.bit_select(self.issue.index, 1).eq(0), above.bit_select(self.issue.index, 1).eq(0)]
        with m.If(self.clear):
            m.d.sync += [used.eq(0), above.eq(0)]
        return above.bit_select(self.issue.index, 1)

    def _sums(self, m, name, addition, bits):
        """Memory of running sums of ``bits`` bits, with its read-modify-write ports."""
        m.submodules[name] = memory = Memory(shape=bits, depth=BARRIERS, init=[])
        write, update = memory.write_port(), memory.read_port(domain="comb")
        used = Signal(BARRIERS, name=f"{name}_used")
        counts = used.bit_select(addition.barrier, 1)
        m.d.comb += [update.addr.eq(addition.barrier), write.addr.eq(addition.barrier), write.en.eq(addition.valid)]
        return _Sums(memory, update, write, used, addition, counts)
