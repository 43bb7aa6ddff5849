"""Zero look-ahead: zero columns behind the next column of a vector."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..parameters.rnn import RnnParameters
from .layouts import COLUMNS_BITS

__all__ = ["ZeroLookAhead"]

_AHEAD = 3                  # columns that are examined


class ZeroLookAhead(Component):
    """Zero look-ahead: counts zero columns that directly follow the next column in its word of vector memory, 0, 1 or 3.

    The last column of a pass is never counted. A word counts only if it was ``final`` when read. The zero flags of a word are
    registered, so that memory, comparison and address are separate paths.

    *Ports*:
    begin : In(1)
        A pass begins in the next cycle.
    enable : In(1)
        The pass skips zero columns; constant during a pass.
    zero : In(vector_lanes)
        Zero flags of the elements of the word that was read last; valid from the cycle after ``read``.
    read : In(1)
        The next column is read in this cycle.
    final : In(1)
        With ``read``: all elements of the vector are written.
    place : In(log2(vector_lanes))
        First element of the next column in its word.
    cat : In(2)
        log2 of the CAT taps; a column has ``dot >> cat`` elements.
    left : In(COLUMNS_BITS)
        Columns behind the next column.
    shift : Out(range(3))
        The read after the next column is ``2 ** shift`` columns further.
    stride : Out(range(4 * dot + 1))
        The same distance in elements.

    *Latency*: zero flags of a word count from 2 cycles after its first ``read``. ``shift`` and ``stride`` are combinational from
    ``place``, ``cat`` and ``left``.

    *Reset*: no zero columns are known, as after ``begin``.
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
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
        read_whole, same, valid = Signal(), Signal(), Signal()      # the word read last: it was final; has the next column
        m.d.sync += zeros.eq(Array(self._columns(group) for group in groups)[self.cat])
        column = Array(self.place[exact_log2(group):] for group in groups)[self.cat]
        m.d.comb += [
            behind.eq(Mux(valid, zeros >> 1 >> column, 0)),
            self.shift.eq(Mux(behind.all() & self.left[2:].any(), 2, behind[0] & self.left[1:].any())),
        ]
        after = Signal(len(self.place) + 1)                         # place of the following read; the top bit says: in the next word
        m.d.comb += [self.stride.eq((Const(cfg.dot) >> self.cat) << self.shift), after.eq(self.place + self.stride)]
        with m.If(self.read):
            m.d.sync += [read_whole.eq(self.final), same.eq(~after[-1])]
        m.d.sync += valid.eq(self.enable & read_whole & same & ~(self.read & after[-1]))
        with m.If(self.begin):
            m.d.sync += [same.eq(0), valid.eq(0)]
        return m

    def _columns(self, group):
        """Zero flags of columns of ``group`` elements."""
        return Cat(self.zero[first:first + group].all() for first in range(0, len(self.zero), group))
