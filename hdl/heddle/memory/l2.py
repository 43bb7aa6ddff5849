"""The place of the second-level cache; today a wire."""

from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..layouts import GlobalPort, MemoryPort

__all__ = ["Level2"]


class Level2(Component):
    """Second level of global memory: passes every request, beat and response through, combinationally.

    Each core has a port, and each port has an AXI master of its own. Every global access of every unit goes through this
    component, so that a cache and the reduction unit can take its place without a change of the units or of the AXI master
    [docs/units/axi.md]. Latency 0, throughput one request and one beat a cycle in each direction, no state.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(GlobalPort(cfg, cfg.axi_id_bits)).array(cfg.cores)
        From the arbiter of each core.
    o : Out(MemoryPort(cfg, cfg.axi_id_bits)).array(cfg.cores)
        To the AXI master of each core.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(GlobalPort(cfg, cfg.axi_id_bits)).array(cfg.cores),
            "o": Out(MemoryPort(cfg, cfg.axi_id_bits)).array(cfg.cores),
        })

    def elaborate(self, platform):
        m = Module()
        for client, memory in zip(self.i, self.o):
            connect(m, client=flipped(client), memory=flipped(memory))
        return m
