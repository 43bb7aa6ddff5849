"""Bursts of block copies and of tensor copies on one stream."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from .layouts import burst_layout

__all__ = ["BurstMerge"]


class BurstMerge(Component):
    """Takes bursts of two sources in turns when both have one; combinational.

    The back ends count the ends of transfers in the order of their bursts, so that bursts of several transfers may come mixed. A burst
    that waits at ``o`` may be replaced by another.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(stream.Signature(burst_layout(cfg))).array(2)
    o : Out(stream.Signature(burst_layout(cfg)))
    """

    def __init__(self, cfg):
        self.cfg = cfg
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
