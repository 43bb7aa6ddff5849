"""Lines of a bank whose writes memory has not answered yet."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

from .layouts import L2Sizes

__all__ = ["PendingWrites"]


class PendingWrites(Component):
    """A ring of ``writes`` line numbers, compared with ``line``.

    A line that is pending must not be read from memory: the read could overtake the write. Entries leave in the order in
    which they came. Combinational outputs; reset empties it.

    Members
    -------
    line : In(line number)
        What is asked for, and what ``push`` adds.
    written, reduced : Out(1)
        A write, a reduction of ``line`` is pending.
    free, empty : Out(1)
    push : In(1)
        Only while ``free``. ``reduces``: it is a reduction.
    reduces : In(1)
    pop : In(1)
        The oldest one is answered; only while not ``empty``.
    """

    def __init__(self, cfg):
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
