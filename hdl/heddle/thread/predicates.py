"""Thread predicates, lane mask and guards."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..constants import PREDICATES
from ..lib.onehot import select_one_hot
from ..parameters.thread import ThreadParameters

__all__ = ["Predicates"]


class Predicates(Component):
    """Predicate file: predicates p0 to p6 of every thread, lane mask, and evaluation of guards [S0.9].

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    start : In(1)
        Clears all predicates and sets the lane mask to ones; nothing else is written in this cycle.
    guard : In(3)
        Number of the guard predicate; 7 is always true.
    negate : In(1)
        Inverts the guard.
    active : Out(threads)
        Bit t: the guard holds for thread t.
    write : In(1)
        Writes predicate ``write_predicate`` of the threads of a group.
    write_predicate : In(3)
        Number of the predicate.
    write_group : In(range(thread_groups))
        Group of threads.
    write_slots : In(slots)
        Threads of the group that are written.
    write_value : In(slots)
        The new values.
    write_lane_mask : In(1)
        The lane mask becomes ``active``.
    predicates : Out(threads).array(7)
        Bit t of ``predicates[p]`` is predicate p of thread t.
    lane_mask : Out(threads)
        Bit t: thread t is in the lane mask.

    *Latency*: ``active`` is combinational; writes take effect in the next cycle.

    *Throughput*: one write of predicates and one of the lane mask a cycle.

    *Reset*: as after ``start``.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        self.slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "start": In(1),
            "guard": In(3),
            "negate": In(1),
            "active": Out(cfg.threads),
            "write": In(1),
            "write_predicate": In(3),
            "write_group": In(range(cfg.thread_groups)),
            "write_slots": In(self.slots),
            "write_value": In(self.slots),
            "write_lane_mask": In(1),
            "predicates": Out(cfg.threads).array(PREDICATES),
            "lane_mask": Out(cfg.threads, init=(1 << cfg.threads) - 1),
        })

    def elaborate(self, platform):
        m = Module()
        chosen = Cat(self.guard == number for number in range(PREDICATES + 1))
        always = C((1 << self.cfg.threads) - 1, self.cfg.threads)
        value = select_one_hot(chosen, [*self.predicates, always])
        m.d.comb += self.active.eq(value ^ self.negate.replicate(self.cfg.threads))

        for number in range(PREDICATES):
            for group in range(self.cfg.thread_groups):
                chosen = Signal(name=f"chosen_{number}_{group}")
                m.d.comb += chosen.eq(self.write & (self.write_predicate == number) & (self.write_group == group))
                for slot in range(self.slots):
                    with m.If(chosen & self.write_slots[slot]):
                        m.d.sync += self.predicates[number][group * self.slots + slot].eq(self.write_value[slot])
        with m.If(self.write_lane_mask):
            m.d.sync += self.lane_mask.eq(self.active)
        with m.If(self.start):
            m.d.sync += self.lane_mask.eq(~0)
            m.d.sync += [self.predicates[number].eq(0) for number in range(PREDICATES)]
        return m
