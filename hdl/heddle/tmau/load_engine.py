"""Back end of the TMAU for loads: read bursts of global memory, written to the banks of shared memory."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import (
    BankWritePort,
    ErrorStream,
    barrier_arrival_layout,
    error_layout,
    read_data_layout,
    read_request_layout,
)
from ..isa.error_codes import ErrorCode
from ..lib.replay_queue import ReplayQueue
from ..lib.stream import Buffer, Queue, link
from .beat_requester import BEATS_WAITING
from .burst_request import request_burst
from .layouts import burst_layout, located_beat_layout, multicast_beat_layout, unit_bytes, units_per_beat
from .multicast_port import MulticastPort
from .out_of_bounds_fill import OutOfBoundsFill
from .read_tracker import ReadTracker
from .swizzle import exchange_of, swizzle
from .transaction_table import TransactionTable

__all__ = ["BeatWriter", "LoadEngine"]

BEATS_UNDER_WAY = 4     # in the queue of the writer: the least with which it takes one a cycle


class BeatWriter(Component):
    """Writes located beats to the banks and reports their bytes.

    Latency from ``i`` to the bank request 1 cycle; throughput one beat a cycle while the banks are granted and ``o_moved`` is taken.
    A beat waits until all its banks were granted, each bank being requested until then. A swizzled beat in two rows is written row by
    row, in two cycles. Beats with ``error`` are not written; their bytes count all the same, so that nobody waits for ever. Reset drops
    the beat. With ``cfg.single_bank_beats`` a queue comes first, out of which a beat goes to the banks every cycle, and once more two
    cycles later if it was not granted: no register of a beat hangs on a grant.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(stream.Signature(located_beat_layout(cfg)))
        ``ready`` depends on the grants combinationally, with ``cfg.single_bank_beats`` on nothing.
    bank_write : Out(BankWritePort(cfg))
        Registered.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Combinational from the grants: valid in the cycle in which the last part of a beat is granted.
    o_failure : Out(ErrorStream())
        AXI_READ with the address of the burst, for each beat that came with an error. Combinational from the grants.
    finish, finish_index : Out
        The last beat of a slot leaves in this cycle.
    busy : Out(1)
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
            "busy": Out(1),
            "event_conflict": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        valid = Signal()
        beat = Signal(located_beat_layout(self.cfg), reset_less=True)
        request = Signal(BANKS)
        denied = Signal(BANKS)
        written = Signal()
        leaves = Signal()
        free = self._incoming(m, valid, leaves)
        self._parts(m)
        m.d.comb += [
            self.bank_write.request.eq(request),
            denied.eq(request & ~self.bank_write.grant),
            self.event_conflict.eq(denied.any()),
            written.eq(valid & ~denied.any()),
            leaves.eq(written & (~beat.has_barrier | self.o_moved.ready)),
            self.o_moved.valid.eq(written & beat.has_barrier),
            self.o_moved.payload.barrier.eq(beat.barrier),
            self.o_moved.payload.remote.eq(beat.mask.any() if self.cfg.multicast else 0),
            self.o_moved.payload.bytes.eq(sum(beat.valid_units) * unit_bytes(self.cfg)),
            # Beats from the network were reported where they were read.
            self.o_failure.valid.eq(leaves & beat.error & (~beat.mask.any() if self.cfg.multicast else 1)),
            self.o_failure.payload.code.eq(ErrorCode.AXI_READ),
            self.o_failure.payload.pc.eq(beat.pc),
            self.o_failure.payload.operand.eq(beat.beat_address << exact_log2(self.cfg.axi_bytes)),
            self.finish.eq(leaves & beat.last),
            self.finish_index.eq(beat.tag),
        ]
        reported_only = Const(0)        # a beat that comes again has been written, but its bytes found no place
        if self.cfg.single_bank_beats:
            reported_only = Signal(name="reported_only")
            m.d.sync += reported_only.eq(written & ~leaves)
        behind = Signal(name="behind", reset_less=True)     # the units of a swizzled beat lie in the row behind that of its first one
        requested, only_next = self._place(m, beat, behind)
        with m.If(free):
            m.d.sync += [
                valid.eq(self._beat.valid),
                beat.eq(self._beat.payload),
                beat.valid_units.eq(self._units),
                request.eq(Mux(self._beat.valid & ~self._beat.payload.error & ~reported_only, requested, 0)),
            ]
            m.d.sync += [self._second.eq(self._split), beat.last.eq(self._beat.payload.last & ~self._split), behind.eq(only_next)]
        with m.Else():
            m.d.sync += request.eq(denied)
        if self.cfg.single_bank_beats:
            with m.If(valid & ~leaves):
                m.d.sync += [valid.eq(0), request.eq(0)]
        return m

    def _incoming(self, m, valid, leaves):
        """Sets ``_beat``, the stream of beats for the register, and returns whether that takes one."""
        self._split = Signal(name="split")              # another part of the beat follows
        if not self.cfg.single_bank_beats:
            self._beat, free = self.i, Signal(name="free")
            m.d.comb += [free.eq(~valid | leaves), self.i.ready.eq(free & ~self._split), self.busy.eq(valid)]
            return free
        m.submodules.queue = queue = ReplayQueue(located_beat_layout(self.cfg), BEATS_UNDER_WAY)
        connect(m, flipped(self.i), queue.i)
        m.d.comb += [queue.done.eq(leaves), queue.again.eq(valid & ~leaves), self.busy.eq(~queue.empty)]
        self._beat = queue.o
        return Const(1)

    def _parts(self, m):
        """The units of the incoming beat that are written together: all, or those of a row of a swizzled beat."""
        units, incoming = units_per_beat(self.cfg), self._beat.payload
        self._units = Signal(units, name="part_units")
        self._second = Signal(name="second")            # this is the second part
        halves = exact_log2(BANK_BYTES // unit_bytes(self.cfg))
        first_bank = incoming.pointer[halves:][:exact_log2(BANKS)]
        in_row = Cat(first_bank + i < BANKS for i in range(units))
        here, behind = incoming.valid_units & in_row, incoming.valid_units & ~in_row
        divided = incoming.swizzle.any() & ~incoming.error & here.any() & behind.any()
        m.d.comb += [
            self._split.eq(self._beat.valid & divided & ~self._second),
            self._units.eq(Mux(divided, Mux(self._second, behind, here), incoming.valid_units)),
        ]

    def _place(self, m, beat, behind):
        """Rows, data and masks of the registered beat; returns the banks that the incoming beat needs, and
        whether its units are all in the next row."""
        units = units_per_beat(self.cfg)
        halves = exact_log2(BANK_BYTES // unit_bytes(self.cfg))     # pointer bits below the block
        incoming = self._beat.payload
        spread = Signal(BANKS + units - 1)
        m.d.comb += spread.eq(self._units << incoming.pointer[halves:][:exact_log2(BANKS)])
        incoming_row = incoming.pointer[halves + exact_log2(BANKS):]
        only_next = spread[BANKS:].any() & ~spread[:BANKS].any()
        wanted = swizzle(m, "wanted", spread[:BANKS] | spread[BANKS:], exchange_of(self.cfg, incoming.swizzle, incoming_row + only_next))
        block = beat.pointer[halves:]
        first_bank = block[:exact_log2(BANKS)]
        row = block[exact_log2(BANKS):]
        next_row = Signal.like(row, name="next_row")
        exchange = Signal(exact_log2(BANKS), name="exchange")
        m.d.comb += [next_row.eq(row + 1), exchange.eq(exchange_of(self.cfg, beat.swizzle, Mux(behind, next_row, row)))]
        for b in range(BANKS):
            # A beat covers ``units`` neighbouring banks; those behind the last one lie in the next row.
            wraps = Mux(beat.swizzle.any(), behind, (b < first_bank) if b < units - 1 else 0) if units > 1 else 0
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
    ``i_burst`` to the request, none with ``cfg.tensors``; 3 from a beat to its bank request. Answers may come in any order of the tags,
    interleaved beat by beat. With ``cfg.far_registers`` a queue stands in front of the banks, so that a grant decides about no
    more than the beat at the banks: a cycle more, and ``finish``, ``o_moved`` and ``o_failure`` come a cycle later.
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
    prefetched : Out(1)
        All requests of a prefetch are on their way. Only with ``cfg.prefetches``.
    o_multicast, i_multicast, o_multicast_failure
        Only with ``cfg.multicast``: as in ``MulticastPort``.
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
        } | ({"prefetched": Out(1)} if cfg.prefetches else {}) | ({
            "o_multicast": Out(stream.Signature(multicast_beat_layout(cfg))),
            "i_multicast": In(stream.Signature(multicast_beat_layout(cfg))),
            "o_multicast_failure": Out(stream.Signature(error_layout)),
        } if cfg.multicast else {}))

    def elaborate(self, platform):
        m = Module()
        m.submodules.slots = slots = TransactionTable(self.cfg.axi_reads)
        m.submodules.locator = locator = ReadTracker(self.cfg)
        located, requested, accepted = locator.o, 1, 1
        m.submodules.writer = writer = BeatWriter(self.cfg)
        burst = self.i_burst.payload
        prefetches = burst.prefetch if self.cfg.prefetches else Const(0)
        if self.cfg.tensors:
            m.submodules.filler = filler = OutOfBoundsFill(self.cfg)
            connect(m, locator.o, filler.i_beat)
            located, requested, accepted = filler.o, ~burst.outside, filler.i_burst.ready | ~burst.outside
            m.d.comb += [
                filler.i_burst.valid.eq(slots.take & burst.outside),
                filler.i_burst.payload.burst.eq(burst),
                filler.i_burst.payload.slot.eq(slots.index),
            ]
        located, shared_busy = self._share(m, located, slots, writer)
        reporting = self._report(m, located, writer)
        taken = slots.take
        if self.cfg.prefetches:     # a prefetch has no slot: nothing comes back
            taken = self.i_burst.valid & self.i_burst.ready
            m.d.sync += self.prefetched.eq(taken & prefetches & burst.ends_transfer)
        free = request_burst(m, self.cfg, self.read_request, burst, slots.index, taken & requested)
        m.d.comb += [
            self.i_burst.ready.eq(free & slots.free & accepted),
            slots.take.eq(self.i_burst.valid & self.i_burst.ready & ~prefetches),
            slots.ends_transfer.eq(burst.ends_transfer),
            locator.burst.eq(burst),
            locator.slot.eq(slots.index),
            locator.remember.eq(slots.take),
            locator.clearing.eq(slots.clearing),
            self.completed.eq(slots.completed),
            self.busy.eq(slots.busy | (self.read_request.valid | self.prefetched if self.cfg.prefetches else 0) | shared_busy | reporting),
            self.event_conflict.eq(writer.event_conflict),
        ]
        connect(m, flipped(self.read_data), locator.i)
        connect(m, writer.bank_write, flipped(self.bank_write))
        return m

    def _report(self, m, located, writer):
        """Beats to the banks and what they report, with ``far_registers`` a queue before and a register behind; whether any are there."""
        if not self.cfg.far_registers:
            connect(m, located, writer.i)
            connect(m, writer.o_moved, flipped(self.o_moved))
            connect(m, writer.o_failure, flipped(self.o_failure))
            return Const(0)
        m.submodules.moved = moved = Buffer(barrier_arrival_layout)
        waiting = writer.busy
        if self.cfg.single_bank_beats:
            connect(m, located, writer.i)
        else:
            m.submodules.beats = beats = Queue(located_beat_layout(self.cfg), BEATS_WAITING, registered=False)  # the writer has registers
            link(m, located, beats.i)
            link(m, beats.o, writer.i)
            waiting = beats.level != 0
        link(m, writer.o_moved, moved.i)
        link(m, moved.o, self.o_moved)
        m.d.sync += [self.o_failure.valid.eq(writer.o_failure.valid), self.o_failure.payload.eq(writer.o_failure.payload)]
        return waiting | moved.o.valid | self.o_failure.valid

    def _share(self, m, located, slots, writer):
        """Beats for this core, its own and those of others; and whether some of others are under way."""
        if not self.cfg.multicast:
            domain = m.d.sync if self.cfg.far_registers else m.d.comb
            domain += [slots.finish.eq(writer.finish), slots.finish_index.eq(writer.finish_index)]
            return located, Const(0)
        m.submodules.share = share = MulticastPort(self.cfg)
        connect(m, located, share.i_beat)
        for name, port in (("o_multicast", share.o_multicast), ("i_multicast", share.i_multicast),
                           ("o_multicast_failure", share.o_failure)):
            connect(m, flipped(getattr(self, name)), port)
        m.d.comb += [
            slots.finish.eq(writer.finish | share.finish), share.finish_taken.eq(~writer.finish),
            slots.finish_index.eq(Mux(writer.finish, writer.finish_index, share.finish_index)),
        ]
        return share.o_beat, share.busy | writer.busy
