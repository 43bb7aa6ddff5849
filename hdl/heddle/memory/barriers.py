"""Barriers that count the bytes of copies."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature

from ..constants import BANK_BYTES, BARRIERS, MOST_EXPECTED
from ..interfaces.layouts import barrier_arrival_layout, barrier_blocks_signature

__all__ = ["Barriers"]

COUNT_BITS = 32
BLOCK_BITS = BANK_BYTES.bit_length() - 1
ROUND_BITS = MOST_EXPECTED.bit_length()
OPEN_BITS = 4           # copies of one barrier that are handed over and not sized, modulo: no more than 15


class Barriers(Component):
    """``BARRIERS`` (16) counts of pending bytes: bytes to expect minus bytes that arrived; and of the copies under way to each.

    Sums are kept modulo 2^32. They are exact, because a round with more than ``MOST_EXPECTED`` bytes is never complete. A round ends with
    ``passed``. A copy of this core is under way from ``opened`` on, until its last part is ``sized`` and all bytes of its parts arrived.

    Latency: ``complete``, ``overrun`` and ``excess`` are combinational; they describe barrier ``index`` with everything that was applied in
    earlier cycles. With ``cfg.far_registers`` they are registers: they describe what ``index`` was, and what had been applied, two cycles
    before; ``expect``, ``opened``, ``sized``, ``arrive`` and ``clear`` are then applied a cycle later. Throughput: each once a cycle, also
    together and on the same barrier. Back-pressure: none. Reset and ``clear`` (which wins over the others in its cycle) set all
    counts to zero, so every barrier is complete [S1.13, docs/units/shared_memory.md].

    Area: eight distributed memories of 16 x 28 to 32 bits (two more with ``cfg.multicast``), four of 16 x 4 bits and 144 registers.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    expect : In(Signature)
        ``valid``: add ``bytes`` (32 bits) to the pending bytes of ``barrier``.
    opened : In(Signature)
        ``valid``: a copy to ``barrier`` was handed over. At most 15 of a barrier are open.
    sized : In(Signature)
        ``valid``: a part of the oldest open copy to ``barrier`` will bring ``blocks`` of 16 bytes; ``ends``: its last part.
    arrive : In(stream.Signature(barrier_arrival_layout, always_ready=True))
        Take ``bytes`` from the pending bytes of ``barrier``. Those that are ``remote`` are of no copy of this core.
    clear : In(1)
    index : In(4)
    passed : In(1)
        A round of ``index`` ends; only while it is complete.
    complete : Out(1)
        No copy of this core is under way, pending bytes are zero, and there is no ``excess``.
    overrun : Out(1)
        More bytes arrived, or will, than were expected.
    excess : Out(1)
        More than ``MOST_EXPECTED`` bytes were expected in this round.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "expect": In(Signature({"valid": Out(1), "barrier": Out(range(BARRIERS)), "bytes": Out(COUNT_BITS)})),
            "opened": In(Signature({"valid": Out(1), "barrier": Out(range(BARRIERS))})),
            "sized": In(Signature({**barrier_blocks_signature().members, "ends": Out(1)})),
            "arrive": In(stream.Signature(barrier_arrival_layout, always_ready=True)),
            "clear": In(1),
            "index": In(range(BARRIERS)),
            "passed": In(1),
            "complete": Out(1),
            "overrun": Out(1),
            "excess": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        self._clear = self.clear
        if self.cfg.far_registers:
            self._clear = Signal(name="clear_late")
            m.d.sync += self._clear.eq(self.clear)
        expect, opened, sized, arrive = self.expect, self.opened, self.sized, self.arrive.payload
        found = {
            "expected": self._total(m, "expected", expect.valid, expect.barrier, expect.bytes),
            "arrived": self._total(m, "arrived", self.arrive.valid, arrive.barrier, arrive.bytes),
            "announced": self._total(m, "announced", sized.valid, sized.barrier, sized.blocks),
            "opened": self._total(m, "opened", opened.valid, opened.barrier, 1, OPEN_BITS),
            "closed": self._total(m, "closed", sized.valid & sized.ends, sized.barrier, 1, OPEN_BITS),
            "excess": self._round(m, "expected", expect.valid, expect.barrier, expect.bytes),
            "surplus": self._round(m, "announced", sized.valid, sized.barrier, sized.blocks << BLOCK_BITS),
        }
        if self.cfg.multicast:
            found["remote"] = self._total(m, "remote", self.arrive.valid & arrive.remote, arrive.barrier, arrive.bytes)
        if self.cfg.far_registers:
            now, found = found, {}
            for name, value in now.items():
                found[name] = Signal.like(value, name=f"{name}_found", reset_less=True)
                m.d.sync += found[name].eq(value)
        self._answer(m, found)
        return m

    def _answer(self, m, found):
        pending, own, settled = Signal(COUNT_BITS), Signal(COUNT_BITS), Signal()
        m.d.comb += [
            pending.eq(found["expected"] - found["arrived"]),
            own.eq(found["arrived"] - found["remote"] if self.cfg.multicast else found["arrived"]),
            settled.eq((found["opened"] == found["closed"]) & (found["announced"] == own[BLOCK_BITS:])),
        ]
        domain = m.d.sync if self.cfg.far_registers else m.d.comb
        domain += [
            self.complete.eq((pending == 0) & settled & ~found["excess"] & ~found["surplus"]),
            self.overrun.eq(pending[-1] | found["surplus"]), self.excess.eq(found["excess"]),
        ]

    def _total(self, m, name, valid, barrier, count, bits=None):
        """A running sum per barrier; returns that of ``index``.

        A memory cannot be cleared at once, so a bit per barrier says whether its word counts.
        """
        bits = bits or (len(count) if name == "announced" else COUNT_BITS)
        memory, update, write, used, valid, barrier, count, counts = self._sums(m, name, bits, valid, barrier, count)
        query = memory.read_port(domain="comb")
        m.d.comb += [query.addr.eq(self.index), write.data.eq(Mux(counts, update.data, 0) + count)]
        with m.If(self._clear):
            m.d.sync += used.eq(0)
        with m.Elif(valid):
            m.d.sync += used.bit_select(barrier, 1).eq(1)
        return Mux(used.bit_select(self.index, 1), query.data, 0)

    def _round(self, m, name, valid, barrier, count):
        """Whether the sum of this round is above ``MOST_EXPECTED``, for ``index``."""
        _, update, write, used, valid, barrier, count, counts = self._sums(m, f"{name}_in_round", ROUND_BITS, valid, barrier, count)
        above, total = Signal(BARRIERS, name=f"{name}_above"), Signal(COUNT_BITS + 1, name=f"{name}_total")
        m.d.comb += [total.eq(Mux(counts, update.data, 0) + count), write.data.eq(total)]
        with m.If(valid):
            m.d.sync += used.bit_select(barrier, 1).eq(1)
            with m.If(total[ROUND_BITS:].any()):
                m.d.sync += above.bit_select(barrier, 1).eq(1)
        with m.If(self.passed):
            m.d.sync += [used.bit_select(self.index, 1).eq(0), above.bit_select(self.index, 1).eq(0)]
        with m.If(self._clear):
            m.d.sync += [used.eq(0), above.eq(0)]
        return above.bit_select(self.index, 1)

    def _sums(self, m, name, bits, valid, barrier, count):
        """The memory of sums, its port to read what is added to and that to write it back, the bits of the words that count; and what is
        added in this cycle, to which barrier, and whether its word counts."""
        m.submodules[name] = memory = Memory(shape=bits, depth=BARRIERS, init=[])
        write, update = memory.write_port(), memory.read_port(domain="comb")
        used = Signal(BARRIERS, name=f"{name}_used")
        counts = used.bit_select(barrier, 1)
        if self.cfg.far_registers:
            valid, barrier, count, counts = self._later(m, name, used, valid, barrier, count)
        m.d.comb += [update.addr.eq(barrier), write.addr.eq(barrier), write.en.eq(valid)]
        return memory, update, write, used, valid, barrier, count, counts

    def _later(self, m, name, used, *values):
        """What is added and to which barrier, a cycle later, and whether the word of that barrier counts by then."""
        valid, barrier, count = (Signal.like(value, name=f"{name}_{part}") if not isinstance(value, int) else value
                                 for part, value in zip(("valid", "barrier", "bytes"), values))
        counts = Signal(name=f"{name}_counts")
        m.d.sync += [register.eq(value) for register, value in zip((valid, barrier, count), values) if not isinstance(value, int)]
        m.d.sync += counts.eq(~self._clear & (used.bit_select(values[1], 1) | (valid & (barrier == values[1]))))
        return valid, barrier, count, counts
