"""Local DMA channel within global memory [S1.12]."""

from typing import NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, MAX_BURST_BYTES
from ..interfaces.layouts import GlobalPort, barrier_arrival_layout, error_layout
from ..interfaces.reductions import reduction_members
from ..isa.error_codes import ErrorCode
from ..lib.stream import Queue
from ..parameters.tmau import TmauParameters
from .layouts import BLOCK_BITS, BURST_BLOCKS, move_layout, unit_bytes, units_per_beat

__all__ = ["GlobalDma", "parts_buffered"]


def parts_buffered(cfg):
    """Parts of the buffer, each from its read request to its last written beat.

    With a memory latency of 64 cycles they suffice for half of the bus bandwidth.
    """
    return max(4, cfg.axi_bytes // 4)


def _part_layout(cfg):
    """Part of a copy; ``failed``: memory answered one of its beats with an error."""
    place = cfg.axi_address_bits - BLOCK_BITS
    return data.StructLayout({"source_block": place, "target_block": place, "blocks": range(BURST_BLOCKS + 1), "failed": 1})


class _Span:
    """Beats of a part on one side: address, number of beats, first unit of the first beat, and end; in units."""

    def __init__(self, m, cfg, name, block, blocks):
        cfg = TmauParameters.of(cfg)
        units = units_per_beat(cfg)
        halves = exact_log2(BANK_BYTES // unit_bytes(cfg))
        low = exact_log2(units)
        self.first = Signal(low, name=f"{name}_first")                                  # first unit within the first beat
        self.end = Signal(range((BURST_BLOCKS << halves) + units), name=f"{name}_end")  # unit after the last, from the first beat's start
        self.beats_minus_one = Signal(8, name=f"{name}_beats_minus_one")
        self.address = Signal(cfg.axi_address_bits, name=f"{name}_address")
        m.d.comb += [
            self.first.eq((block << halves)[:low]), self.end.eq((blocks << halves) + self.first),
            self.beats_minus_one.eq((self.end - 1)[low:len(self.end)]),
            self.address.eq((block << BLOCK_BITS) & ~(cfg.axi_bytes - 1)),
        ]


class _Parts(NamedTuple):
    """Parts of a copy in flight."""

    asked: Queue        # beats are outstanding
    filled: Queue       # in the buffer
    written: Queue      # the write response is outstanding
    begins: Signal      # a part is requested
    leaves: Signal      # a part leaves the buffer
    full: Value         # the buffer has no room for another part
    none: Value         # all parts have had their barrier update


class _BufferRead(NamedTuple):
    """Read port of the buffer; data follow the address by one cycle."""

    address: Signal
    enable: Signal
    data: Value


class GlobalDma(Component):
    """Local DMA channel within global memory: for each part a read burst into a buffer and a write burst out of it [S1.12].

    A part has at most ``MAX_BURST_BYTES`` (512) bytes and crosses no multiple of ``MAX_BURST_BYTES`` in source or destination. A
    reduction is performed by the write. Source and destination must not overlap.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(move_layout(cfg)))
        Copies.
    port : Out(GlobalPort(cfg, cfg.tag_bits - 1))
        Global port; all tags are 0, so answers are in the order of the requests.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Barrier update: bytes of a part, after its write response.
    o_failure : Out(stream.Signature(error_layout))
        Errors; held until accepted.
    stop : In(1)
        No further part begins; a request that is valid remains valid.
    completed : Out(1)
        The copy ends in this cycle.
    busy : Out(1)
        A copy is in flight.

    *Latency*: one read and one write of memory, and two cycles for each beat of the first part.

    *Throughput*: one beat per cycle in each direction while ``parts_buffered(cfg)`` parts cover the latency of memory; a part takes at
    least three cycles.

    *Back-pressure*: ``i.ready`` is high while no copy is in flight. A part is requested when the buffer has room for all its beats, so
    the buffer never holds back ``port.read_data``.

    *Reset*: drops the copy; memory must be reset in the same cycle.

    *Errors*: AXI_READ or AXI_WRITE with the byte address of the burst, in the order of the parts. A part with a read error is not
    written but counted at the barrier.

    *Source*: [S1.12].
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(move_layout(cfg))), "port": Out(GlobalPort(cfg, cfg.tag_bits - 1)),
            "o_moved": Out(stream.Signature(barrier_arrival_layout)), "o_failure": Out(stream.Signature(error_layout)),
            "stop": In(1), "completed": Out(1), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        parts, layout = parts_buffered(self.cfg), _part_layout(self.cfg)
        m.submodules.asked = asked = Queue(layout, parts)
        m.submodules.filled = filled = Queue(layout, parts)
        m.submodules.written = written = Queue(layout, 2 * parts)
        move = Signal(move_layout(self.cfg), reset_less=True)
        buffered = Signal(range(parts + 1))         # parts with room reserved in the buffer
        under_way = Signal(range(4 * parts + 1))    # parts without a barrier update
        begins, leaves, reported = Signal(), Signal(), Signal()
        m.d.sync += [buffered.eq(buffered + begins - leaves), under_way.eq(under_way + begins - reported)]
        copied = _Parts(asked, filled, written, begins, leaves, buffered == parts, under_way == 0)
        self._split(m, move, copied)
        fill, row = self._fill(m, asked, filled)
        self._drain(m, move, copied, self._buffer(m, fill, row))
        self._respond(m, move, written, reported)
        return m

    def _split(self, m, move, parts):
        """Accept a copy and send the read request of one part after the other."""
        asked, begins = parts.asked, parts.begins
        request, part = self.port.read_request, asked.i.payload
        rooms = [BURST_BLOCKS - block[:exact_log2(BURST_BLOCKS)] for block in (move.source_block, move.destination_block)]
        room = Signal(range(BURST_BLOCKS + 1))          # blocks to the nearer burst boundary of source and destination
        span = _Span(m, self.cfg, "asked", move.source_block, part.blocks)
        m.d.comb += [
            room.eq(Mux(rooms[0] < rooms[1], *rooms)), part.blocks.eq(Mux(move.blocks < room, move.blocks, room)),
            part.source_block.eq(move.source_block), part.target_block.eq(move.destination_block),
            request.payload.address.eq(span.address), request.payload.beats_minus_one.eq(span.beats_minus_one),
            asked.i.valid.eq(begins), begins.eq(request.valid & request.ready),
        ]
        with m.FSM(name="copy") as copy:
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += move.eq(self.i.payload)
                with m.If(self.i.valid):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                with m.If(self.stop | (move.blocks == 0)):
                    m.next = "END"
                with m.Elif(asked.i.ready & ~parts.full):
                    m.next = "ASK"
            with m.State("ASK"):        # also while ``stop`` is high: a valid request must not be withdrawn
                m.d.comb += request.valid.eq(1)
                with m.If(request.ready):
                    m.d.sync += [
                        move.blocks.eq(move.blocks - part.blocks), move.source_block.eq(move.source_block + part.blocks),
                        move.destination_block.eq(move.destination_block + part.blocks),
                    ]
                    m.next = "BEGIN"
            with m.State("END"):
                with m.If(parts.none):
                    m.d.comb += self.completed.eq(1)
                    m.next = "IDLE"
        m.d.comb += self.busy.eq(~copy.ongoing("IDLE"))

    def _fill(self, m, asked, filled):
        """Accept the beats of memory; returns whether a beat is accepted, and its place in the buffer."""
        part, beat = asked.o.payload, self.port.read_data
        number, failed, taken = Signal(range(MAX_BURST_BYTES // self.cfg.axi_bytes)), Signal(), Signal()
        slot = Signal(range(parts_buffered(self.cfg)), name="fill_slot")
        source, target = (_Span(m, self.cfg, f"fill_{name}", block, part.blocks)
                          for name, block in (("source", part.source_block), ("target", part.target_block)))
        m.d.comb += [
            beat.ready.eq(asked.o.valid), taken.eq(beat.valid & asked.o.valid),
            asked.o.ready.eq(taken & beat.payload.last), filled.i.valid.eq(taken & beat.payload.last),
            filled.i.payload.eq(part), filled.i.payload.failed.eq(failed | beat.payload.error),
        ]
        with m.If(taken):
            m.d.sync += [number.eq(number + 1), failed.eq(failed | beat.payload.error)]
            with m.If(beat.payload.last):
                m.d.sync += [number.eq(0), failed.eq(0), slot.eq(slot + 1)]
        return taken, (slot, number, source, target)

    def _buffer(self, m, fill, place):
        """Buffer memory: one RAM per unit of a beat, in the alignment of the target; one slot per part.

        Returns the read port.
        """
        slot, number, source, target = place
        units, nbytes, arrived = units_per_beat(self.cfg), unit_bytes(self.cfg), self.port.read_data.payload.data
        rows = MAX_BURST_BYTES // self.cfg.axi_bytes
        rotation, earlier = Signal(exact_log2(units), name="rotation"), Signal(name="earlier")
        address, enable, lanes = Signal(range(rows * parts_buffered(self.cfg)), name="drain_row"), Signal(name="drain_enable"), []
        m.d.comb += [rotation.eq(target.first - source.first), earlier.eq(target.first < source.first)]
        for lane in range(units):
            m.submodules[f"lane_{lane}"] = memory = Memory(shape=8 * nbytes, depth=rows * parts_buffered(self.cfg), init=[],
                                                           attrs={"no_rw_check": 1})
            write, read = memory.write_port(), memory.read_port()
            unit = (lane - rotation)[:exact_log2(units)]
            # Units before and after the part have rows outside the target; they are not written.
            row = Signal(len(number) + 1, name=f"row_{lane}")
            m.d.comb += [
                row.eq(number - earlier + (lane < rotation)),
                write.en.eq(fill & (row <= target.beats_minus_one)), write.addr.eq(Cat(row[:len(number)], slot)),
                write.data.eq(arrived.word_select(unit, 8 * nbytes) if units > 1 else arrived),
                read.addr.eq(address), read.en.eq(enable),
            ]
            lanes.append(read.data)
        return _BufferRead(address, enable, Cat(lanes))

    def _drain(self, m, move, parts, buffer):
        """Write the parts of the buffer: request and beats of a part proceed independently."""
        filled, written, leaves, enable = parts.filled, parts.written, parts.leaves, buffer.enable
        request, beat, part = self.port.write_request, self.port.write_data, filled.o.payload
        target = _Span(m, self.cfg, "drain", part.target_block, part.blocks)
        number, slot = Signal(range(MAX_BURST_BYTES // self.cfg.axi_bytes)), Signal(range(parts_buffered(self.cfg)), name="drain_slot")
        requested, all_read, some, last, done = (Signal(name=name) for name in ("requested", "all_read", "some", "last_read", "part_done"))
        m.d.comb += [
            request.valid.eq(filled.o.valid & ~part.failed & ~requested),
            request.payload.address.eq(target.address), request.payload.beats_minus_one.eq(target.beats_minus_one),
            *(request.payload[name].eq(move[name]) for name in reduction_members(self.cfg)),
            buffer.address.eq(Cat(number, slot)), enable.eq(~beat.valid | beat.ready), beat.payload.data.eq(buffer.data),
            some.eq(enable & filled.o.valid & ~part.failed & ~all_read), last.eq(number == target.beats_minus_one),
            done.eq(filled.o.valid & (part.failed | ((requested | request.ready) & (all_read | (some & last))))),
            written.i.valid.eq(done), written.i.payload.eq(part), leaves.eq(done & written.i.ready), filled.o.ready.eq(leaves),
        ]
        with m.If(enable):
            m.d.sync += [beat.valid.eq(some), beat.payload.strobe.eq(self._strobes(target, number)), beat.payload.last.eq(last)]
        with m.If(some):
            m.d.sync += [number.eq(Mux(last, 0, number + 1)), all_read.eq(last)]
        with m.If(request.valid & request.ready):
            m.d.sync += requested.eq(1)
        with m.If(leaves):
            m.d.sync += [slot.eq(slot + 1), requested.eq(0), all_read.eq(0)]

    def _respond(self, m, move, written, reported):
        """Wait for the write response of each part, report its error and update the barrier."""
        response, part = self.port.write_response, written.o.payload
        refused = Signal()      # error of the write, else of the read
        source, target = (_Span(m, self.cfg, f"respond_{name}", block, part.blocks)
                          for name, block in (("source", part.source_block), ("target", part.target_block)))
        m.d.comb += [
            self.o_moved.payload.barrier.eq(move.barrier), self.o_moved.payload.bytes.eq(part.blocks << BLOCK_BITS),
            self.o_failure.payload.code.eq(Mux(refused, ErrorCode.AXI_WRITE, ErrorCode.AXI_READ)),
            self.o_failure.payload.operand.eq(Mux(refused, target.address, source.address)), self.o_failure.payload.pc.eq(move.pc),
            written.o.ready.eq(reported),
        ]
        with m.FSM(name="response"):
            with m.State("WAIT"):
                m.d.comb += response.ready.eq(written.o.valid & ~part.failed)
                m.d.sync += refused.eq(~part.failed)
                with m.If(written.o.valid & (part.failed | response.valid)):
                    m.next = "TELL"
                    with m.If(part.failed | response.payload.error):
                        m.next = "FAIL"
            with m.State("FAIL"):
                m.d.comb += self.o_failure.valid.eq(1)
                with m.If(self.o_failure.ready):
                    m.next = "TELL"
            with m.State("TELL"):
                m.d.comb += [self.o_moved.valid.eq(move.has_barrier), reported.eq(~move.has_barrier | self.o_moved.ready)]
                with m.If(reported):
                    m.next = "WAIT"

    def _strobes(self, target, number):
        units = units_per_beat(self.cfg)
        places = (number * units + unit for unit in range(units))
        return Cat(((place >= target.first) & (place < target.end)).replicate(unit_bytes(self.cfg)) for place in places)
