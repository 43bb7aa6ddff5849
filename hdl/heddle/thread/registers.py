"""Reads of operands from, and writes of results to, the registers of all lanes."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..config import FIRST_FACTOR_REGISTER, PRODUCT_BANKS, REGISTER_BITS
from ..isa.layout import Access, AluFunction
from ..layouts import Capture, ThreadKind, thread_operation_layout

__all__ = ["OperandReader", "ResultWriter"]


class OperandReader(Component):
    """Reads the registers of an operation into the lanes, one register (or four banks) at a time.

    An operation leaves at ``o`` in the cycle after the last grant, so that its registers stand in the lanes one cycle after it
    left. Two registers take two cycles when they are granted at once. Addresses may be read while an earlier operation is
    under way, other operands when there is none.

    Members
    -------
    i, o
        Operations; ``o.valid`` waits for the reads, or for nothing with ``stop``.
    stop : In(1)
        Registers need not be read.
    address_free, operand_free : In(1)
        The lanes' ``address`` or ``operand`` may be overwritten from the next cycle on.
    writing, destination : In(2), In(REGISTER_BITS).array(2)
        Earlier operations that are still to write to these registers; reads of the same four registers wait.
    read_banks, read_row, read_factor, read_number, capture, read_grant, read_factor_grant
        See ``RegisterPort``.
    occupied : Out(1)
        An operation is here.
    event_stalls : Out(1)
        A bank was asked for and not granted in this cycle.
    """

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(thread_operation_layout)),
            "o": Out(stream.Signature(thread_operation_layout)),
            "stop": In(1),
            "address_free": In(1),
            "operand_free": In(1),
            "writing": In(2),
            "destination": In(REGISTER_BITS).array(2),
            "read_banks": Out(PRODUCT_BANKS),
            "read_row": Out(6),
            "read_factor": Out(1),
            "read_number": Out(REGISTER_BITS),
            "capture": Out(Capture),
            "read_grant": In(PRODUCT_BANKS),
            "read_factor_grant": In(1),
            "occupied": Out(1),
            "event_stalls": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        operation = Signal(thread_operation_layout, reset_less=True)
        valid, need_a, need_second = Signal(), Signal(), Signal()
        done_banks = Signal(PRODUCT_BANKS)          # of a vector, already read
        m.d.comb += [
            self.i.ready.eq(~valid | (self.o.valid & self.o.ready)),
            self.o.valid.eq(valid & (self.stop | ~(need_a | need_second))),
            self.o.payload.eq(operation),
            self.occupied.eq(valid),
        ]
        granted = self._request(m, operation, need_a, need_second, done_banks)
        with m.If(granted):
            m.d.sync += [need_a.eq(0), done_banks.eq(0)]
            with m.If(~need_a):
                m.d.sync += need_second.eq(0)
        with m.If(self.i.ready):
            m.d.sync += [valid.eq(self.i.valid), operation.eq(self.i.payload), done_banks.eq(0)]
            m.d.sync += Cat(need_a, need_second).eq(self._needs(self.i.payload))
            with m.If(~self.i.valid):
                m.d.sync += Cat(need_a, need_second).eq(0)
        return m

    def _needs(self, operation):
        computes = (operation.kind == ThreadKind.ALU) | (operation.kind == ThreadKind.COMPARE)
        moves = (operation.kind == ThreadKind.ALU) & (operation.function == AluFunction.MOV)
        store = operation.kind == ThreadKind.STORE
        a = (computes & ~moves) | store | (operation.kind == ThreadKind.LOAD)
        return Cat(a, store | (computes & operation.b_is_register))

    def _request(self, m, operation, need_a, need_second, done_banks):
        """Ask for the next register; the result says that all of it is granted."""
        access_memory, store, loads, vector = Signal(), Signal(), Signal(), Signal()
        number, banks = Signal(REGISTER_BITS), Signal(PRODUCT_BANKS)
        hazard, ask = Signal(), Signal()
        m.d.comb += [
            store.eq(operation.kind == ThreadKind.STORE),
            loads.eq(operation.kind == ThreadKind.LOAD),
            access_memory.eq(store | loads),
            number.eq(Mux(need_a, operation.a, Mux(store, operation.c, operation.b))),
            # Four registers of a function, or the data of a vector store.
            vector.eq((need_a ^ store) & ~loads & ((operation.access == Access.V2) | (operation.access == Access.V4))),
            hazard.eq(Cat(writing & (destination[2:] == number[2:])
                          for writing, destination in zip(self.writing, self.destination)).any()),
            ask.eq(~self.stop & ~hazard & Mux(need_a & access_memory, self.address_free,
                                              (need_a | need_second) & self.operand_free)),
        ]
        for bank in range(PRODUCT_BANKS):
            m.d.comb += banks[bank].eq((number[:2] == bank) | (vector & (
                (operation.access == Access.V4) | (number[1] == bank // 2))))
        factor = number >= FIRST_FACTOR_REGISTER
        with m.If(need_a & access_memory):
            m.d.comb += self.capture.eq(Capture.ADDRESS)
        with m.Elif(need_a | store):
            m.d.comb += self.capture.eq(Mux(vector, Capture.QUAD, Capture.WORD_0))
        with m.Else():
            m.d.comb += self.capture.eq(Capture.WORD_1)

        open_banks = Signal(PRODUCT_BANKS)
        m.d.comb += [
            self.read_banks.eq(Mux(ask & ~factor, banks & ~done_banks, 0)),
            self.read_factor.eq(ask & factor),
            self.read_row.eq(number[2:]),
            self.read_number.eq(number - FIRST_FACTOR_REGISTER),
            open_banks.eq(self.read_banks & ~self.read_grant),
            self.event_stalls.eq(open_banks.any() | (self.read_factor & ~self.read_factor_grant)),
        ]
        with m.If(~self.read_factor):
            m.d.sync += done_banks.eq(done_banks | (self.read_banks & self.read_grant))
        return ask & ~self.event_stalls


class ResultWriter(Component):
    """Writes the lanes' operand words to the destination registers of an operation and completes it.

    Takes one cycle for product registers and for each factor word when granted at once; an operation that writes nothing
    is completed in the cycle after ``take``.

    Members
    -------
    take : In(1)
        An operation comes (only while not ``valid`` or with ``complete``): it writes ``words`` (bit j: register of bank j, word j) of
        the four registers around ``register``, in the lanes ``lanes``.
    landing : In(1)
        Results are not in the lanes yet, or stores not in their banks.
    valid : Out(1)
        An operation waits for its writes.
    complete : Out(1)
        Combinational: it ends in this cycle.
    writing, destination
        The operation is still to write registers; the first of them.
    write_banks, write_row, write_grant, write_factor, write_word, write_chunk, write_parts, write_factor_grant, write_lanes
        See ``RegisterPort``.
    event_stalls : Out(1)
        A write was asked for and not granted in this cycle.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "take": In(1),
            "register": In(REGISTER_BITS),
            "words": In(PRODUCT_BANKS),
            "lanes": In(cfg.threads),
            "landing": In(1),
            "valid": Out(1),
            "complete": Out(1),
            "writing": Out(1),
            "destination": Out(REGISTER_BITS),
            "write_banks": Out(PRODUCT_BANKS),
            "write_row": Out(6),
            "write_grant": In(PRODUCT_BANKS),
            "write_factor": Out(1),
            "write_word": Out(cfg.factor_address_bits),
            "write_chunk": Out(2),
            "write_parts": Out(max(cfg.numbers_per_word, 1)),
            "write_factor_grant": In(1),
            "write_lanes": Out(cfg.threads),
            "event_stalls": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        parts = self.cfg.numbers_per_word
        chunks = 4 // parts                      # factor words in four registers
        left, after = Signal(PRODUCT_BANKS), Signal(PRODUCT_BANKS)
        factor, writes = Signal(), Signal()
        chunk = Signal(range(chunks))
        m.d.comb += [
            factor.eq(self.destination >= FIRST_FACTOR_REGISTER),
            writes.eq(self.valid & ~self.landing),
            self.writing.eq(self.valid & left.any()),
            self.write_banks.eq(Mux(writes & ~factor, left, 0)),
            self.write_row.eq(self.destination[2:]),
            self.write_factor.eq(writes & factor & left.any()),
            self.write_word.eq(Cat(chunk, (self.destination - FIRST_FACTOR_REGISTER)[2:])),
            self.write_chunk.eq(chunk),
            self.write_parts.eq(left.word_select(chunk, parts)),
            self.complete.eq(self.valid & ~self.landing & ~after.any()),
            self.event_stalls.eq((self.write_banks & ~self.write_grant).any() | (self.write_factor & ~self.write_factor_grant)),
        ]
        for number in reversed(range(chunks)):
            with m.If(left.word_select(number, parts).any()):
                m.d.comb += chunk.eq(number)
        chosen = Cat((chunk == number).replicate(parts) for number in range(chunks))
        with m.If(factor):
            m.d.comb += after.eq(left & ~(chosen & (self.write_factor & self.write_factor_grant).replicate(4)))
        with m.Else():
            m.d.comb += after.eq(left & ~(self.write_banks & self.write_grant))
        m.d.sync += left.eq(after)
        with m.If(self.complete):
            m.d.sync += self.valid.eq(0)
        with m.If(self.take):
            m.d.sync += [self.valid.eq(1), left.eq(self.words), self.destination.eq(self.register),
                         self.write_lanes.eq(self.lanes)]
        return m
