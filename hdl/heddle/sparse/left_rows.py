"""Left rows: loads the rows of the left operand of sampled products, two ahead of their steps."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.datapath import OPERAND_BITS
from ..isa.sparse_job import PanelTarget
from ..lib.stream import Queue
from ..parameters.sparse import SparseParameters
from .layouts import PanelPort, left_row_layout

__all__ = ["LeftRows"]

HALVES = 2      # rows that the operand rows of the PEs hold


class LeftRows(Component):
    """Left rows: loads rows of A into the operand rows of the PEs. Rows take the two halves in turn.

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
            "present": Out(1), "half": Out(1), "release": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = Queue(left_row_layout, self.depth, registered=False)
        panel, load, row = self.panel, self.load, rows.o.payload
        own, others = Signal(), Signal()                            # a load of a row, of the panel is in progress
        used, loaded = Signal(range(HALVES + 1)), Signal(range(HALVES + 1))    # halves with a load or a row; with a row
        target, begins, ends = Signal(), Signal(), Signal()
        first = Mux(target, 1 << OPERAND_BITS - 1, 0) * self.cfg.numbers_per_word
        m.d.comb += [
            rows.i.valid.eq(self.i.valid), rows.i.payload.eq(self.i.payload), rows.o.ready.eq(begins),
            begins.eq(rows.o.valid & (used != HALVES) & ~own & ~others & ~panel.begin), ends.eq(own & load.done),
            load.begin.eq(panel.begin | begins), load.target.eq(Mux(panel.begin, panel.target, PanelTarget.WEIGHTS)),
            load.strips.eq(Mux(panel.begin, panel.strips, 0)), load.sub_warps.eq(panel.begin & panel.sub_warps),
            load.word.eq(Mux(panel.begin, panel.word, row.word)),
            load.row.eq(Mux(panel.begin, panel.row, first)), load.rows.eq(Mux(panel.begin, panel.rows, row.rows)),
            load.by_columns.eq(~panel.begin & row.by_columns), load.column.eq(row.column),
            panel.free.eq(~own), panel.done.eq(others & load.done), self.present.eq(loaded != 0),
        ]
        m.d.sync += [
            own.eq(begins | (own & ~load.done)), others.eq(panel.begin | (others & ~load.done)), target.eq(target ^ begins),
            self.half.eq(self.half ^ self.release), used.eq(used + begins - self.release), loaded.eq(loaded + ends - self.release),
        ]
        return m
