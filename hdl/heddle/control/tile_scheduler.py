"""Tile scheduler: hands out the numbers of tiles to the cores that ask [S4.7]."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import Component, In

from ..errors import UsageError
from ..interfaces.front_end import TILE_BITS, TilePort
from ..lib.round_robin import RoundRobin

__all__ = ["TileScheduler"]


class TileScheduler(Component):
    """Tile scheduler: hands out the numbers 0, 1, 2 and so on, each once, to the cores that ask for one [S4.7].

    Which tile has which number is the order of a table in memory. A core that is done asks for the next number, so that the load is
    balanced at run time.

    Parameters
    ----------
    count : int
        Number of cores, at least 1.

    *Ports*:
    clear : In(1)
        A run begins: the next number is 0, and no core waits for one.
    cores : In(TilePort()).array(count)
        Ports of the cores. A core does not ask while it waits for its number.

    *Latency*: two cycles from ``asks`` to ``number.valid``, and one more for each core that is served before. ``clear`` and ``number``
    are not combinational from each other.

    *Throughput*: one number a cycle.

    *Back-pressure*: none. A core waits for at most one number of each other core.

    *Reset*: as ``clear``; of cores that ask together the first one is served first.

    *Errors*: none. Numbers wrap after 2^32.

    Raises
    ------
    ValueError
        When ``count`` is not an integer of at least 1.

    *Source*: [S4.7], docs/units/control.md.
    """

    def __init__(self, count):
        if not isinstance(count, int) or count < 1:
            raise UsageError(f"count must be an integer of at least 1, not {count!r}")
        self.count = count
        super().__init__({"clear": In(1), "cores": In(TilePort()).array(count)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = RoundRobin(self.count)
        waiting, served, number = Signal(self.count), Signal(self.count), Signal(TILE_BITS)
        chosen = Signal(self.count)         # the core that has the next number in the next cycle
        m.d.comb += [
            arbiter.requests.eq(waiting), arbiter.enable.eq(waiting.any()), arbiter.advance.eq(1),
            chosen.eq(Mux(waiting.any(), 1 << arbiter.grant, 0)),
        ]
        m.d.sync += [
            waiting.eq((waiting & ~chosen) | Cat(core.asks for core in self.cores)), served.eq(chosen),
            number.eq(number + served.any()),
        ]
        for core, has_it in zip(self.cores, served, strict=True):
            m.d.comb += [core.number.valid.eq(has_it), core.number.payload.eq(number)]
        with m.If(self.clear):
            m.d.sync += [waiting.eq(0), served.eq(0), number.eq(0)]
        return m
