"""Beat reader of the store engine: reads beats from shared memory and aligns them to the bus."""

import itertools

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import SharedReadPort, barrier_arrival_layout, write_data_layout
from ..interfaces.swizzle import exchange_of, swizzle
from ..lib.onehot import any_of, select_one_hot
from ..lib.stream import Queue
from ..parameters.tmau import TmauParameters
from .beat_requester import beat_layout
from .layouts import reads_in_flight, unit_bytes, units_per_beat

__all__ = ["ANSWER_CYCLES", "BeatReader"]

ANSWER_CYCLES = 4   # from the last answer of a beat to the bus: two of the alignment, two of the queue
BEATS_AHEAD = 8     # beats requested and not yet accepted by the bus; 7 hide the latency of shared memory, alignment and queue
JOINED_EARLY = 4    # banks whose words one six-input LUT per bit selects


class BeatReader(Component):
    """Beat reader of the store engine: reads beats from shared memory and aligns them to the bus.

    A beat is one read request. A swizzled beat in two rows is two requests, one per row. The fields that the answers need wait in a queue
    of ``reads_in_flight(cfg)`` requests. Alignment register j collects the units of banks b with b mod ``units_per_beat`` = j, before the
    exchange of swizzled rows. A complete beat is rotated into bus order.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(beat_layout(cfg)))
        Beats to read. Accepted with the transfer of the last request.
    bank_read : Out(SharedReadPort(cfg))
        Read requests, combinational from registers and ``i``, and their answers.
    o : Out(stream.Signature(write_data_layout(cfg)))
        Beats for the bus, with strobes. Registered.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Barrier update: the bytes of a burst, valid with the last answer of its last beat or later.
    read : Out(2)
        The last answer of a transfer of blocks (bit 0), of a tensor (bit 1) comes in this cycle. Only with ``cfg.tensors``.

    *Latency*: 0 cycles from ``i`` to the request. ``ANSWER_CYCLES`` (4) cycles from the last answer of a beat to ``o``; 0 cycles to
    ``o_moved`` and ``read``.

    *Throughput*: one beat per cycle while shared memory and bus are ready. A silent beat waits for the answers of all beats before it.

    *Back-pressure*: ``i.ready`` depends combinationally on ``bank_read.request.ready``, not on ``o.ready``; with a silent beat on
    ``bank_read.answer``. At most ``BEATS_AHEAD`` (8) beats are requested before the bus accepts them. A beat that updates a barrier waits
    while ``reads_in_flight(cfg)`` updates wait.

    *Reset*: drops all beats; shared memory must be reset in the same cycle.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(beat_layout(cfg))),
            "bank_read": Out(SharedReadPort(cfg)),
            "o": Out(stream.Signature(write_data_layout(cfg))),
            "o_moved": Out(stream.Signature(barrier_arrival_layout)),
        } | ({"read": Out(2)} if cfg.tensors else {}))

    def elaborate(self, platform):
        m = Module()
        cfg, beat, request = self.cfg, self.i.payload, self.bank_read.request
        depth = reads_in_flight(cfg)
        m.submodules.reads = reads = Queue(self._read_layout(), depth, registered=depth == 2)      # latency 1: the least of an answer
        silent = beat.silent if cfg.tensors else Const(0)
        split, exchange = self._request(m)
        begins, skipped, answered = Signal(), Signal(), Signal()
        room = self._updates(m, reads, (begins & ~split) | skipped, answered, skipped)
        full = self._ahead(m, begins & ~split)
        m.d.comb += [
            request.valid.eq(self.i.valid & ~silent & ~full & reads.i.ready & room),
            begins.eq(request.valid & request.ready), reads.i.valid.eq(begins), self.i.ready.eq((begins & ~split) | skipped),
            answered.eq(self.bank_read.answer.valid & self.bank_read.answer.payload.last), reads.o.ready.eq(answered),
        ]
        with m.If(begins):
            m.d.sync += self._second.eq(split)
        self._describe(m, reads.i.payload, split, exchange)
        if cfg.tensors:
            # In one cycle ``read`` has the end of one beat.
            last_answered = (reads.level == 1) & answered & ~beat.ends.any()
            m.d.comb += [
                skipped.eq(self.i.valid & silent & room & ((reads.level == 0) | last_answered)),
                self.read.eq(Mux(answered, reads.o.payload.ends, 0) | Mux(skipped, beat.ends, 0)),
            ]
        self._collect(m, reads.o.payload, answered)
        return m

    @property
    def _halves(self):
        """log2 of the units per block: pointer bits below the block number."""
        return exact_log2(BANK_BYTES // unit_bytes(self.cfg))

    @property
    def _joins_early(self):
        """Whether the word of an alignment register is selected in the cycle of its answer."""
        return BANKS // units_per_beat(self.cfg) <= JOINED_EARLY

    def _lane_banks(self, lane):
        """Banks of an alignment register; a request has at most one of them."""
        return range(lane, BANKS, units_per_beat(self.cfg))

    def _read_layout(self):
        """Fields of a read request that its answers need.

        ``complete``: the last request of its beat. ``arrives``: a barrier counts the burst that ends with it. ``number``: place of the
        word of each alignment register among the banks of the register.
        """
        units, beat = units_per_beat(self.cfg), beat_layout(self.cfg)
        return data.StructLayout({
            "complete": 1, "arrives": 1, "unit_pointer": exact_log2(BANKS) + self._halves, "valid_units": units, "last": 1,
            "exchange": exact_log2(units), **self._missing, **({"ends": beat["ends"].shape} if self.cfg.tensors else {}),
            **({"number": data.ArrayLayout(range(BANKS // units), units)} if self._joins_early else {}),
        })

    def _describe(self, m, read, split, exchange):
        """Fields of the request that begins."""
        beat = self.i.payload
        m.d.comb += [
            read.complete.eq(~split), read.arrives.eq(beat.arrives & ~split), read.unit_pointer.eq(beat.pointer),
            read.valid_units.eq(beat.valid_units), read.last.eq(beat.last), read.exchange.eq(exchange),
            *(read[name].eq(beat[name]) for name in self._missing),
        ]
        if self.cfg.tensors:
            m.d.comb += read.ends.eq(Mux(split, 0, beat.ends))
        for lane in range(units_per_beat(self.cfg)) if self._joins_early else ():
            wanted = [self.bank_read.request.payload.bank[b] for b in self._lane_banks(lane)]
            m.d.comb += read.number[lane].eq(Cat(
                any_of(bit for place, bit in enumerate(wanted) if place >> number & 1) for number in range(exact_log2(len(wanted)))))

    def _ahead(self, m, requested):
        """Whether ``BEATS_AHEAD`` beats are requested and not yet accepted by the bus. Registered."""
        full, ahead = Signal(name="full"), Signal(range(BEATS_AHEAD + 1))
        taken = self.o.valid & self.o.ready
        with m.If(requested & ~taken):
            m.d.sync += [ahead.eq(ahead + 1), full.eq(ahead == BEATS_AHEAD - 1)]
        with m.If(taken & ~requested):
            m.d.sync += [ahead.eq(ahead - 1), full.eq(0)]
        return full

    def _updates(self, m, reads, accepted, answered, skipped):
        """Barrier updates: they wait in order from the request of their beat to its last answer; returns whether the beat has room."""
        beat, depth = self.i.payload, reads_in_flight(self.cfg)
        layout = data.StructLayout({name: barrier_arrival_layout[name].shape for name in ("barrier", "bytes")})
        m.submodules.updates = updates = Queue(layout, depth, registered=False)
        reported, due = Signal(), Signal(range(depth + 1))      # ``due``: updates whose beats were read before
        read = answered & reads.o.payload.arrives
        m.d.comb += [
            updates.i.valid.eq(accepted & beat.arrives), updates.i.payload.barrier.eq(beat.barrier), updates.i.payload.bytes.eq(beat.bytes),
            self.o_moved.valid.eq(updates.o.valid & (read | due.any())),
            self.o_moved.payload.barrier.eq(updates.o.payload.barrier), self.o_moved.payload.bytes.eq(updates.o.payload.bytes),
            reported.eq(self.o_moved.valid & self.o_moved.ready), updates.o.ready.eq(reported),
        ]
        m.d.sync += due.eq(due + read + (skipped & beat.arrives) - reported)
        return updates.i.ready | ~beat.arrives

    def _request(self, m):
        """Banks and rows of the beat, or of its current part; returns whether another part follows, and the exchange of the banks.

        A swizzled beat that lies in two rows has two parts.
        """
        units, beat, request = units_per_beat(self.cfg), self.i.payload, self.bank_read.request.payload
        block = beat.pointer[self._halves:]
        first_bank = block[:exact_log2(BANKS)]
        row = block[exact_log2(BANKS):]
        spread = Signal(BANKS + units - 1)
        next_row = Signal.like(row, name="next_row")
        m.d.comb += [spread.eq(beat.valid_units << first_bank), next_row.eq(row + 1)]
        here, behind = spread[:BANKS], spread[BANKS:]
        self._second = Signal(name="second")            # current part is the one in the next row
        in_next, split, exchange = Signal(name="in_next"), Signal(name="split"), Signal(exact_log2(BANKS), name="exchange")
        m.d.comb += [
            split.eq(beat.swizzle.any() & here.any() & behind.any() & ~self._second),
            in_next.eq(behind.any() & (self._second | ~here.any())),
            exchange.eq(exchange_of(self.cfg, beat.swizzle, Mux(in_next, next_row, row))),
        ]
        for b in range(BANKS):
            wraps = Mux(beat.swizzle.any(), in_next, (b < first_bank) if b < units - 1 else 0) if units > 1 else 0
            m.d.comb += request.row[b].eq(Mux(wraps, next_row, row) if units > 1 else row)
        part = Mux(beat.swizzle.any(), Mux(in_next, behind, here), here | behind)
        m.d.comb += request.bank.eq(swizzle(m, "wanted", part, exchange))
        return split, exchange

    def _collect(self, m, read, answered):
        """Alignment registers of the words that come for ``read``, and the queue of complete beats."""
        units, answer = units_per_beat(self.cfg), self.bank_read.answer
        stage_layout = data.StructLayout({
            "banks": BANKS, "complete": 1, "unit_pointer": exact_log2(BANKS) + self._halves,
            "valid_units": units, "last": 1, "exchange": exact_log2(units), **self._missing,
        })
        stages = [Signal(stage_layout, name=f"answered_{n}") for n in range(3)]
        m.d.comb += [
            stages[0].banks.eq(Mux(answer.valid, answer.payload.bank, 0)),
            stages[0].complete.eq(answered & read.complete),
            *(stages[0][name].eq(read[name]) for name in ("unit_pointer", "valid_units", "last", "exchange", *self._missing)),
        ]
        for before, after in itertools.pairwise(stages):
            m.d.sync += after.eq(before)

        arrived = stages[1]
        words = []
        for j in range(units):
            word = self._join_early(m, j, read) if self._joins_early else self._join_late(m, stages[0].banks)
            words.append(Cat(word, Cat(arrived.banks[b] for b in self._lane_banks(j)).any()))
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

    def _join_late(self, m, banks):
        """Registers of the words of all banks, zero where none came, joined by OR."""
        kept = []
        for b in range(BANKS):
            word = Signal(8 * BANK_BYTES, name=f"bank_{b}", reset_less=True)
            m.d.sync += word.eq(self.bank_read.answer.payload.data[b])
            with m.If(~banks[b]):
                m.d.sync += word.eq(0)
            kept.append(word)
        return any_of(kept)

    def _join_early(self, m, lane, read):
        """Register of the word of an alignment register."""
        word = Signal(8 * BANK_BYTES, name=f"word_{lane}", reset_less=True)
        words = Cat(self.bank_read.answer.payload.data[b] for b in self._lane_banks(lane))
        m.d.sync += word.eq(words.word_select(read.number[lane], 8 * BANK_BYTES))
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
        for unit, following in zip(units, [*units[1:], 0], strict=True):
            if self.cfg.tensors:
                yield Cat(unit & (following | (byte + beat.missing < nbytes)) for byte in range(nbytes))
            else:
                yield unit.replicate(nbytes)
