"""Barriers that count the bytes of copies."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature

from ..constants import BARRIERS
from ..layouts import barrier_arrival_layout

__all__ = ["Barriers"]

COUNT_BITS = 32


class Barriers(Component):
    """``BARRIERS`` (16) counts of pending bytes: bytes to expect minus bytes that arrived, signed, modulo 2^32.

    ``expect`` and ``arrive`` each take effect once a cycle, also together and on the same barrier. ``complete`` and ``overrun``
    are combinational: they describe barrier ``index`` with everything that was applied in earlier cycles. With ``cfg.far_registers`` they
    are registers: they describe what ``index`` was, and what had been applied, two cycles before; ``expect``, ``arrive`` and ``clear`` are
    applied a cycle later. Nothing is ever held back. Reset and ``clear`` (which wins over ``expect`` and ``arrive`` of its cycle) set
    all counts to zero, so every barrier is complete [S1.13, docs/units/shared_memory.md].

    Area: four distributed memories of 16 x 32 bits and 32 registers.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    expect : In(Signature)
        ``valid``: add ``bytes`` (32 bits) to the pending bytes of ``barrier``.
    arrive : In(stream.Signature(barrier_arrival_layout, always_ready=True))
        Take ``bytes`` from the pending bytes of ``barrier``.
    clear : In(1)
    index : In(4)
    complete : Out(1)
        Pending bytes are zero.
    overrun : Out(1)
        Pending bytes are negative: more bytes arrived than were expected.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "expect": In(Signature({"valid": Out(1), "barrier": Out(range(BARRIERS)), "bytes": Out(COUNT_BITS)})),
            "arrive": In(stream.Signature(barrier_arrival_layout, always_ready=True)),
            "clear": In(1),
            "index": In(range(BARRIERS)),
            "complete": Out(1),
            "overrun": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        self._clear = self.clear
        if self.cfg.far_registers:
            self._clear = Signal(name="clear_late")
            m.d.sync += self._clear.eq(self.clear)
        expected = self._total(m, "expected", self.expect.valid, self.expect.barrier, self.expect.bytes)
        arrived = self._total(m, "arrived", self.arrive.valid, self.arrive.payload.barrier, self.arrive.payload.bytes)
        pending = Signal(COUNT_BITS)
        domain = m.d.sync if self.cfg.far_registers else m.d.comb
        if self.cfg.far_registers:
            found = [Signal(COUNT_BITS, name=f"{name}_found", reset_less=True) for name in ("expected", "arrived")]
            m.d.sync += [register.eq(value) for register, value in zip(found, (expected, arrived))]
            expected, arrived = found
        m.d.comb += pending.eq(expected - arrived)
        domain += [self.complete.eq(pending == 0), self.overrun.eq(pending[-1])]
        return m

    def _total(self, m, name, valid, barrier, count):
        """A running sum per barrier; returns that of ``index``.

        A memory cannot be cleared at once, so a bit per barrier says whether its word counts.
        """
        memory = Memory(shape=COUNT_BITS, depth=BARRIERS, init=[])
        m.submodules[name] = memory
        write = memory.write_port()
        update = memory.read_port(domain="comb")
        query = memory.read_port(domain="comb")
        used = Signal(BARRIERS, name=f"{name}_used")
        counts = used.bit_select(barrier, 1)
        if self.cfg.far_registers:
            valid, barrier, count, counts = self._later(m, name, used, valid, barrier, count)
        m.d.comb += [
            update.addr.eq(barrier),
            query.addr.eq(self.index),
            write.addr.eq(barrier),
            write.en.eq(valid),
            write.data.eq(Mux(counts, update.data, 0) + count),
        ]
        with m.If(self._clear):
            m.d.sync += used.eq(0)
        with m.Elif(valid):
            m.d.sync += used.bit_select(barrier, 1).eq(1)
        return Mux(used.bit_select(self.index, 1), query.data, 0)

    def _later(self, m, name, used, *values):
        """What is added and to which barrier, a cycle later, and whether the word of that barrier counts by then."""
        valid, barrier, count = (Signal.like(value, name=f"{name}_{part}") for part, value in zip(("valid", "barrier", "bytes"), values))
        counts = Signal(name=f"{name}_counts")
        m.d.sync += [register.eq(value) for register, value in zip((valid, barrier, count), values)]
        m.d.sync += counts.eq(~self._clear & (used.bit_select(values[1], 1) | (valid & (barrier == values[1]))))
        return valid, barrier, count, counts
