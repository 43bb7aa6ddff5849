"""Compiled offsets: the entries of a word of B, and the order, addresses and errors of the words that they lead to."""

from dataclasses import replace
from itertools import pairwise

from amaranth.asserts import AnySeq
from amaranth.hdl import Array, Assert, Assume, Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Component
from amaranth.utils import exact_log2
from heddle import load_config
from heddle.constants import BANK_BYTES, PRODUCT_REGISTERS, ROW_BYTES
from heddle.interfaces.layouts import error_layout
from heddle.isa.compiled_offsets import MASK_BITS, OFFSET_BITS, OffsetEntry, base_layout, entry_layout, uniform_layout
from heddle.isa.error_codes import ErrorCode
from heddle.matrix.address_generator import AddressGenerator
from heddle.matrix.layouts import group_layout, slots_layout
from heddle.matrix.offset_memory import OffsetMemory, entries_together
from heddle.parameters.matrix import MatrixParameters

from .contract import any_sink, obey

__all__ = ["AddressGeneratorSpec", "OffsetMemorySpec"]

LANES_B = (1, 2, 4)     # of a group of words


def _config(**parameters):
    """The smallest matrix unit with compiled offsets: four threads, 16 entries, 1 KiB of shared memory, no transposed B."""
    small = {"threads": 4, "compiled_offsets": 16, "shared_memory_kib": 1, "transpose": False, "tensors": False}
    return replace(MatrixParameters.of(load_config("tiny")), **(small | parameters))


