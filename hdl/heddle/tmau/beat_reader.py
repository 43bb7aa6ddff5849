"""Beat reader of the store engine: reads beats from the banks of shared memory and aligns them to the bus."""

import itertools

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import (
    SHARED_READ_LATENCY,
    BankReadPort,
    barrier_arrival_layout,
    write_data_layout,
)
from ..lib.onehot import any_of, select_one_hot
from ..lib.stream import Queue
from ..lib.swizzle import exchange_of, swizzle
from ..parameters.tmau import TmauParameters
from .beat_requester import beat_layout
from .layouts import unit_bytes, units_per_beat

__all__ = ["BeatReader"]

BEATS_AHEAD = 8     # beats read and not yet accepted by the bus; 6 hide the latency of banks and queue
JOINED_EARLY = 4    # banks whose words one six-input LUT per bit selects


class BeatReader(Component):
    """Beat reader of the store engine: reads beats from the banks of shared memory and aligns them to the bus.

    A beat requests its banks until each was granted; the words wait in the alignment registers. Alignment register j collects the units
    of banks b with b mod ``units_per_beat`` = j, before the exchange of swizzled rows. A complete beat is rotated into bus order. A
    swizzled beat in two rows is read row by row.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(beat_layout(cfg)))
        Beats to read. Accepted when the last bank is granted; with ``cfg.single_bank_beats`` accepted into a register before the banks.
    bank_read : Out(BankReadPort(cfg))
        Requests to the banks; combinational from registers and ``i``.
    o : Out(stream.Signature(write_data_layout(cfg)))
        Beats for the bus, with strobes. Registered.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Barrier update: the bytes of a burst that was read. Registered.
    read : Out(2)
        The last beat of a transfer of blocks (bit 0), of a tensor (bit 1) is read in this cycle. Only with ``cfg.tensors``.
    event_conflict : Out(1)
        Some bank was requested and not granted in this cycle.

    *Latency*: 0 cycles from ``i`` to the request, with ``cfg.single_bank_beats`` 1. 5 cycles from the last grant to ``o``; 1 cycle to
    ``o_moved``.

    *Throughput*: one beat per cycle while banks and bus are ready. With ``cfg.single_bank_beats`` two beats that both update a barrier
    are at least 2 cycles apart.

    *Back-pressure*: ``i.ready`` depends combinationally on ``bank_read.grant``, not on ``o.ready``. At most ``BEATS_AHEAD`` (8) beats
    are read before the bus accepts them. A beat that updates a barrier waits while ``o_moved`` is valid.

    *Reset*: drops all beats.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(beat_layout(cfg))),
            "bank_read": Out(BankReadPort(cfg)),
            "o": Out(stream.Signature(write_data_layout(cfg))),
            "o_moved": Out(stream.Signature(barrier_arrival_layout)),
            "event_conflict": Out(1),
        } | ({"read": Out(2)} if cfg.tensors else {}))

    def elaborate(self, platform):
        m = Module()
        full = Signal()
        allowed, beat, wanted, split, ready = self._incoming(m, full)
        complete = Signal()
        written = Signal()              # complete, and sent to the bus
        # ``full`` is registered: with a predicted decision one more beat may be granted meanwhile.
        ahead, most = Signal(range(BEATS_AHEAD + 1)), BEATS_AHEAD - self.cfg.single_bank_beats
        part_read = Signal()
        now = Signal(BANKS)
        granted = Const(0, BANKS)       # banks of this part granted in earlier cycles; a registered beat has one bank
        if not self.cfg.single_bank_beats:
            granted = Signal(BANKS)
            m.d.sync += granted.eq(Mux(part_read, 0, granted | now))
        m.d.comb += [
            self.bank_read.request.eq(Mux(allowed, wanted & ~granted, 0)),
            now.eq(self.bank_read.request & self.bank_read.grant),
            part_read.eq(allowed & ((granted | now) == wanted)),
            complete.eq(part_read & ~split),
            self.event_conflict.eq(self.bank_read.request != now),
            ready.eq(complete),
            written.eq(complete & ~beat.silent if self.cfg.tensors else complete),
        ]
        if self.cfg.tensors:
            m.d.comb += self.read.eq(Mux(complete, beat.ends, 0))
        with m.If(part_read):
            m.d.sync += self._second.eq(split)
        taken = self.o.valid & self.o.ready
        with m.If(written & ~taken):
            m.d.sync += [ahead.eq(ahead + 1), full.eq(ahead >= most - 1)]
        with m.If(taken & ~written):
            m.d.sync += [ahead.eq(ahead - 1), full.eq(ahead > most)]

        with m.If(complete & beat.arrives):
            m.d.sync += [
                self.o_moved.valid.eq(1),
                self.o_moved.payload.barrier.eq(beat.barrier),
                self.o_moved.payload.bytes.eq(beat.bytes),
            ]
        with m.Elif(self.o_moved.ready):
            m.d.sync += self.o_moved.valid.eq(0)
        self._collect(m, beat, now, written)
        return m

    @property
    def _halves(self):
        """log2 of the units per block: pointer bits below the block number."""
        return exact_log2(BANK_BYTES // unit_bytes(self.cfg))

    def _incoming(self, m, full):
        """Whether a beat may be read, the beat, its banks, whether another part follows, and ``ready``.

        The caller drives ``ready`` when the beat is read.
        """
        beat, ready = self.i.payload, self.i.ready
        wanted, split, rows = self._wanted(m, beat)
        allowed = Signal(name="allowed")
        if not self.cfg.single_bank_beats:
            m.d.comb += [port.eq(row) for port, row in zip(self.bank_read.row, rows, strict=True)]
            m.d.comb += allowed.eq(self.i.valid & ~full & ~(beat.arrives & self.o_moved.valid))
            return allowed, beat, wanted, split, ready
        kept = Signal(beat_layout(self.cfg), name="kept_beat", reset_less=True)
        valid, ready, kept_wanted = Signal(name="kept_valid"), Signal(name="kept_ready"), Signal(BANKS, name="kept_wanted", reset_less=True)
        row, exchange = (Signal.like(value, name=f"kept_{name}", reset_less=True)
                         for name, value in (("row", rows[0]), ("exchange", self._exchange)))
        m.d.comb += self.i.ready.eq(~valid | ready)
        m.d.sync += allowed.eq(valid & ~full & ~(kept.arrives & self.o_moved.valid))
        with m.If(self.i.ready):        # one unit: no part lies in the next row
            # The registered beat may start its barrier update in this cycle.
            m.d.sync += allowed.eq(self.i.valid & ~full & ~(beat.arrives & (self.o_moved.valid | kept.arrives)))
            m.d.sync += [valid.eq(self.i.valid), kept.eq(beat), kept_wanted.eq(wanted), row.eq(rows[0]), exchange.eq(self._exchange)]
        m.d.comb += [port.eq(row) for port in self.bank_read.row]
        self._exchange = exchange
        return allowed, kept, kept_wanted, split, ready

    def _wanted(self, m, beat):
        """Banks of the beat, or of its current part; whether another part follows; the row of each bank.

        A swizzled beat that lies in two rows has two parts.
        """
        units = units_per_beat(self.cfg)
        block = beat.pointer[self._halves:]
        first_bank = block[:exact_log2(BANKS)]
        row = block[exact_log2(BANKS):]
        spread = Signal(BANKS + units - 1)
        next_row = Signal.like(row, name="next_row")
        m.d.comb += [spread.eq(beat.valid_units << first_bank), next_row.eq(row + 1)]
        here, behind = spread[:BANKS], spread[BANKS:]
        self._second = Signal(name="second")            # current part is the one in the next row
        in_next, split = Signal(name="in_next"), Signal(name="split")
        self._exchange = Signal(exact_log2(BANKS), name="exchange")
        m.d.comb += [
            split.eq(beat.swizzle.any() & here.any() & behind.any() & ~self._second),
            in_next.eq(behind.any() & (self._second | ~here.any())),
            self._exchange.eq(exchange_of(self.cfg, beat.swizzle, Mux(in_next, next_row, row))),
        ]
        rows = []
        for b in range(BANKS):
            wraps = Mux(beat.swizzle.any(), in_next, (b < first_bank) if b < units - 1 else 0) if units > 1 else 0
            rows.append(Mux(wraps, next_row, row) if units > 1 else row)
        part = Mux(beat.swizzle.any(), Mux(in_next, behind, here), here | behind)
        return swizzle(m, "wanted", part, self._exchange), split, rows

    def _collect(self, m, beat, now, complete):
        """Alignment registers of the granted words, and the queue of complete beats."""
        units = units_per_beat(self.cfg)
        delayed_layout = data.StructLayout({
            "now": BANKS, "complete": 1, "unit_pointer": exact_log2(BANKS) + self._halves,
            "valid_units": units, "last": 1, "exchange": exact_log2(units), **self._missing,
        })
        stages = [Signal(delayed_layout, name=f"granted_{n}") for n in range(SHARED_READ_LATENCY + 3)]
        m.d.comb += [
            stages[0].now.eq(now),
            stages[0].complete.eq(complete),
            stages[0].unit_pointer.eq(beat.pointer),
            stages[0].valid_units.eq(beat.valid_units),
            stages[0].last.eq(beat.last),
            stages[0].exchange.eq(self._exchange),
            *(stages[0][name].eq(beat[name]) for name in self._missing),
        ]
        for before, after in itertools.pairwise(stages):
            m.d.sync += after.eq(before)

        arrived = stages[SHARED_READ_LATENCY + 1]
        words = []
        for j in range(units):
            banks = range(j, BANKS, units)              # a beat uses at most one of these banks
            join = self._join_late if len(banks) > JOINED_EARLY else self._join_early
            words.append(Cat(join(m, j, banks, stages), Cat(arrived.now[b] for b in banks).any()))
        lanes = []
        for j in range(units):
            lane = Signal(8 * BANK_BYTES, name=f"lane_{j}", reset_less=True)
            chosen = Signal(8 * BANK_BYTES + 1, name=f"chosen_{j}")
            # The unit that belongs to bank b without swizzle lies in bank b XOR exchange.
            m.d.comb += chosen.eq(select_one_hot((arrived.exchange == n for n in range(units)), (words[j ^ n] for n in range(units)))
                                  if units > 1 else words[0])
            with m.If(chosen[-1]):
                m.d.sync += lane.eq(chosen)
            lanes.append(lane)
        self._output(m, stages[-1], Cat(lanes))

    def _join_late(self, m, lane, banks, stages):
        """Registers of the banks' words, zero where no word was granted, joined by OR."""
        kept = []
        for b in banks:
            word = Signal(8 * BANK_BYTES, name=f"bank_{b}", reset_less=True)
            m.d.sync += word.eq(self.bank_read.data[b])
            with m.If(~stages[SHARED_READ_LATENCY].now[b]):
                m.d.sync += word.eq(0)
            kept.append(word)
        return any_of(kept)

    def _join_early(self, m, lane, banks, stages):
        """Register of the granted word behind a multiplexer whose select signals were registered a cycle earlier."""
        number = Signal(range(len(banks)), name=f"number_{lane}", reset_less=True)
        word = Signal(8 * BANK_BYTES, name=f"word_{lane}", reset_less=True)
        now = stages[SHARED_READ_LATENCY - 1].now
        m.d.sync += [
            number.eq(Cat(Cat(now[b] for place, b in enumerate(banks) if place >> bit & 1).any() for bit in range(len(number)))),
            word.eq(Cat(self.bank_read.data[b] for b in banks).word_select(number, 8 * BANK_BYTES)),
        ]
        return word

    def _output(self, m, finished, lanes):
        cfg = self.cfg
        units = units_per_beat(cfg)
        layout = data.StructLayout({"data": cfg.axi_data_bits, "valid_units": units, "last": 1, **self._missing})
        m.submodules.beats = beats = Queue(layout, BEATS_AHEAD)
        if self._halves:
            word = Mux(finished.unit_pointer[0], lanes[8 * unit_bytes(cfg):], lanes[:8 * unit_bytes(cfg)])
        else:       # alignment register j holds unit j - first bank (modulo the units)
            rotation = exact_log2(units)
            word = Cat(lanes.word_select((finished.unit_pointer + i)[:rotation], 8 * BANK_BYTES) for i in range(units))
        m.d.comb += [
            beats.i.valid.eq(finished.complete),
            beats.i.payload.data.eq(word),
            beats.i.payload.valid_units.eq(finished.valid_units),
            beats.i.payload.last.eq(finished.last),
            *(beats.i.payload[name].eq(finished[name]) for name in self._missing),
            self.o.valid.eq(beats.o.valid),
            beats.o.ready.eq(self.o.ready),
            self.o.payload.data.eq(beats.o.payload.data),
            self.o.payload.last.eq(beats.o.payload.last),
            self.o.payload.strobe.eq(Cat(self._strobes(beats.o.payload))),
        ]

    @property
    def _missing(self):
        """Members of beats that exist with ``cfg.tensors`` only."""
        return {"missing": beat_layout(self.cfg)["missing"].shape} if self.cfg.tensors else {}

    def _strobes(self, beat):
        """Byte strobes of a beat: all bytes of the valid units, without the missing bytes of the last valid unit."""
        nbytes, units = unit_bytes(self.cfg), list(beat.valid_units)
        for unit, following in zip(units, [*units[1:], 0]):
            if self.cfg.tensors:
                yield Cat(unit & (following | (byte + beat.missing < nbytes)) for byte in range(nbytes))
            else:
                yield unit.replicate(nbytes)
