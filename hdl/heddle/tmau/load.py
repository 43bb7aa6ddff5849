"""Back end of the copy unit for loads: read bursts of global memory, written to the banks of shared memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..config import BANK_BYTES, BANKS
from ..errors import ErrorCode
from ..layouts import (
    BankWritePort,
    ErrorStream,
    barrier_arrival_layout,
    read_data_layout,
    read_request_layout,
)
from .fill import FillBeats, completed
from .generator import burst_layout, unit_bytes, units_per_beat
from .located import located_beat_layout
from .slots import SlotRing
from .swizzle import swizzle

__all__ = ["BeatLocator", "BeatWriter", "LoadEngine"]


def _slot_layout(cfg):
    """What a slot remembers of its burst."""
    burst = burst_layout(cfg)
    names = ["beat_address", "pointer", "skip_first", "skip_last", "barrier", "has_barrier", "swizzled", "pc"]
    return data.StructLayout({name: burst[name].shape for name in names + ["beats_minus_one", "missing_bytes", "filler"] * cfg.tensors})


class BeatLocator(Component):
    """Remembers the bursts under way and finds the place of every beat that comes back.

    Beats of different tags may come interleaved; the beats of a tag come in order. Latency 2 cycles, throughput one beat a
    cycle; all stages stand still while ``o`` waits. Reset drops the beats under way.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    burst : In(burst_layout(cfg)), slot : In, remember : In(1)
        Store ``burst`` for the tag ``slot``.
    clearing : In(1)
        After reset, before the first burst: ``slot`` goes through all slots.
    i : In(stream.Signature(read_data_layout(cfg, cfg.tag_bits)))
        ``ready`` depends on ``o.ready`` combinationally.
    o : Out(stream.Signature(located_beat_layout(cfg)))
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "burst": In(burst_layout(cfg)),
            "slot": In(range(cfg.axi_reads)),
            "remember": In(1),
            "clearing": In(1),
            "i": In(stream.Signature(read_data_layout(cfg, cfg.tag_bits))),
            "o": Out(stream.Signature(located_beat_layout(cfg))),
        })

    def elaborate(self, platform):
        m = Module()
        advance = Signal()
        valid = Signal(2)
        beat = Signal(read_data_layout(self.cfg, self.cfg.tag_bits), reset_less=True)
        slot, slot_number = self._slots(m, advance)
        number = self._beat_number(m, advance, slot_number)
        located = Signal(located_beat_layout(self.cfg), reset_less=True)
        m.d.comb += [
            advance.eq(~valid[1] | self.o.ready),
            self.i.ready.eq(advance),
            self.o.valid.eq(valid[1]),
            self.o.payload.eq(located),
        ]
        units = units_per_beat(self.cfg)
        with m.If(advance):
            m.d.sync += [valid.eq(Cat(self.i.valid, valid[0])), beat.eq(self.i.payload)]
            m.d.sync += [located[name].eq(beat[name]) for name in ("tag", "last", "error")]
            m.d.sync += located.data.eq(completed(m, self.cfg, beat.data, slot, number) if self.cfg.tensors else beat.data)
            m.d.sync += [located[name].eq(slot[name]) for name in ("barrier", "has_barrier", "swizzled", "pc", "beat_address")]
            m.d.sync += located.pointer.eq(slot.pointer + number * units)
            for i in range(units):
                skipped = ((number == 0) & (i < slot.skip_first)) | (beat.last & (units - i <= slot.skip_last))
                m.d.sync += located.valid_units[i].eq(~skipped)
        return m

    def _slots(self, m, advance):
        """The slot of the beat in the first stage, and the number of the slot of the beat that comes in."""
        slots = Memory(shape=_slot_layout(self.cfg), depth=self.cfg.axi_reads, init=[], attrs={"no_rw_check": 1})
        m.submodules.slots = slots
        write = slots.write_port()
        read = slots.read_port(domain="comb")
        slot = Signal(_slot_layout(self.cfg), reset_less=True)
        slot_number = self.i.payload.tag[:len(read.addr)]
        m.d.comb += [write.addr.eq(self.slot), write.en.eq(self.remember), read.addr.eq(slot_number)]
        m.d.comb += [write.data[name].eq(self.burst[name]) for name, _ in _slot_layout(self.cfg)]
        with m.If(advance):
            m.d.sync += slot.eq(read.data)
        return slot, slot_number

    def _beat_number(self, m, advance, slot_number):
        """Number in its burst of the beat in the first stage; a counter per slot, zero again after the last beat."""
        numbers = Memory(shape=burst_layout(self.cfg)["beats_minus_one"].shape, depth=self.cfg.axi_reads, init=[])
        m.submodules.numbers = numbers
        read = numbers.read_port(domain="comb")
        write = numbers.write_port()
        number = Signal(numbers.shape, reset_less=True)
        m.d.comb += [
            read.addr.eq(slot_number),
            write.addr.eq(Mux(self.clearing, self.slot, slot_number)),
            write.data.eq(Mux(self.clearing | self.i.payload.last, 0, read.data + 1)),
            write.en.eq(self.clearing | (self.i.valid & advance)),
        ]
        with m.If(advance):
            m.d.sync += number.eq(read.data)
        return number


