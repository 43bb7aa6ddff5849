"""Offset fetch: entries of the compiled-offset memory for the micro-operations of a gather."""

from amaranth import *
from amaranth.lib import data, enum, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..interfaces.layouts import OffsetWritePort, thread_operation_layout
from ..isa.compiled_offsets import MASK_BITS, OFFSET_BITS, entry_layout
from ..isa.encoding import Access
from ..parameters.thread import ThreadParameters

__all__ = ["ElementSize", "OffsetFetch", "element_size", "gathered_words", "offset_layout"]

# Entry for a micro-operation. ``sum``: address of the segment plus offset. ``needed``: mask bits that a thread must have.
offset_layout = data.StructLayout({"sum": OFFSET_BITS, "needed": MASK_BITS})


class ElementSize(enum.Enum, shape=2):
    """Where load data go in the four registers of a result; LINE: all 16 bytes, as they are."""

    LINE = 0
    BYTE = 1            # to a byte
    WORD = 2            # to a register
    PAIR = 3            # to two registers


def element_size(operation):
    """``ElementSize`` of the elements of an operation; LINE unless the operation gathers."""
    access = operation.access
    return Mux(operation.gathers, Mux(access == Access.U8, ElementSize.BYTE, Mux(
        access == Access.B32, ElementSize.WORD, Mux(access == Access.V2, ElementSize.PAIR, ElementSize.LINE))), ElementSize.LINE)


def gathered_words(operation):
    """Mask of the registers from ``dst`` on that a gather writes."""
    access, entries = operation.access, operation.entries
    last = Mux(access == Access.U8, entries[2:], Mux(access == Access.B32, entries[:2], Mux(access == Access.V2, Cat(1, entries[0]), 3)))
    return Cat(word <= last for word in range(4))


class OffsetFetch(Component):
    """Offset fetch: compiled-offset memory of the threads, and its reads ahead of the micro-operations of a gather [S2.2, S2.3].

    The memory has ``compiled_offsets`` entries of 32 bits and takes what ``offsets`` writes to that of the matrix unit. A gather has a
    micro-operation for each entry of each group of threads, groups outermost. Entries come in this order.

    Parameters
    ----------
    cfg : ThreadParameters
        With ``gather_offsets``.

    *Ports*:
    write : In(OffsetWritePort(cfg))
        Writes of the memory; none while a gather is pending or in flight.
    operation : In(thread_operation_layout(cfg))
        Operation that waits to enter execution.
    waits : In(1)
        There is one; constant up to ``enters``, and so is ``operation``.
    enters : In(1)
        The operation enters execution in the next cycle.
    o : Out(stream.Signature(offset_layout))
        Entry of the next micro-operation of a gather.

    *Latency*: three cycles from ``waits`` to ``o.valid``. Entries of the next gather are read while the last ones of its predecessor
    are at ``o``.

    *Throughput*: one entry a cycle.

    *Back-pressure*: ``o.ready`` low holds; all stages are combinational from it. Two entries are read ahead.

    *Reset*: no operation is known; the memory keeps its entries, which are zero after configuration.

    *Errors*: none. Entries behind the memory are read modulo its depth; the load-store unit reports OFFSET_RANGE.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        super().__init__({
            "write": In(OffsetWritePort(cfg)),
            "operation": In(thread_operation_layout(cfg)), "waits": In(1), "enters": In(1),
            "o": Out(stream.Signature(offset_layout)),
        })

    def elaborate(self, platform):
        m = Module()
        reads, loaded, moves, begins = (Signal(name=name) for name in ("reads", "loaded", "moves", "begins"))
        value = Signal(OFFSET_BITS, reset_less=True)            # of the operation whose entries are read
        number = self._numbers(m, begins, reads)
        entry = self._memory(m, reads, number)
        m.d.comb += [
            begins.eq(self.waits & self.operation.gathers & ~self._requested & ~self._active & (~loaded | moves)),
            moves.eq(loaded & (~self.o.valid | self.o.ready)), reads.eq(self._active & (~loaded | moves)),
        ]
        m.d.sync += [loaded.eq(reads | (loaded & ~moves)), self.o.valid.eq(moves | (self.o.valid & ~self.o.ready))]
        with m.If(begins):
            m.d.sync += value.eq(self.operation.value)
        with m.If(moves):
            needed = [Cat(position == bit for position in entry.positions).any() for bit in range(MASK_BITS)]
            m.d.sync += [self.o.payload.sum.eq(value + entry.offset), self.o.payload.needed.eq(Cat(needed))]
        return m

    def _numbers(self, m, begins, reads):
        """Numbers of the entries of an operation: all of them for each group. Returns the one that is read."""
        operation = self.operation
        self._active, self._requested = Signal(name="active"), Signal(name="requested")   # entries are to be read; have been requested
        number, first = Signal.like(operation.first_entry, name="number"), Signal.like(operation.first_entry, name="first")
        last, place = Signal.like(operation.entries, name="last"), Signal.like(operation.entries, name="place")
        group = Signal(range(self.cfg.thread_groups))
        m.d.sync += self._requested.eq((self._requested | begins) & ~self.enters)
        with m.If(begins):
            m.d.sync += [self._active.eq(1), number.eq(operation.first_entry), first.eq(operation.first_entry),
                         last.eq(operation.entries), place.eq(0), group.eq(0)]
        with m.If(reads):
            m.d.sync += [number.eq(number + 1), place.eq(place + 1)]
            with m.If(place == last):
                m.d.sync += [number.eq(first), place.eq(0), group.eq(group + 1)]
                with m.If(group == self.cfg.thread_groups - 1):
                    m.d.sync += self._active.eq(0)
        return number

    def _memory(self, m, reads, number):
        """The memory: words of ``dot`` bytes are written and read. Returns the entry that was read last."""
        row = self.cfg.dot // (entry_layout.size // 8)
        m.submodules.memory = memory = Memory(shape=row * entry_layout.size, depth=self.cfg.offset_words, init=[])
        read, write, bits = memory.read_port(), memory.write_port(), exact_log2(row)
        m.d.comb += [
            write.en.eq(self.write.enable), write.addr.eq(self.write.word), write.data.eq(self.write.data),
            read.en.eq(reads), read.addr.eq(number[bits:]),
        ]
        if row == 1:
            return data.View(entry_layout, read.data)
        lane = Signal(bits, reset_less=True)
        with m.If(reads):
            m.d.sync += lane.eq(number[:bits])
        return data.View(data.ArrayLayout(entry_layout, row), read.data)[lane]
