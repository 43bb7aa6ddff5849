"""From a group of words to checked shared addresses."""

from contextlib import nullcontext

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import PRODUCT_REGISTERS
from ..interfaces.layouts import PC_BITS, ErrorStream
from ..isa.error_codes import ErrorCode
from ..lib.onehot import any_of, select_one_hot
from .layouts import PIECE_BITS, group_layout, merge_layout, slots_layout
from .merges import slot_place

__all__ = ["AddressGenerator"]


def _first(errors):
    """The first error that holds: of (wrong, code, operand) each, (whether any does, its code, its operand)."""
    wrong, code, operand = errors[-1]
    for error, its_code, its_operand in reversed(errors[:-1]):
        wrong, code, operand = error | wrong, Mux(error, its_code, code), Mux(error, its_operand, operand)
    return wrong, code, operand


class AddressGenerator(Component):
    """Computes the addresses of a group's words and checks them.

    The address of column n and word w along k is ``base + (offset[n] << element_shift) + w * dot``, 32 bits wrapping.
    With transposed B it is that of the column's element in the first row of the slice; the distance of the rows must be a
    multiple of 16 bytes, and all rows of the slice must lie in shared memory.
    Steps whose product register would lie beyond r255 do not take place; the first of them reports PRODUCT_RANGE with
    operand 256. An address that is no multiple of ``dot`` reports MISALIGNED, one beyond shared memory OUT_OF_RANGE,
    both with the address of the first such word of the step; nothing more of that operation is read, only its end is
    passed on.

    Latency 3 cycles in which ``advance`` is high, one group a cycle; outputs are registered and keep their values while
    it is low (an error is reported once). With one slot ``o`` comes a cycle earlier, combinational: ``WordSchedule``
    registers it. ``offset`` is used in the first of these cycles. Reset drops what is under way.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    advance : In(1)
    valid : In(1)
    i : In(group_layout(cfg))
    offset : In(32).array(threads)
    o : Out(slots_layout(cfg))
    pending : Out(1)
        Groups are on their way, registered ``o`` not included.
    o_error : Out(ErrorStream())
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "advance": In(1),
            "valid": In(1),
            "i": In(group_layout(cfg)),
            "offset": In(32).array(cfg.threads),
            "o": Out(slots_layout(cfg)),
            "pending": Out(1),
            "o_error": Out(ErrorStream()),
        })

    def elaborate(self, platform):
        m = Module()
        columns = len(self.i.used)
        passed_on = {"last": 1, "complete": 1, "zero": 1, "lanes": self.cfg.threads, "a_signed": 1, "b_signed": 1, "int16": 1, "swapped": 1,
                     "pc": PC_BITS, "used": columns, "extra": 2, "lanes_b": 3, "merge": merge_layout(self.cfg),
                     "factor_word": self.cfg.factor_address_bits, "product": 9}
        if self.cfg.transpose:
            passed_on |= {"transpose": 1, "pitch": 32}
        based_layout = data.StructLayout({
            **passed_on, "offset": data.ArrayLayout(32, columns), "base": 32, "element_shift": 3,
            "number": self.cfg.thread_bits})
        rows_bits = self.cfg.shared_address_bits + exact_log2(self.cfg.dot)
        addressed_layout = data.StructLayout({
            **passed_on, "address": data.ArrayLayout(32, columns), **({"to_last_row": rows_bits} if self.cfg.transpose else {})})

        based_valid = Signal()
        based = Signal(based_layout, reset_less=True)
        addressed_valid = Signal()
        addressed = Signal(addressed_layout, reset_less=True)
        with m.If(self.advance):
            m.d.sync += [based_valid.eq(self.valid), addressed_valid.eq(based_valid)]
            for name in passed_on:
                if name not in ("factor_word", "product"):
                    m.d.sync += getattr(based, name).eq(getattr(self.i, name))
                m.d.sync += getattr(addressed, name).eq(getattr(based, name))
            m.d.sync += [based.offset[column].eq(select_one_hot(self.i.columns[column], self.offset))
                         for column in range(columns)]
            m.d.sync += [
                based.base.eq(self.i.base + self.i.word * self.cfg.dot),
                based.element_shift.eq(self.i.element_shift),
                based.factor_word.eq(self.i.factor_word + self.i.slice),
                based.number.eq(self.i.number),
                based.product.eq(self.i.product),
                addressed.product.eq(based.product + based.number),
            ]
            m.d.sync += [addressed.address[column].eq(based.base + (based.offset[column] << based.element_shift))
                         for column in range(columns)]
            if self.cfg.transpose:
                rows = exact_log2(self.cfg.dot)
                m.d.sync += addressed.to_last_row.eq(
                    Mux(based.int16, based.pitch << rows - 1, based.pitch << rows) - based.pitch)
        m.d.comb += self.pending.eq(self.valid | based_valid | addressed_valid)
        self._check(m, addressed_valid, addressed)
        return m

    def _check(self, m, valid, group):
        """Stage 3: errors, and the words of what is in order."""
        dropping = Signal()                 # the rest of this operation, after an error
        range_reported = Signal()
        live = Signal()
        ignored = Signal()
        wrong, code, operand = self._wrong(m, group)
        m.d.comb += [live.eq(valid & group.used.any() & ~dropping), ignored.eq(group.product[8])]
        error = Signal(self.o_error.payload.shape(), reset_less=True)
        error_valid = Signal()
        output = Signal(slots_layout(self.cfg))
        m.d.comb += [self.o.eq(output), self.o_error.valid.eq(error_valid), self.o_error.payload.eq(error)]
        m.d.sync += [
            error_valid.eq(self.advance & live & Mux(ignored, ~range_reported, wrong)),
            error.code.eq(Mux(ignored, ErrorCode.PRODUCT_RANGE, code)),
            error.pc.eq(group.pc),
            error.operand.eq(Mux(ignored, PRODUCT_REGISTERS, operand)),
        ]
        with m.If(self.advance):
            m.d.sync += [
                dropping.eq(~(valid & group.last) & (dropping | (live & ~ignored & wrong))),
                range_reported.eq(~(valid & group.last) & (range_reported | (live & ignored))),
            ]
        registered = self.cfg.fetch_slots > 1
        with m.If(self.advance) if registered else nullcontext():
            domain = m.d.sync if registered else m.d.comb
            correct = used = live & ~ignored & ~wrong
            if self.cfg.words_voided:
                used = live & ~ignored
                domain += output.void.eq(wrong)
            self._output(domain, output, group, correct, used, valid & group.last)

    def _wrong(self, m, group):
        """Whether a word has an error; code and address of the first one. The words of a column follow each other."""
        cfg = self.cfg
        dot_bits = exact_log2(cfg.dot)
        wrong, codes, operands = [], [], []
        for column in range(len(group.used)):
            address = group.address[column]
            misaligned, outside, crossing = (
                Signal(name=f"{name}_{column}") for name in ("misaligned", "outside", "crossing"))
            m.d.comb += [
                misaligned.eq(address[:dot_bits].any()),
                outside.eq(address[cfg.shared_address_bits:].any()),
            ]
            if cfg.fetch_slots > 1:
                end = address[dot_bits:cfg.shared_address_bits] + group.extra
                m.d.comb += crossing.eq(end[cfg.shared_address_bits - dot_bits])
            # A column that begins within shared memory leaves it at its end.
            error = _first([(misaligned, ErrorCode.MISALIGNED, address), (outside, ErrorCode.OUT_OF_RANGE, address),
                            (crossing, ErrorCode.OUT_OF_RANGE, cfg.shared_bytes)])
            if column == 0 and cfg.transpose:
                of_rows = _first(self._errors_of_rows(m, group))
                error = [Mux(group.transpose, rows, words) for rows, words in zip(of_rows, error)]
            wrong.append(group.used[column] & error[0])
            codes.append(error[1])
            operands.append(error[2])
        code, operand = codes[-1], operands[-1]
        for column in reversed(range(len(wrong) - 1)):
            code, operand = Mux(wrong[column], codes[column], code), Mux(wrong[column], operands[column], operand)
        return Cat(wrong).any(), code, operand

    def _errors_of_rows(self, m, group):
        """Errors of transposed B in the order in which they count: (wrong, code, operand)."""
        limit, address, pitch = self.cfg.shared_address_bits, group.address[0], group.pitch
        last = Signal(32)
        m.d.comb += last.eq(address[:limit] + group.to_last_row)
        return [
            (pitch[:PIECE_BITS].any(), ErrorCode.MISALIGNED, pitch),
            (group.int16 & address[0], ErrorCode.MISALIGNED, address),
            (pitch[limit:].any(), ErrorCode.OUT_OF_RANGE, pitch),
            (address[limit:].any(), ErrorCode.OUT_OF_RANGE, address),
            (last[limit:].any(), ErrorCode.OUT_OF_RANGE, last),
        ]

    def _output(self, domain, output, group, correct, asked, last):
        """``correct``: a step may follow; ``asked``: banks are asked for its words."""
        cfg = self.cfg
        domain += [output.step.eq(correct & group.complete), output.last.eq(last)]
        for slot in range(cfg.fetch_slots):
            used, words = [], []
            for mode, lanes in enumerate((1, 2, 4)):
                place = slot_place(cfg.fetch_slots, lanes, slot)
                if place is not None:
                    column, word = place
                    address = group.address[column][exact_log2(cfg.dot):cfg.shared_address_bits]
                    used.append(group.lanes_b[mode] & group.used[column] & (word <= group.extra))
                    words.append((group.lanes_b[mode], address, word))
            if slot == 0:       # the first word of the first column in every mode
                address = words[0][1]
            else:
                first = any_of(Mux(mode, address, 0) for mode, address, _ in words)
                address = first + any_of(Mux(mode, word, 0) for mode, _, word in words)
            domain += [output.used[slot].eq(asked & any_of(used)), output.words[slot].eq(address)]
        if cfg.transpose:
            domain += [
                output.transpose.eq(group.transpose), output.pitch.eq(group.pitch[PIECE_BITS:]),
                output.column.eq(group.address[0]),
            ]
        for name in ("product", "factor_word", "zero", "lanes", "a_signed", "b_signed", "int16", "swapped", "merge"):
            domain += getattr(output, name).eq(getattr(group, name))
