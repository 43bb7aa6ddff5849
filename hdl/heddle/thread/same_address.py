"""Detection of loads in which all threads have one address."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..parameters.thread import ThreadParameters

__all__ = ["SameAddress"]


class SameAddress(Component):
    """Comparator of the addresses of an operation, one group of threads a cycle.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    start : In(1)
        An operation begins; no group comes in this cycle.
    step : In(1)
        A group comes.
    address : In(shared_address_bits).array(slots)
        Byte addresses of its threads.
    active : In(slots)
        Threads that make the access.
    same : Out(1)
        All groups since ``start`` had one common address, and every thread of them was active; registered.

    *Latency*: one cycle from ``step`` to ``same``.

    *Throughput*: one group a cycle.

    *Reset*: ``same`` is low.
    """

    def __init__(self, cfg):
        cfg = ThreadParameters.of(cfg)
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
