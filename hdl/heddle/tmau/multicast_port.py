"""Loads that go to several cores: what travels with them, and beats from other cores [S1.10]."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..interfaces.layouts import error_layout
from ..isa.error_codes import ErrorCode
from .layouts import multicast_beat_layout

__all__ = ["MulticastPort"]


class MulticastPort(Component):
    """Sends multicast beats out to the cores, and takes turns between the other local beats and those that come in.

    ``o_beat`` is combinational: a beat a cycle. A beat that waits there is not replaced. A multicast beat does not pass it: its last one
    finishes its slot, and one with an error is reported here and nowhere else, when the network takes it.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i_beat : In(stream.Signature(located_beat_layout(cfg)))
    o_beat : Out(stream.Signature(located_beat_layout(cfg)))
        Those that come from the network have a mask.
    o_multicast, i_multicast : streams of ``multicast_beat_layout(cfg)``
    finish, finish_index : Out
        The last beat of a slot was sent; held until ``finish_taken``.
    finish_taken : In(1)
    o_failure : Out(stream.Signature(error_layout))
        AXI_READ, held until accepted.
    busy : Out(1)
        A beat from the network, or something that is held.
    """

    def __init__(self, cfg):
        from .layouts import located_beat_layout

        self.cfg, self._beat = cfg, located_beat_layout(cfg)
        super().__init__({
            "i_beat": In(stream.Signature(self._beat)), "o_beat": Out(stream.Signature(self._beat)),
            "o_multicast": Out(stream.Signature(multicast_beat_layout(cfg))),
            "i_multicast": In(stream.Signature(multicast_beat_layout(cfg))),
            "finish": Out(1), "finish_index": Out(range(cfg.axi_reads)), "finish_taken": In(1),
            "o_failure": Out(stream.Signature(error_layout)), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        local, remote, sent = self.i_beat, self.i_multicast, self.i_beat.payload
        goes_out, stays, blocked, sends = Signal(), Signal(), Signal(), Signal()
        turn, chosen = Signal(), Signal()       # the network goes first, or is taken; a beat that waits keeps its turn
        m.d.comb += [
            goes_out.eq(local.valid & sent.mask.any()), stays.eq(local.valid & ~sent.mask.any()),
            blocked.eq((self.finish & sent.last) | (self.o_failure.valid & sent.error)),
            self.o_multicast.valid.eq(goes_out & ~blocked), sends.eq(self.o_multicast.valid & self.o_multicast.ready),
            *(self.o_multicast.payload[name].eq(sent[name]) for name, _ in multicast_beat_layout(self.cfg)),
            chosen.eq(Mux(turn, remote.valid, ~stays)),
            self.o_beat.valid.eq(stays | remote.valid),
            remote.ready.eq(self.o_beat.ready & chosen),
            local.ready.eq(Mux(sent.mask.any(), self.o_multicast.ready & ~blocked, self.o_beat.ready & ~chosen)),
            self.o_beat.payload.eq(sent), self.busy.eq(remote.valid | self.finish | self.o_failure.valid),
        ]
        with m.If(self.o_beat.valid):
            m.d.sync += turn.eq(Mux(self.o_beat.ready, ~chosen, chosen))
        with m.If(chosen):
            m.d.comb += [self.o_beat.payload[name].eq(remote.payload[name]) for name, _ in multicast_beat_layout(self.cfg)]
            m.d.comb += [self.o_beat.payload.last.eq(0)]
        self._report(m, sends, sent)
        return m

    def _report(self, m, sends, sent):
        error = self.o_failure.payload
        with m.If(self.finish_taken):
            m.d.sync += self.finish.eq(0)
        with m.If(self.o_failure.ready):
            m.d.sync += self.o_failure.valid.eq(0)
        with m.If(sends & sent.last):
            m.d.sync += [self.finish.eq(1), self.finish_index.eq(sent.tag)]
        with m.If(sends & sent.error):
            m.d.sync += [self.o_failure.valid.eq(1), error.code.eq(ErrorCode.AXI_READ), error.pc.eq(sent.pc),
                         error.operand.eq(sent.beat_address << exact_log2(self.cfg.axi_bytes))]
