"""Write path of an L2 bank: plain writes in order, reductions through the reduction unit."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import write_data_layout, write_response_layout
from ..isa.encoding import Reduction
from ..lib.stream import Queue, link
from ..parameters.l2 import L2Parameters
from .access import reduced_beat_layout
from .layouts import L2Sizes, line_ack_layout, line_beat_layout, line_burst_layout, line_part_layout
from .lookup import line_write_layout

__all__ = ["L2WritePath"]


class L2WritePath(Component):
    """Write path of an L2 bank: buffers the written beats, requests the look-up of each line, and sends the beats to memory.

    A look-up is requested with the last beat of a line. Looked-up lines are sent in their order, each as one burst; the request is
    valid with the first beat. Beats of a plain write wait until the results of earlier reductions were sent. A response of memory
    becomes one acknowledgement, in the same order.

    A plain write that is announced while the write path is empty sends its request at once, before its beats. No other write can be
    between them, as items of one line are contiguous.

    Parameters
    ----------
    cfg : L2Parameters

    *Ports*:
    i : In(stream of line_part_layout(cfg))
        Announcements and beats.
    o_lookup : Out(stream of line_write_layout(cfg))
        Lines to look up.
    i_line : In(stream of line_write_layout(cfg))
        Looked-up lines, in the same order; the queue holds ``L2Sizes.writes`` of them.
    o_beat : Out(stream of line_beat_layout(cfg))
        Operands of reductions for ``L2Access``. Only with ``cfg.reductions``.
    i_reduced : In(stream of reduced_beat_layout(cfg))
        Results of reductions from ``L2Access``. Only with ``cfg.reductions``.
    reducing : In(1)
        ``L2Access`` has beats of reductions in flight. Only with ``cfg.reductions``.
    o_burst : Out(stream of line_burst_layout(cfg))
        Write requests to memory.
    o_data : Out(stream of write_data_layout(cfg))
        Write data to memory.
    i_response : In(stream of write_response_layout(cfg.axi_id_bits))
        Write responses of memory.
    o_ack : Out(stream of line_ack_layout(cfg), always ready)
        Acknowledgements to the cores.
    busy : Out(1)
        A beat, a line, a burst or an outstanding response is present.

    *Latency*: an announcement reaches ``o_burst`` in the same cycle. A beat passes its queue to ``o_data`` in 2 cycles, with
    ``cfg.reductions`` in 3; the look-up request passes its queue in 2 cycles. ``i_response`` reaches ``o_ack`` in the same cycle.

    *Throughput*: one beat per cycle in, one beat per cycle out.

    *Back-pressure*: ``i.ready`` depends on registers and on ``announces``. ``beats`` beats fit: 130 with ``cfg.reductions``, to cover
    the latency of memory, else two lines plus one beat and at least 17. ``i_reduced.ready`` and ``o_data.valid`` depend combinationally
    on free entries of the burst queue and the acknowledgement queue.

    *Reset*: drops all beats, lines and outstanding responses.

    *Errors*: ``o_ack`` has ``error`` if memory refused the burst or an operand of a reduction could not be read.
    """

    def __init__(self, cfg):
        cfg = L2Parameters.of(cfg)
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
        """Queue the beats; request the look-up with the last beat of a line."""
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
        """Requests to memory: the queued requests, or the announced request."""
        beat, out = self.i.payload, self.o_burst
        goes, burst = Signal(name="announced_goes"), Signal(line_burst_layout(self.cfg), name="announced_burst")
        self._announced = Signal(name="announced")      # the request of the next line was already sent
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
        """Select the next beat for memory: a result of a reduction, or the oldest beat of a plain write."""
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
        """Send a beat to memory, with the first beat of a line its request; with the last beat, allocate its acknowledgement."""
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
