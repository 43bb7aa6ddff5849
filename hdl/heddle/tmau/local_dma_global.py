"""Copies of blocks within global memory [S1.12]."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, MAX_BURST_BYTES
from ..interfaces.layouts import GlobalPort, barrier_arrival_layout, error_layout
from ..isa.error_codes import ErrorCode
from ..l2.reduction_formats import reduction_members
from ..lib.stream import Queue
from .layouts import BLOCK_BITS, BURST_BLOCKS, move_layout, unit_bytes, units_per_beat

__all__ = ["GlobalDma", "parts_buffered"]


def parts_buffered(cfg):
    """Parts between their read request and their last written beat: enough that a latency of 64 cycles leaves half of the bus in use."""
    return max(4, cfg.axi_bytes // 4)


def _part_layout(cfg):
    """A part of a copy; ``failed``: memory answered one of its beats with an error."""
    place = cfg.axi_address_bits - BLOCK_BITS
    return data.StructLayout({"source_block": place, "target_block": place, "blocks": range(BURST_BLOCKS + 1), "failed": 1})


class _Span:
    """A part on one side: its first beat, where in that beat the part begins, and how many beats it has; in units."""

    def __init__(self, m, cfg, name, block, blocks):
        units = units_per_beat(cfg)
        halves = exact_log2(BANK_BYTES // unit_bytes(cfg))
        low = exact_log2(units)
        self.first = Signal(low, name=f"{name}_first")                                  # unit of the first beat
        self.end = Signal(range((BURST_BLOCKS << halves) + units), name=f"{name}_end")  # unit behind the last, from the first beat on
        self.beats_minus_one = Signal(8, name=f"{name}_beats_minus_one")
        self.address = Signal(cfg.axi_address_bits, name=f"{name}_address")
        m.d.comb += [
            self.first.eq((block << halves)[:low]), self.end.eq((blocks << halves) + self.first),
            self.beats_minus_one.eq((self.end - 1)[low:len(self.end)]),
            self.address.eq((block << BLOCK_BITS) & ~(cfg.axi_bytes - 1)),
        ]


class GlobalDma(Component):
    """Copies parts of at most ``MAX_BURST_BYTES`` within global memory: a read burst into a buffer, a write burst out of it, its response.

    A part crosses no multiple of ``MAX_BURST_BYTES`` in the source, nor in the destination. With a reduction it is the write that
    reduces. A barrier is told the bytes of each part when it is written. A part of which memory answers a beat with an error is not
    written; it counts all the same. Source and destination must not overlap.

    *Latency*: that of a read and of a write, and a cycle for each beat of the first part twice. *Throughput*: a beat a cycle in each
    direction while ``parts_buffered(cfg)`` parts cover the latency of memory; a part takes at least three cycles. *Back-pressure*: a part
    is read when the buffer has room for it; beats that are read are always taken. *Reset*: drops the copy; memory is reset as well.
    *Errors*: AXI_READ, AXI_WRITE with the address of the burst, in the order of the parts. While ``stop`` is high no part begins.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(stream.Signature(move_layout(cfg)))
        ``ready`` while nothing is under way.
    port : Out(GlobalPort(cfg, cfg.tag_bits - 1))
        Tag 0: answers come in the order of the requests.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
    o_failure : Out(stream.Signature(error_layout))
        Held until accepted.
    stop : In(1)
    completed : Out(1)
    busy : Out(1)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(stream.Signature(move_layout(cfg))), "port": Out(GlobalPort(cfg, cfg.tag_bits - 1)),
            "o_moved": Out(stream.Signature(barrier_arrival_layout)), "o_failure": Out(stream.Signature(error_layout)),
            "stop": In(1), "completed": Out(1), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        parts, layout = parts_buffered(self.cfg), _part_layout(self.cfg)
        m.submodules.asked = asked = Queue(layout, parts)               # the beats are on their way
        m.submodules.filled = filled = Queue(layout, parts)             # in the buffer
        m.submodules.written = written = Queue(layout, 2 * parts)       # waiting for the response
        move = Signal(move_layout(self.cfg), reset_less=True)
        buffered = Signal(range(parts + 1))         # parts that have room in the buffer
        under_way = Signal(range(4 * parts + 1))    # parts of which the barrier has not been told
        begins, leaves, told = Signal(), Signal(), Signal()
        m.d.sync += [buffered.eq(buffered + begins - leaves), under_way.eq(under_way + begins - told)]
        self._split(m, move, asked, begins, buffered == parts, under_way == 0)
        fill, row = self._fill(m, asked, filled)
        self._drain(m, move, filled, written, leaves, self._buffer(m, fill, row))
        self._respond(m, move, written, told)
        return m

    def _split(self, m, move, asked, begins, full, nothing_under_way):
        """Takes a copy and asks for one part after the other."""
        request, part = self.port.read_request, asked.i.payload
        rooms = [BURST_BLOCKS - block[:exact_log2(BURST_BLOCKS)] for block in (move.source_block, move.destination_block)]
        room = Signal(range(BURST_BLOCKS + 1))          # to the nearer multiple of the size of a burst
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
                with m.Elif(asked.i.ready & ~full):
                    m.next = "ASK"
            with m.State("ASK"):        # also while ``stop`` is high: a request that was offered stands
                m.d.comb += request.valid.eq(1)
                with m.If(request.ready):
                    m.d.sync += [
                        move.blocks.eq(move.blocks - part.blocks), move.source_block.eq(move.source_block + part.blocks),
                        move.destination_block.eq(move.destination_block + part.blocks),
                    ]
                    m.next = "BEGIN"
            with m.State("END"):
                with m.If(nothing_under_way):
                    m.d.comb += self.completed.eq(1)
                    m.next = "IDLE"
        m.d.comb += self.busy.eq(~copy.ongoing("IDLE"))

    def _fill(self, m, asked, filled):
        """Takes the beats that memory sends. Returns whether there is one, and the units and rows of the buffer that take it."""
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
        """A memory for each unit of a beat, in which units lie as in the beats of the target; one slot for each part.

        Returns read address, enable and data; data come a cycle behind the address.
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
            # Units in front of the part and behind it have rows that the target lacks.
            row = Signal(len(number) + 1, name=f"row_{lane}")
            m.d.comb += [
                row.eq(number - earlier + (lane < rotation)),
                write.en.eq(fill & (row <= target.beats_minus_one)), write.addr.eq(Cat(row[:len(number)], slot)),
                write.data.eq(arrived.word_select(unit, 8 * nbytes) if units > 1 else arrived),
                read.addr.eq(address), read.en.eq(enable),
            ]
            lanes.append(read.data)
        return address, enable, Cat(lanes)

    def _drain(self, m, move, filled, written, leaves, buffer):
        """Writes what is in the buffer: a request and its beats for each part, which go on independently."""
        address, enable, word = buffer
        request, beat, part = self.port.write_request, self.port.write_data, filled.o.payload
        target = _Span(m, self.cfg, "drain", part.target_block, part.blocks)
        number, slot = Signal(range(MAX_BURST_BYTES // self.cfg.axi_bytes)), Signal(range(parts_buffered(self.cfg)), name="drain_slot")
        requested, all_read, some, last, done = (Signal(name=name) for name in ("requested", "all_read", "some", "last_read", "part_done"))
        m.d.comb += [
            request.valid.eq(filled.o.valid & ~part.failed & ~requested),
            request.payload.address.eq(target.address), request.payload.beats_minus_one.eq(target.beats_minus_one),
            *(request.payload[name].eq(move[name]) for name in reduction_members(self.cfg)),
            address.eq(Cat(number, slot)), enable.eq(~beat.valid | beat.ready), beat.payload.data.eq(word),
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

    def _respond(self, m, move, written, told):
        """Waits for the response of each part, reports its error and tells the barrier."""
        response, part = self.port.write_response, written.o.payload
        refused = Signal()      # by the write; else by the read
        source, target = (_Span(m, self.cfg, f"respond_{name}", block, part.blocks)
                          for name, block in (("source", part.source_block), ("target", part.target_block)))
        m.d.comb += [
            self.o_moved.payload.barrier.eq(move.barrier), self.o_moved.payload.bytes.eq(part.blocks << BLOCK_BITS),
            self.o_failure.payload.code.eq(Mux(refused, ErrorCode.AXI_WRITE, ErrorCode.AXI_READ)),
            self.o_failure.payload.operand.eq(Mux(refused, target.address, source.address)), self.o_failure.payload.pc.eq(move.pc),
            written.o.ready.eq(told),
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
                m.d.comb += [self.o_moved.valid.eq(move.has_barrier), told.eq(~move.has_barrier | self.o_moved.ready)]
                with m.If(told):
                    m.next = "WAIT"

    def _strobes(self, target, number):
        units = units_per_beat(self.cfg)
        places = (number * units + unit for unit in range(units))
        return Cat(((place >= target.first) & (place < target.end)).replicate(unit_bytes(self.cfg)) for place in places)
