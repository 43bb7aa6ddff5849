"""Tile scheduler: every number is handed out once, in order, and no core that asks is passed over."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Signal
from amaranth.lib.wiring import Component
from heddle.control.tile_scheduler import TileScheduler
from heddle.interfaces.front_end import TILE_BITS

__all__ = ["TileSchedulerSpec"]


class TileSchedulerSpec(Component):
    """In a run the numbers are 0, 1, 2 and so on, each for one core that asked. A core waits for at most one number of each other core,
    and at most as many cycles as there are cores, and one.

    Environment: a core does not ask while it waits.
    """

    def __init__(self, count):
        self._count = count
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = TileScheduler(self._count)
        handed, served = Signal(TILE_BITS), Cat(core.number.valid for core in dut.cores)
        m.d.comb += [dut.clear.eq(AnySeq(1)), Assert((served & (served - 1)[:self._count]) == 0)]
        m.d.sync += handed.eq(handed + served.any())
        for number, core in enumerate(dut.cores):
            waits, passed = Signal(name=f"waits_{number}"), Signal(range(self._count + 1), name=f"passed_{number}")
            cycles = Signal(range(self._count + 3), name=f"cycles_{number}")
            m.d.comb += [
                core.asks.eq(AnySeq(1)), Assume(~core.asks | ~waits),
                Assert(~core.number.valid | (waits & (core.number.payload == handed))),
                Assert(passed < self._count), Assert(cycles <= self._count + 1), Cover(core.number.valid & (passed == self._count - 1)),
                Cover(core.number.valid & (handed == self._count)),
            ]
            m.d.sync += [waits.eq(core.asks | (waits & ~core.number.valid))]
            with m.If(core.asks | core.number.valid):
                m.d.sync += [passed.eq(0), cycles.eq(core.asks)]
            with m.Elif(waits):
                m.d.sync += [passed.eq(passed + served.any()), cycles.eq(cycles + 1)]
            with m.If(dut.clear):
                m.d.sync += [waits.eq(0), passed.eq(0), cycles.eq(0)]
        with m.If(dut.clear):
            m.d.sync += handed.eq(0)
        return m
