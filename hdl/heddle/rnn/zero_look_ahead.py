"""Finds columns of zeros behind the next one."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from .layouts import COLUMNS_BITS

__all__ = ["ZeroLookAhead"]

_AHEAD = 3                  # columns that are looked at


class ZeroLookAhead(Component):
    """One or three columns of zeros that follow the next column in its word of vector memory, but for the last column of the sweep.

    The zeros of a word count from two cycles after it was read, if it was ``final``: they stand in a register, so that memory, comparison
    and address are not one path. Reset, and ``begin``, forget them.

    Members
    -------
    begin : In(1)
        A sweep begins in the next cycle.
    enable : In(1)
        Constant while the sweep lasts.
    zero : In(vector_lanes)
        Elements of the word that was read last are zero; from the cycle after ``read``.
    read, final : In(1)
        The next column is read; the elements of its word will not change.
    place, cat, left : In
        Of the next column: its first element in its word, see ``choose_group``, and the columns behind it.
    shift, stride : Out
        The column after it that is read is 2 ** ``shift`` columns further, and ``stride`` elements.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "begin": In(1), "enable": In(1), "zero": In(cfg.vector_lanes), "read": In(1), "final": In(1),
            "place": In(exact_log2(cfg.vector_lanes)), "cat": In(2), "left": In(COLUMNS_BITS), "shift": Out(range(3)),
            "stride": Out(range(4 * cfg.dot + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        groups = [cfg.dot >> cat for cat in range(3)]
        zeros, behind = Signal(cfg.vector_lanes, reset_less=True), Signal(_AHEAD)
        read_whole, same, known = Signal(), Signal(), Signal()      # of the word read last: it was final; it has the next column too
        m.d.sync += zeros.eq(Array(self._columns(group) for group in groups)[self.cat])
        column = Array(self.place[exact_log2(group):] for group in groups)[self.cat]
        m.d.comb += [
            behind.eq(Mux(known, zeros >> 1 >> column, 0)),
            self.shift.eq(Mux(behind.all() & self.left[2:].any(), 2, behind[0] & self.left[1:].any())),
        ]
        after = Signal(len(self.place) + 1)                         # place of the column after it, or in the next word
        m.d.comb += [self.stride.eq((Const(cfg.dot) >> self.cat) << self.shift), after.eq(self.place + self.stride)]
        with m.If(self.read):
            m.d.sync += [read_whole.eq(self.final), same.eq(~after[-1])]
        m.d.sync += known.eq(self.enable & read_whole & same & ~(self.read & after[-1]))
        with m.If(self.begin):
            m.d.sync += [same.eq(0), known.eq(0)]
        return m

    def _columns(self, group):
        """Which columns of some elements are zero."""
        return Cat(self.zero[first:first + group].all() for first in range(0, len(self.zero), group))
