"""Transpose fetch: pieces of rows for steps with transposed B."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES
from ..interfaces.swizzle import swizzled
from ..lib.stream import Queue
from ..parameters.matrix import MatrixParameters
from .layouts import PIECE_BITS, entry_fields, has_item, pick_layout, slots_layout

__all__ = ["TransposeFetch"]

STEPS_AHEAD = 17        # steps queued while pieces are fetched; at most 16 steps use the same pieces in a pass


def times(value, factor):
    """``value`` times a constant, by additions."""
    return sum((value << bit for bit in range(factor.bit_length()) if factor >> bit & 1), Const(0))


class TransposeFetch(Component):
    """Transpose fetch: converts steps with transposed B into reads of pieces, and passes all other steps [S0.8].

    A column of a slice is one byte, or two of a 16-bit element, in each of its rows. A piece is the 16 bytes of a row around the column.
    Pieces are fetched when the step before, of the same operation, was in other pieces. So neighbouring columns share one fetch, and each
    byte is read once. Steps go ahead into a queue of 17. The first step that needs other pieces waits until the set before is in use
    (``switched``).

    In a swizzled tile the bank of each piece is exchanged by its own row.

    A step has one column and one word along k. Only the PEs of this word multiply; the sums are received by the PEs that receive those of a
    whole merged step.

    Parameters
    ----------
    cfg : MatrixParameters

    *Ports*:
    i : In(stream.Signature(slots_layout(cfg)))
        Checked words, or a step with transposed B.
    o : Out(stream.Signature(slots_layout(cfg)))
        Words for the bank scheduler.
    idle : In(1)
        Nothing is in flight between ``o`` and the PEs.
    o_pick : Out(stream.Signature(pick_layout(cfg)))
        Steps with their columns, for the transpose buffer.
    picking : In(1)
        Steps are in flight between ``o_pick`` and the PEs.
    switched : In(1)
        A new set of pieces comes into use in the transpose buffer.
    pending : Out(1)
        Steps wait here.

    *Latency*: ``o`` is combinational from ``i`` for steps that pass. The first reads of a set of pieces follow its step by one cycle.

    *Throughput*: one step a cycle. A set of pieces takes ``dot / fetch_slots`` cycles, at least one, in the order of the rows. With 16-bit
    elements each row counts twice, for both bytes; with one fetch slot it is read once.

    *Back-pressure*: ``i.ready`` is combinational from ``i``, ``o.ready``, ``idle`` and ``picking``. Steps with transposed B wait until all
    others have reached the PEs (``idle``), and the reverse (``picking``).

    *Reset*: no step is queued and no set is being fetched.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MatrixParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(slots_layout(cfg))),
            "o": Out(stream.Signature(slots_layout(cfg))),
            "idle": In(1),
            "o_pick": Out(stream.Signature(pick_layout(cfg))),
            "picking": In(1),
            "switched": In(1),
            "pending": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(pick_layout(self.cfg), STEPS_AHEAD)
        picks = Signal()                        # the last step taken had transposed B
        same_possible = Signal()                # the present operation has requested pieces
        latest = Signal(self.cfg.shared_address_bits - PIECE_BITS, reset_less=True)
        unused = Signal()                       # pieces were requested that are not in use yet
        loading = Signal()
        piece = Signal.like(latest)
        valid, transposed, new, passes, start = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            piece.eq(self.i.payload.words[0][PIECE_BITS - exact_log2(self.cfg.dot):]),
            valid.eq(self.i.valid),
            transposed.eq(valid & self.i.payload.transpose),
            new.eq(self.i.payload.step & ~(same_possible & (latest == piece))),
            queue.i.valid.eq(transposed & (picks | self.idle) & ~(new & unused)),
            passes.eq(~transposed & (~picks | ((queue.level == 0) & ~self.picking))),
            self.pending.eq((queue.level != 0) | transposed),
            self.i.ready.eq(~valid | (queue.i.valid & queue.i.ready) | (passes & self.o.ready)),
            start.eq(queue.i.valid & queue.i.ready & new),
        ]
        with m.If(queue.i.valid & queue.i.ready):
            m.d.sync += [picks.eq(1), same_possible.eq(~self.i.payload.last), latest.eq(piece)]
        with m.If(valid & passes & self.o.ready):
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
        entry, group, merge = queue.i.payload, self.i.payload, self.i.payload.merge
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
        """Reads of pieces, or the words that pass."""
        slots = self.cfg.piece_slots
        groups = self.cfg.dot // slots
        bits = len(piece)
        first = Signal(bits, reset_less=True)                           # first row of the group
        distances = Signal(data.ArrayLayout(bits, slots), reset_less=True)   # distance of each row of the group from its first
        stride = Signal(bits, reset_less=True)                          # distance of the groups
        group = Signal(exact_log2(groups))
        final = Signal(exact_log2(groups), reset_less=True)
        int16_s = Signal(reset_less=True)
        swizzle = Signal.like(self.i.payload.swizzle, reset_less=True)
        output = Signal(slots_layout(self.cfg))
        m.d.comb += [self.o.payload.eq(output), self.o.valid.eq(has_item(output)), output.eq(self.i.payload)]
        with m.If(~passes):
            m.d.comb += [output.used.eq(0), output.step.eq(0), output.last.eq(0)]
        with m.If(loading):
            zeros = Const(0, PIECE_BITS - exact_log2(self.cfg.dot))
            m.d.comb += [
                output.used.eq((1 << slots) - 1), output.int16.eq(int16_s),
                *(getattr(output, name).eq(0) for name in entry_fields(self.cfg) if name != "bytes"),
                output.piece.used.eq(1), output.piece.group.eq(group), output.piece.last.eq(group == final),
                *(output.words[slot].eq(Cat(zeros, swizzled(self.cfg, first + distances[slot], swizzle, BANK_BYTES)))
                  for slot in range(slots)),
            ]
        with m.If(loading & self.o.ready):
            m.d.sync += [group.eq(group + 1), first.eq(first + stride), loading.eq(group != final)]
        with m.If(start):
            pitch, int16 = self.i.payload.pitch, self.i.payload.int16
            m.d.sync += [first.eq(piece), group.eq(0), int16_s.eq(int16), swizzle.eq(self.i.payload.swizzle)]
            if slots == 1:      # one read of a piece serves both bytes
                m.d.sync += [distances[0].eq(0), stride.eq(pitch), final.eq(Mux(int16, groups // 2 - 1, groups - 1))]
            else:
                m.d.sync += [distances[row].eq(Mux(int16, times(pitch, row // 2), times(pitch, row))) for row in range(slots)]
                m.d.sync += [stride.eq(Mux(int16, times(pitch, slots // 2), times(pitch, slots))), final.eq(groups - 1)]
