"""Thread predicates and the lane mask."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..constants import PREDICATES
from ..lib.onehot import select_one_hot

__all__ = ["Predicates"]


class Predicates(Component):
    """Predicates p0 to p6 of every thread, the lane mask, and guards [S0.9].

    ``active`` is combinational; writes are visible in the next cycle. Reset and ``start`` make all predicates false and the
    lane mask all ones; ``start`` comes while nothing else is written.

    Members
    -------
    guard, negate, active : In(3), In(1), Out(cfg.threads)
        ``active`` bit t: predicate ``guard`` (7 is always true) of thread t, inverted by ``negate``.
    write, write_predicate, write_group, write_slots, write_value
        Predicate ``write_predicate`` of the threads of a group: slot j of ``write_slots`` takes bit j of ``write_value``.
    write_lane_mask : In(1)
        The lane mask takes ``active``.
    predicates, lane_mask
        predicates[p][t] is predicate p of thread t.
    """

    def __init__(self, cfg):
        self.cfg = cfg
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
