"""Compiled-offset memory: offsets of the elements of a convolution, shared by all threads."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..isa.compiled_offsets import ENTRY_BITS, OffsetEntry, entry_layout
from ..parameters.matrix import MatrixParameters

__all__ = ["OffsetMemory", "entries_together"]

ENTRY_BYTES = entry_layout.size // 8


def entries_together(cfg):
    """Entries that are read in a cycle: those of the bytes of a word, or one."""
    return cfg.dot if cfg.byte_entries else 1


class OffsetMemory(Component):
    """Compiled-offset memory: holds the list of offsets and reads an entry for a word of B, or one for each byte of it [S2.2].

    Depth: ``compiled_offsets`` entries of 32 bits. Refill: a word of ``dot`` bytes a cycle.

    Parameters
    ----------
    cfg : MatrixParameters

    *Ports*:
    read : In(1)
        The outputs become those of ``first``, ``word`` and ``compiled``; low: they hold.
    first : In(ENTRY_BITS)
        Number of the entry of word 0.
    word : In(word_index_bits)
        Number of the word along k.
    compiled : In(OffsetEntry)
        What an entry addresses.
    entries : Out(entry_layout).array(entries_together(cfg))
        With BYTE the entries of the bytes of the word, else the entry of the word first.
    beyond : Out(1)
        An entry behind the memory, or with BYTE ``first`` is no multiple of ``dot``; ``entries`` are then undefined.
    write : In(1)
        Writes the entries of a word.
    write_word : In(range(offset_words))
        Its number.
    write_data : In(8 * dot)
        Its entries.

    *Latency*: outputs one cycle after ``read``; a read sees the writes of the cycles before.

    *Throughput*: one word a cycle, read and written at once.

    *Back-pressure*: none.

    *Reset*: the memory keeps its entries; they are zero after configuration. ``beyond`` is undefined until the first ``read``.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MatrixParameters.of(cfg)
        super().__init__({
            "read": In(1), "first": In(ENTRY_BITS), "word": In(cfg.word_index_bits), "compiled": In(OffsetEntry),
            "entries": Out(entry_layout).array(entries_together(cfg)), "beyond": Out(1),
            "write": In(1), "write_word": In(range(cfg.offset_words)), "write_data": In(8 * cfg.dot),
        })

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        portion = cfg.dot // ENTRY_BYTES                    # entries of a word that is written
        row = max(entries_together(cfg), portion)           # entries that are read at once
        portions = row // portion
        m.submodules.memory = memory = Memory(shape=row * entry_layout.size, depth=cfg.compiled_offsets // row, init=[])
        read, write = memory.read_port(), memory.write_port(granularity=8 * cfg.dot)
        place, portion_bits = exact_log2(row), exact_log2(portions)
        number, by_byte = Signal(ENTRY_BITS + 1), Signal()
        lane, by_byte_s, beyond = Signal(place, reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        m.d.comb += [
            by_byte.eq((self.compiled == OffsetEntry.BYTE) if cfg.byte_entries else 0),
            number.eq(self.first + self.word),
        ]
        if cfg.byte_entries:
            with m.If(by_byte):
                m.d.comb += number.eq(self.first + (self.word << exact_log2(cfg.dot)))
        m.d.comb += [
            read.en.eq(self.read), read.addr.eq(number[place:]),
            write.addr.eq(self.write_word[portion_bits:]), write.data.eq(self.write_data.replicate(portions)),
            write.en.eq(self.write << self.write_word[:portion_bits] if portions > 1 else self.write),
        ]
        with m.If(self.read):
            m.d.sync += [
                lane.eq(number[:place]), by_byte_s.eq(by_byte),
                beyond.eq((number >= cfg.compiled_offsets) | (by_byte & number[:place].any())),
            ]
        words = data.View(data.ArrayLayout(entry_layout, row), read.data)
        m.d.comb += self.beyond.eq(beyond)
        for index, entry in enumerate(self.entries):
            m.d.comb += entry.eq(words[index])
        with m.If(~by_byte_s):
            m.d.comb += self.entries[0].eq(words[lane])
        return m
