"""TMAU: merges of the ports of shared memory, and reports of the beat writer."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal
from amaranth.lib.wiring import Component
from heddle import load_config
from heddle.constants import BANKS
from heddle.tmau.beat_writer import BeatWriter
from heddle.tmau.layouts import WRITES_IN_FLIGHT, reads_in_flight
from heddle.tmau.shared_port_merge import ReadPortMerge, WritePortMerge

from .contract import any_stream, obey, require, tracked_item

__all__ = ["BeatWriterSpec", "ReadMergeSpec", "WriteMergeSpec"]


def _config(**changes):
    return load_config("tiny").without_level2(tensors=False, sparse=False, copy_swizzles=False, axi_address_bits=16, shared_memory_kib=4,
                                                **changes)


class ReadMergeSpec(Component):
    """A request of a reader is part of the request that shared memory takes in its cycle; each reader has the words of its own banks.

    ``last`` comes with the last word of its own banks. Nothing else is read. Environment: shared memory takes requests and answers them in
    order when it pleases, in parts as it pleases, one cycle after the transfer at the earliest.
    """

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        cfg = _config()
        m.submodules.dut = dut = ReadPortMerge(cfg)
        out, sent = dut.o.request, Signal()
        takes = Cat(port.request.valid & port.request.ready for port in dut.i)
        for number, port in enumerate(dut.i):
            any_stream(m, port.request, f"request_{number}")
            m.d.comb += Assume(~port.request.valid | (port.request.payload.bank != 0))
        require(m, out, "merged")
        banks = [Mux(take, port.request.payload.bank, 0) for take, port in zip(takes, dut.i)]
        m.d.comb += [
            out.ready.eq(AnySeq(1)), sent.eq(out.valid & out.ready), Assert(sent == takes.any()), Cover(takes.all()),
            Assert(~out.valid | (out.payload.bank != 0)), Assert((banks[0] & banks[1]) == 0),
            Assert(~sent | (out.payload.bank == (banks[0] | banks[1]))),
        ]
        for number, port in enumerate(dut.i):
            for bank in range(BANKS):
                m.d.comb += Assert(~banks[number][bank] | (out.payload.row[bank] == port.request.payload.row[bank]))
        self._answers(m, dut, sent, banks, reads_in_flight(cfg))
        return m

    def _answers(self, m, dut, sent, banks, depth):
        """Banks of each request that have not come, by reader; the oldest request is answered."""
        rest = [[Signal(BANKS, name=f"rest_{place}_{reader}") for reader in range(2)] for place in range(depth)]
        count, served, ends, answer = Signal(range(depth + 1)), Signal(BANKS), Signal(), dut.o.answer
        left = [Signal(BANKS, name=f"left_{reader}") for reader in range(2)]
        m.d.comb += [
            served.eq(AnySeq(BANKS) & Mux(count == 0, 0, rest[0][0] | rest[0][1])), answer.valid.eq(served.any()),
            answer.payload.bank.eq(served), *(value.eq(old & ~served) for value, old in zip(left, rest[0])),
            ends.eq((count != 0) & ((left[0] | left[1]) == 0)), answer.payload.last.eq(ends), Assert(~sent | (count != depth) | ends),
            *(word.eq(bank) for bank, word in enumerate(answer.payload.data)),
        ]
        for port, old, value in zip(dut.i, rest[0], left):
            own = Mux(count == 0, 0, served & old)
            m.d.comb += [Assert(port.answer.valid == own.any()), Cover(own.any() & (value == 0) & ~ends)]
            with m.If(port.answer.valid):
                m.d.comb += [Assert(port.answer.payload.bank == own), Assert(port.answer.payload.last == (value == 0))]
                m.d.comb += [Assert(word == bank) for bank, word in enumerate(port.answer.payload.data)]
        m.d.sync += [count.eq(count + sent - ends), *(entry.eq(value) for entry, value in zip(rest[0], left))]
        with m.If(ends):
            m.d.sync += [entry.eq(value) for entries, following in zip(rest, rest[1:]) for entry, value in zip(entries, following)]
        with m.If(sent):
            for place, entries in enumerate(rest):
                with m.If(count - ends == place):
                    m.d.sync += [entry.eq(value) for entry, value in zip(entries, banks)]


class WriteMergeSpec(Component):
    """A request of a writer is part of the request that shared memory takes in its cycle; its acknowledgement is that of this request.

    Nothing else is written. Environment: shared memory takes requests and acknowledges them in order when it pleases, one cycle after the
    transfer at the earliest. A word is its row.
    """

    def __init__(self, lines):
        self._lines = lines
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        cfg = _config(shared_writes=self._lines)
        m.submodules.dut = dut = WritePortMerge(cfg)
        out, sent = dut.o.request, Signal()
        takes = Cat(port.request.valid & port.request.ready for port in dut.i)
        for number, port in enumerate(dut.i):
            self._writer(m, port.request, number)
        require(m, out, "merged")
        m.d.comb += [
            out.ready.eq(AnySeq(1)), sent.eq(out.valid & out.ready), Assert(sent == takes.any()),
            Assert(~out.valid | (out.payload.bank != 0)), Cover(takes.all() if self._lines > 1 else takes[1]),
        ]
        with m.If(sent):
            banks = [Mux(take, port.request.payload.bank, 0) for take, port in zip(takes, dut.i)]
            m.d.comb += [Assert(out.payload.bank == (banks[0] | banks[1])), Assert((banks[0] & banks[1]) == 0)]
            for take, port in zip(takes, dut.i):
                for bank in range(BANKS):
                    with m.If(take & port.request.payload.bank[bank]):
                        m.d.comb += [Assert(out.payload[name][bank % self._lines] == port.request.payload[name][bank % self._lines])
                                     for name in ("row", "data", "mask")]
        self._acknowledgements(m, dut, sent, takes)
        return m

    def _writer(self, m, port, number):
        payload = port.payload
        m.d.comb += [
            port.valid.eq(AnySeq(1)), payload.bank.eq(AnySeq(BANKS)), Assume(~port.valid | (payload.bank != 0)),
            *(row.eq(AnySeq(len(row))) for row in payload.row), *(word.eq(row) for word, row in zip(payload.data, payload.row)),
            *(mask.eq(-1) for mask in payload.mask),
        ]
        if self._lines == 1:
            m.d.comb += Assume((payload.bank & (payload.bank - 1)) == 0)
        obey(m, port, f"request_{number}")

    def _acknowledgements(self, m, dut, sent, takes):
        count = Signal(range(WRITES_IN_FLIGHT + 1))
        writers = [Signal(2, name=f"writers_{place}") for place in range(WRITES_IN_FLIGHT)]
        written = dut.o.written
        m.d.comb += [
            written.eq(AnySeq(1) & (count != 0)), Assert(~sent | (count != WRITES_IN_FLIGHT) | written),
            Assert(Cat(port.written for port in dut.i) == Mux(written, writers[0], 0)),
        ]
        m.d.sync += count.eq(count + sent - written)
        with m.If(written):
            m.d.sync += [entry.eq(following) for entry, following in zip(writers, writers[1:])]
        with m.If(sent):
            for place, entry in enumerate(writers):
                with m.If(count - written == place):
                    m.d.sync += entry.eq(takes)


class BeatWriterSpec(Component):
    """Every beat is reported once, in order, with its own fields, and not before its acknowledgement; one with an error is not written.

    At most ``WRITES_IN_FLIGHT`` requests are without acknowledgement, and none is forgotten while the barriers hold a report. Environment:
    a bus of 64 bits, no swizzle, every beat has a barrier; shared memory takes and acknowledges when it pleases.
    """

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = BeatWriter(_config())
        beat, request = dut.i.payload, dut.bank_write.request
        m.d.comb += [
            dut.i.valid.eq(AnySeq(1)), beat.has_barrier.eq(1), beat.valid_units.eq(1), beat.pointer.eq(AnySeq(len(beat.pointer))),
            *(beat[name].eq(AnySeq(len(beat[name]))) for name in ("last", "error", "barrier", "tag")),
            request.ready.eq(AnySeq(1)), dut.o_moved.ready.eq(AnySeq(1)),
        ]
        obey(m, dut.i, "i")
        require(m, request, "request")
        require(m, dut.o_moved, "moved")
        told, failed, written = dut.o_moved.valid & dut.o_moved.ready, dut.o_failure.valid, dut.bank_write.written
        begun = request.valid & request.ready
        entering = dut.i.valid & dut.i.ready
        fields = Cat(beat.barrier, beat.last, beat.error, Mux(beat.last, beat.tag[:len(dut.finish_index)], 0))
        reported = Cat(dut.o_moved.payload.barrier, dut.finish, failed, Mux(dut.finish, dut.finish_index, 0))
        inside = tracked_item(m, entering, told, fields, reported, WRITES_IN_FLIGHT + 1, "beat")
        under_way, credit = Signal(3), Signal(3)        # requests without acknowledgement; acknowledgements without report
        m.d.sync += [under_way.eq(under_way + begun - written), credit.eq(credit + written - (told & ~failed))]
        m.d.comb += [
            written.eq(AnySeq(1) & (under_way != 0)), Assert(under_way + credit <= WRITES_IN_FLIGHT),
            Assert(~(told & ~failed) | written | (credit != 0)), Assert(dut.busy == (inside != 0)),
            Assert(~(dut.finish | failed) | told), Assert(~told | (dut.o_moved.payload.bytes == 8)),
            Cover(credit == WRITES_IN_FLIGHT),
        ]
        # Progress: what nobody holds is reported.
        quiet, moves = Signal(3), Signal()
        m.d.comb += [moves.eq((under_way == 0) & dut.o_moved.ready & request.ready & ~entering), Assert((quiet != 7) | (inside == 0))]
        m.d.sync += quiet.eq(Mux(moves & ~begun, Mux(quiet == 7, 7, quiet + 1), 0))
        return m
