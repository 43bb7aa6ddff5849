"""Which lanes take results in a cycle, and into which words."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..isa.layout import Access

__all__ = ["Returns", "destination_words"]


def destination_words(operation, narrows):
    """Mask of the words, of four registers, that the results of an operation replace; ``narrows``: only one, whatever the access."""
    place, access = operation.dst[:2], operation.access
    vector = Mux(access == Access.V4, 0b1111, Mux(place[1], 0b1100, 0b0011))
    return Mux(((access == Access.V2) | (access == Access.V4)) & ~narrows, vector, 1 << place)


class Returns(Component):
    """Collects the results of the ALU, late results and data of loads for the lanes.

    Results that stand at the slots in a cycle are in ``lanes`` in the next one, data of loads that stand at the banks in the one after
    it. Results of the ALU and late ones never meet.

    Members
    -------
    computed, group, words
        All slots have a result of the ALU; the group and the words that take it.
    late_slots, late_group, late_words
        Of ``LateResults``.
    arrived_slots, arrived_group
        Slots whose data stand at the banks; they go to all words.
    lanes, lane_words
        See ``RegisterPort``.
    pending : Out(1)
        Data or results are on their way to the lanes.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        self.slots = slots = min(cfg.thread_slots, cfg.threads)
        groups = range(cfg.thread_groups)
        super().__init__({
            "computed": In(1), "group": In(groups), "words": In(4),
            "late_slots": In(slots), "late_group": In(groups), "late_words": In(4),
            "arrived_slots": In(slots), "arrived_group": In(groups),
            "lanes": Out(cfg.threads), "lane_words": Out(4), "pending": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        arrived, late = Signal(self.slots), Signal()
        arrived_group = Signal.like(self.arrived_group, name="group_of_arrived", reset_less=True)
        results, group = Signal(self.slots), Signal.like(self.group, name="group_of_results")
        m.d.sync += [arrived.eq(self.arrived_slots), arrived_group.eq(self.arrived_group)]
        m.d.comb += [
            late.eq(self.late_slots.any()),
            results.eq(Mux(self.computed, ~0, self.late_slots)),
            group.eq(Mux(late, self.late_group, self.group)),
            self.pending.eq(arrived.any() | late | self.lanes.any()),
        ]
        m.d.sync += [
            self.lanes.eq(Cat((arrived & (arrived_group == number).replicate(self.slots))
                              | (results & (group == number).replicate(self.slots)) for number in range(self.cfg.thread_groups))),
            self.lane_words.eq(Mux(self.computed, self.words, Mux(late, self.late_words, arrived.any().replicate(4)))),
        ]
        return m