class BeatWriter(Component):
    """Writes located beats to the banks and reports their bytes.

    Latency from ``i`` to the bank request 1 cycle; throughput one beat a cycle while the banks are granted and ``o_moved`` is taken.
    A beat waits until all its banks were granted, each bank being requested until then. A swizzled beat in two rows is written row by
    row, in two cycles. Beats with ``error`` are not written; their bytes count all the same, so that nobody waits for ever. Reset drops
    the beat.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(stream.Signature(located_beat_layout(cfg)))
        ``ready`` depends on the grants combinationally.
    bank_write : Out(BankWritePort(cfg))
        Registered.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Combinational from the grants: valid in the cycle in which the last part of a beat is granted.
    o_failure : Out(ErrorStream())
        AXI_READ with the address of the burst, for each beat that came with an error. Combinational from the grants.
    finish, finish_index : Out
        The last beat of a slot leaves in this cycle.
    event_conflict : Out(1)
        A bank was requested and not granted.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(stream.Signature(located_beat_layout(cfg))),
            "bank_write": Out(BankWritePort(cfg)),
            "o_moved": Out(stream.Signature(barrier_arrival_layout)),
            "o_failure": Out(ErrorStream()),
            "finish": Out(1),
            "finish_index": Out(range(cfg.axi_reads)),
            "event_conflict": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        valid = Signal()
        beat = Signal(located_beat_layout(self.cfg), reset_less=True)
        request = Signal(BANKS)
        denied = Signal(BANKS)
        written = Signal()
        free = Signal()
        leaves = Signal()
        self._parts(m)
        m.d.comb += [
            self.bank_write.request.eq(request),
            denied.eq(request & ~self.bank_write.grant),
            self.event_conflict.eq(denied.any()),
            written.eq(valid & ~denied.any()),
            leaves.eq(written & (~beat.has_barrier | self.o_moved.ready)),
            free.eq(~valid | leaves),
            self.i.ready.eq(free & ~self._split),
            self.o_moved.valid.eq(written & beat.has_barrier),
            self.o_moved.payload.barrier.eq(beat.barrier),
            self.o_moved.payload.bytes.eq(sum(beat.valid_units) * unit_bytes(self.cfg)),
            self.o_failure.valid.eq(leaves & beat.error),
            self.o_failure.payload.code.eq(ErrorCode.AXI_READ),
            self.o_failure.payload.pc.eq(beat.pc),
            self.o_failure.payload.operand.eq(beat.beat_address << exact_log2(self.cfg.axi_bytes)),
            self.finish.eq(leaves & beat.last),
            self.finish_index.eq(beat.tag),
        ]
        behind = Signal(name="behind", reset_less=True)     # the units of a swizzled beat lie in the row behind that of its first one
        requested, only_next = self._place(m, beat, behind)
        with m.If(free):
            m.d.sync += [
                valid.eq(self.i.valid),
                beat.eq(self.i.payload),
                beat.valid_units.eq(self._units),
                request.eq(Mux(self.i.valid & ~self.i.payload.error, requested, 0)),
            ]
            m.d.sync += [self._second.eq(self._split), beat.last.eq(self.i.payload.last & ~self._split), behind.eq(only_next)]
        with m.Else():
            m.d.sync += request.eq(denied)
        return m

    def _parts(self, m):
        """The units of the incoming beat that are written together: all, or those of a row of a swizzled beat."""
        units, incoming = units_per_beat(self.cfg), self.i.payload
        self._units = Signal(units, name="part_units")
        self._split = Signal(name="split")              # another part follows
        self._second = Signal(name="second")            # this is the second part
        halves = exact_log2(BANK_BYTES // unit_bytes(self.cfg))
        first_bank = incoming.pointer[halves:][:exact_log2(BANKS)]
        in_row = Cat(first_bank + i < BANKS for i in range(units))
        here, behind = incoming.valid_units & in_row, incoming.valid_units & ~in_row
        divided = incoming.swizzled & ~incoming.error & here.any() & behind.any()
        m.d.comb += [
            self._split.eq(self.i.valid & divided & ~self._second),
            self._units.eq(Mux(divided, Mux(self._second, behind, here), incoming.valid_units)),
        ]

    def _place(self, m, beat, behind):
        """Rows, data and masks of the registered beat; returns the banks that the incoming beat needs, and
        whether its units are all in the next row."""
        units = units_per_beat(self.cfg)
        halves = exact_log2(BANK_BYTES // unit_bytes(self.cfg))     # pointer bits below the block
        incoming = self.i.payload
        spread = Signal(BANKS + units - 1)
        m.d.comb += spread.eq(self._units << incoming.pointer[halves:][:exact_log2(BANKS)])
        incoming_row = incoming.pointer[halves + exact_log2(BANKS):]
        only_next = spread[BANKS:].any() & ~spread[:BANKS].any()
        wanted = swizzle(m, "wanted", spread[:BANKS] | spread[BANKS:], Mux(incoming.swizzled, incoming_row + only_next, 0))
        block = beat.pointer[halves:]
        first_bank = block[:exact_log2(BANKS)]
        row = block[exact_log2(BANKS):]
        next_row = Signal.like(row, name="next_row")
        exchange = Signal(exact_log2(BANKS), name="exchange")
        m.d.comb += [next_row.eq(row + 1), exchange.eq(Mux(beat.swizzled, Mux(behind, next_row, row), 0))]
        for b in range(BANKS):
            # A beat covers ``units`` neighbouring banks; those behind the last one lie in the next row.
            wraps = Mux(beat.swizzled, behind, (b < first_bank) if b < units - 1 else 0) if units > 1 else 0
            # Neighbouring units go to neighbouring banks: bank b takes unit (b - first_bank) modulo units.
            unit = ((exchange ^ b) - first_bank)[:exact_log2(units)]
            m.d.comb += [
                self.bank_write.row[b].eq(Mux(wraps, next_row, row)),
                self.bank_write.data[b].eq(beat.data.word_select(unit, 8 * BANK_BYTES) if units > 1
                                           else beat.data.replicate(1 << halves)),
                self.bank_write.mask[b].eq(Mux(beat.pointer[0], 0xFF00, 0x00FF) if halves else 0xFFFF),
            ]
        return wanted, only_next


class LoadEngine(Component):
    """Reads bursts of global memory into shared memory, up to ``cfg.axi_reads`` at a time.

    Throughput one burst request and one beat a cycle, without bubbles between bursts while memory and banks keep up; 1 cycle from
    ``i_burst`` to the request, 3 from a beat to its bank request. Answers may come in any order of the tags, interleaved beat by beat.
    A bank conflict holds ``read_data``. Reset forgets all bursts (reset memory as well) [S1.1, docs/units/tmau.md].

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i_burst : In(stream.Signature(burst_layout(cfg)))
    read_request, read_data : as in GlobalPort(cfg, cfg.tag_bits)
    bank_write : Out(BankWritePort(cfg))
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Bytes of each beat, in the cycle in which the last of them was granted (combinational).
    o_failure : Out(ErrorStream())
        AXI_READ, once for each beat with an error (combinational).
    completed : Out(1)
        All bytes of a transfer are written.
    busy : Out(1)
    event_conflict : Out(1)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i_burst": In(stream.Signature(burst_layout(cfg))),
            "read_request": Out(stream.Signature(read_request_layout(cfg, cfg.tag_bits))),
            "read_data": In(stream.Signature(read_data_layout(cfg, cfg.tag_bits))),
            "bank_write": Out(BankWritePort(cfg)),
            "o_moved": Out(stream.Signature(barrier_arrival_layout)),
            "o_failure": Out(ErrorStream()),
            "completed": Out(1),
            "busy": Out(1),
            "event_conflict": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.slots = slots = SlotRing(self.cfg.axi_reads)
        m.submodules.locator = locator = BeatLocator(self.cfg)
        located, requested, accepted = locator.o, 1, 1
        m.submodules.writer = writer = BeatWriter(self.cfg)
        request = self.read_request
        free = Signal()
        burst = self.i_burst.payload
        if self.cfg.tensors:
            m.submodules.filler = filler = FillBeats(self.cfg)
            connect(m, locator.o, filler.i_beat)
            located, requested, accepted = filler.o, ~burst.outside, filler.i_burst.ready | ~burst.outside
            m.d.comb += [
                filler.i_burst.valid.eq(slots.take & burst.outside),
                filler.i_burst.payload.burst.eq(burst),
                filler.i_burst.payload.slot.eq(slots.index),
            ]
        m.d.comb += [
            free.eq(~request.valid | request.ready),
            self.i_burst.ready.eq(free & slots.free & accepted),
            slots.take.eq(self.i_burst.valid & self.i_burst.ready),
            slots.ends_transfer.eq(burst.ends_transfer),
            slots.finish.eq(writer.finish),
            slots.finish_index.eq(writer.finish_index),
            locator.burst.eq(burst),
            locator.slot.eq(slots.index),
            locator.remember.eq(slots.take),
            locator.clearing.eq(slots.clearing),
            self.completed.eq(slots.completed),
            self.busy.eq(slots.busy),
            self.event_conflict.eq(writer.event_conflict),
        ]
        with m.If(free):
            m.d.sync += [
                request.valid.eq(slots.take & requested),
                request.payload.address.eq(burst.beat_address << exact_log2(self.cfg.axi_bytes)),
                request.payload.beats_minus_one.eq(burst.beats_minus_one),
                request.payload.tag.eq(slots.index),
            ]
        connect(m, flipped(self.read_data), locator.i)
        connect(m, located, writer.i)
        connect(m, writer.bank_write, flipped(self.bank_write))
        connect(m, writer.o_moved, flipped(self.o_moved))
        connect(m, writer.o_failure, flipped(self.o_failure))
        return m
