"""Multicast port of the load engine: outgoing multicast beats, and beats of other cores [S1.10]."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..interfaces.layouts import error_layout
from ..isa.error_codes import ErrorCode
from ..lib.round_robin import RoundRobinArbiter
from ..lib.stream import link
from ..parameters.tmau import TmauParameters
from .layouts import located_beat_layout, multicast_beat_layout

__all__ = ["MulticastPort"]


class MulticastPort(Component):
    """Multicast port of the load engine: sends multicast beats to the network and joins other local beats with beats of other cores
    [S1.10].

    A local beat with a mask is sent to ``o_multicast`` and does not reach ``o_beat``. The last one releases its entry of the
    transaction table. Beats at ``o_beat`` are granted round robin.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i_beat : In(stream.Signature(located_beat_layout(cfg)))
        Local beats.
    o_beat : Out(stream.Signature(located_beat_layout(cfg)))
        Beats for the banks of this core; beats of the network have a mask.
    o_multicast : Out(stream.Signature(multicast_beat_layout(cfg)))
        Beats for the network.
    i_multicast : In(stream.Signature(multicast_beat_layout(cfg)))
        Beats from the network.
    finish : Out(1)
        The last beat of a burst was sent; held until ``finish_taken``.
    finish_index : Out(range(cfg.axi_reads))
        Entry of that burst in the transaction table.
    finish_taken : In(1)
        ``finish`` is accepted in this cycle.
    o_failure : Out(stream.Signature(error_layout))
        AXI_READ; held until accepted.
    busy : Out(1)
        A beat from the network, ``finish`` or an error is in flight.

    *Latency*: 0 cycles to ``o_beat`` and ``o_multicast``; 1 cycle to ``finish`` and ``o_failure``.

    *Throughput*: one beat per cycle at each output.

    *Back-pressure*: ``ready`` of both inputs depends combinationally on ``valid`` of the other input and on ``o_beat.ready``.
    ``i_beat.ready`` also depends on its mask and on ``o_multicast.ready``. A beat that waits at ``o_beat`` is not replaced.

    *Reset*: drops ``finish`` and ``o_failure``.

    *Errors*: AXI_READ for each multicast beat with an error when the network accepts it, reported by this core only.

    *Source*: [S1.10].
    """

    def __init__(self, cfg):
        cfg = TmauParameters.of(cfg)
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
        m.submodules.arbiter = arbiter = RoundRobinArbiter(self._beat, 2)
        (own, other), names = arbiter.i, [name for name, _ in multicast_beat_layout(self.cfg)]
        local, remote, sent = self.i_beat, self.i_multicast, self.i_beat.payload
        goes_out, blocked, sends = Signal(), Signal(), Signal()
        m.d.comb += [
            goes_out.eq(local.valid & sent.mask.any()),
            blocked.eq((self.finish & sent.last) | (self.o_failure.valid & sent.error)),
            self.o_multicast.valid.eq(goes_out & ~blocked), sends.eq(self.o_multicast.valid & self.o_multicast.ready),
            *(self.o_multicast.payload[name].eq(sent[name]) for name in names),
            own.valid.eq(local.valid & ~sent.mask.any()), own.payload.eq(sent),
            local.ready.eq(Mux(sent.mask.any(), self.o_multicast.ready & ~blocked, own.ready)),
            other.valid.eq(remote.valid), remote.ready.eq(other.ready),
            # Fields without a meaning for beats of other cores are those of the local beat: they need no multiplexer.
            other.payload.eq(sent), *(other.payload[name].eq(remote.payload[name]) for name in names), other.payload.last.eq(0),
            self.busy.eq(remote.valid | self.finish | self.o_failure.valid),
        ]
        link(m, arbiter.o, self.o_beat)
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
