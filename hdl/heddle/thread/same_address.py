"""Whether all threads load from the same address."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

__all__ = ["SameAddress"]


class SameAddress(Component):
    """Compares the addresses of an operation, group by group.

    Members
    -------
    start : In(1)
        An operation begins.
    step, address, active
        Addresses of a group and which of its threads take part.
    same : Out(1)
        All groups so far had one address and no thread that did not take part.
    """

    def __init__(self, cfg):
        self.slots = min(cfg.thread_slots, cfg.threads)
        self.bits = cfg.shared_address_bits
        super().__init__({
            "start": In(1),
            "step": In(1),
            "address": In(self.bits).array(self.slots),
            "active": In(self.slots),
            "same": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        first, kept = Signal(), Signal(self.bits, reset_less=True)
        expected = Signal(self.bits)
        m.d.comb += expected.eq(Mux(first, self.address[0], kept))
        with m.If(self.step):
            equal = Cat(address == expected for address in self.address).all()
            m.d.sync += [first.eq(0), kept.eq(expected), self.same.eq(self.same & self.active.all() & equal)]
        with m.If(self.start):
            m.d.sync += [first.eq(1), self.same.eq(1)]
        return m
