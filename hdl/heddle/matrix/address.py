"""From a column and a k-slice to a checked request for a word of shared memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..config import BANK_BYTES, BANKS, PRODUCT_REGISTERS
from ..datapath.gates import any_of, select_one_hot
from ..errors import ErrorCode
from ..layouts import PC_BITS, ErrorStream
from .layouts import column_layout, word_request_layout

__all__ = ["ColumnAddress"]


class ColumnAddress(Component):
    """Computes the address of each column's word, checks it and says which bank to read for which step.

    The address of column n and slice s is ``base + (offset[n] << element_shift) + s * dot``, 32 bits wrapping. Columns
    whose product register would lie beyond r255 take no step; the first of them reports PRODUCT_RANGE with operand 256.
    An address that is no multiple of ``dot`` reports MISALIGNED, one beyond shared memory OUT_OF_RANGE, both with the
    address; nothing more of that operation is read, only its end is passed on.

    Latency 3 cycles in which ``advance`` is high, one column a cycle; all outputs are registered and keep their values
    while it is low (an error is reported once). ``offset`` is used in the first of these cycles. Reset drops what is
    under way.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    advance : In(1)
    valid : In(1)
    i : In(column_layout(cfg))
    offset : In(32).array(threads)
    o : Out(word_request_layout(cfg))
    pending : Out(1)
        Columns are on their way, ``o`` not included.
    o_error : Out(ErrorStream())
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "advance": In(1),
            "valid": In(1),
            "i": In(column_layout(cfg)),
            "offset": In(32).array(cfg.threads),
            "o": Out(word_request_layout(cfg)),
            "pending": Out(1),
            "o_error": Out(ErrorStream()),
        })

    def elaborate(self, platform):
        m = Module()
        passed_on = {"last": 1, "empty": 1, "zero": 1, "lanes": self.cfg.threads, "a_signed": 1, "b_signed": 1,
                     "pc": PC_BITS}
        factor_word = {"factor_word": self.cfg.factor_address_bits}
        based_layout = data.StructLayout({**passed_on, **factor_word, "offset": 32, "base": 32, "element_shift": 3,
                                          "product": 8, "column": self.cfg.thread_bits})
        addressed_layout = data.StructLayout({**passed_on, **factor_word, "address": 32, "product": 9})

        based_valid = Signal()
        based = Signal(based_layout, reset_less=True)
        addressed_valid = Signal()
        addressed = Signal(addressed_layout, reset_less=True)
        with m.If(self.advance):
            m.d.sync += [based_valid.eq(self.valid), addressed_valid.eq(based_valid)]
            for name in passed_on:
                m.d.sync += [
                    getattr(based, name).eq(getattr(self.i, name)),
                    getattr(addressed, name).eq(getattr(based, name)),
                ]
            self._base(m, based)
            m.d.sync += [
                addressed.factor_word.eq(based.factor_word),
                addressed.product.eq(based.product + based.column),
                addressed.address.eq(based.base + (based.offset << based.element_shift)),
            ]
        m.d.comb += self.pending.eq(self.valid | based_valid | addressed_valid)
        self._check(m, addressed_valid, addressed)
        return m

    def _base(self, m, based):
        """Stage 1: the column's offset and number, the slice's base and factor word."""
        column = self.i.column
        m.d.sync += [
            based.offset.eq(select_one_hot(column, self.offset)),
            based.column.eq(Cat(
                any_of(column[number] for number in range(self.cfg.threads) if number >> bit & 1)
                for bit in range(self.cfg.thread_bits))),
            based.base.eq(self.i.base + self.i.slice * self.cfg.dot),
            based.element_shift.eq(self.i.element_shift),
            based.factor_word.eq(self.i.factor_word + self.i.slice),
            based.product.eq(self.i.product),
        ]

    def _check(self, m, valid, column):
        """Stage 3: errors, and the request of what is in order."""
        dropping = Signal()                 # the rest of this operation, after an error
        range_reported = Signal()
        live = Signal()
        ignored = Signal()
        misaligned = Signal()
        outside = Signal()
        m.d.comb += [
            live.eq(valid & ~column.empty & ~dropping),
            ignored.eq(column.product[8]),
            misaligned.eq(column.address[:exact_log2(self.cfg.dot)].any()),
            outside.eq(column.address[self.cfg.shared_address_bits:].any()),
        ]
        error = Signal(self.o_error.payload.shape(), reset_less=True)
        error_valid = Signal()
        request = Signal(word_request_layout(self.cfg))
        m.d.comb += [self.o.eq(request), self.o_error.valid.eq(error_valid), self.o_error.payload.eq(error)]
        m.d.sync += [
            error_valid.eq(self.advance & live & Mux(ignored, ~range_reported, misaligned | outside)),
            error.code.eq(Mux(ignored, ErrorCode.PRODUCT_RANGE,
                              Mux(misaligned, ErrorCode.MISALIGNED, ErrorCode.OUT_OF_RANGE))),
            error.pc.eq(column.pc),
            error.operand.eq(Mux(ignored, PRODUCT_REGISTERS, column.address)),
        ]
        with m.If(self.advance):
            m.d.sync += [
                dropping.eq(~(valid & column.last) & (dropping | (live & ~ignored & (misaligned | outside)))),
                range_reported.eq(~(valid & column.last) & (range_reported | (live & ignored))),
            ]
            self._request(m, request, column, live & ~ignored & ~misaligned & ~outside, valid & column.last)

    def _request(self, m, request, column, step, last):
        bank_bits = exact_log2(BANK_BYTES)
        row_bits = bank_bits + exact_log2(BANKS)
        m.d.sync += [
            request.step.step.eq(step),
            request.step.last.eq(last),
            request.step.product.eq(column.product),
            request.bank.eq(Mux(step, 1 << column.address[bank_bits:row_bits], 0)),
            request.row.eq(column.address[row_bits:]),
            request.chunk.eq(column.address[exact_log2(self.cfg.dot):bank_bits]),
            request.b_signed.eq(column.b_signed),
        ]
        for name in ("factor_word", "zero", "lanes", "a_signed"):
            m.d.sync += getattr(request.step, name).eq(getattr(column, name))
