"""Left rows: loads the rows of the left operand of sampled products ahead of their steps."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.datapath import OPERAND_BITS
from ..isa.sparse_job import PanelTarget
from ..lib.stream import Queue
from ..parameters.sparse import SparseParameters
from .layouts import PanelPort, left_row_layout

__all__ = ["LeftRows"]

HALVES = 2      # of the operand rows of the PEs: one with rows at work, one that is loaded
ROWS = 2        # that a half holds at most

place_layout = data.StructLayout({"half": 1, "odd": 1})


class LeftRows(Component):
    """Left rows: loads rows of A into the operand rows of the PEs, a half of them at a time. Halves are loaded in turn.

    A row takes a half. By columns, rows of at most 4 words come in pairs: of the words that are read two bytes are taken, and a half holds
    an even row and the next one. Where this one has no element, it is not used.

    The loader is shared with the panel, whose loads come first.

    Parameters
    ----------
    cfg : SparseParameters
    depth : int
        Rows that wait at most.

    *Ports*:
    i : In(stream.Signature(left_row_layout, always_ready=True))
        Rows, at most ``depth`` of them without a load.
    panel : In(PanelPort())
        Loads of the panel.
    load : Out(PanelPort())
        Loads of both; ``free`` is not used.
    present : Out(1)
        The oldest row that is not released is loaded.
    half : Out(1)
        Half of the operand rows in which this row is.
    odd : Out(1)
        It is in the upper 4 words of this half.
    release : In(1)
        The last step of this row is chosen.

    *Latency*: 1 cycle from ``i`` to ``load.begin``; ``present`` one cycle after ``load.done``.

    *Throughput*: a load begins in the cycle after the one before is done.

    *Back-pressure*: ``panel.free`` comes from a register. A row waits until a half is released.

    *Reset*: no row is present or waits.
    """

    def __init__(self, cfg, depth):
        self.cfg = cfg = SparseParameters.of(cfg)
        self.depth = depth
        super().__init__({
            "i": In(stream.Signature(left_row_layout, always_ready=True)), "panel": In(PanelPort()), "load": Out(PanelPort()),
            "present": Out(1), "half": Out(1), "odd": Out(1), "release": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = Queue(left_row_layout, self.depth, registered=False)
        m.submodules.places = places = Queue(place_layout, HALVES * ROWS, registered=False)        # of rows that are not released
        panel, load, row, place = self.panel, self.load, rows.o.payload, places.i.payload
        own, others = Signal(), Signal()                            # a load of a row, of the panel is in progress
        used = Array(Signal(range(ROWS + 1), name=f"used_{half}") for half in range(HALVES))        # rows that are not released
        loaded = Signal(HALVES)
        target, begins, joins, paired = Signal(), Signal(), Signal(), Signal()
        last, opened = Signal.like(row), Signal()                   # the row of the last load; its half has the other row of its pair
        first = Mux(target, 1 << OPERAND_BITS - 1, 0) * self.cfg.numbers_per_word
        m.d.comb += [
            paired.eq(row.by_columns & (row.rows <= self.cfg.numbers_per_word << OPERAND_BITS - 2)),
            joins.eq(rows.o.valid & opened & ~row.begins & (row.word == last.word) & (row.column[1:] == last.column[1:])
                     & places.i.ready),
            begins.eq(rows.o.valid & ~joins & (used[target] == 0) & ~own & ~others & ~panel.begin & places.i.ready),
            rows.i.valid.eq(self.i.valid), rows.i.payload.eq(self.i.payload), rows.o.ready.eq(begins | joins),
            places.i.valid.eq(begins | joins), place.half.eq(target ^ joins), place.odd.eq(paired & row.column[0]),
            load.begin.eq(panel.begin | begins), load.target.eq(Mux(panel.begin, panel.target, PanelTarget.WEIGHTS)),
            load.strips.eq(Mux(panel.begin, panel.strips, 0)), load.sub_warps.eq(panel.begin & panel.sub_warps),
            load.word.eq(Mux(panel.begin, panel.word, row.word)),
            load.row.eq(Mux(panel.begin, panel.row, first)), load.rows.eq(Mux(panel.begin, panel.rows, row.rows)),
            load.by_columns.eq(~panel.begin & row.by_columns), load.two.eq(~panel.begin & paired),
            load.column.eq(Mux(paired, row.column & ~1, row.column)),
            panel.free.eq(~own), panel.done.eq(others & load.done),
            self.half.eq(places.o.payload.half), self.odd.eq(places.o.payload.odd), places.o.ready.eq(self.release),
            self.present.eq(places.o.valid & loaded.bit_select(self.half, 1)),
        ]
        m.d.sync += [
            own.eq(begins | (own & ~load.done)), others.eq(panel.begin | (others & ~load.done)), target.eq(target ^ begins),
            *(count.eq(count + (places.i.valid & (place.half == half)) - (self.release & (self.half == half)))
              for half, count in enumerate(used)),
        ]
        with m.If(own & load.done):
            m.d.sync += loaded.bit_select(~target, 1).eq(1)
        with m.If(begins):
            m.d.sync += [loaded.bit_select(target, 1).eq(0), last.eq(row), opened.eq(paired)]
        with m.If(panel.begin):         # operand rows may be overwritten
            m.d.sync += opened.eq(0)
        return m
