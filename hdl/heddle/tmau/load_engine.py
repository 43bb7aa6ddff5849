"""Load engine of the TMAU: read bursts of global memory, written to the banks of shared memory."""

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
from ..lib.register_slice import RegisterSlice
from ..lib.replay_queue import ReplayQueue
from ..lib.stream import Queue, link
from ..parameters.tmau import TmauParameters
from .beat_requester import BEATS_WAITING
from .burst_request import request_burst
from .layouts import burst_layout, located_beat_layout, multicast_beat_layout, unit_bytes, units_per_beat
from .multicast_port import MulticastPort
from .out_of_bounds_fill import OutOfBoundsFill
from .read_tracker import ReadTracker
from .swizzle import exchange_of, swizzle
from .transaction_table import TransactionTable

__all__ = ["BeatWriter", "LoadEngine"]

BEATS_UNDER_WAY = 4     # depth of the replay queue: the minimum for one beat per cycle


class BeatWriter(Component):
    """Beat writer of the load engine: writes located beats to the banks of shared memory and reports their bytes.

    A beat requests its banks until each was granted. A swizzled beat in two rows is written row by row, in two cycles. With
    ``cfg.single_bank_beats`` a replay queue precedes the banks. Every cycle the queue issues a beat; a beat that was not granted is
    issued again 2 cycles later. No register enable therefore depends on a grant.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(located_beat_layout(cfg)))
        Beats to write.
    bank_write : Out(BankWritePort(cfg))
        Requests to the banks. Registered.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Barrier update: the bytes of a beat, valid in the cycle in which its last bank is granted. Combinational from the grants.
    o_failure : Out(ErrorStream())
        AXI_READ for each beat with an error. Combinational from the grants.
    finish : Out(1)
        The last beat of a burst leaves in this cycle.
    finish_index : Out(range(cfg.axi_reads))
        Entry of that burst in the transaction table.
    busy : Out(1)
        A beat is in flight.
    event_conflict : Out(1)
        Some bank was requested and not granted in this cycle.

    *Latency*: 1 cycle from ``i`` to the bank request; 2 with ``cfg.single_bank_beats``.

    *Throughput*: one beat per cycle while its banks are granted and ``o_moved`` is accepted.

    *Back-pressure*: ``i.ready`` depends combinationally on ``bank_write.grant`` and ``o_moved.ready``; with ``cfg.single_bank_beats``
    on registers only.

    *Reset*: drops all beats.

    *Errors*: a beat with ``error`` is not written but counted at its barrier, so that no wait is endless. AXI_READ has the byte address
    of the burst as operand.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
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
            # Errors of beats from other cores are reported by the core that read them.
            self.o_failure.valid.eq(leaves & beat.error & (~beat.mask.any() if self.cfg.multicast else 1)),
            self.o_failure.payload.code.eq(ErrorCode.AXI_READ),
            self.o_failure.payload.pc.eq(beat.pc),
            self.o_failure.payload.operand.eq(beat.beat_address << exact_log2(self.cfg.axi_bytes)),
            self.finish.eq(leaves & beat.last),
            self.finish_index.eq(beat.tag),
        ]
        reported_only = Const(0)        # a replayed beat was already written; only its barrier update is missing
        if self.cfg.single_bank_beats:
            reported_only = Signal(name="reported_only")
            m.d.sync += reported_only.eq(written & ~leaves)
        behind = Signal(name="behind", reset_less=True)     # the units of a swizzled beat lie in the row after that of its first unit
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
        """Set ``_beat``, the stream of beats at the request register; returns whether the register accepts a beat."""
        self._split = Signal(name="split")              # a second part of the beat follows
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
        """Units of the incoming beat that are written together: all units, or the units of one row of a swizzled beat."""
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
        """Rows, data and masks of the registered beat.

        Returns the banks of the incoming beat, and whether all its units lie in the next row.
        """
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
            # A beat covers ``units`` consecutive banks; after the last bank the next row follows.
            wraps = Mux(beat.swizzle.any(), behind, (b < first_bank) if b < units - 1 else 0) if units > 1 else 0
            # Consecutive units belong to consecutive banks: bank b has unit (b - first_bank) modulo units.
            unit = ((exchange ^ b) - first_bank)[:exact_log2(units)]
            m.d.comb += [
                self.bank_write.row[b].eq(Mux(wraps, next_row, row)),
                self.bank_write.data[b].eq(beat.data.word_select(unit, 8 * BANK_BYTES) if units > 1
                                           else beat.data.replicate(1 << halves)),
                self.bank_write.mask[b].eq(Mux(beat.pointer[0], 0xFF00, 0x00FF) if halves else 0xFFFF),
            ]
        return wanted, only_next


class LoadEngine(Component):
    """Load engine of the TMAU: reads bursts of global memory into shared memory, with ``cfg.axi_reads`` bursts outstanding at most
    [S1.1].

    Answers may be in any order of the tags, interleaved beat by beat. The tag is the entry of the transaction table.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i_burst : In(stream.Signature(burst_layout(cfg)))
        Bursts to read.
    read_request : Out(stream.Signature(read_request_layout(cfg, cfg.tag_bits)))
        Read requests to global memory.
    read_data : In(stream.Signature(read_data_layout(cfg, cfg.tag_bits)))
        Read data of global memory.
    bank_write : Out(BankWritePort(cfg))
        Requests to the banks of shared memory. Registered.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Barrier update: bytes of each beat, in the cycle in which its last bank is granted (combinational).
    o_failure : Out(ErrorStream())
        AXI_READ for each beat with an error (combinational).
    completed : Out(1)
        All bytes of a transfer are written.
    prefetched : Out(1)
        All requests of a prefetch were accepted in the cycle before or wait in the request register. Only with ``cfg.prefetches``.
    o_multicast : Out(stream.Signature(multicast_beat_layout(cfg)))
        Beats for the cores in their mask. Only with ``cfg.multicast``.
    i_multicast : In(stream.Signature(multicast_beat_layout(cfg)))
        Beats of multicast loads for this core. Only with ``cfg.multicast``.
    o_multicast_failure : Out(stream.Signature(error_layout))
        AXI_READ for beats of multicast loads of this core. Only with ``cfg.multicast``.
    busy : Out(1)
        A burst, beat, barrier update or error is in flight.
    event_conflict : Out(1)
        Some bank was requested and not granted in this cycle.

    *Latency*: 1 cycle from ``i_burst`` to ``read_request``, 0 with ``cfg.tensors``. 3 cycles from a beat of ``read_data`` to its bank
    request. With ``cfg.far_registers`` 4 cycles, and ``o_moved``, ``o_failure`` and ``completed`` are one cycle later.

    *Throughput*: one burst request and one beat per cycle, without bubbles between bursts, while memory and banks are ready.

    *Back-pressure*: ``read_data.ready`` depends combinationally on ``bank_write.grant``: a bank conflict holds ``read_data``. With
    ``cfg.far_registers`` a queue before the banks removes this path. ``i_burst.ready`` depends on free entries of the transaction table
    and, without ``cfg.tensors``, combinationally on ``read_request.ready``.

    *Reset*: drops all bursts; memory must be reset in the same cycle. The first burst is accepted ``cfg.axi_reads`` cycles later.

    *Errors*: AXI_READ, operand = byte address of the burst, once for each beat with an error; such a beat is not written but counted.

    *Source*: [S1.1], docs/units/tmau.md.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
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
        if self.cfg.prefetches:     # a prefetch has no answer and takes no entry of the transaction table
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
        """Connect beats to the banks, and the writer's reports to the ports; returns whether any is in flight.

        With ``far_registers`` a queue precedes the banks and registers follow the reports.
        """
        if not self.cfg.far_registers:
            connect(m, located, writer.i)
            connect(m, writer.o_moved, flipped(self.o_moved))
            connect(m, writer.o_failure, flipped(self.o_failure))
            return Const(0)
        m.submodules.moved = moved = RegisterSlice(barrier_arrival_layout)
        waiting = writer.busy
        if self.cfg.single_bank_beats:
            connect(m, located, writer.i)
        else:
            m.submodules.beats = beats = Queue(located_beat_layout(self.cfg), BEATS_WAITING, registered=False)  # registered by the writer
            link(m, located, beats.i)
            link(m, beats.o, writer.i)
            waiting = beats.level != 0
        link(m, writer.o_moved, moved.i)
        link(m, moved.o, self.o_moved)
        m.d.sync += [self.o_failure.valid.eq(writer.o_failure.valid), self.o_failure.payload.eq(writer.o_failure.payload)]
        return waiting | moved.o.valid | self.o_failure.valid

    def _share(self, m, located, slots, writer):
        """Beats for this core, own and from other cores; returns them and whether beats of other cores are in flight."""
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
