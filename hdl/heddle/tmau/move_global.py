"""Copies of blocks within global memory [S1.12]."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, MAX_BURST_BYTES
from ..errors import ErrorCode
from ..layouts import GlobalPort, barrier_arrival_layout, error_layout
from .generator import BURST_BLOCKS, unit_bytes, units_per_beat
from .reducible import reduction_members
from .requests import BLOCK_BITS, move_layout

__all__ = ["GlobalMover"]


class _Span:
    """A part of a copy on one side: its first beat, where in it the part begins, and how many beats it has; in units."""

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


class GlobalMover(Component):
    """Copies parts of at most ``MAX_BURST_BYTES``, one after the other: a read burst into a buffer, a write burst out of it, its response.

    A part crosses no multiple of ``MAX_BURST_BYTES`` in the source, nor in the destination. It takes the latencies of a read and of a
    write, and a cycle for each beat of each burst. With a reduction it is the write that reduces. Only where a part overlaps the part it is
    copied to or later ones does the result depend on the size of the parts. A barrier is told the bytes of each part when it is
    written. A part of which memory answers a beat with an error is not written; it counts all the same.

    Errors: AXI_READ, AXI_WRITE with the address of the burst. While ``stop`` is high no part begins. Reset drops the copy (reset
    memory as well).

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(stream.Signature(move_layout(cfg)))
        ``ready`` while nothing is under way.
    port : Out(GlobalPort(cfg, cfg.tag_bits - 1))
        Tag 0.
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
        cfg, port = self.cfg, self.port
        move = Signal(move_layout(cfg), reset_less=True)
        blocks = Signal(range(BURST_BLOCKS + 1))        # of this part
        rooms = [BURST_BLOCKS - block[:exact_log2(BURST_BLOCKS)] for block in (move.source_block, move.destination_block)]
        room = Signal(range(BURST_BLOCKS + 1))          # to the nearer multiple of the size of a burst
        m.d.comb += [room.eq(Mux(rooms[0] < rooms[1], *rooms)), blocks.eq(Mux(move.blocks < room, move.blocks, room))]
        source, target = (_Span(m, cfg, name, block, blocks)
                          for name, block in (("source", move.source_block), ("target", move.destination_block)))
        number = Signal(range(2 * MAX_BURST_BYTES // cfg.axi_bytes))     # of the beat
        failed, error = Signal(), Signal(data.StructLayout({"code": ErrorCode, "address": cfg.axi_address_bits}), reset_less=True)
        fill, word = self._buffer(m, source, target, number)
        m.d.comb += [
            port.read_request.payload.address.eq(source.address), port.read_request.payload.beats_minus_one.eq(source.beats_minus_one),
            port.write_request.payload.address.eq(target.address), port.write_request.payload.beats_minus_one.eq(target.beats_minus_one),
            *(port.write_request.payload[name].eq(move[name]) for name in reduction_members(cfg)),
            port.write_data.payload.data.eq(word), port.write_data.payload.strobe.eq(self._strobes(target, number)),
            port.write_data.payload.last.eq(number == target.beats_minus_one),
            self.o_moved.payload.barrier.eq(move.barrier), self.o_moved.payload.bytes.eq(blocks << BLOCK_BITS),
            self.o_failure.payload.code.eq(error.code), self.o_failure.payload.operand.eq(error.address),
            self.o_failure.payload.pc.eq(move.pc),
        ]
        with m.FSM(name="part"):
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += move.eq(self.i.payload)
                with m.If(self.i.valid):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.sync += [number.eq(0), failed.eq(0)]
                m.next = "READ"
                with m.If(self.stop):
                    m.next = "DONE"
            self._read(m, source, number, failed, fill, error)
            self._write(m, target, number, error)
            with m.State("FAIL"):
                m.d.comb += self.o_failure.valid.eq(1)
                with m.If(self.o_failure.ready):
                    m.next = "TELL"
            with m.State("TELL"):
                m.d.comb += self.o_moved.valid.eq(move.has_barrier)
                with m.If(~move.has_barrier | self.o_moved.ready):
                    m.d.sync += [
                        move.blocks.eq(move.blocks - blocks), move.source_block.eq(move.source_block + blocks),
                        move.destination_block.eq(move.destination_block + blocks),
                    ]
                    m.next = "BEGIN"
                    with m.If(move.blocks == blocks):
                        m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.completed.eq(1)
                m.next = "IDLE"
        m.d.comb += self.busy.eq(~self.i.ready)
        return m

    def _read(self, m, source, number, failed, fill, error):
        request, beat = self.port.read_request, self.port.read_data
        with m.State("READ"):
            m.d.comb += request.valid.eq(1)
            with m.If(request.ready):
                m.next = "FILL"
        with m.State("FILL"):
            m.d.comb += [beat.ready.eq(1), fill.eq(beat.valid)]
            m.d.sync += [error.code.eq(ErrorCode.AXI_READ), error.address.eq(source.address)]
            with m.If(beat.valid):
                m.d.sync += [number.eq(number + 1), failed.eq(failed | beat.payload.error)]
                with m.If(beat.payload.last):
                    m.d.sync += number.eq(0)
                    m.next = "WRITE"
                    with m.If(failed | beat.payload.error):
                        m.next = "FAIL"

    def _write(self, m, target, number, error):
        request, beat, response = self.port.write_request, self.port.write_data, self.port.write_response
        with m.State("WRITE"):
            m.d.comb += request.valid.eq(1)
            with m.If(request.ready):
                m.next = "DRAIN"
        with m.State("DRAIN"):
            m.d.comb += beat.valid.eq(1)
            with m.If(beat.ready):
                m.d.sync += number.eq(number + 1)
                with m.If(beat.payload.last):
                    m.next = "RESPONSE"
        with m.State("RESPONSE"):
            m.d.comb += response.ready.eq(1)
            m.d.sync += [error.code.eq(ErrorCode.AXI_WRITE), error.address.eq(target.address)]
            with m.If(response.valid):
                m.next = "TELL"
                with m.If(response.payload.error):
                    m.next = "FAIL"

    def _buffer(self, m, source, target, number):
        """A memory for each unit of a beat, in which units lie as in the beats of the target. Beat ``number`` of the source is written
        while the signal that is returned is high; the other one is beat ``number`` of the target."""
        units, nbytes, fill = units_per_beat(self.cfg), unit_bytes(self.cfg), Signal(name="fill")
        rotation, earlier = Signal(exact_log2(units), name="rotation"), Signal(name="earlier")
        m.d.comb += [rotation.eq(target.first - source.first), earlier.eq(target.first < source.first)]
        lanes, arrived = [], self.port.read_data.payload.data
        for lane in range(units):
            # What comes in front of the first unit goes to the last row, which no target has; what comes behind the last one behind it.
            memory = Memory(shape=8 * nbytes, depth=1 << len(number), init=[], attrs={"no_rw_check": 1})
            m.submodules[f"lane_{lane}"] = memory
            write, read = memory.write_port(), memory.read_port(domain="comb")
            unit = (lane - rotation)[:exact_log2(units)]
            m.d.comb += [
                write.en.eq(fill), write.addr.eq(number - earlier + (lane < rotation)),
                write.data.eq(arrived.word_select(unit, 8 * nbytes) if units > 1 else arrived), read.addr.eq(number),
            ]
            lanes.append(read.data)
        return fill, Cat(lanes)

    def _strobes(self, target, number):
        units = units_per_beat(self.cfg)
        places = (number * units + unit for unit in range(units))
        return Cat(((place >= target.first) & (place < target.end)).replicate(unit_bytes(self.cfg)) for place in places)
