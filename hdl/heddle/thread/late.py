"""Results of the slots that come later than those of the ALU: products and packed bytes."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..datapath.gates import select_one_hot
from ..isa.layout import AluFunction
from .multiplier import MULTIPLIER_LATENCY, Multiplier

__all__ = ["LateResults"]


class LateResults(Component):
    """The multipliers that the slots share, and which slots have a late result in a cycle.

    ``cfg.slot_multipliers`` multipliers serve the slots of a step in turn: ``slots / slot_multipliers`` cycles, 1 with one for each slot.
    A product stands at ``product`` ``MULTIPLIER_LATENCY`` cycles after its operands were taken, in place (slot modulo the number of
    multipliers), zero at other times; the word of ``Narrow`` one cycle earlier after its last number.

    Members
    -------
    valid, function, unsigned
        A step stands in the slots, with the function and signedness of its operation.
    ready : Out(1)
        The step may leave; always, but for products that have to wait for a multiplier.
    a, b : In(32).array(slots)
        Operands of the slots.
    group, words, last_word
        Of the step; ``words``: those of the lanes that take its product; ``last_word``: the last number of a packed word.
    takes, narrow_take : Out(1)
        The step in the slots has late results; ``narrow_take`` is for ``Narrow`` of all slots.
    narrow_show : Out(1)
        Packed words are the results of the slots in this cycle.
    product : Out(32).array(cfg.slot_multipliers)
    o_slots, o_group, o_words
        Slots whose late results stand at the slots in this cycle, their group, and words that take them.
    busy : Out(1)
        Results are on their way.
    event_stalls : Out(1)
        A step waited for a multiplier in this cycle.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        self.slots = slots = min(cfg.thread_slots, cfg.threads)
        groups = range(cfg.thread_groups)
        super().__init__({
            "valid": In(1),
            "function": In(AluFunction),
            "unsigned": In(1),
            "ready": Out(1),
            "a": In(32).array(slots),
            "b": In(32).array(slots),
            "group": In(groups),
            "words": In(4),
            "last_word": In(1),
            "takes": Out(1),
            "narrow_take": Out(1),
            "narrow_show": Out(1),
            "product": Out(32).array(cfg.slot_multipliers),
            "o_slots": Out(slots),
            "o_group": Out(groups),
            "o_words": Out(4),
            "busy": Out(1),
            "event_stalls": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        multiplies, narrows = Signal(), Signal()
        m.d.comb += [
            multiplies.eq(self.valid & ((self.function == AluFunction.MUL) | (self.function == AluFunction.MULH))),
            narrows.eq(self.valid & (self.function == AluFunction.NARROW)),
            self.narrow_take.eq(narrows), self.takes.eq(multiplies | narrows),
            self.event_stalls.eq(multiplies & ~self.ready),
        ]
        served = self._multiply(m, multiplies)
        self._follow(m, multiplies, narrows, served)
        return m

    def _multiply(self, m, multiplies):
        """The slots that are served in this cycle."""
        many = self.cfg.slot_multipliers
        passes = self.slots // many
        turn = Signal(range(passes))
        chosen = Signal(passes)         # one-hot
        m.d.comb += [chosen.eq(1 << turn), self.ready.eq(~multiplies | chosen[-1])]
        if passes > 1:
            with m.If(multiplies):
                m.d.sync += turn.eq(turn + 1)
        for number in range(many):
            m.submodules[f"multiplier_{number}"] = multiplier = Multiplier()
            m.d.comb += [
                multiplier.valid.eq(multiplies), multiplier.high.eq(self.function == AluFunction.MULH),
                multiplier.unsigned.eq(self.unsigned),
                multiplier.a.eq(select_one_hot(chosen, list(self.a)[number::many])),
                multiplier.b.eq(select_one_hot(chosen, list(self.b)[number::many])),
                self.product[number].eq(multiplier.o),
            ]
        return Cat(chosen[slot // many] for slot in range(self.slots))

    def _follow(self, m, multiplies, narrows, served):
        """Places of the results that are under way, the oldest last."""
        place = data.StructLayout({"slots": self.slots, "group": self.o_group.shape(), "words": 4})
        stages = [Signal(place, name=f"late_{stage}") for stage in range(MULTIPLIER_LATENCY)]
        m.d.sync += [
            stages[0].slots.eq(Mux(multiplies, served, 0)), stages[0].group.eq(self.group),
            stages[0].words.eq(self.words),
        ]
        for before, after in zip(stages, stages[1:]):
            m.d.sync += after.eq(before)
        # Packed words take one cycle less; steps of both kinds never follow each other so closely.
        packed = Signal()
        m.d.comb += packed.eq(narrows & self.last_word)
        with m.If(packed):
            m.d.sync += [stages[1].slots.eq(~0), stages[1].group.eq(self.group), stages[1].words.eq(0b1111)]
        shows = Signal(2)
        m.d.sync += shows.eq(Cat(packed, shows[0]))
        last = stages[-1]
        m.d.comb += [
            self.narrow_show.eq(shows[-1]),
            self.o_slots.eq(last.slots), self.o_group.eq(last.group), self.o_words.eq(last.words),
            self.busy.eq(Cat(stage.slots.any() for stage in stages).any()),
        ]
