"""Row expander of ``copy_rows``: one block copy per matrix row."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import copy_operation_layout, row_operation_layout

__all__ = ["RowExpander"]


class RowExpander(Component):
    """Row expander: generates one ``copy_block`` operation for each row of an operation; a single block copy is one row [S1.12].

    Row n begins n pitches after the first row; pitches are signed, addresses in bytes. From the first row whose address exceeds 32 bits
    on, rows have ``destination_outside`` or ``source_outside``. An operation of zero rows generates none.

    *Ports*:
    i : In(stream.Signature(row_operation_layout))
        Operations.
    o : Out(stream.Signature(copy_operation_layout))
        Rows. Combinational from registers and ``stop``.
    stop : In(1)
        Accept operations and drop them and all remaining rows.
    busy : Out(1)
        Rows remain.
    last : Out(1)
        The row at ``o`` is the last one of its operation. Registered.

    *Latency*: 1 cycle from ``i`` to the first row.

    *Throughput*: one row per cycle, also across operations.

    *Back-pressure*: ``i.ready`` depends combinationally on ``stop`` and ``o.ready``.

    *Reset*: drops all rows.

    *Source*: [S1.12].
    """

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(row_operation_layout)),
            "o": Out(stream.Signature(copy_operation_layout)),
            "stop": In(1), "busy": Out(1), "last": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        rest = Signal(row_operation_layout, reset_less=True)
        active = Signal()
        last = self.last                    # registered, as it selects the inputs of all other registers
        m.d.comb += [
            self.o.valid.eq(active & ~self.stop), self.o.payload.eq(rest.first), self.busy.eq(active),
            self.i.ready.eq(self.stop | ~active | (self.o.ready & last)),
        ]
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
