"""Arbiter of the bursts of block copies and of tensor copies."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..parameters.tmau import TmauParameters
from .layouts import burst_layout

__all__ = ["BurstMerge"]


class BurstMerge(Component):
    """Round-robin arbiter that joins the bursts of block copies and of tensor copies.

    Bursts of several transfers may be interleaved: the transaction table counts the ends of transfers in the order of their bursts.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(burst_layout(cfg))).array(2)
        Bursts of block copies (0) and of tensor copies (1).
    o : Out(stream.Signature(burst_layout(cfg)))
        Bursts for an engine.

    *Latency*: 0 cycles, combinational.

    *Throughput*: one burst per cycle.

    *Back-pressure*: ``i[n].ready`` depends combinationally on ``o.ready`` and on ``valid`` of both inputs. The grant is not held: the
    payload at ``o`` may change while ``o`` waits.

    *Reset*: the round-robin pointer returns to input 0.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(burst_layout(cfg))).array(2),
            "o": Out(stream.Signature(burst_layout(cfg))),
        })

    def elaborate(self, platform):
        m = Module()
        turn, chosen = Signal(), Signal()
        first, second = self.i
        m.d.comb += [
            chosen.eq(Mux(turn, second.valid, ~first.valid)),
            self.o.valid.eq(first.valid | second.valid),
            self.o.payload.eq(Mux(chosen, second.payload, first.payload)),
            first.ready.eq(self.o.ready & ~chosen), second.ready.eq(self.o.ready & chosen),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += turn.eq(~chosen)
        return m
