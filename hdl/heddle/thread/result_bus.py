"""Results of the slots that come later than those of the ALU: products and packed bytes."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..isa.encoding import Access, AluFunction
from ..lib.onehot import select_one_hot
from .multiplier import MULTIPLIER_LATENCY, Multiplier

__all__ = ["destination_words", "ResultBus", "ResultHazards", "ResultRouting"]

LATE = (AluFunction.MUL, AluFunction.MULH, AluFunction.NARROW, AluFunction.SCALE)


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


class ResultHazards(Component):
    """Says when the operation in the slots may compute although results of the one in the writer are on their way.

    Results of the ALU wait until these have arrived (with ``cfg.late_address_checks`` a cycle more). With ``cfg.thread_overlap`` late
    results do not: they come so late that they meet no data of loads that are granted, and those of the same function come in order. What
    belongs to late results on their way is kept here until the next ones, so that another operation may come into the slots. Without, the
    slots keep an operation until they have all its late results.

    Members
    -------
    load : In(1)
        A step of an operation that computes or compares goes into the slots.
    function, unsigned, amount
        Of the operation in the slots; MOV when it is not of kind ALU.
    leave, buffer : In(1)
        It goes to the writer; half of the results that are its own.
    pending : In(1)
        Results of the operation in the writer are on their way.
    requesting, data_landing : In(1)
        Accesses to shared memory are not granted; they, or their data, are on their way.
    late_landing, late_busy : In(1)
        See ``LateResults``: results for the operation in the writer are on their way, any are.
    o_function, o_unsigned, o_amount
        Of the step in the slots and of the late results that are on their way.
    may_compute : Out(1)
        A step that computes may go into the slots.
    waiting_for_data : Out(1)
        Data of a load of the operation in the writer are on their way: others must not be loaded.
    keep_buffer : Out(1)
        They go where they went, not to the half of the operation in the slots.
    keep_control : Out(1)
        Late results on their way need the controls of the ALUs.
    landing : Out(1)
        For the writer.
    landing_buffer : Out(1)
        For ``LateResults``.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "load": In(1),
            "function": In(AluFunction),
            "unsigned": In(1),
            "amount": In(5),
            "leave": In(1),
            "buffer": In(1),
            "pending": In(1),
            "requesting": In(1),
            "data_landing": In(1),
            "late_landing": In(1),
            "late_busy": In(1),
            "o_function": Out(AluFunction),
            "o_unsigned": Out(1),
            "o_amount": Out(5),
            "may_compute": Out(1),
            "waiting_for_data": Out(1),
            "keep_buffer": Out(1),
            "keep_control": Out(1),
            "landing": Out(1),
            "landing_buffer": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        now, kept = ((self.function, self.unsigned, self.amount), (self.o_function, self.o_unsigned, self.o_amount))
        if not self.cfg.thread_overlap:
            m.d.comb += [output.eq(value) for output, value in zip(kept, now)]
            pending = self.pending
            if self.cfg.late_address_checks:    # an operation comes into the slots two cycles behind the one before
                pending = Signal(name="was_pending")
                m.d.sync += pending.eq(self.pending)
            m.d.comb += [
                self.may_compute.eq(~pending), self.waiting_for_data.eq(pending), self.landing.eq(self.data_landing),
                self.keep_buffer.eq(pending | self.pending),
            ]
            return m
        late, written, alike = Signal(), Signal(), Signal()      # operation in the slots, in the writer; as those on their way
        m.d.comb += [
            late.eq(Cat(self.function == function for function in LATE).any()),
            alike.eq(Cat(value == other for value, other in zip(now, kept)).all()),
            self.may_compute.eq(Mux(late, (alike | ~self.late_busy) & ~(self.waiting_for_data & self.requesting),
                                    ~self.late_busy & ~self.pending)),
            self.waiting_for_data.eq(self.pending & ~written), self.keep_buffer.eq(self.waiting_for_data),
            self.keep_control.eq(self.late_busy),
            self.landing.eq(Mux(written, self.late_landing, self.data_landing)),
        ]
        with m.If(self.load):
            m.d.sync += [output.eq(value) for output, value in zip(kept, now)]
        with m.If(self.leave):
            m.d.sync += [written.eq(late), self.landing_buffer.eq(self.buffer)]
        return m
