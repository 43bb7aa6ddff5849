"""Results of the slots that come later than those of the ALU: products and packed bytes."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..isa.encoding import AluFunction
from ..lib.onehot import select_one_hot
from .multiplier import MULTIPLIER_LATENCY, Multiplier

__all__ = ["ResultBus"]


class ResultBus(Component):
    """The multipliers that the slots share, and which slots have a late result in a cycle.

    ``cfg.slot_multipliers`` multipliers serve the slots of a step in turn: ``slots / slot_multipliers`` cycles, 1 with one for each slot.
    A product stands at ``product`` ``MULTIPLIER_LATENCY`` cycles after its operands were taken, in place (slot modulo the number of
    multipliers), zero at other times; the word of ``Narrow`` one cycle earlier after its last number.

    Members
    -------
    valid, function, unsigned
        A step stands in the slots, with the function and signedness of its operation, which stay
        while ``busy``.
    buffer, o_buffer, landing_buffer, landing
        With ``cfg.thread_overlap``: half of the results that the step's, and those that stand at the slots, belong to. Results for
        ``landing_buffer`` are on their way, so that a first group that is read in this cycle, and then one a cycle, would be too early.
    ready : Out(1)
        The step may leave; always, but for products that have to wait for a multiplier.
    a, b : In(32).array(slots)
        Operands of the slots.
    group, words, last_word
        Of the step; ``words``: those of the lanes that take its product; ``last_word``: the last number of a packed word.
    takes : Out(1)
        The step in the slots has late results.
    scale, narrow_take : Out(1), Out(slots)
        For the slots: products take the place of a, the amount that of b; ``Narrow`` takes what is shifted.
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
            "scale": Out(1),
            "narrow_take": Out(slots),
            "narrow_show": Out(1),
            "product": Out(32).array(cfg.slot_multipliers),
            "o_slots": Out(slots),
            "o_group": Out(groups),
            "o_words": Out(4),
            "busy": Out(1),
            "event_stalls": Out(1),
            **({"buffer": In(1), "o_buffer": Out(1), "landing_buffer": In(1), "landing": Out(1)} if cfg.thread_overlap else {}),
        })

    def elaborate(self, platform):
        m = Module()
        function, multiplies, narrows = self.function, Signal(), Signal()
        m.d.comb += [
            multiplies.eq(self.valid & ((function == AluFunction.MUL) | (function == AluFunction.MULH) | self.scale)),
            narrows.eq(self.valid & (function == AluFunction.NARROW)),
            self.takes.eq(multiplies | narrows), self.event_stalls.eq(multiplies & ~self.ready),
        ]
        # An operation has stood in the slots for a cycle before its first step does.
        domain = m.d.sync if self.cfg.registered_alu else m.d.comb
        domain += self.scale.eq(function == AluFunction.SCALE)
        served = self._multiply(m, multiplies)
        product = self._follow_products(m, multiplies, served)
        self._follow_words(m, narrows, product)
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
                multiplier.valid.eq(multiplies), multiplier.high.eq(self.function != AluFunction.MUL),
                multiplier.unsigned.eq(self.unsigned & ~self.scale),
                multiplier.a.eq(select_one_hot(chosen, list(self.a)[number::many])),
                multiplier.b.eq(select_one_hot(chosen, list(self.b)[number::many])),
                self.product[number].eq(multiplier.o),
            ]
        return Cat(chosen[slot // many] for slot in range(self.slots))

    def _place(self, **more):
        """Slots with a result, their group, and more about it."""
        buffer = {"buffer": 1} if self.cfg.thread_overlap else {}
        return data.StructLayout({"slots": self.slots, "group": self.o_group.shape(), **more, **buffer})

    def _follow_products(self, m, multiplies, served):
        """The place of the products that stand at ``product`` in this cycle."""
        stages = [Signal(self._place(words=4, last_word=1), name=f"product_{stage}") for stage in range(MULTIPLIER_LATENCY)]
        m.d.sync += [
            stages[0].slots.eq(Mux(multiplies, served, 0)), stages[0].group.eq(self.group),
            stages[0].words.eq(self.words), stages[0].last_word.eq(self.last_word),
        ]
        if self.cfg.thread_overlap:
            m.d.sync += stages[0].buffer.eq(self.buffer)
        for before, after in zip(stages, stages[1:]):
            m.d.sync += after.eq(before)
        self._products = stages
        self._multiplying = Cat(stage.slots.any() for stage in stages).any()
        return stages[-1]

    def _follow_words(self, m, narrows, product):
        """Numbers go to ``Narrow`` from the slots, or as products; two cycles after the last one of a word the word is there."""
        first, second = (Signal(self._place(), name=f"packed_{stage}") for stage in range(2))
        m.d.comb += self.narrow_take.eq(Mux(narrows, ~0, Mux(self.scale, product.slots, 0)))
        m.d.sync += [
            first.slots.eq(Mux(Mux(narrows, self.last_word, product.last_word), self.narrow_take, 0)),
            first.group.eq(Mux(narrows, self.group, product.group)), second.eq(first),
        ]
        m.d.comb += [
            self.narrow_show.eq(second.slots.any()),
            self.o_slots.eq(Mux(self.scale, 0, product.slots) | second.slots),
            self.o_group.eq(Mux(self.narrow_show, second.group, product.group)),
            self.o_words.eq(product.words | self.narrow_show.replicate(4)),
            self.busy.eq(self._multiplying | first.slots.any() | second.slots.any()),
        ]
        if self.cfg.thread_overlap:
            m.d.sync += first.buffer.eq(Mux(narrows, self.buffer, product.buffer))
            m.d.comb += self.o_buffer.eq(Mux(self.narrow_show, second.buffer, product.buffer))
            self._land(m, first, second)

    def _land(self, m, first, second):
        """Results come in the order of the groups, so the last one may come ``thread_groups`` - 2 cycles after the first group is read."""
        early, packing = self.cfg.thread_groups - 2, 2
        far = [stage for cycles, stage in enumerate((second, first)) if cycles > early]
        far += [stage for cycles, stage in enumerate(reversed(self._products)) if cycles > early]
        far_to_pack = [stage for cycles, stage in enumerate(reversed(self._products)) if cycles <= early < cycles + packing]

        def land(stages):
            return Cat(stage.slots.any() & (stage.buffer == self.landing_buffer) for stage in stages).any()

        m.d.comb += self.landing.eq(land(far) | (self.scale & land(far_to_pack)))
