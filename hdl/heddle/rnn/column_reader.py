"""Column reader: the vector of a matrix-vector pass, one column group at a time."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..isa.counter_table import most_in_a_cycle
from ..lib.onehot import any_of
from ..parameters.rnn import RnnParameters
from .delta_threshold import DeltaThreshold, choose_group, group_lanes
from .dependency_scoreboard import status_layout, written_bits
from .layouts import COLUMNS_BITS, COUNT_BITS, chosen_sweep_layout
from .vector_memory import ColumnReadPort
from .zero_look_ahead import ZeroLookAhead

__all__ = ["ColumnReader", "column_layout"]


def column_layout(cfg):
    """Column group: ``dot / cat`` signed elements, zero-padded to ``dot``, and the factor word of row block 0; ``first`` marks the
    first column of a pass.
    """
    elements = data.ArrayLayout(signed(cfg.engine_element_bits), cfg.dot)
    return data.StructLayout({"elements": elements, "weight": cfg.factor_address_bits, "first": 1})


class ColumnReader(Component):
    """Column reader: reads the vector of a matrix-vector pass from vector memory in groups of ``dot / cat`` elements [S3.1].

    A column is read when its elements are written: the job that writes the vector has finished, or is the oldest job and has written
    them.

    With ``skip`` a column of zeros is not offered at ``o``, except the first column of a pass that defines its sums (``begins``). A
    skipped column takes one cycle; the last one waits for ``o.ready``, because the pass ends with that column. Once the whole vector is
    written, ``ZeroLookAhead`` skips following zero columns of the same word together with a read.

    With ``cfg.rnn_differences`` a pass with ``difference`` multiplies differences to the reference vector (``DeltaThreshold``). In the
    first step of a task such a pass reads every column.

    *Ports*:
    i : In(stream.Signature(chosen_sweep_layout(cfg)))
        Granted matrix-vector passes.
    sweep : Out(chosen_sweep_layout(cfg))
        The pass of the columns at ``o``; registered.
    status : In(status_layout(cfg)).array(rnn_contexts)
        State of each context, from ``DependencyScoreboard``.
    written : In(written_bits(cfg))
        Elements that the oldest job has written.
    column : Out(ColumnReadPort(cfg))
        Read port of vector memory.
    o : Out(stream.Signature(column_layout(cfg)))
        Columns in order.
    ended : Out(1)
        The pass ends in this cycle: its last column is accepted or skipped.
    busy : Out(1)
        A pass is in progress.
    event_skipped : Out(range(most_in_a_cycle("rnn_skipped") + 1))
        Number of zero columns that were skipped in the cycle before, 0 to 4.

    *Latency*: 2 cycles from the transfer at ``i`` to ``o.valid`` of the first column; 1 cycle from ``column.enable`` to ``o.valid``.

    *Throughput*: one column a cycle; one cycle without column between two passes.

    *Back-pressure*: ``i.ready`` is high without a pass and in the cycle of ``ended``. ``i.ready``, ``ended`` and ``column.enable`` depend
    combinationally on ``o.ready``, ``column.enable`` also on ``status`` and ``written``. ``o.payload`` depends combinationally on
    ``column.data``; with ``skip`` so do ``o.valid`` and ``column.enable``.

    *Reset*: discards the pass.

    *Source*: [S3.1].
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(chosen_sweep_layout(cfg))),
            "sweep": Out(chosen_sweep_layout(cfg)),
            "status": In(status_layout(cfg)).array(cfg.rnn_contexts),
            "written": In(written_bits(cfg)),
            "column": Out(ColumnReadPort(cfg)),
            "o": Out(stream.Signature(column_layout(cfg))),
            "ended": Out(1),
            "busy": Out(1),
            "event_skipped": Out(range(most_in_a_cycle("rnn_skipped") + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, sweep = self.cfg, self.sweep
        bits = exact_log2(cfg.vector_lanes)
        active, reading, waiting = Signal(), Signal(), Signal()     # pass in progress; columns left to read; column read
        element = Signal(exact_log2(cfg.rnn_elements), reset_less=True)
        ends = Signal(exact_log2(cfg.dot) + 13, reset_less=True)    # elements up to the end of the next column
        left = Signal(COLUMNS_BITS, reset_less=True)                # columns behind the next one
        weight = Signal(cfg.factor_address_bits, reset_less=True)
        fresh = Signal(reset_less=True)
        place = Signal(bits, reset_less=True)
        column = Signal(column_layout(cfg))
        finished, readable, skipped, leaves, read, accepted = (
            Signal(name=name) for name in ("finished", "readable", "skipped", "leaves", "read", "accepted"))
        kept = Signal(data.StructLayout({"first": 1, "last": 1, "weight": weight.shape()}), reset_less=True)
        nonzero = Signal(cfg.vector_lanes)                          # elements of the word that was read
        chosen = Signal(cfg.vector_lanes, reset_less=True)          # those that the column has
        self._written(m, ends, finished, readable)
        # The word of vector memory comes late in a cycle: only ``skipped`` and what follows it depend on the word. The last column leaves
        # with ``o.ready``, and none is read behind that one.
        m.d.comb += [
            skipped.eq(waiting & sweep.skip & ~(kept.first & sweep.begins) & ~(nonzero & chosen).any()),
            leaves.eq(waiting & self.o.ready), self.ended.eq(leaves & kept.last),
            read.eq(reading & readable & (~waiting | leaves | skipped)),
            self.column.enable.eq(read), self.column.word.eq(element[bits:]),
            column.first.eq(kept.first), column.weight.eq(kept.weight),
            self.o.valid.eq(waiting & ~skipped), self.o.payload.eq(column),
            self.i.ready.eq(~active | self.ended),
            accepted.eq(self.i.valid & self.i.ready),
            self.busy.eq(active),
        ]
        moves = leaves | (skipped & ~kept.last)
        m.submodules.ahead = ahead = ZeroLookAhead(cfg)
        skips, strides, shift = Signal(), Signal(), Signal.like(ahead.shift, name="shift", reset_less=True)     # of the cycle before
        word = [value.as_signed() for value in self.column.data]
        if cfg.rnn_differences:
            m.submodules.differences = differences = DeltaThreshold(cfg)
            self._reference(m, differences, read, ahead.stride, accepted)
            word = self._differences(m, differences, word, place, moves)
        m.d.comb += [element.eq(value) for element, value in zip(column.elements, choose_group(cfg, word, place, sweep.cat), strict=True)]
        m.d.comb += [
            ahead.begin.eq(accepted), ahead.read.eq(read), ahead.final.eq(finished),
            ahead.enable.eq(sweep.skip & ~self._first_differences()),
            nonzero.eq(Cat(value != 0 for value in word)), ahead.zero.eq(~nonzero),
            ahead.place.eq(element[:bits]), ahead.cat.eq(sweep.cat), ahead.left.eq(left),
            self.event_skipped.eq(skips + Mux(strides, (1 << shift) - 1, 0)),
        ]
        m.d.sync += [skips.eq(skipped & moves), strides.eq(read), shift.eq(ahead.shift)]
        with m.If(moves):
            m.d.sync += waiting.eq(0)
        with m.If(self.ended):
            m.d.sync += active.eq(0)
        with m.If(read):
            m.d.sync += [
                waiting.eq(1), place.eq(element[:bits]), chosen.eq(group_lanes(cfg, element[:bits], sweep.cat)),
                kept.first.eq(fresh), kept.last.eq(left == 0), kept.weight.eq(weight),
                element.eq(element + ahead.stride), ends.eq(ends + (Const(cfg.dot) >> sweep.cat)),  # unused once columns are skipped
                weight.eq(weight + ((sweep.blocks + 1) << ahead.shift)), left.eq(left - (1 << ahead.shift)),
                fresh.eq(0), reading.eq(left != 0),
            ]
        with m.If(accepted):
            new = self.i.payload
            m.d.sync += [
                sweep.eq(new), active.eq(1), reading.eq(1), fresh.eq(1), element.eq(new.element), left.eq(new.columns),
                weight.eq(new.weight), ends.eq(Const(cfg.dot) >> new.cat),
            ]
        return m

    def _written(self, m, ends, finished, readable):
        """Whether the job that writes the vector has written all elements (``finished``) or the first ``ends`` elements (``readable``).
        Only the oldest job of all contexts writes.
        """
        status, under_way = Signal(status_layout(self.cfg)), Signal(COUNT_BITS)
        m.d.comb += [
            status.eq(any_of(Mux(self.sweep.context == number, of_context.as_value(), 0) for number, of_context in enumerate(self.status))),
            under_way.eq(status.finished - self.sweep.job),         # 0: the context's next job to finish; 1, 2: finished
        ]
        m.d.comb += [
            finished.eq(~self.sweep.waits | (under_way == 1) | (under_way == 2)),
            readable.eq(finished | ((under_way == 0) & status.oldest & (self.written >= ends))),
        ]

    def _first_differences(self):
        """Whether the pass sends every element to the reference vector, zeros included: the first step with ``difference``."""
        return (self.sweep.fresh & self.sweep.difference) if self.cfg.rnn_differences else 0

    def _reference(self, m, differences, read, stride, accepted):
        """Reads the reference vector along with the column."""
        sent = Signal(exact_log2(self.cfg.rnn_elements), reset_less=True)
        with m.If(read):
            m.d.sync += sent.eq(sent + stride)
        with m.If(accepted):
            m.d.sync += sent.eq(self.i.payload.sent)
        m.d.comb += [differences.read.eq(read), differences.word.eq(sent[exact_log2(self.cfg.vector_lanes):])]

    def _differences(self, m, differences, values, place, moves):
        """The elements of the word; in passes with ``difference`` the thresholded differences."""
        sweep = self.sweep
        m.d.comb += [
            differences.place.eq(place), differences.cat.eq(sweep.cat),
            differences.fresh.eq(sweep.fresh), differences.held.eq(sweep.held), differences.take.eq(moves & sweep.difference),
        ]
        m.d.comb += [sink.eq(value) for sink, value in zip(differences.i, values, strict=True)]
        return [Mux(sweep.difference, source, value) for source, value in zip(differences.o, values, strict=True)]
