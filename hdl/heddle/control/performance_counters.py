"""Performance counters and the breakdown of the cycles of a run."""

from amaranth import *
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In
from amaranth.utils import ceil_log2

from ..interfaces.control import CounterPort, EventPort, ReasonPort
from ..isa.counter_table import BREAKDOWN, COUNTERS, most_in_a_cycle
from ..lib.onehot import any_of

__all__ = ["PerformanceCounters"]


class PerformanceCounters(Component):
    """Performance counters: a 32-bit counter for every event of ``heddle.isa.counter_table`` and a 64-bit cycle counter.

    While ``enable`` is high, ``cycles`` counts every cycle. Exactly one breakdown counter counts: that of the first reason that holds,
    else ``control``. Every event counter adds its event input.

    Each counter has a few bits that count at full speed. A round-robin pointer visits the counters, one a cycle, and adds those bits to
    a 32-bit word in a small memory. An event therefore costs some LUTs instead of a 32-bit adder.

    Parameters
    ----------
    cores : int
        Cores whose events are counted together.
    absent : iterable of str
        Counters whose events do not exist in the configuration; they remain 0 and have no event input.

    *Ports*:
    events : In(EventPort(counters, cores))
        Increments of the counters but the ``absent`` ones in this cycle, the sum over the cores.
    reasons : In(ReasonPort())
        Reasons of the breakdown that hold in this cycle.
    enable : In(1)
        Counts in this cycle.
    clear : In(1)
        All counters are zero from the next cycle on.
    read : In(CounterPort(number of counters))
        Read port of the host.

    *Latency*: 1 cycle from ``read.index`` to ``read.value``. ``read.settled`` rises ``2 * slots + 4`` cycles after the last ``enable``
    or ``clear``: two rounds of additions and the registers in front. ``slots`` is the number of counters, rounded up to a power of two.

    *Throughput*: all events in every cycle.

    *Reset*: all counters read 0.
    """

    def __init__(self, cores=1, absent=()):
        self._cores, self._absent = cores, frozenset(absent)
        self._names = ["cycles", "cycles_high", *BREAKDOWN, *COUNTERS]
        self._slots = 1 << ceil_log2(len(self._names))
        super().__init__({
            "events": In(EventPort([name for name in COUNTERS if name not in self._absent], cores)), "reasons": In(ReasonPort()),
            "enable": In(1), "clear": In(1), "read": In(CounterPort(len(self._names))),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.totals = totals = Memory(shape=32, depth=self._slots, init=[])
        slot = Signal(range(self._slots))           # round-robin pointer
        slot_s1 = Signal.like(slot)
        slot_s2 = Signal.like(slot)
        amounts_s1 = []                             # increment of each counter: zero but for the counter at the pointer
        lapped = Signal()                           # every word was written since ``clear``
        cycles_carry = Signal()
        m.d.sync += slot.eq(slot + 1)

        for name, event in self._events(cycles_carry).items():
            index = self._names.index(name)
            most = self._cores * most_in_a_cycle(name) if name in COUNTERS else 1       # largest increment of a cycle
            recent = Signal(range(self._slots * most + 1), name=f"recent_{name}")
            happened = Signal(range(most + 1), name=f"happened_{name}")
            m.d.sync += happened.eq(Mux(self.clear, 0, event))
            m.d.sync += recent.eq(Mux(slot == index, 0, recent) + happened)
            amount = Signal.like(recent, name=f"amount_{name}", reset_less=True)
            m.d.sync += amount.eq(recent)
            with m.If(slot != index):
                m.d.sync += amount.eq(0)
            amounts_s1.append(amount)
            with m.If(self.clear):
                m.d.sync += recent.eq(0)

        amount_s2 = Signal(max(map(len, amounts_s1)), reset_less=True)      # a register, because counters are placed all over a chip
        adding, host = totals.read_port(domain="comb"), totals.read_port(domain="comb")
        write = totals.write_port()
        total = Signal(33)
        m.d.sync += [
            slot_s1.eq(slot), slot_s2.eq(slot_s1), amount_s2.eq(any_of(amounts_s1)),
            self.read.value.eq(Mux(lapped, host.data, 0)),
        ]
        with m.If(slot_s2 == self._slots - 1):
            m.d.sync += lapped.eq(1)
        with m.If(self.clear):      # the next round overwrites the memory
            m.d.sync += [slot.eq(0), slot_s1.eq(0), slot_s2.eq(0), lapped.eq(0)]
        m.d.comb += [
            host.addr.eq(self.read.index), adding.addr.eq(slot_s2),
            total.eq(Mux(lapped, adding.data, 0) + amount_s2),
            write.addr.eq(slot_s2), write.data.eq(Mux(self.clear, 0, total)), write.en.eq(1),
            cycles_carry.eq(total[32] & (slot_s2 == self._names.index("cycles"))),
        ]

        settling = 2 * self._slots + 4              # two rounds, and the registers in front of the memory
        waiting = Signal(range(settling + 1))
        m.d.comb += self.read.settled.eq((waiting == 0) & ~self.enable)
        with m.If(self.enable | self.clear):
            m.d.sync += waiting.eq(settling)
        with m.Elif(waiting != 0):
            m.d.sync += waiting.eq(waiting - 1)
        return m

    def _events(self, cycles_carry):
        """Increment of each counter in this cycle, in the order of the counters; 0 without ``enable``."""
        events = {"cycles": self.enable, "cycles_high": cycles_carry}
        earlier = Const(0)
        for name in BREAKDOWN:
            holds = Const(1) if name == "control" else getattr(self.reasons, name)
            events[name] = self.enable & holds & ~earlier
            earlier = earlier | holds
        return events | {name: Mux(self.enable, getattr(self.events, name), 0)
                         for name in COUNTERS if name not in self._absent}
