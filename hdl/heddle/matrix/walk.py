"""The loops of ``mm``: columns and k-slices, one a cycle, operation after operation without a gap."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..isa.layout import LoopOrder
from ..layouts import matrix_operation_layout
from .layouts import column_layout

__all__ = ["ColumnWalk"]


class ColumnWalk(Component):
    """Lists the active columns of every k-slice of an operation, lowest column first, in either loop order [S0.4, S0.9].

    While one operation is walked, the next one is taken and its offsets are requested from the lanes; they replace the
    offsets in use when the first column of that operation leaves. Operations of three and more columns times slices
    follow each other without a gap. An operation without active columns, and every operation while ``stop`` is high,
    gives one empty column that carries ``last``; with ``stop`` the walk of the operation under way ends there too.

    From ``i`` to the first column: 4 cycles and the wait for ``offset_grant``. One column a cycle in which ``advance``
    is high; ``o`` keeps its value while it is low. Reset forgets all operations.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(stream.Signature(matrix_operation_layout(cfg)))
    stop : In(1)
    offset_read, offset_number, offset_grant, offset_load
        See ``LaneArray``.
    advance : In(1)
    valid : Out(1)
    o : Out(column_layout(cfg))
        Registered.
    pending : Out(1)
        Columns are still to come after ``o``.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        operation = matrix_operation_layout(cfg)
        super().__init__({
            "i": In(stream.Signature(operation)),
            "stop": In(1),
            "offset_read": Out(1),
            "offset_number": Out(operation["offset_register"].shape),
            "offset_grant": In(1),
            "offset_load": Out(1),
            "advance": In(1),
            "valid": Out(1),
            "o": Out(column_layout(cfg)),
            "pending": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        layout = matrix_operation_layout(self.cfg)
        next_valid = Signal()                       # the operation after the one that is walked
        next_operation = Signal(layout, reset_less=True)
        valid = Signal()
        operation = Signal(layout, reset_less=True)
        first = Signal()                            # no column has left yet
        empty = Signal()
        start = Signal()
        final = Signal()
        ready, next_empty = self._next(m, next_valid, next_operation, start, valid & first)
        m.d.comb += start.eq(ready & (~valid | (self.advance & final)))

        column, index = self._walk(m, operation, start, next_operation, final, empty)
        with m.If(self.advance):
            m.d.sync += [first.eq(0), valid.eq(valid & ~final)]
        with m.If(start):
            m.d.sync += [valid.eq(1), first.eq(1), operation.eq(next_operation), empty.eq(next_empty)]
        self._output(m, operation, valid, column, index, final, empty)
        m.d.comb += [
            self.offset_load.eq(valid & first & self.advance),
            self.pending.eq(valid | next_valid),
        ]
        return m

    def _next(self, m, valid, operation, start, offsets_in_wait):
        """Take the next operation and have its offsets read; returns whether it can start and whether it is empty."""
        has_offsets = Signal()
        no_columns = Signal()
        empty = Signal()
        ready = Signal()
        m.d.comb += [
            empty.eq(no_columns | self.stop),
            ready.eq(valid & (has_offsets | empty)),
            self.i.ready.eq(~valid | start),
            self.offset_read.eq(valid & ~has_offsets & ~empty & ~offsets_in_wait),
            self.offset_number.eq(operation.offset_register),
        ]
        with m.If(self.offset_grant):
            m.d.sync += has_offsets.eq(1)
        with m.If(self.i.ready):
            m.d.sync += [
                valid.eq(self.i.valid),
                operation.eq(self.i.payload),
                has_offsets.eq(0),
                no_columns.eq(self.i.payload.columns == 0),
            ]
        return ready, empty

    def _walk(self, m, operation, start, next_operation, final, empty):
        """The two loops; returns the column, one hot, and the slice."""
        remaining = Signal(self.cfg.threads, reset_less=True)
        index = Signal(4, reset_less=True)
        column = Signal(self.cfg.threads)
        others = Signal(self.cfg.threads)
        last_column = Signal()
        last_slice = Signal()
        m.d.comb += [
            column.eq(remaining & -remaining),
            others.eq(remaining & (remaining - 1)),
            last_column.eq(others == 0),
            last_slice.eq(index == operation.k_length),
            final.eq((last_column & last_slice) | empty | self.stop),
        ]
        with m.If(self.advance):
            with m.If(operation.order == LoopOrder.COLUMNS_OUTER):
                m.d.sync += index.eq(Mux(last_slice, 0, index + 1))
                with m.If(last_slice):
                    m.d.sync += remaining.eq(others)
            with m.Else():
                m.d.sync += [index.eq(index + last_column), remaining.eq(Mux(last_column, operation.columns, others))]
        with m.If(start):
            m.d.sync += [remaining.eq(next_operation.columns), index.eq(0)]
        return column, index

    def _output(self, m, operation, valid, column, index, final, empty):
        output_valid = Signal()
        output = Signal(column_layout(self.cfg), reset_less=True)
        with m.If(self.advance):
            m.d.sync += [
                output_valid.eq(valid),
                output.column.eq(column),
                output.slice.eq(index),
                output.empty.eq(empty | self.stop),
                output.last.eq(final),
                output.zero.eq(operation.zero & (index == 0)),
            ]
            for name in ("base", "element_shift", "product", "factor_word", "lanes", "a_signed", "b_signed", "pc"):
                m.d.sync += getattr(output, name).eq(getattr(operation, name))
        m.d.comb += [self.valid.eq(output_valid), self.o.eq(output)]
