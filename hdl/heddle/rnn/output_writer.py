"""Output writer: results of the activation pipeline to shared memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import SharedWritePort
from ..parameters.rnn import RnnParameters
from .layouts import tail_output_layout

__all__ = ["UNACKNOWLEDGED", "OutputWriter"]

UNACKNOWLEDGED = 7      # requests without acknowledgement, at most


class OutputWriter(Component):
    """Output writer: writes items of ``tail_lanes`` elements of 16 bits to one bank of shared memory, or to two neighbouring banks.

    An item of 16 lanes has 32 bytes and occupies two banks; the second may be bank 0 of the next row. It is one request, with
    ``cfg.shared_writes`` 1 two requests. An item is accepted with its last request.

    *Ports*:
    i : In(stream.Signature(tail_output_layout(cfg)))
        Items with their byte addresses.
    bank : Out(SharedWritePort(cfg))
        Write port of shared memory.
    busy : Out(1)
        A request is accepted and not acknowledged; low in the cycle of the last acknowledgement. An item at ``i`` does not count.
    stop : In(1)
        Clears ``fault``.
    fault : Out(1)
        An item was outside of shared memory; registered until ``stop``.
    fault_value : Out(32)
        Byte address of the first such item.

    *Latency*: 0 cycles; ``bank.request`` is combinational from ``i``.

    *Throughput*: one item a cycle while requests are accepted. With ``cfg.shared_writes`` 1 an item of two banks takes two cycles. At
    most ``UNACKNOWLEDGED`` (7) requests are without acknowledgement.

    *Back-pressure*: ``i.ready`` depends combinationally on ``bank.request.ready`` and on the address at ``i``, not on ``i.valid``.
    ``bank.request.valid`` depends combinationally on ``i``, not on ``bank.request.ready``. ``busy`` depends combinationally on
    ``bank.written``.

    *Reset*: forgets the first request of an item and the acknowledgements that are missing, and clears ``fault``.

    *Errors*: an item that ends beyond shared memory is accepted and dropped; ``fault`` reports it in the next cycle.
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(tail_output_layout(cfg))), "bank": Out(SharedWritePort(cfg)), "busy": Out(1), "stop": In(1),
            "fault": Out(1), "fault_value": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        count = 2 * self.cfg.tail_lanes                     # bytes
        address, request, outside = self.i.payload.address, self.bank.request, Signal()
        missing = Signal(range(UNACKNOWLEDGED + 1))         # requests without acknowledgement
        end, room, last = Signal(len(address) + 1), Signal(), Signal()
        m.d.comb += [
            end.eq(address + count), outside.eq(end > self.cfg.shared_bytes), room.eq(missing != UNACKNOWLEDGED),
            request.valid.eq(self.i.valid & ~outside & room), self.i.ready.eq(outside | (request.ready & room & last)),
            self.busy.eq(missing != self.bank.written),
        ]
        m.d.sync += missing.eq(missing + (request.valid & request.ready) - self.bank.written)
        self._place(m, address, last)
        with m.If(self.i.valid & outside & ~self.fault):
            m.d.sync += [self.fault.eq(1), self.fault_value.eq(address)]
        with m.If(self.stop):
            m.d.sync += self.fault.eq(0)
        return m

    def _place(self, m, address, last):
        """Banks, rows, data and byte enables of the request; whether it is the ``last`` one of its item."""
        request, elements, count = self.bank.request, Cat(self.i.payload.elements), 2 * self.cfg.tail_lanes
        payload, row = request.payload, address[7:7 + self.cfg.row_bits]
        first, second = Signal(BANKS), Signal(BANKS)        # one hot; ``second`` may be 0
        m.d.comb += [first.eq(1 << address[4:7]), second.eq(Cat(first[-1], first[:-1]) if count > BANK_BYTES else 0)]
        word = elements[:8 * BANK_BYTES] if count >= BANK_BYTES else elements.replicate(BANK_BYTES // count)
        mask = (1 << BANK_BYTES) - 1 if count >= BANK_BYTES else ((1 << count) - 1) << address[:4]
        if self.cfg.shared_writes == 1 and count > BANK_BYTES:
            again = Signal()        # the first bank of the item is requested
            with m.If(request.valid & request.ready):
                m.d.sync += again.eq(~again)
            m.d.comb += [payload.bank.eq(Mux(again, second, first)), last.eq(again)]
            of_second, wraps = [again], [again & first[-1]]
        else:
            m.d.comb += [payload.bank.eq(first | second), last.eq(1)]
            of_second, wraps = second, [first[-1]] if count > BANK_BYTES else []
        for line, (line_row, data, enables) in enumerate(zip(payload.row, payload.data, payload.mask, strict=True)):
            m.d.comb += [
                line_row.eq(row + (wraps[line] if line < len(wraps) else 0)), enables.eq(mask),
                data.eq(Mux(of_second[line], elements[8 * BANK_BYTES:], word) if count > BANK_BYTES else word),
            ]
        return m
