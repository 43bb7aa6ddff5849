"""Writes of a bank on their way to memory: plain ones as they come, reductions behind the reduction unit."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import write_data_layout, write_response_layout
from ..isa.encoding import Reduction
from ..lib.stream import Queue, link
from .access import reduced_beat_layout
from .layouts import L2Sizes, line_ack_layout, line_beat_layout, line_burst_layout, line_part_layout
from .lookup import line_write_layout

__all__ = ["L2WritePath"]


class L2WritePath(Component):
    """Holds the beats that are written, asks for their look-up line by line, and sends them to memory in the order of the look-ups.

    A line is looked up when its last beat is here. Its beats leave as one burst, whose request goes with the first beat; those of a
    plain write wait until the results of the reductions before them have left. Answers of memory become acknowledgements, in
    the same order. One beat a cycle; ``beats`` fit (as many as cover the latency of memory where there are reductions).

    A plain write that is announced while nothing else is here sends its request at once, ahead of its beats: nothing can come between.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(stream of line_part_layout(cfg))
    o_lookup : Out(stream of line_write_layout(cfg))
    i_line : In(stream of line_write_layout(cfg))
        The lines again, looked up; room for ``L2Sizes.writes`` of them.
    o_beat, i_reduced, reducing :
        To and from ``Level2Access``, only with ``cfg.reductions``.
    o_burst : Out(stream of line_burst_layout(cfg)), o_data : Out(stream of write_data_layout(cfg))
        To memory.
    i_response : In(stream of write_response_layout(cfg.axi_id_bits))
    o_ack : Out(stream of line_ack_layout(cfg), always ready)
    busy : Out(1)
    """

    def __init__(self, cfg):
        self.cfg, self.sizes = cfg, L2Sizes(cfg)
        members = {
            "i": In(stream.Signature(line_part_layout(cfg))),
            "o_lookup": Out(stream.Signature(line_write_layout(cfg))), "i_line": In(stream.Signature(line_write_layout(cfg))),
            "o_burst": Out(stream.Signature(line_burst_layout(cfg))), "o_data": Out(stream.Signature(write_data_layout(cfg))),
            "i_response": In(stream.Signature(write_response_layout(cfg.axi_id_bits))),
            "o_ack": Out(stream.Signature(line_ack_layout(cfg), always_ready=True)), "busy": Out(1),
        }
        if cfg.reductions:
            members |= {"o_beat": Out(stream.Signature(line_beat_layout(cfg))),
                        "i_reduced": In(stream.Signature(reduced_beat_layout(cfg))), "reducing": In(1)}
        super().__init__(members)

    @property
    def beats(self):
        return 130 if self.cfg.reductions else max(17, 2 * self.cfg.line_beats + 1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.beats = beats = Queue(line_beat_layout(self.cfg), self.beats)
        m.submodules.lines = lines = Queue(line_write_layout(self.cfg), self.sizes.writes)
        m.submodules.acks = acks = Queue(line_ack_layout(self.cfg), self.sizes.writes)
        m.submodules.bursts = bursts = Queue(line_burst_layout(self.cfg), 2)
        lookups = self._enter(m, beats)
        link(m, self.i_line, lines.i)
        quiet = Signal()
        m.d.comb += [quiet.eq(Cat(queue.level != 0 for queue in (beats, lookups, lines, bursts)) == 0),
                     self.busy.eq(~quiet | (acks.level != 0))]
        self._announce(m, bursts, quiet)
        chosen = self._choose(m, beats, lines)
        self._send(m, chosen, lines, bursts, acks)
        self._acknowledge(m, acks)
        return m

    def _enter(self, m, beats):
        """Beats into their queue; with the last one of a line, its look-up."""
        m.submodules.lookups = lookups = Queue(line_write_layout(self.cfg), 5)
        beat, line = self.i.payload, lookups.i.payload
        first = Signal(self.sizes.beat_bits)
        m.d.comb += [
            self.i.ready.eq(beat.announces | (beats.i.ready & lookups.i.ready)),
            beats.i.valid.eq(self.i.valid & ~beat.announces & lookups.i.ready),
            *(beats.i.payload[name].eq(beat[name]) for name, _ in beats.i.payload.shape()),
            lookups.i.valid.eq(self.i.valid & ~beat.announces & beats.i.ready & beat.ends),
            line.line.eq(beat.line), line.first.eq(Mux(beat.begins, beat.beat, first)), line.last.eq(beat.beat), line.core.eq(beat.core),
        ]
        if self.cfg.reductions:
            m.d.comb += line.reduces.eq(beat.reduction != Reduction.NONE)
        with m.If(beat.begins):
            m.d.sync += first.eq(beat.beat)
        link(m, lookups.o, self.o_lookup)
        return lookups

    def _announce(self, m, bursts, quiet):
        """Requests to memory: those that wait, or the one that is announced."""
        beat, out = self.i.payload, self.o_burst
        goes, burst = Signal(name="announced_goes"), Signal(line_burst_layout(self.cfg), name="announced_burst")
        self._announced = Signal(name="announced")      # the next line's request is on its way
        m.d.comb += [
            goes.eq(self.i.valid & beat.announces & quiet),
            burst.line.eq(beat.line), burst.first.eq(beat.beat), burst.beats_minus_one.eq(beat.last - beat.beat),
            out.valid.eq(bursts.o.valid | goes), out.payload.eq(Mux(bursts.o.valid, bursts.o.payload, burst)),
            bursts.o.ready.eq(out.ready),
        ]
        with m.If(goes):
            m.d.sync += self._announced.eq(1)
            m.d.comb += [bursts.i.valid.eq(~out.ready), bursts.i.payload.eq(burst)]

    def _choose(self, m, beats, lines):
        """The beat that goes to memory next: a reduced one, or the oldest plain one that may."""
        layout = reduced_beat_layout(self.cfg)
        beat = beats.o.payload
        chosen = stream.Signature(layout).create(path=("chosen",))
        plain = Const(1)
        if self.cfg.reductions:
            plain = Signal()
            m.d.comb += plain.eq((beat.reduction == Reduction.NONE) & ~self.reducing)
            m.d.comb += [self.o_beat.valid.eq(beats.o.valid & (beat.reduction != Reduction.NONE)), self.o_beat.payload.eq(beat),
                         self.i_reduced.ready.eq(chosen.ready)]
        m.d.comb += [
            chosen.valid.eq(beats.o.valid & lines.o.valid & plain), beats.o.ready.eq(lines.o.valid & plain & chosen.ready),
            chosen.payload.data.eq(beat.data), chosen.payload.strobe.eq(beat.strobe),
            chosen.payload.begins.eq(beat.begins), chosen.payload.ends.eq(beat.ends),
        ]
        if self.cfg.reductions:
            with m.If(beat.reduction != Reduction.NONE):
                m.d.comb += beats.o.ready.eq(self.o_beat.ready)
            with m.If(self.i_reduced.valid):
                m.d.comb += [chosen.valid.eq(lines.o.valid), chosen.payload.eq(self.i_reduced.payload)]
        return chosen

    def _send(self, m, chosen, lines, bursts, acks):
        """A beat to memory; with the first one of a line its burst, with the last one a place for its answer."""
        line, out = lines.o.payload, self.o_data
        room, sent, failed = Signal(), Signal(), Signal()
        beat = chosen.payload
        m.d.comb += [
            room.eq((~beat.begins | self._announced | bursts.i.ready) & (~beat.ends | acks.i.ready)),
            out.valid.eq(chosen.valid & room), chosen.ready.eq(out.ready & room & lines.o.valid), sent.eq(out.valid & out.ready),
            out.payload.data.eq(beat.data), out.payload.strobe.eq(beat.strobe), out.payload.last.eq(beat.ends),
            acks.i.valid.eq(sent & beat.ends), acks.i.payload.core.eq(line.core), acks.i.payload.error.eq(failed | beat.error),
            lines.o.ready.eq(sent & beat.ends),
        ]
        with m.If(sent & beat.begins):
            m.d.sync += self._announced.eq(0)
            m.d.comb += [bursts.i.valid.eq(~self._announced), bursts.i.payload.line.eq(line.line), bursts.i.payload.first.eq(line.first),
                         bursts.i.payload.beats_minus_one.eq(line.last - line.first)]
        with m.If(sent):
            m.d.sync += failed.eq((failed | beat.error) & ~beat.ends)

    def _acknowledge(self, m, acks):
        answer = self.i_response
        m.d.comb += [
            answer.ready.eq(acks.o.valid), acks.o.ready.eq(answer.valid), self.o_ack.valid.eq(answer.valid & acks.o.valid),
            self.o_ack.payload.core.eq(acks.o.payload.core), self.o_ack.payload.error.eq(acks.o.payload.error | answer.payload.error),
        ]
