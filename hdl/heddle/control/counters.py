"""Performance counters and the breakdown of a run's cycles."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..counters import BREAKDOWN, COUNTERS

__all__ = ["PerformanceCounters"]


class PerformanceCounters(Component):
    """32-bit counters of every event of ``heddle.counters`` and a 64-bit cycle counter.

    While ``enable`` is high ``cycles`` counts every cycle, exactly one breakdown counter counts (the first reason that
    holds, else ``control``), and every event counter whose event holds. ``clear`` sets all to zero. Counting is one cycle behind the events.

    Members
    -------
    event_<name>
        One bit per counter; ``reason_<name>`` one bit per breakdown reason but ``control``.
    index, value
        ``value`` is the counter at ``index`` (order of ``heddle.registers.counter_addresses``), one cycle later.
    """

    def __init__(self):
        names = ["cycles", "cycles_high", *BREAKDOWN, *COUNTERS]
        members = {f"event_{name}": In(1) for name in COUNTERS}
        members |= {f"reason_{name}": In(1) for name in BREAKDOWN if name != "control"}
        self._names = names
        super().__init__(members | {
            "enable": In(1), "clear": In(1), "index": In(range(len(names))), "value": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        cycles = Signal(64)
        counting = Signal()
        m.d.sync += counting.eq(self.enable & ~self.clear)
        with m.If(counting):
            m.d.sync += cycles.eq(cycles + 1)
        values = {"cycles": cycles[:32], "cycles_high": cycles[32:]}

        earlier = Const(0)
        events = {}
        for name in BREAKDOWN:
            holds = Const(1) if name == "control" else getattr(self, f"reason_{name}")
            events[name] = holds & ~earlier
            earlier = earlier | holds
        events |= {name: getattr(self, f"event_{name}") for name in COUNTERS}
        for name, event in events.items():
            values[name] = counter = Signal(32, name=f"count_{name}")
            happened = Signal(name=f"happened_{name}")
            m.d.sync += happened.eq(event)
            with m.If(counting & happened):
                m.d.sync += counter.eq(counter + 1)
            with m.If(self.clear):
                m.d.sync += counter.eq(0)
        with m.If(self.clear):
            m.d.sync += cycles.eq(0)

        with m.Switch(self.index):
            for index, name in enumerate(self._names):
                with m.Case(index):
                    m.d.sync += self.value.eq(values[name])
        return m
