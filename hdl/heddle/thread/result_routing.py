"""Which results are kept in a cycle, and where."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..isa.encoding import Access

__all__ = ["ResultRouting", "destination_words"]


def destination_words(operation, narrows):
    """Mask of the words, of four registers, that the results of an operation replace; ``narrows``: only one, whatever the access."""
    place, access = operation.dst[:2], operation.access
    vector = Mux(access == Access.V4, 0b1111, Mux(place[1], 0b1100, 0b0011))
    return Mux(((access == Access.V2) | (access == Access.V4)) & ~narrows, vector, 1 << place)


class ResultRouting(Component):
    """Says where the results of the ALU, late results and data of loads go.

    Results are kept in the cycle in which they stand at the slots (of the ALU with ``cfg.registered_alu``: a cycle after ``computed``),
    data of loads one cycle after they stand at the banks. Results of
    the ALU and late ones never meet, nor do they meet data of loads.

    Members
    -------
    computed, group, words
        All slots have a result of the ALU; the group and the words that take it.
    late_slots, late_group, late_words
        Of ``LateResults``.
    arrived_slots, arrived_group
        Slots whose data stand at the banks; they go to all words.
    store, store_group, store_words, store_current
        Slots that keep a word now, its group and the words of 32 bits of it; ``store_current``: for the operation in the slot stage.
    pending : Out(1)
        Data of loads are on their way.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        self.slots = slots = min(cfg.thread_slots, cfg.threads)
        groups = range(cfg.thread_groups)
        super().__init__({
            "computed": In(1), "group": In(groups), "words": In(4),
            "late_slots": In(slots), "late_group": In(groups), "late_words": In(4),
            "arrived_slots": In(slots), "arrived_group": In(groups),
            "store": Out(slots), "store_group": Out(groups), "store_words": Out(4), "store_current": Out(1), "pending": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        arrived, late = Signal(self.slots), Signal()
        arrived_group = Signal.like(self.arrived_group, name="group_of_arrived", reset_less=True)
        m.d.sync += [arrived.eq(self.arrived_slots), arrived_group.eq(self.arrived_group)]
        computed, group, words = self.computed, self.group, self.words
        if self.cfg.registered_alu:
            computed, group = Signal(name="was_computed"), Signal.like(group, name="computed_group")
            words = Signal(4, name="computed_words")
            m.d.sync += [computed.eq(self.computed), group.eq(self.group), words.eq(self.words)]
        m.d.comb += [
            late.eq(self.late_slots.any()),
            self.store_current.eq(computed | late),
            self.store.eq(Mux(computed, ~0, self.late_slots | arrived)),
            self.store_group.eq(Mux(late, self.late_group, Mux(computed, group, arrived_group))),
            self.store_words.eq(Mux(computed, words, Mux(late, self.late_words, 0b1111))),
            self.pending.eq(arrived.any()),
        ]
        return m
