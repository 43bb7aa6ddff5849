"""Reads the vectors column by column."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from .layouts import chosen_sweep_layout
from .progress import available, status_layout

__all__ = ["ColumnReader", "column_layout"]


def column_layout(cfg):
    """A column group: ``dot / cat`` elements, zeros behind them, and the factor word of its first block."""
    return data.StructLayout({"elements": data.ArrayLayout(16, cfg.dot), "weight": cfg.factor_address_bits, "first": 1, "last": 1})


class ColumnReader(Component):
    """Reads the columns of a sweep, groups of ``dot / cat`` elements, each when its elements are there [S3.1].

    A column is at ``o`` a cycle after it is read, straight from the memory; the next is read in the cycle that accepts it. With ``skip`` a
    column of zeros is not handed on, unless it is the first or the last, and takes one cycle. ``i`` is ready in the cycle in which the
    last column is accepted, and before the first sweep; columns of the next sweep are read from the cycle after. Reset forgets everything.

    Members
    -------
    i : In(stream.Signature(chosen_sweep_layout(cfg)))
    sweep : Out(chosen_sweep_layout(cfg))
        The sweep whose columns are at ``o``.
    status : In(status_layout(cfg)).array(rnn_contexts)
        See ``Progress``.
    column_read, column_word, column
        See ``VectorMemory``.
    o : Out(stream.Signature(column_layout(cfg)))
    busy : Out(1)
    event_skipped : Out(1)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(stream.Signature(chosen_sweep_layout(cfg))),
            "sweep": Out(chosen_sweep_layout(cfg)),
            "status": In(status_layout(cfg)).array(cfg.rnn_contexts),
            "column_read": Out(1),
            "column_word": Out(exact_log2(cfg.rnn_elements // cfg.vector_lanes)),
            "column": In(16).array(cfg.vector_lanes),
            "o": Out(stream.Signature(column_layout(cfg))),
            "busy": Out(1),
            "event_skipped": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, sweep = self.cfg, self.sweep
        bits = exact_log2(cfg.vector_lanes)
        active, reading, waiting = Signal(), Signal(), Signal()     # a sweep; it has columns to read; one stands at the memory
        element = Signal(exact_log2(cfg.rnn_elements), reset_less=True)
        ends = Signal(exact_log2(cfg.dot) + 13, reset_less=True)    # elements up to the end of the next column
        left = Signal(12, reset_less=True)                          # columns behind it
        weight = Signal(cfg.factor_address_bits, reset_less=True)
        fresh = Signal(reset_less=True)
        place = Signal(bits, reset_less=True)
        column = Signal(column_layout(cfg))
        there, skipped, moves, read, accepted = (Signal(name=name) for name in ("there", "skipped", "moves", "read", "accepted"))
        kept = Signal(data.StructLayout({"first": 1, "last": 1, "weight": weight.shape()}), reset_less=True)
        m.d.comb += [
            there.eq(~sweep.waits | available(cfg, Array(self.status)[sweep.context], sweep.job, ends)),
            skipped.eq(waiting & sweep.skip & ~kept.first & ~kept.last & ~column.elements.as_value().any()),
            moves.eq(waiting & (skipped | self.o.ready)),
            read.eq(reading & there & (~waiting | moves)),
            self.column_read.eq(read), self.column_word.eq(element[bits:]),
            column.first.eq(kept.first), column.last.eq(kept.last), column.weight.eq(kept.weight),
            self.o.valid.eq(waiting & ~skipped), self.o.payload.eq(column),
            self.event_skipped.eq(skipped),
            self.i.ready.eq(~active | (moves & kept.last)),
            accepted.eq(self.i.valid & self.i.ready),
            self.busy.eq(active),
        ]
        self._elements(m, column.elements, place)
        group = Signal(range(cfg.dot + 1))
        m.d.comb += group.eq(Const(cfg.dot) >> sweep.cat)
        with m.If(moves):
            m.d.sync += waiting.eq(0)
            with m.If(kept.last):
                m.d.sync += active.eq(0)
        with m.If(read):
            m.d.sync += [
                waiting.eq(1), place.eq(element[:bits]), kept.first.eq(fresh), kept.last.eq(left == 0), kept.weight.eq(weight),
                element.eq(element + group), ends.eq(ends + group), weight.eq(weight + sweep.blocks + 1), left.eq(left - 1),
                fresh.eq(0), reading.eq(left != 0),
            ]
        with m.If(accepted):
            new = self.i.payload
            m.d.sync += [
                sweep.eq(new), active.eq(1), reading.eq(1), fresh.eq(1), element.eq(new.element), left.eq(new.columns),
                weight.eq(new.weight), ends.eq(Const(cfg.dot) >> new.cat),
            ]
        return m

    def _elements(self, m, elements, place):
        """The group that begins at ``place``. An element that only large groups have stands in few places."""
        cfg = self.cfg
        for index, value in enumerate(elements):
            shift = next(cat for cat in (2, 1, 0) if index < cfg.dot >> cat)
            choices = Array(self.column[first + index] for first in range(0, cfg.vector_lanes, cfg.dot >> shift))
            chosen = choices[place[exact_log2(cfg.dot >> shift):]] if len(choices) > 1 else choices[0]
            m.d.comb += value.eq(Mux(self.sweep.cat > shift, 0, chosen))
