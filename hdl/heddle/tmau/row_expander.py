"""Turns copies of matrix rows into one copy for each row."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import copy_operation_layout, row_operation_layout

__all__ = ["RowExpander"]


class RowExpander(Component):
    """One ``copy_block`` operation a cycle for each row of an operation; a single block is one row.

    Row n begins n pitches behind the first one, exactly: from the first row on that 32 bits do not hold, on one side, the rows have
    ``destination_outside`` or ``source_outside`` [S1.12].

    Latency 1 cycle; ``i.ready`` is combinational from ``o.ready``, or ``registered``: operations
    are then taken every other cycle. While ``stop`` is high operations are taken and the rows that are left are dropped.

    Members
    -------
    i : stream of ``row_operation_layout``
    o : stream of ``copy_operation_layout``
    busy
        Rows are left.
    last
        The row at ``o`` is the last one of its operation.
    """

    def __init__(self, registered=False):
        self._registered = registered
        super().__init__({
            "i": In(stream.Signature(row_operation_layout)),
            "o": Out(stream.Signature(copy_operation_layout)),
            "stop": In(1), "busy": Out(1), "last": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        rest = Signal(row_operation_layout, reset_less=True)
        active = Signal()
        last = self.last                    # a register: it selects for all others
        m.d.comb += [
            self.o.valid.eq(active & ~self.stop), self.o.payload.eq(rest.first), self.busy.eq(active),
            self.i.ready.eq(self.stop | ~active | (0 if self._registered else self.o.ready & last)),
        ]
        if self._registered:
            with m.If(self.o.ready & last):
                m.d.sync += active.eq(0)
        with m.If(self.i.ready):
            m.d.sync += active.eq(self.i.valid & (self.i.payload.rows != 0) & ~self.stop)
        with m.If(~active | last):
            with m.If(self.i.ready):
                m.d.sync += [rest.eq(self.i.payload), last.eq(self.i.payload.rows == 1)]
        with m.Elif(self.o.ready):
            m.d.sync += [
                rest.rows.eq(rest.rows - 1), last.eq(rest.rows == 2),
            ]
            for end in ("destination", "source"):
                row = Signal(signed(34), name=f"next_{end}")
                m.d.comb += row.eq(rest.first[end] + rest[f"{end}_pitch"])
                m.d.sync += [
                    rest.first[end].eq(row[:32]),
                    rest.first[f"{end}_outside"].eq(rest.first[f"{end}_outside"] | row[32:].any()),
                ]
        return m
