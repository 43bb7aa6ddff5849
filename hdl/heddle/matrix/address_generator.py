"""Address generator (AGU) of the words of B, with address checks."""

from contextlib import nullcontext

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import PRODUCT_REGISTERS, ROW_BYTES
from ..interfaces.layouts import PC_BITS, ErrorStream, column_fields, word_number_bits
from ..interfaces.swizzle import swizzle_bits, swizzled
from ..isa.compiled_offsets import ALWAYS, OFFSET_BITS, OffsetEntry, base_layout, entry_layout, uniform_layout
from ..isa.error_codes import ErrorCode
from ..lib.onehot import any_of, select_one_hot
from ..parameters.matrix import MatrixParameters
from .layouts import PIECE_BITS, group_layout, has_item, merge_layout, slots_layout
from .merges import slot_place
from .offset_memory import entries_together

__all__ = ["AddressGenerator"]

PANEL_BITS = exact_log2(ROW_BYTES)      # a panel: what a column of B has of a swizzled tile


def _first(errors):
    """First error of a list of (wrong, code, operand): whether there is any, its code and its operand."""
    wrong, code, operand = errors[-1]
    for error, its_code, its_operand in reversed(errors[:-1]):
        wrong, code, operand = error | wrong, Mux(error, its_code, code), Mux(error, its_operand, operand)
    return wrong, code, operand


