"""Tensor copies: rows of a box, their pieces, requests under way, arrivals."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from heddle import load_config
from heddle.constants import BANK_BYTES
from heddle.interfaces.layouts import read_request_layout
from heddle.tmau.barrier_updates import BarrierUpdates
from heddle.tmau.box_walk import LOOPS, BoxWalk
from heddle.tmau.burst_request import request_burst
from heddle.tmau.layouts import burst_layout
from heddle.tmau.row_bursts import LINE_BLOCKS, RowBursts
from heddle.tmau.transaction_table import TransactionTable

from .contract import any_sink, any_stream

__all__ = ["BarrierUpdatesSpec", "BoxWalkSpec", "BurstRequestSpec", "RowBurstsSpec", "TransactionTableSpec"]


STEP_BLOCKS = (1, 5, 0, 0, 0)       # of global memory, in each dimension


def _config():
    return load_config("tiny").replace(tensors=True, axi_address_bits=16, shared_memory_kib=4)


class RowBurstsSpec(Component):
    """The pieces of a row cover its blocks of shared memory once each and in order, and nothing else. The first row begins at
    ``shared_block``, each other one a pitch after its predecessor.

    A piece inside the tensor lies in one line of global memory and within the part of its row that is inside; other pieces lie outside of
    that part. The last piece of the last row, and no other, is marked. Environment: what ``TensorSetup`` promises about a row, and one
    of ``SHAPES`` for all boxes, which leave no pieces out (as stores and prefetches without barrier do); ``stop`` is low (its effect is
    tested in simulation).
    """

    # Blocks of a row, those before the tensor, bytes inside, blocks to the next row.
    SHAPES = ((1, 0, 16, 1), (1, 0, 5, 8), (1, 1, 0, 2), (8, 0, 128, 8), (9, 2, 100, 9), (13, 0, 208, 13), (15, 3, 150, 15), (7, 7, 0, 8))

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = RowBursts(_config())
        any_stream(m, dut.i_row, "i_row")
        any_sink(m, dut.o, "o")
        shape, shown = dut.i_shape.payload, Signal()
        m.d.comb += [
            dut.i_shape.valid.eq(AnySeq(1)), shape.eq(AnyConst(len(shape.as_value()))), Assume(dut.i_shape.valid | ~shown),
            Assume(~(shape.store | shape.prefetch) | shape.has_barrier),
            Assume(Cat(Cat(shape.row_blocks, shape.left_blocks, shape.inside_end, shape.missing_bytes, shape.pitch_blocks)
                       == Cat(Const(row, 8), Const(left, 8), Const(left - -inside // BANK_BYTES, 9), Const(-inside % BANK_BYTES, 4),
                              Const(pitch, 8))
                       for row, left, inside, pitch in self.SHAPES).any()),
        ]
        m.d.sync += shown.eq(dut.i_shape.valid & ~dut.i_shape.ready)
        row = Signal.like(dut.i_row.payload, reset_less=True)       # of the piece at the output
        with m.If(~dut.o.valid | dut.o.ready):
            m.d.sync += row.eq(dut.i_row.payload)
        piece, first, expected = dut.o.payload, Signal(init=1), Signal.like(shape.shared_block, reset_less=True)
        in_row, behind, inside_end = Signal(4), Signal(5), shape.inside_end
        row_ends, gap = behind == shape.row_blocks, shape.pitch_blocks - shape.row_blocks
        m.d.comb += behind.eq(in_row + piece.blocks)
        with m.If(dut.o.valid):
            m.d.comb += [
                Assert(piece.blocks != 0), Assert(behind <= shape.row_blocks),
                Assert(piece.shared_block == Mux(first, shape.shared_block, expected)), Assert(piece.last == (row_ends & row.last)),
                Cover(piece.last & (in_row != 0) & ~piece.outside),
            ]
            with m.If(piece.outside):
                m.d.comb += [Assert(~row.inside | (behind <= shape.left_blocks) | (in_row >= inside_end)), Assert(piece.missing_bytes == 0)]
            with m.Else():
                m.d.comb += [
                    Assert(row.inside & (in_row >= shape.left_blocks) & (behind <= inside_end)),
                    Assert(piece.global_block == (row.place + in_row)[:len(row.place)]),
                    Assert(piece.global_block[:3] + piece.blocks <= LINE_BLOCKS),
                    Assert((piece.missing_bytes == 0) | (behind == inside_end)),
                ]
        with m.If(dut.o.valid & dut.o.ready):
            m.d.sync += [in_row.eq(Mux(row_ends, 0, behind)), first.eq(piece.last),
                         expected.eq(piece.shared_block + piece.blocks + Mux(row_ends, gap, 0))]
        return m


class BoxWalkSpec(Component):
    """A walk has exactly the rows of its box, the last one marked: a tile of two dimensions all positions of both, a column all its pixels.

    The rows of a tile lie where the steps of its loops lead. Environment: the other loops of a tile have one row, both others are one of
    ``TILES``; columns have at most 8 pixels, their inner loops 3 elements; ``stop`` is low (its effect is tested in simulation).
    """

    # Elements of the innermost side and the step through it, those of the other.
    TILES = ((1, 1, 1, 1), (3, 1, 2, 1), (4, 2, 3, 2), (5, 3, 1, 4), (1, 2, 4, 1), (2, 1, 3, 3))

    def __init__(self, pixels):
        self._pixels = pixels
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = BoxWalk(_config())
        any_stream(m, dut.i, "i")
        any_sink(m, dut.o, "o")
        box, *later = (Signal.like(dut.i.payload, name=name, reset_less=True) for name in ("box", "next", "second"))
        self._any_box(m, dut.i.payload)
        count, active, waits, fetched = Signal(4), Signal(), Signal(range(3)), Signal.like(box)
        offsets, places = [Signal(4, name=f"offset_{d}") for d in range(2)], [Signal.like(box.loop[d].place) for d in range(2)]
        ends = [offset + loop.step >= loop.left for offset, loop in zip(offsets, box.loop)]
        last = count == box.pixels_minus_one if self._pixels else ends[0] & ends[1]
        row, given = dut.o.payload, dut.o.valid & dut.o.ready
        with m.If(dut.o.valid):
            m.d.comb += [Assert(active), Assert(row.last == last), Cover(row.last & (count == 3))]
            if not self._pixels:
                m.d.comb += Assert(row.place == places[0])
        with m.If(given):
            m.d.sync += count.eq(count + 1)
            with m.If(~ends[0]):
                m.d.sync += [offsets[0].eq(offsets[0] + box.loop[0].step), places[0].eq(places[0] + box.loop[0].step_blocks)]
            with m.Else():
                further = (places[1] + box.loop[1].step_blocks)[:len(places[1])]
                m.d.sync += [offsets[0].eq(0), offsets[1].eq(offsets[1] + box.loop[1].step), places[0].eq(further), places[1].eq(further)]
        # One box may be in the walk while the last rows of two others wait at the output.
        ended, taken = given & row.last, dut.i.valid & dut.i.ready
        m.d.comb += [fetched.eq(Mux(waits != 0, later[0].as_value(), dut.i.payload.as_value())), Assert(~taken | (waits != 2) | ended)]
        free = Mux(ended & (waits != 0), waits - 1, waits)[:2]      # the first place of ``later`` behind those that are left
        with m.If(ended):
            m.d.sync += later[0].eq(later[1])
        for number, place in enumerate(later):
            with m.If(taken & (free == number)):
                m.d.sync += place.eq(dut.i.payload)
        m.d.sync += [waits.eq(free + (taken & active & ~(ended & (waits == 0)))), active.eq((active & ~ended) | (waits != 0) | taken)]
        with m.If(ended | ~active):
            m.d.sync += [box.eq(fetched), count.eq(0), *(offset.eq(0) for offset in offsets),
                         *(place.eq(loop.place) for place, loop in zip(places, fetched.loop))]
        return m

    def _any_box(self, m, box):
        m.d.comb += [Assume(box.pixels == self._pixels), Assume(box.pixels_minus_one < 8)]
        for number, loop in enumerate(box.loop):
            m.d.comb += [Assume((loop.step != 0) & (loop.step <= 8)), Assume(loop.left == loop.restart_left), Assume(loop.left != 0)]
            if number < 2:
                m.d.comb += Assume(loop.place == box.loop[0].place)
            if not self._pixels:
                m.d.comb += [Assume(loop.step_blocks == STEP_BLOCKS[number]), Assume(loop.place < 4)]
                if number >= 2:
                    m.d.comb += Assume(loop.left <= loop.step)
            elif number < LOOPS - 1:
                m.d.comb += Assume(loop.left <= (3 if number else loop.step))
            else:
                m.d.comb += Assume((loop.left >= 64) & (loop.left < 128))       # more than a column
        if not self._pixels:
            inner, outer = box.loop[0], box.loop[1]
            m.d.comb += Assume(Cat((inner.left == sides[0]) & (inner.step == sides[1]) & (outer.left == sides[2]) & (outer.step == sides[3])
                                   for sides in self.TILES).any())


class TransactionTableSpec(Component):
    """Slots that are out differ; transfers complete in order, once each and not before their last slot has finished; none is left over.

    Environment: a slot is taken only while one is free, and finishes once. Two kinds of transfers, three slots.
    """

    SLOTS = 3

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = TransactionTable(self.SLOTS, kinds=2)
        out = Signal(self.SLOTS)        # taken and not finished
        for name in ("take", "ends_transfer", "finish", "finish_index"):
            m.d.comb += getattr(dut, name).eq(AnySeq(len(getattr(dut, name))))
        m.d.comb += [
            Assume(~dut.take | dut.free), Assume(~dut.finish | (dut.finish_index < self.SLOTS)),
            Assume(~dut.finish | out.bit_select(dut.finish_index, 1)), Assume(dut.ends_transfer != 3),
            Assert(~dut.free | ~out.bit_select(dut.index, 1)), Assert(dut.index < self.SLOTS), Assert(~out.any() | dut.busy),
            Assert(~(dut.clearing & dut.busy)),
        ]
        with m.If(dut.take):
            m.d.sync += out.bit_select(dut.index, 1).eq(1)
        with m.If(dut.finish):
            m.d.sync += out.bit_select(dut.finish_index, 1).eq(0)
        self._transfers(m, dut)
        # Progress: when nothing is out and nothing is taken, all are freed soon.
        quiet = Signal(range(self.SLOTS + 3))
        m.d.sync += quiet.eq(Mux(out.any() | dut.take, 0, Mux(quiet == self.SLOTS + 2, quiet, quiet + 1)))
        m.d.comb += Assert((quiet < self.SLOTS + 2) | ~dut.busy)
        return m

    def _transfers(self, m, dut):
        """Any one slot that ends a transfer: its completion is that of its turn."""
        inside, ahead = Signal(range(self.SLOTS + 2)), Signal(range(self.SLOTS + 2))
        tracked, finished = Signal(), Signal()
        number, kind = Signal(range(self.SLOTS)), Signal(2)
        entering, leaving = dut.take & dut.ends_transfer.any(), dut.completed.any()
        m.d.sync += inside.eq(inside + entering - leaving)
        m.d.comb += [Assert(inside <= self.SLOTS + 1), Assert(~leaving | (inside != 0)), Assert(dut.completed != 3),
                     Assert(dut.busy | (inside == 0)), Cover(inside == self.SLOTS)]
        with m.If(tracked):
            with m.If(dut.finish & (dut.finish_index == number)):
                m.d.sync += finished.eq(1)
            with m.If(leaving):
                m.d.sync += ahead.eq(ahead - 1)
                with m.If(ahead == 0):
                    m.d.comb += [Assert(finished), Assert(dut.completed == kind), Cover(kind == 2)]
                    m.d.sync += tracked.eq(0)
        with m.Elif(entering & AnySeq(1)):
            m.d.sync += [tracked.eq(1), finished.eq(0), number.eq(dut.index), kind.eq(dut.ends_transfer), ahead.eq(inside - leaving)]


class BarrierUpdatesSpec(Component):
    """No byte is lost, doubled, told to another barrier or as one of another core. The sum of waiting loads never wraps: it is of two
    beats at most.

    Environment: arrivals of up to 3 units, any two barriers.
    """

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = BarrierUpdates(_config())
        for port, name in ((dut.i_load, "i_load"), (dut.i_store, "i_store")):
            any_stream(m, port, name)
            m.d.comb += [Assume(port.payload.bytes < 4), Assume(port.payload.barrier < 2)]
        barrier, remote, pending = Signal(1), Signal(), Signal(5)
        m.d.comb += [barrier.eq(AnyConst(1)), remote.eq(AnyConst(1))]

        def counts(payload):
            return (payload.barrier == barrier) & (payload.remote == remote)

        came = [Mux(port.valid & port.ready & counts(port.payload), port.payload.bytes[:2], 0) for port in (dut.i_load, dut.i_store)]
        told = dut.o.valid & counts(dut.o.payload)
        m.d.sync += pending.eq(pending + came[0] + came[1] - Mux(told, dut.o.payload.bytes[:4], 0))
        m.d.comb += [
            Assert(pending <= 15), Assert(dut.busy | (pending == 0)), Assert(~dut.o.valid | (dut.o.payload.bytes <= 6)),
            Assert(~told | (dut.o.payload.bytes <= pending)), Cover(dut.o.valid & (dut.o.payload.bytes == 6)),
        ]
        return m


class _BurstRequest(Component):
    """A request for every burst that is taken."""

    def __init__(self, cfg):
        self.cfg = cfg
        layout = read_request_layout(cfg, cfg.tag_bits)
        super().__init__({"i": In(stream.Signature(burst_layout(cfg))), "slot": In(cfg.tag_bits), "o": Out(stream.Signature(layout))})

    def elaborate(self, platform):
        m = Module()
        free = request_burst(m, self.cfg, self.o, self.i.payload, self.slot, self.i.valid & self.i.ready)
        m.d.comb += self.i.ready.eq(free)
        return m


class BurstRequestSpec(Component):
    """Every burst that is taken becomes one request, at once, in order; the request keeps to the rules of a stream."""

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        cfg = _config()
        m.submodules.dut = dut = _BurstRequest(cfg)
        any_stream(m, dut.i, "i")
        any_sink(m, dut.o, "o")
        m.d.comb += dut.slot.eq(AnySeq(cfg.tag_bits))
        taken, given, waiting = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready, Signal()
        m.d.sync += waiting.eq(waiting + taken - given)
        m.d.comb += [Assert(~(waiting & taken)), Assert(dut.o.valid == (waiting | taken))]
        with m.If(taken):
            m.d.comb += [Assert(dut.o.payload.address == (dut.i.payload.beat_address * cfg.axi_bytes)),
                         Assert(dut.o.payload.beats_minus_one == dut.i.payload.beats_minus_one), Assert(dut.o.payload.tag == dut.slot)]
        return m
