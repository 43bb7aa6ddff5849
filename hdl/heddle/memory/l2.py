"""The place of the second-level cache; today a wire."""

from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..layouts import GlobalPort

__all__ = ["Level2"]


class Level2(Component):
    """Second level of global memory: passes every request, beat and response through, combinationally.

    Every global access of every unit goes through this component, so that a cache and the reduction unit can take its place
    without a change of the units or of the AXI master [docs/units/axi.md]. Latency 0, throughput one request and one beat a cycle
    in each direction, no state.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(GlobalPort(cfg, cfg.axi_id_bits))
        From the arbiter.
    o : Out(GlobalPort(cfg, cfg.axi_id_bits))
        To the AXI master.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(GlobalPort(cfg, cfg.axi_id_bits)),
            "o": Out(GlobalPort(cfg, cfg.axi_id_bits)),
        })

    def elaborate(self, platform):
        m = Module()
        connect(m, client=flipped(self.i), memory=flipped(self.o))
        return m