class AddressGenerator(Component):
    """Address generator (AGU): computes the shared-memory byte addresses of a group of words of B and checks them [S0.8, S0.11].

    The address of word w along k of column n is ``base + (offset[n] << element_shift) + w * dot``, modulo 2^32. With transposed B it is the
    address of the column's element in the first row of the slice. A word of a swizzled tile lies at this address with its bank exchanged;
    checks and errors know the address before it. The exchange of transposed B is left to ``TransposeFetch``, which adds the rows.

    With compiled offsets the address is ``base + base[n] + entry``, modulo 2^20. Where thread n lacks a mask bit that the entry requires,
    the address is that of the padding. The entry is that of the word, or there is one for each byte.

    Parameters
    ----------
    cfg : MatrixParameters

    *Ports*:
    i : In(stream.Signature(group_layout(cfg)))
        Groups of words.
    offset : In(32).array(threads)
        Offset of each column; read in the cycle in which ``i`` is taken.
    entries : In(entry_layout).array(entries_together(cfg))
        With ``compiled_offsets``: entries of the word at ``i``, or of its bytes.
    beyond : In(1)
        With ``compiled_offsets``: there are no such entries.
    o : Out(stream.Signature(slots_layout(cfg)))
        The checked words. A group without words, step and end of an operation is no item.
    pending : Out(1)
        Groups are in flight, at ``i`` included, in a registered ``o`` not.
    o_error : Out(ErrorStream())
        Errors; registered, valid for one cycle.

    *Latency*: from ``i`` to ``o`` three cycles while ``o.ready`` is high. With one fetch slot ``o`` is combinational behind the second of
    them, and ``BankScheduler`` has the register. An error is reported three cycles after its group was at ``i``.

    *Throughput*: one group a cycle.

    *Back-pressure*: while ``o.ready`` is low all stages hold; ``i.ready`` is ``o.ready``.

    *Reset*: no group is in flight.

    *Errors*: PRODUCT_RANGE (operand 256) when the product register of a step is above r255. Such steps do not execute; the first of an
    operation is reported. MISALIGNED: the address is no multiple of ``dot``. OUT_OF_RANGE: the address, or the end of the column's words,
    is above shared memory. The operand is the first such address of the step; where a column ends above shared memory it is the size of
    shared memory. PANEL_RANGE: the words of a column of a swizzled tile go on behind the 128 bytes in which they begin; the operand is
    where. After these three nothing of the operation is read, only its end is passed on. Transposed B, in this order: MISALIGNED for a
    pitch that is no multiple of 16 bytes, then for an odd address of 16-bit elements. OUT_OF_RANGE for a pitch, an address, or a last row
    of the slice above shared memory. The operand is this value. OFFSET_RANGE, before all others: there are no such entries; the operand is
    the number of entries.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MatrixParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(group_layout(cfg))),
            "offset": In(32).array(cfg.threads),
            **({"entries": In(entry_layout).array(entries_together(cfg)), "beyond": In(1)} if cfg.compiled_offsets else {}),
            "o": Out(stream.Signature(slots_layout(cfg))),
            "pending": Out(1),
            "o_error": Out(ErrorStream()),
        })

    def elaborate(self, platform):
        m = Module()
        columns = len(self.i.payload.used)
        passed_on = {"last": 1, "complete": 1, "zero": 1, "lanes": self.cfg.threads, "a_signed": 1, "b_signed": 1, "int16": 1, "swapped": 1,
                     "pc": PC_BITS, "used": columns, "extra": 2, "lanes_b": 3, "merge": merge_layout(self.cfg),
                     "factor_word": word_number_bits(self.cfg), "product": 9, "swizzle": swizzle_bits(self.cfg),
                     **column_fields(self.cfg)}
        entries = entries_together(self.cfg) if self.cfg.compiled_offsets else 0
        based_layout = data.StructLayout({
            **passed_on, "offset": data.ArrayLayout(32, columns), "base": 32, "element_shift": 3, "inner": 1,
            "number": self.cfg.thread_bits, "entries": data.ArrayLayout(entry_layout, entries), **({"beyond": 1} if entries else {})})
        rows_bits = self.cfg.shared_address_bits + exact_log2(self.cfg.dot)
        addressed_layout = data.StructLayout({
            **passed_on, "address": data.ArrayLayout(32, columns), "exchange": swizzle_bits(self.cfg), "inner": 1,
            "bytes": data.ArrayLayout(OFFSET_BITS, entries if entries > 1 else 0), **({"beyond": 1} if entries else {}),
            **({"to_last_row": rows_bits} if self.cfg.transpose else {})})

        based_valid = Signal()
        based = Signal(based_layout, reset_less=True)
        addressed_valid = Signal()
        addressed = Signal(addressed_layout, reset_less=True)
        with m.If(self.o.ready):
            m.d.sync += [based_valid.eq(self.i.valid), addressed_valid.eq(based_valid)]
            for name in passed_on:
                if name not in ("factor_word", "product"):
                    m.d.sync += getattr(based, name).eq(getattr(self.i.payload, name))
                m.d.sync += getattr(addressed, name).eq(getattr(based, name))
            m.d.sync += [based.offset[column].eq(select_one_hot(self.i.payload.columns[column], self.offset))
                         for column in range(columns)]
            if entries:
                self._compiled(m, based, addressed)
            m.d.sync += [
                based.base.eq(self.i.payload.base + self.i.payload.word * self.cfg.dot),
                based.element_shift.eq(self.i.payload.element_shift),
                based.factor_word.eq(self.i.payload.factor_word + self.i.payload.slice),
                based.number.eq(self.i.payload.number),
                based.inner.eq((self.i.payload.word != 0) & (self._by_entry(self.i.payload) == 0)),
                addressed.inner.eq(based.inner),
                addressed.exchange.eq(Mux(based.transpose, 0, based.swizzle) if self.cfg.transpose else based.swizzle),
                based.product.eq(self.i.payload.product),
                addressed.product.eq(based.product + based.number),
            ]
            m.d.sync += [addressed.address[column].eq(self._address(based, column)) for column in range(columns)]
            if self.cfg.transpose:
                rows = exact_log2(self.cfg.dot)
                m.d.sync += addressed.to_last_row.eq(
                    Mux(based.int16, based.pitch << rows - 1, based.pitch << rows) - based.pitch)
        m.d.comb += self.i.ready.eq(self.o.ready)
        m.d.comb += self.pending.eq(self.i.valid | based_valid | addressed_valid)
        self._check(m, addressed_valid, addressed)
        return m

    def _by_entry(self, operation):
        """Whether addresses come from compiled offsets."""
        return operation.compiled != OffsetEntry.NONE if self.cfg.compiled_offsets else Const(0)

    def _address(self, based, column):
        """Address of the first word of a column of a group; of bytes that of the first."""
        plain = based.base + (based.offset[column] << based.element_shift)
        if not self.cfg.compiled_offsets:
            return plain
        return Mux(self._by_entry(based), self._place(based, based.entries[0], column), plain[:32])

    def _compiled(self, m, based, addressed):
        """Entries, of which the base of the operation becomes part, and the addresses of bytes. Within the enable of the stages."""
        for entry, source in zip(based.entries, self.entries, strict=True):
            m.d.sync += [entry.offset.eq(self.i.payload.base + source.offset), entry.positions.eq(source.positions)]
        m.d.sync += [based.beyond.eq(self.beyond & self._by_entry(self.i.payload)), addressed.beyond.eq(based.beyond)]
        # A single entry has no addresses of bytes.
        m.d.sync += [byte.eq(self._place(based, based.entries[number], 0)) for number, byte in enumerate(addressed.bytes)]

    def _place(self, based, entry, column):
        """Address of what an entry addresses, for a column."""
        base, uniform = data.View(base_layout, based.offset[column]), data.View(uniform_layout, based.pitch)
        mask = Cat(base.mask, ~Const(0, ALWAYS + 1 - len(base.mask)))
        inside = Cat(mask.bit_select(position, 1) for position in entry.positions).all()
        return Mux(inside, (base.base + entry.offset)[:OFFSET_BITS], uniform.padding)

    def _check(self, m, valid, group):
        """Third stage: errors, and the words without one."""
        dropping = Signal()                 # the rest of the operation is dropped, after an error
        range_reported = Signal()
        live = Signal()
        ignored = Signal()
        wrong, code, operand = self._wrong(m, group)
        m.d.comb += [live.eq(valid & group.used.any() & ~dropping), ignored.eq(group.product[8])]
        error = Signal(self.o_error.payload.shape(), reset_less=True)
        error_valid = Signal()
        output = Signal(slots_layout(self.cfg))
        m.d.comb += [self.o.payload.eq(output), self.o.valid.eq(has_item(output)),
                     self.o_error.valid.eq(error_valid), self.o_error.payload.eq(error)]
        m.d.sync += [
            error_valid.eq(self.o.ready & live & Mux(ignored, ~range_reported, wrong)),
            error.code.eq(Mux(ignored, ErrorCode.PRODUCT_RANGE, code)),
            error.pc.eq(group.pc),
            error.operand.eq(Mux(ignored, PRODUCT_REGISTERS, operand)),
        ]
        with m.If(self.o.ready):
            m.d.sync += [
                dropping.eq(~(valid & group.last) & (dropping | (live & ~ignored & wrong))),
                range_reported.eq(~(valid & group.last) & (range_reported | (live & ignored))),
            ]
        registered = self.cfg.fetch_slots > 1
        with m.If(self.o.ready) if registered else nullcontext():
            domain = m.d.sync if registered else m.d.comb
            correct = live & ~ignored & ~wrong
            domain += [output.step.eq(correct & group.complete), output.last.eq(valid & group.last)]
            self._output(domain, output, group, correct)

    def _wrong(self, m, group):
        """Whether a word has an error; code and operand of the first one. The words of a column are contiguous."""
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
            panel, beyond = address[dot_bits:PANEL_BITS], address       # the first word beyond a panel is the first one of a panel
            leaves = group.inner & ~panel.any()
            if cfg.fetch_slots > 1:
                end = address[dot_bits:cfg.shared_address_bits] + group.extra
                m.d.comb += crossing.eq(end[cfg.shared_address_bits - dot_bits])
                beyond = Cat(Const(0, PANEL_BITS), end[PANEL_BITS - dot_bits:])
                leaves = leaves | (panel + group.extra)[PANEL_BITS - dot_bits]
            leaves = leaves & group.exchange.any()
            # A column that begins in shared memory may end above it.
            error = _first([(misaligned, ErrorCode.MISALIGNED, address), (outside, ErrorCode.OUT_OF_RANGE, address),
                            (crossing, ErrorCode.OUT_OF_RANGE, cfg.shared_bytes), (leaves, ErrorCode.PANEL_RANGE, beyond)])
            if cfg.compiled_offsets:
                error = self._with_entries(group, column, error)
            if column == 0 and cfg.transpose:
                of_rows = _first(self._errors_of_rows(m, group))
                error = [Mux(group.transpose, rows, words) for rows, words in zip(of_rows, error, strict=True)]
            wrong.append(group.used[column] & error[0])
            codes.append(error[1])
            operands.append(error[2])
        code, operand = codes[-1], operands[-1]
        for column in reversed(range(len(wrong) - 1)):
            code, operand = Mux(wrong[column], codes[column], code), Mux(wrong[column], operands[column], operand)
        return Cat(wrong).any(), code, operand

    def _with_entries(self, group, column, of_word):
        """The error of a word with those of compiled offsets: no such entries, and those of the bytes instead of the word."""
        if self.cfg.byte_entries and column == 0:
            outside = [(byte[self.cfg.shared_address_bits:].any(), ErrorCode.OUT_OF_RANGE, byte) for byte in group.bytes]
            of_word = [Mux(group.compiled == OffsetEntry.BYTE, byte, word) for byte, word in zip(_first(outside), of_word, strict=True)]
        return _first([(group.beyond, ErrorCode.OFFSET_RANGE, self.cfg.compiled_offsets), of_word])

    def _errors_of_rows(self, m, group):
        """Errors of transposed B by priority: (wrong, code, operand)."""
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

    def _output(self, domain, output, group, asked):
        """Words of the group and fields of its step; ``asked``: the words are requested from the banks."""
        cfg = self.cfg
        by_byte = group.compiled == OffsetEntry.BYTE if cfg.byte_entries else Const(0)
        for slot in range(cfg.fetch_slots):
            used, words = [], []
            for mode, lanes in enumerate((1, 2, 4)):
                place = slot_place(cfg.fetch_slots, lanes, slot)
                if place is not None:
                    column, word = place
                    address = group.address[column][exact_log2(cfg.dot):cfg.shared_address_bits]
                    used.append(group.lanes_b[mode] & group.used[column] & (word <= group.extra))
                    words.append((group.lanes_b[mode], address, word))
            if slot == 0:       # first word of the first column in every mode
                address = words[0][1]
            else:
                first = any_of(Mux(mode, address, 0) for mode, address, _ in words)
                address = first + any_of(Mux(mode, word, 0) for mode, _, word in words)
            is_used = any_of(used)
            if cfg.byte_entries and slot < cfg.dot:
                address = Mux(by_byte, group.bytes[slot][exact_log2(cfg.dot):cfg.shared_address_bits], address)
                is_used = Mux(by_byte, group.used[0], is_used)
            address = swizzled(cfg, address, group.exchange, cfg.dot)
            domain += [output.used[slot].eq(asked & is_used), output.words[slot].eq(address)]
        if cfg.compiled_offsets:
            domain += [output.fill.eq(group.fill), output.fill_word.eq(group.factor_word)]
        if cfg.byte_entries:
            domain += [output.by_byte.eq(by_byte), *(place.eq(byte) for place, byte in zip(output.bytes, group.bytes, strict=True))]
        if cfg.transpose:
            domain += [
                output.transpose.eq(group.transpose), output.pitch.eq(group.pitch[PIECE_BITS:]),
                output.column.eq(group.address[0]), output.swizzle.eq(group.swizzle),
            ]
        for name in ("product", "factor_word", "zero", "lanes", "a_signed", "b_signed", "int16", "swapped", "merge"):
            domain += getattr(output, name).eq(getattr(group, name))