class OffsetMemorySpec(Component):
    """The entries of a word are those written last to their numbers: first + word, or first + word * dot + i for byte i. They hold while
    ``read`` is low.

    ``beyond`` is high exactly where an entry lies behind the memory or the list of a word's bytes begins at no multiple of ``dot``.
    Environment: reads and writes as they please, to one word in the same cycle too; a read sees the writes of the cycles before.
    """

    def __init__(self, dot, fetch_words):
        self._cfg = _config(threads=8, dot=dot, fetch_words=fetch_words)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        cfg = self._cfg
        m.submodules.dut = dut = OffsetMemory(cfg)
        for name in ("read", "first", "word", "write", "write_word", "write_data"):
            m.d.comb += getattr(dut, name).eq(AnySeq(len(getattr(dut, name))))
        compiled = [OffsetEntry.NONE, OffsetEntry.WORD, *([OffsetEntry.BYTE] if cfg.byte_entries else [])]
        m.d.comb += [dut.compiled.eq(AnySeq(2)), Assume(Cat(dut.compiled == value for value in compiled).any())]
        # All that was written, entry by entry, since configuration.
        stored = Array(Signal(entry_layout.size, name=f"stored_{number}", reset_less=True) for number in range(cfg.compiled_offsets))
        portion = cfg.dot // 4
        for number, entry in enumerate(stored):
            with m.If(dut.write & (dut.write_word == number // portion)):
                m.d.sync += entry.eq(dut.write_data.word_select(number % portion, entry_layout.size))
        by_byte = (dut.compiled == OffsetEntry.BYTE) if cfg.byte_entries else Const(0)
        number = dut.first + Mux(by_byte, dut.word * cfg.dot, dut.word)
        was_read, missing, bytes_read = Signal(), Signal(), Signal()
        with m.If(dut.read):
            misaligned = by_byte & (dut.first % cfg.dot != 0)
            m.d.sync += [was_read.eq(1), bytes_read.eq(by_byte), missing.eq((number >= cfg.compiled_offsets) | misaligned)]
        m.d.comb += [Assert(~was_read | (dut.beyond == missing)), Cover(was_read & missing & (bytes_read == cfg.byte_entries))]
        for index, entry in enumerate(dut.entries):
            expected = Signal(entry_layout.size, name=f"expected_{index}", reset_less=True)
            with m.If(dut.read):
                m.d.sync += expected.eq(stored[(number + index)[:exact_log2(cfg.compiled_offsets)]])
            there = was_read & ~missing & (bytes_read | (index == 0))
            m.d.comb += [Assert(~there | (entry.as_value() == expected)), Cover(there & expected.all())]
        return m


class AddressGeneratorSpec(Component):
    """Checked words leave in the order in which their groups came, each once and none invented, whatever the back-pressure.

    Word w of column n lies at segment base + base[n] + offset of its entry, modulo 2^20. Where thread n lacks a mask bit of the entry,
    the word lies at the padding; with single bytes that of each byte. In a swizzled segment its bank is exchanged. Without compiled
    offsets word w lies at base + (offset[n] << element_shift) + w * dot, modulo 2^32.

    A step whose product register does not exist has no words and does not count; the first of an operation is reported. Else the first
    error of an operation is reported, and of the operation nothing but its end leaves from there on. First in a step is the first column
    with an error, in a column OFFSET_RANGE, then MISALIGNED, OUT_OF_RANGE and PANEL_RANGE. Words leave three cycles after their group came
    (with one fetch slot two), errors three, not counting the cycles in which ``o.ready`` was low.

    Environment: what ``MergeSplit`` promises of a group; offsets, masks, paddings and entries as they please, also while a group waits.
    Groups with compiled offsets have one word of each column, with single bytes of one column.
    """

    def __init__(self, fetch_words):
        self._cfg = _config(fetch_words=fetch_words)
        self._dot_bits = exact_log2(self._cfg.dot)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = AddressGenerator(self._cfg)
        numbers = self._any_group(m, dut.i)
        any_sink(m, dut.o, "o")
        for member in (*dut.offset, *(entry.as_value() for entry in dut.entries), dut.beyond):
            m.d.comb += member.eq(AnySeq(len(member)))
        m.d.comb += Assert(dut.i.ready == dut.o.ready)
        # Groups in the order in which they came, then with the addresses that they lead to; all move on while ``o.ready`` is high.
        valid = [dut.i.valid, Signal(name="valid_0"), Signal(name="valid_1")]
        came = self._moved(m, dut, "came", self._came(m, dut, numbers))
        addressed = self._moved(m, dut, "addressed", self._addressed(m, came))
        with m.If(dut.o.ready):
            m.d.sync += [after.eq(before) for before, after in pairwise(valid)]
        m.d.comb += Assert(dut.pending == Cat(valid).any())
        item, error = self._expected(m, dut, valid[-1], addressed)
        self._leaves(m, dut, item)
        self._reports(m, dut, error)
        return m

    def _any_group(self, m, port):
        """Any groups that ``MergeSplit`` may give; returns the number of the thread of each column."""
        slots, group = self._cfg.fetch_slots, port.payload
        m.d.comb += [port.valid.eq(AnySeq(1)), group.eq(AnySeq(len(group.as_value())))]
        kind, lanes_b, used, extra = (Signal(width, name=name) for name, width in (
            ("kind", 2), ("kb", 2), ("any_used", len(group.used)), ("any_extra", 2)))
        m.d.comb += [signal.eq(AnySeq(len(signal))) for signal in (kind, lanes_b, used, extra)]
        m.d.comb += group.compiled.eq(OffsetEntry.NONE)
        with m.If(kind == OffsetEntry.WORD.value):
            m.d.comb += group.compiled.eq(OffsetEntry.WORD)
        if self._cfg.byte_entries:
            with m.If(kind == OffsetEntry.BYTE.value):
                m.d.comb += group.compiled.eq(OffsetEntry.BYTE)
        for mode, lanes in enumerate(LANES_B):
            with m.If((lanes_b == mode) | ((lanes_b == 3) & (lanes == LANES_B[-1]))):
                m.d.comb += [group.lanes_b.eq(1 << mode), group.extra.eq(extra & (min(lanes, slots) - 1)),
                             group.used.eq(used & ((1 << max(1, slots // lanes)) - 1))]
        with m.If(group.compiled != OffsetEntry.NONE):
            one_column = (group.compiled == OffsetEntry.BYTE) if self._cfg.byte_entries else 0
            m.d.comb += [group.lanes_b.eq(1), group.extra.eq(0), group.used.eq(Mux(one_column, used[0], used))]
        numbers = [Signal(self._cfg.thread_bits, name=f"thread_{column}") for column in range(len(group.used))]
        for number, columns in zip(numbers, group.columns, strict=True):
            m.d.comb += [number.eq(AnySeq(len(number))), columns.eq(1 << number)]
        obey(m, port, "i")
        return numbers

    def _moved(self, m, dut, name, before):
        """A stage behind ``before``."""
        stage = Signal.like(before, name=name, reset_less=True)
        with m.If(dut.o.ready):
            m.d.sync += stage.eq(before)
        m.d.comb += Assert((stage.group.lanes_b & (stage.group.lanes_b - 1)) == 0)
        return stage

    def _came(self, m, dut, numbers):
        """The group at the input, with the offset register of each column and the entries of its word."""
        came = Signal(data.StructLayout({
            "group": group_layout(self._cfg), "offset": data.ArrayLayout(32, len(numbers)),
            "entries": data.ArrayLayout(entry_layout, entries_together(self._cfg)), "beyond": 1}))
        m.d.comb += [
            came.group.eq(dut.i.payload), came.beyond.eq(dut.beyond),
            *(to.eq(entry) for to, entry in zip(came.entries, dut.entries, strict=True)),
            *(offset.eq(Array(dut.offset)[number]) for offset, number in zip(came.offset, numbers, strict=True)),
        ]
        return came

    def _addressed(self, m, came):
        """A group with the address of the first word of each column and of each byte."""
        cfg, group, columns = self._cfg, came.group, len(came.group.used)
        by_entry = group.compiled != OffsetEntry.NONE
        addressed = Signal(data.StructLayout({
            "group": group_layout(cfg), "product": 9, "factor_word": cfg.factor_address_bits, "beyond": 1, "later": 1,
            "word": data.ArrayLayout(32, columns), "byte": data.ArrayLayout(OFFSET_BITS, entries_together(cfg))}))
        m.d.comb += [
            addressed.group.eq(group), addressed.product.eq(group.product + group.number),
            addressed.factor_word.eq(group.factor_word + group.slice), addressed.beyond.eq(came.beyond & by_entry),
            addressed.later.eq((group.word != 0) & ~by_entry),
            *(byte.eq(self._place(group, came.offset[0], entry)) for byte, entry in zip(addressed.byte, came.entries, strict=True)),
            *(word.eq(Mux(by_entry, self._place(group, offset, came.entries[0]),
                          (group.base + group.word * cfg.dot + (offset << group.element_shift))[:32]))
              for word, offset in zip(addressed.word, came.offset, strict=True)),
        ]
        return addressed

    def _place(self, group, offset, entry):
        """Address of an entry for the thread with this offset register."""
        own, uniform = data.View(base_layout, offset), data.View(uniform_layout, group.pitch)
        has = Cat((position >= MASK_BITS) | own.mask.bit_select(position, 1) for position in entry.positions).all()
        return Mux(has, (own.base + (group.base + entry.offset)[:OFFSET_BITS])[:OFFSET_BITS], uniform.padding)

    def _expected(self, m, dut, valid, stage):
        """What has to come of a group, and its error, in the order of the groups."""
        cfg, group = self._cfg, stage.group
        item, error = Signal(slots_layout(cfg)), Signal(data.StructLayout({"valid": 1, "error": error_layout}))
        failed, reported = Signal(), Signal()       # earlier in the operation: an error, PRODUCT_RANGE
        absent, wrong = Signal(), Signal()          # the step has no product register; a word has an error
        m.d.comb += [
            absent.eq(stage.product >= PRODUCT_REGISTERS), error.error.pc.eq(group.pc),
            error.valid.eq(valid & group.used.any() & ~failed & Mux(absent, ~reported, wrong)),
        ]
        for column in reversed(range(len(group.used))):         # the first one counts
            with m.If(group.used[column]):
                self._column_error(m, stage, column, wrong, error.error)
        with m.If(absent):
            m.d.comb += [error.error.code.eq(ErrorCode.PRODUCT_RANGE), error.error.operand.eq(PRODUCT_REGISTERS)]
        with m.If(valid & dut.o.ready):
            m.d.sync += [failed.eq(~group.last & (failed | (group.used.any() & ~absent & wrong))),
                         reported.eq(~group.last & (reported | (group.used.any() & ~failed & absent)))]
        with m.If(valid):
            m.d.comb += item.last.eq(group.last)
            with m.If(group.used.any() & ~failed & ~absent & ~wrong):
                m.d.comb += item.step.eq(group.complete)
                self._words(m, stage, item)
        m.d.comb += [getattr(item, name).eq(getattr(group, name)) for name in (
            "zero", "lanes", "a_signed", "b_signed", "int16", "swapped", "merge", "fill")]
        m.d.comb += [item.product.eq(stage.product), item.factor_word.eq(stage.factor_word), item.fill_word.eq(stage.factor_word)]
        if cfg.byte_entries:
            m.d.comb += item.by_byte.eq(group.compiled == OffsetEntry.BYTE)
            with m.If(item.by_byte):
                m.d.comb += [place.eq(byte[:self._dot_bits]) for place, byte in zip(item.bytes, stage.byte, strict=True)]
        return item, error

    def _column_error(self, m, stage, column, wrong, error):
        """The first error of a column, if there is one: the last assignment."""
        cfg, group, word = self._cfg, stage.group, stage.word[column]
        end, panel = word + group.extra * cfg.dot, word % ROW_BYTES
        leaves = (group.swizzle != 0) & ((stage.later & (panel == 0)) | (panel + group.extra * cfg.dot >= ROW_BYTES))
        rules = [(leaves, ErrorCode.PANEL_RANGE, end // ROW_BYTES * ROW_BYTES),
                 (end >= cfg.shared_bytes, ErrorCode.OUT_OF_RANGE, cfg.shared_bytes),
                 (word >= cfg.shared_bytes, ErrorCode.OUT_OF_RANGE, word), (word % cfg.dot != 0, ErrorCode.MISALIGNED, word)]
        if cfg.byte_entries and column == 0:
            by_byte = group.compiled == OffsetEntry.BYTE
            rules = [(~by_byte & found, code, operand) for found, code, operand in rules]
            rules += [(by_byte & (byte >= cfg.shared_bytes), ErrorCode.OUT_OF_RANGE, byte) for byte in reversed(stage.byte)]
        for found, code, operand in [*rules, (stage.beyond, ErrorCode.OFFSET_RANGE, cfg.compiled_offsets)]:
            with m.If(found):
                m.d.comb += [wrong.eq(1), error.code.eq(code), error.operand.eq(operand)]

    def _words(self, m, stage, item):
        """Words of the fetch slots: for L lanes along k slot s has word s mod L of column s div L."""
        cfg, group = self._cfg, stage.group
        for slot in range(cfg.fetch_slots):
            address = Signal(cfg.shared_address_bits, name=f"slot_{slot}")
            for mode, lanes in enumerate(LANES_B):
                column, word = divmod(slot, lanes)
                with m.If(group.lanes_b[mode] & group.used[column] & (word <= group.extra)):
                    m.d.comb += [item.used[slot].eq(1), address.eq(stage.word[column] + word * cfg.dot)]
            if cfg.byte_entries:
                with m.If(group.compiled == OffsetEntry.BYTE):
                    m.d.comb += [item.used[slot].eq(group.used[0]), address.eq(stage.byte[slot])]
            row, bank = address // ROW_BYTES, address[exact_log2(BANK_BYTES):exact_log2(ROW_BYTES)]
            with m.If(item.used[slot]):
                m.d.comb += item.words[slot].eq(Cat(address[self._dot_bits:exact_log2(BANK_BYTES)],
                                                    bank ^ Mux(group.swizzle, row, 0)[:len(bank)], row))

    def _leaves(self, m, dut, item):
        """Words, steps and ends behind the stages; with several fetch slots behind a register."""
        o, found = dut.o.payload, Signal.like(item, name="found")
        m.d.comb += found.eq(o)
        for slot in range(self._cfg.fetch_slots):
            with m.If(~o.used[slot]):
                m.d.comb += found.words[slot].eq(0)
        if self._cfg.byte_entries:
            with m.If(~o.by_byte):
                m.d.comb += found.bytes.eq(0)
        expected, valid = item, item.used.any() | item.step | item.last
        if self._cfg.fetch_slots > 1:
            item_valid, expected, valid = valid, Signal.like(item, name="leaving"), Signal(name="leaving_valid")
            with m.If(dut.o.ready):
                m.d.sync += [expected.eq(item), valid.eq(item_valid)]
        m.d.comb += [
            Assert(dut.o.valid == valid), Assert(~valid | (found == expected)),
            Cover(valid & ~dut.o.ready & expected.used.all()), Cover(valid & expected.last & ~expected.step),
        ]

    def _reports(self, m, dut, error):
        """Errors, for one cycle each."""
        valid, expected, told = Signal(name="error_valid"), Signal.like(error.error, name="expected_error", reset_less=True), dut.o_error
        m.d.sync += [expected.eq(error.error), valid.eq(error.valid & dut.o.ready)]
        m.d.comb += [Assert(told.valid == valid), Assert(~valid | (told.payload == expected))]
        codes = (ErrorCode.PRODUCT_RANGE, ErrorCode.OFFSET_RANGE, ErrorCode.MISALIGNED, ErrorCode.OUT_OF_RANGE,
                 ErrorCode.PANEL_RANGE)
        m.d.comb += [Cover(told.valid & (told.payload.code == code)) for code in codes]
