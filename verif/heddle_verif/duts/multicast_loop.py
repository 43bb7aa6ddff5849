"""A load engine whose multicast beats come back to it, so that they must do what plain loads do."""

from amaranth.hdl import Module
from amaranth.lib.wiring import Component, connect, flipped
from heddle.lib.stream import link
from heddle.tmau.load_engine import LoadEngine
from heddle.tmau.multicast_network import MulticastNetwork

__all__ = ["LoopedLoad"]


class LoopedLoad(Component):
    """``LoadEngine`` with the members of one without multicast; both cores of the network between are itself."""

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__(dict(LoadEngine(cfg.replace(multicast=False)).signature.members.items())
                         | {"i_burst": LoadEngine(cfg).signature.members["i_burst"]})

    def elaborate(self, platform):
        m = Module()
        m.submodules.load = load = LoadEngine(self.cfg)
        m.submodules.network = network = MulticastNetwork(self.cfg)
        for name in ("i_burst", "read_request", "read_data", "bank_write", "o_moved", "o_failure"):
            connect(m, getattr(load, name), flipped(getattr(self, name)))
        link(m, load.o_multicast, network.i[0])
        link(m, network.o[0], load.i_multicast)
        m.d.comb += [
            load.o_multicast_failure.ready.eq(1), self.completed.eq(load.completed),
            self.busy.eq(load.busy | network.pending.any()),
        ]
        return m
