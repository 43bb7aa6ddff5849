"""Output writer: results of the activation pipeline to shared memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import BankWritePort
from ..parameters.rnn import RnnParameters
from .layouts import tail_output_layout

__all__ = ["OutputWriter"]


class OutputWriter(Component):
    """Output writer: writes items of ``tail_lanes`` elements of 16 bits to one bank of shared memory, or to two neighbouring banks.

    An item of 16 lanes has 32 bytes and occupies two banks; the second may be bank 0 of the next row. An item is accepted when all its
    banks have granted.

    *Ports*:
    i : In(stream.Signature(tail_output_layout(cfg)))
        Items with their byte addresses.
    bank : Out(BankWritePort(cfg))
        Write port of shared memory.
    stop : In(1)
        Clears ``fault``.
    fault : Out(1)
        An item was outside of shared memory; registered until ``stop``.
    fault_value : Out(32)
        Byte address of the first such item.

    *Latency*: 0 cycles; ``bank.request`` is combinational from ``i``.

    *Throughput*: one item a cycle where the banks grant. With ``cfg.shared_writes`` 1 an item of two banks requests one bank after the
    other and takes two cycles.

    *Back-pressure*: ``i.ready`` depends combinationally on ``bank.grant`` and on the address at ``i``, not on ``i.valid``.

    *Reset*: forgets which banks of the current item were granted, and clears ``fault``.

    *Errors*: an item that ends beyond shared memory is accepted and dropped; ``fault`` reports it in the next cycle.
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(tail_output_layout(cfg))), "bank": Out(BankWritePort(cfg)), "stop": In(1),
            "fault": Out(1), "fault_value": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        count = 2 * cfg.tail_lanes                          # bytes
        one_bus = cfg.shared_writes == 1 and count > BANK_BYTES
        address, elements = self.i.payload.address, Cat(self.i.payload.elements)
        bank, row = address[4:7], address[7:7 + cfg.row_bits]
        first, second = Signal(BANKS), Signal(BANKS)        # one hot; ``second`` may be 0
        written, rest, asked, outside = Signal(BANKS), Signal(BANKS), Signal(BANKS), Signal()
        end = Signal(len(address) + 1)
        word = elements[:128] if count >= BANK_BYTES else elements.replicate(BANK_BYTES // count)
        mask = (1 << BANK_BYTES) - 1 if count >= BANK_BYTES else ((1 << count) - 1) << address[:4]
        m.d.comb += [
            end.eq(address + count), outside.eq(end > cfg.shared_bytes),
            first.eq(1 << bank), second.eq(Cat(first[-1], first[:-1]) if count > BANK_BYTES else 0),
            rest.eq((first | second) & ~written),
            asked.eq(Mux(written.any(), second, first) if one_bus else rest),
            self.bank.request.eq(Mux(self.i.valid & ~outside, asked, 0)),
            self.i.ready.eq(outside | ((rest & ~(asked & self.bank.grant)) == 0)),
        ]
        for index in range(BANKS):
            is_second = written.any() if one_bus else second[index]
            wraps = is_second & first[-1] if one_bus or index == 0 else 0
            m.d.comb += [
                self.bank.row[index].eq(row + wraps), self.bank.mask[index].eq(mask),
                self.bank.data[index].eq(Mux(is_second, elements[128:], word) if count > BANK_BYTES else word),
            ]
        with m.If(self.i.valid):
            m.d.sync += written.eq(Mux(self.i.ready, 0, written | (self.bank.request & self.bank.grant)))
        with m.If(self.i.valid & outside & ~self.fault):
            m.d.sync += [self.fault.eq(1), self.fault_value.eq(address)]
        with m.If(self.stop):
            m.d.sync += self.fault.eq(0)
        return m
