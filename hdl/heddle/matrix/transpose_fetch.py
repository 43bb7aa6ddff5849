"""Transposed B: from steps with a column each to the pieces of rows that hold it."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..lib.stream import Queue
from .layouts import PIECE_BITS, pick_layout, slots_layout

__all__ = ["TransposeFetch"]

STEPS_AHEAD = 17        # while pieces are fetched; at most 16 steps use the same ones in a pass


def times(value, factor):
    """``value`` times a constant, by additions."""
    return sum((value << bit for bit in range(factor.bit_length()) if factor >> bit & 1), Const(0))


class TransposeFetch(Component):
    """Turns steps with transposed B into fetches of pieces, and passes all else [S0.8].

    A step has one column and one word along k: of the lanes those multiply whose word it is, and those receive their sums that
    would with the other words too.

    A column of a slice is one byte, or two of a 16-bit element, in each of its rows. The 16 bytes of each row around it
    (a piece) are fetched when the step before, of the same operation, was not in the same pieces; so neighbouring columns
    share one fetch, and each byte is read once. Steps go ahead into a queue meanwhile, up to the first that needs
    other pieces, which must wait until the ones before are in use (``switched``).

    A fetch is ``dot / fetch_slots`` groups of words (one with more slots), one a cycle, for the rows in order; with 16-bit
    elements each row counts twice, for the bytes of a word, but with one slot is fetched once. One step a cycle. Steps
    with transposed B wait for all others to reach the lanes (``idle``), and the other way round.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(slots_layout(cfg))
    advance : Out(1)
        Combinational: ``i`` is taken.
    o : Out(slots_layout(cfg))
        Combinational.
    o_ready : In(1)
    idle : In(1)
        Nothing is between ``o`` and the lanes.
    o_pick : Out(stream.Signature(pick_layout(cfg)))
    picking : In(1)
        Steps have left ``o_pick`` and are not in the lanes.
    switched : In(1)
        Pieces came into use.
    pending : Out(1)
        Steps wait here.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(slots_layout(cfg)),
            "advance": Out(1),
            "o": Out(slots_layout(cfg)),
            "o_ready": In(1),
            "idle": In(1),
            "o_pick": Out(stream.Signature(pick_layout(cfg))),
            "picking": In(1),
            "switched": In(1),
            "pending": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(pick_layout(self.cfg), STEPS_AHEAD)
        picks = Signal()                        # the last that was taken had transposed B
        same_possible = Signal()                # an operation with pieces is under way
        latest = Signal(self.cfg.shared_address_bits - PIECE_BITS, reset_less=True)
        unused = Signal()                       # pieces were asked for that are not in use yet
        loading = Signal()
        piece = Signal.like(latest)
        valid, transposed, new, passes, start = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            piece.eq(self.i.words[0][PIECE_BITS - exact_log2(self.cfg.dot):]),
            valid.eq(self.i.used.any() | self.i.step | self.i.last),
            transposed.eq(valid & self.i.transpose),
            new.eq(self.i.step & ~(same_possible & (latest == piece))),
            queue.i.valid.eq(transposed & (picks | self.idle) & ~(new & unused)),
            passes.eq(~transposed & (~picks | ((queue.level == 0) & ~self.picking))),
            self.pending.eq((queue.level != 0) | transposed),
            self.advance.eq(~valid | (queue.i.valid & queue.i.ready) | (passes & self.o_ready)),
            start.eq(queue.i.valid & queue.i.ready & new),
        ]
        with m.If(queue.i.valid & queue.i.ready):
            m.d.sync += [picks.eq(1), same_possible.eq(~self.i.last), latest.eq(piece)]
        with m.If(valid & passes & self.o_ready):
            m.d.sync += picks.eq(0)
        with m.If(self.switched):
            m.d.sync += unused.eq(0)
        with m.If(start):
            m.d.sync += [unused.eq(1), loading.eq(1)]
        self._pick(m, queue, new)
        self._load(m, piece, start, loading, passes)
        return m

    def _pick(self, m, queue, new):
        """The step with its column, for the queue."""
        entry, group, merge = queue.i.payload, self.i, self.i.merge
        active, source, destination = (Cat(positions[lane % len(positions)] for lane in range(self.cfg.threads))
                                       for positions in (merge.active, merge.source, merge.destination))
        m.d.comb += [
            entry.first.eq(new), entry.column.eq(group.column), entry.b_signed.eq(group.b_signed),
            entry.step.lanes.eq(group.lanes & active & source),
            entry.step.receivers.eq((group.lanes & active & destination) | merge.receive_total),
            entry.step.pairs.eq(merge.pairs), entry.step.quads.eq(merge.quads), entry.step.total.eq(merge.total),
            self.o_pick.payload.eq(queue.o.payload), self.o_pick.valid.eq(queue.o.valid), queue.o.ready.eq(self.o_pick.ready),
        ]
        for name in ("step", "last", "product", "factor_word", "zero", "a_signed", "int16", "swapped"):
            m.d.comb += getattr(entry.step, name).eq(getattr(group, name))

    def _load(self, m, piece, start, loading, passes):
        """Groups of pieces, or what passes."""
        slots = self.cfg.piece_slots
        groups = self.cfg.dot // slots
        bits = len(piece)
        first = Signal(bits, reset_less=True)                           # of the group
        distances = Signal(data.ArrayLayout(bits, slots), reset_less=True)   # of its rows, from the first
        stride = Signal(bits, reset_less=True)                          # of the groups
        group = Signal(exact_log2(groups))
        final = Signal(exact_log2(groups), reset_less=True)
        int16_s = Signal(reset_less=True)
        output = Signal(slots_layout(self.cfg))
        m.d.comb += [self.o.eq(output), output.eq(self.i)]
        with m.If(~passes):
            m.d.comb += [output.used.eq(0), output.step.eq(0), output.last.eq(0)]
        with m.If(loading):
            zeros = Const(0, PIECE_BITS - exact_log2(self.cfg.dot))
            m.d.comb += [
                output.used.eq((1 << slots) - 1), output.int16.eq(int16_s),
                output.piece.used.eq(1), output.piece.group.eq(group), output.piece.last.eq(group == final),
                *(word.eq(Cat(zeros, first + distance)) for word, distance in zip(output.words, distances)),
            ]
        with m.If(loading & self.o_ready):
            m.d.sync += [group.eq(group + 1), first.eq(first + stride), loading.eq(group != final)]
        with m.If(start):
            pitch, int16 = self.i.pitch, self.i.int16
            m.d.sync += [first.eq(piece), group.eq(0), int16_s.eq(int16)]
            if slots == 1:      # one word of a piece is for both bytes
                m.d.sync += [distances[0].eq(0), stride.eq(pitch), final.eq(Mux(int16, groups // 2 - 1, groups - 1))]
            else:
                m.d.sync += [distances[row].eq(Mux(int16, times(pitch, row // 2), times(pitch, row))) for row in range(slots)]
                m.d.sync += [stride.eq(Mux(int16, times(pitch, slots // 2), times(pitch, slots))), final.eq(groups - 1)]
