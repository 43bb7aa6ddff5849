"""Write tracker of an L2 bank: lines with an outstanding write."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

from ..parameters.l2 import L2Parameters
from .layouts import L2Sizes

__all__ = ["PendingWrites"]


class PendingWrites(Component):
    """Write tracker of an L2 bank: a ring of the line numbers whose writes memory has not answered.

    The ring has ``L2Sizes.writes`` entries, each compared with ``line``. A line with a pending entry must not be read from memory, as the
    read could overtake the write. Entries are removed in the order of ``push``.

    Parameters
    ----------
    cfg : L2Parameters

    *Ports*:
    line : In(line_bits)
        Line number to compare, and to store with ``push``.
    written : Out(1)
        A plain write of ``line`` is pending.
    reduced : Out(1)
        A reduction of ``line`` is pending.
    free : Out(1)
        There is room for an entry.
    empty : Out(1)
        No entry is pending.
    push : In(1)
        Add ``line``; only while ``free``.
    reduces : In(1)
        The entry added by ``push`` is a reduction.
    pop : In(1)
        Remove the oldest entry: memory answered it. Only while not ``empty``.

    *Latency*: ``written`` and ``reduced`` depend combinationally on ``line``. ``push`` and ``pop`` take effect in the next cycle.

    *Throughput*: one ``push`` and one ``pop`` per cycle.

    *Back-pressure*: ``free``, a function of registers.

    *Reset*: no entry is pending.
    """

    def __init__(self, cfg):
        cfg = L2Parameters.of(cfg)
        self.sizes = sizes = L2Sizes(cfg)
        super().__init__({"line": In(sizes.line_bits), "written": Out(1), "reduced": Out(1), "free": Out(1), "empty": Out(1),
                          "push": In(1), "reduces": In(1), "pop": In(1)})

    def elaborate(self, platform):
        m = Module()
        count = self.sizes.writes
        valid, reduction = Signal(count), Signal(count, reset_less=True)
        newest, oldest = Signal(range(count)), Signal(range(count))
        same = Signal(count)
        for entry in range(count):
            line = Signal(self.sizes.line_bits, name=f"line_{entry}", reset_less=True)
            m.d.comb += same[entry].eq(valid[entry] & (line == self.line))
            with m.If(self.push & (newest == entry)):
                m.d.sync += [line.eq(self.line), reduction[entry].eq(self.reduces)]
        for condition, index, value in ((self.pop, oldest, 0), (self.push, newest, 1)):
            with m.If(condition):
                m.d.sync += [valid.bit_select(index, 1).eq(value), index.eq(Mux(index == count - 1, 0, index + 1))]
        m.d.comb += [
            self.reduced.eq((same & reduction).any()), self.written.eq((same & ~reduction).any()),
            self.free.eq(~valid.bit_select(newest, 1)), self.empty.eq(~valid.any()),
        ]
        return m
