"""Gathers of the thread unit: the order of the entries of their micro-operations."""

from dataclasses import replace

from amaranth.asserts import AnySeq
from amaranth.hdl import Array, Assert, Assume, Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Component
from amaranth.utils import exact_log2
from heddle import load_config
from heddle.isa.compiled_offsets import MASK_BITS, OFFSET_BITS, entry_layout
from heddle.parameters.thread import ThreadParameters
from heddle.thread.offset_fetch import OffsetFetch

from .contract import require

__all__ = ["OffsetFetchSpec"]

ENTRIES = 4             # of the memory
COUNT_BITS = 3          # of the first entry, and of the number of entries, that are not zero
ADDRESS_BITS = 2        # of an address and of an offset


class OffsetFetchSpec(Component):
    """The micro-operations of a gather take the entries first, first + 1, … first + entries, modulo the depth, once for each group of
    threads; each as it was written last, its offset added to the address of the gather. None is left behind a gather, and none comes
    without one.

    Environment: operations wait until they enter, gathers and others; one enters when all micro-operations of its predecessor are
    taken, or the last one is; entries are taken as they please, and written while no gather waits or is in execution.
    """

    def __init__(self, dot):
        self._cfg = replace(ThreadParameters.of(load_config("tiny")), threads=8, thread_slots=4, dot=dot,
                            offset_words=4 * ENTRIES // dot)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = OffsetFetch(self._cfg)
        operation, executes, taken = dut.operation, Signal(), Signal()
        m.d.comb += [
            operation.kind.eq(0), operation.gathers.eq(AnySeq(1)), operation.entries.eq(AnySeq(COUNT_BITS)),
            operation.first_entry.eq(AnySeq(COUNT_BITS)), operation.value.eq(AnySeq(ADDRESS_BITS)),
            dut.waits.eq(AnySeq(1)), dut.enters.eq(AnySeq(1)), dut.o.ready.eq(AnySeq(1)), taken.eq(dut.o.valid & dut.o.ready),
        ]
        require(m, dut.o, "o")
        stored = self._writes(m, dut, (dut.waits & operation.gathers) | executes)
        first, count, place = (Signal.like(operation.entries, name=name) for name in ("first", "count", "place"))
        value, group = Signal(ADDRESS_BITS), Signal(range(self._cfg.thread_groups))
        ends = taken & (place == count) & (group == self._cfg.thread_groups - 1)
        held, before = Signal(), Signal.like(operation.as_value(), name="before")
        m.d.sync += [held.eq(dut.waits & ~dut.enters), before.eq(operation)]
        m.d.comb += [
            Assume(~held | (dut.waits & (operation.as_value() == before))), Assume(~dut.enters | (dut.waits & (~executes | ends))),
            Assume(~dut.o.ready | executes),
        ]
        with m.If(taken):
            m.d.sync += place.eq(Mux(place == count, 0, place + 1))
            with m.If(place == count):
                m.d.sync += group.eq(group + 1)
        with m.If(ends):
            m.d.sync += [executes.eq(0), group.eq(0)]
        with m.If(dut.enters):
            m.d.sync += [executes.eq(operation.gathers), first.eq(operation.first_entry), count.eq(operation.entries), place.eq(0),
                         group.eq(0), value.eq(operation.value)]
        entry = data.View(entry_layout, stored[(first + place)[:exact_log2(ENTRIES)]])
        needed = [Cat(position == bit for position in entry.positions).any() for bit in range(MASK_BITS)]
        m.d.comb += [
            Assert(~(executes & dut.o.valid) | ((dut.o.payload.sum == (value + entry.offset)[:OFFSET_BITS])
                                                & (dut.o.payload.needed == Cat(needed)))),
            Assert(~dut.o.valid | executes | (dut.waits & operation.gathers)),
            Cover(ends & (count == 1) & dut.enters & operation.gathers), Cover(taken & (value == 3) & (entry.offset == 1) & place.any()),
            Cover(executes & dut.o.valid & (first + place >= ENTRIES)),
        ]
        return m

    def _writes(self, m, dut, busy):
        """Any writes while no gather is under way; returns all that was written, entry by entry, since configuration."""
        row = self._cfg.dot // (entry_layout.size // 8)
        words = [Signal(entry_layout, name=f"written_{number}") for number in range(row)]
        for entry in words:
            m.d.comb += [entry.offset.eq(AnySeq(ADDRESS_BITS)),
                         *(position.eq(Cat(AnySeq(1), Const(axis, 3))) for axis, position in enumerate(entry.positions))]
        m.d.comb += [dut.write.enable.eq(AnySeq(1)), dut.write.word.eq(AnySeq(len(dut.write.word))), dut.write.data.eq(Cat(words)),
                     Assume(~(dut.write.enable & busy))]
        stored = Array(Signal(entry_layout.size, name=f"stored_{number}", reset_less=True) for number in range(ENTRIES))
        for number, entry in enumerate(stored):
            with m.If(dut.write.enable & (dut.write.word == number // row)):
                m.d.sync += entry.eq(dut.write.data.word_select(number % row, entry_layout.size))
        return stored
