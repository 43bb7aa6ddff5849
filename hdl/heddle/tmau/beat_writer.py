"""Beat writer of the load engine: located beats become write requests to shared memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import ErrorStream, SharedWritePort, barrier_arrival_layout
from ..interfaces.swizzle import exchange_of, swizzle
from ..isa.error_codes import ErrorCode
from ..lib.stream import Queue
from ..parameters.tmau import TmauParameters
from .layouts import WRITES_IN_FLIGHT, located_beat_layout, unit_bytes, units_per_beat

__all__ = ["BeatWriter"]


def _pending_layout(cfg):
    """Fields of a beat, or of one of its two parts, that its acknowledgement needs; ``units``: valid units. ``remote``: of another core."""
    beat = located_beat_layout(cfg)
    names = ("tag", "last", "error", "barrier", "has_barrier", "pc", "beat_address")
    return data.StructLayout({
        **{name: beat[name].shape for name in names}, "units": range(units_per_beat(cfg) + 1),
        **({"remote": 1} if cfg.multicast else {}),
    })


class BeatWriter(Component):
    """Beat writer of the load engine: writes located beats to shared memory and reports each beat when it is written.

    A beat is one write request. A swizzled beat in two rows is two requests, one per row. The fields that a report needs wait in a queue
    of ``WRITES_IN_FLIGHT`` (2) beats until the acknowledgement of shared memory.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(located_beat_layout(cfg)))
        Beats to write.
    bank_write : Out(SharedWritePort(cfg))
        Write requests. Registered.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Barrier update: the bytes of a request, valid with ``bank_write.written`` or later.
    o_failure : Out(ErrorStream())
        AXI_READ for each beat with an error.
    finish : Out(1)
        The last beat of a burst is written and reported in this cycle.
    finish_index : Out(range(cfg.axi_reads))
        Entry of that burst in the transaction table.
    busy : Out(1)
        A beat is in flight.

    *Latency*: 1 cycle from ``i`` to the request. 0 cycles from ``bank_write.written`` to ``o_moved``, ``o_failure`` and ``finish``.

    *Throughput*: one beat per cycle while shared memory and ``o_moved`` accept; a beat in two rows takes two cycles.

    *Back-pressure*: ``i.ready`` depends combinationally on ``bank_write.request.ready``. While ``o_moved`` waits, the queue fills, and no
    further request begins.

    *Reset*: drops all beats; shared memory must be reset in the same cycle.

    *Errors*: a beat with ``error`` is not written but counted at its barrier in its turn, so that no wait is endless. AXI_READ has the
    byte address of the burst as operand.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(located_beat_layout(cfg))),
            "bank_write": Out(SharedWritePort(cfg)),
            "o_moved": Out(stream.Signature(barrier_arrival_layout)),
            "o_failure": Out(ErrorStream()),
            "finish": Out(1),
            "finish_index": Out(range(cfg.axi_reads)),
            "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.pending = pending = Queue(_pending_layout(self.cfg), WRITES_IN_FLIGHT, registered=False)
        valid, free, moves = Signal(), Signal(), Signal()
        beat = Signal(located_beat_layout(self.cfg), reset_less=True)
        banks, behind = Signal(BANKS, reset_less=True), Signal(reset_less=True)     # ``behind``: the units lie in the next row
        units, split, second = self._part(m)
        wanted, only_next = self._banks(m, units)
        request, kept = self.bank_write.request, pending.i.payload
        m.d.comb += [
            request.valid.eq(valid & ~beat.error & pending.i.ready), request.payload.bank.eq(banks),
            moves.eq(valid & pending.i.ready & (beat.error | request.ready)),
            free.eq(~valid | moves), self.i.ready.eq(free & ~split), self.busy.eq(valid | pending.o.valid),
            pending.i.valid.eq(moves), kept.units.eq(sum(beat.valid_units)),
            *(kept[name].eq(beat[name]) for name, _ in kept.shape() if name in beat.shape().members),
        ]
        if self.cfg.multicast:
            m.d.comb += kept.remote.eq(beat.mask.any())
        with m.If(free):
            m.d.sync += [
                valid.eq(self.i.valid), beat.eq(self.i.payload), beat.valid_units.eq(units), beat.last.eq(self.i.payload.last & ~split),
                banks.eq(wanted), behind.eq(only_next), second.eq(split),
            ]
        self._words(m, beat, behind)
        self._report(m, pending)
        return m

    def _report(self, m, pending):
        """Report the oldest beat of ``pending`` when it is acknowledged; a beat with an error when it is the oldest."""
        beat = pending.o.payload
        written, leaves = Signal(), Signal()
        acknowledged = Signal(range(WRITES_IN_FLIGHT + 1))       # acknowledgements of beats that are not reported yet
        own = ~beat.remote if self.cfg.multicast else 1     # the core that reads a beat reports its error
        m.d.comb += [
            written.eq(pending.o.valid & (beat.error | self.bank_write.written | acknowledged.any())),
            leaves.eq(written & (~beat.has_barrier | self.o_moved.ready)), pending.o.ready.eq(leaves),
            self.o_moved.valid.eq(written & beat.has_barrier),
            self.o_moved.payload.barrier.eq(beat.barrier),
            self.o_moved.payload.remote.eq(beat.remote if self.cfg.multicast else 0),
            self.o_moved.payload.bytes.eq(beat.units << exact_log2(unit_bytes(self.cfg))),
            self.o_failure.valid.eq(leaves & beat.error & own),
            self.o_failure.payload.code.eq(ErrorCode.AXI_READ),
            self.o_failure.payload.pc.eq(beat.pc),
            self.o_failure.payload.operand.eq(beat.beat_address << exact_log2(self.cfg.axi_bytes)),
            self.finish.eq(leaves & beat.last),
            self.finish_index.eq(beat.tag),
        ]
        m.d.sync += acknowledged.eq(acknowledged + self.bank_write.written - (leaves & ~beat.error))

    def _part(self, m):
        """Units of the incoming beat that one request writes: all, or those in one row of a swizzled beat.

        Returns also whether a second part follows, and the register that marks the second part, which the caller drives.
        """
        count, incoming = units_per_beat(self.cfg), self.i.payload
        units, split, second = Signal(count, name="part_units"), Signal(name="split"), Signal(name="second")
        halves = exact_log2(BANK_BYTES // unit_bytes(self.cfg))
        first_bank = incoming.pointer[halves:][:exact_log2(BANKS)]
        in_row = Cat(first_bank + i < BANKS for i in range(count))
        here, behind = incoming.valid_units & in_row, incoming.valid_units & ~in_row
        divided = incoming.swizzle.any() & ~incoming.error & here.any() & behind.any()
        m.d.comb += [
            split.eq(self.i.valid & divided & ~second),
            units.eq(Mux(divided, Mux(second, behind, here), incoming.valid_units)),
        ]
        return units, split, second

    def _banks(self, m, units):
        """Banks of the units of the incoming beat, and whether all of them lie in the row behind that of the first unit."""
        halves = exact_log2(BANK_BYTES // unit_bytes(self.cfg))     # pointer bits below the block
        incoming = self.i.payload
        spread = Signal(BANKS + len(units) - 1)
        m.d.comb += spread.eq(units << incoming.pointer[halves:][:exact_log2(BANKS)])
        row = incoming.pointer[halves + exact_log2(BANKS):]
        only_next = spread[BANKS:].any() & ~spread[:BANKS].any()
        exchange = exchange_of(self.cfg, incoming.swizzle, row + only_next)
        return swizzle(m, "wanted", spread[:BANKS] | spread[BANKS:], exchange), only_next

    def _words(self, m, beat, behind):
        """Rows, data and masks of the request of the registered beat."""
        units, request = units_per_beat(self.cfg), self.bank_write.request.payload
        halves = exact_log2(BANK_BYTES // unit_bytes(self.cfg))
        block = beat.pointer[halves:]
        first_bank, row = block[:exact_log2(BANKS)], block[exact_log2(BANKS):]
        next_row = Signal.like(row, name="next_row")
        exchange = Signal(exact_log2(BANKS), name="exchange")
        m.d.comb += [next_row.eq(row + 1), exchange.eq(exchange_of(self.cfg, beat.swizzle, Mux(behind, next_row, row)))]
        for line in range(len(request.row)):
            # A beat covers ``units`` consecutive banks; after the last bank the next row follows.
            wraps = Mux(beat.swizzle.any(), behind, (line < first_bank) if line < units - 1 else 0) if units > 1 else 0
            # Consecutive units belong to consecutive banks: bank b has unit (b - first_bank) modulo units.
            unit = ((exchange ^ line) - first_bank)[:exact_log2(units)]
            m.d.comb += [
                request.row[line].eq(Mux(wraps, next_row, row)),
                request.data[line].eq(beat.data.word_select(unit, 8 * BANK_BYTES) if units > 1 else beat.data.replicate(1 << halves)),
                request.mask[line].eq(Mux(beat.pointer[0], 0xFF00, 0x00FF) if halves else 0xFFFF),
            ]
