"""Result bus of the SIMD lanes: shared multipliers and late results, result hazards and result routing."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..isa.encoding import Access, AluFunction
from ..lib.onehot import select_one_hot
from ..parameters.thread import ThreadParameters
from .multiplier import MULTIPLIER_LATENCY, Multiplier

__all__ = ["destination_words", "ResultBus", "ResultHazards", "ResultRouting"]

LATE = (AluFunction.MUL, AluFunction.MULH, AluFunction.NARROW, AluFunction.SCALE)


class ResultBus(Component):
    """Result bus: multipliers shared by the SIMD lanes, and the tracking of late results, which are products and packed bytes [S0.17].

    The round-robin pointer grants ``slot_multipliers`` lanes a cycle. A micro-operation of products therefore takes ``slots`` /
    ``slot_multipliers`` cycles.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    valid : In(1)
        A micro-operation is in the SIMD lanes.
    function, unsigned : In(AluFunction), In(1)
        Function and signedness of its operation; constant while ``busy``.
    buffer : In(1)
        With ``thread_overlap``: half of the result buffers for its results.
    o_buffer : Out(1)
        With ``thread_overlap``: half for the late results of this cycle.
    landing_buffer : In(1)
        With ``thread_overlap``: half of the operation in write-back.
    landing : Out(1)
        With ``thread_overlap``: late results for ``landing_buffer`` are in flight. A read of group 0 in this cycle, and of a group in each
        later one, would come before them.
    ready : Out(1)
        The micro-operation may leave.
    a, b : In(32).array(slots)
        Operands of the SIMD lanes.
    group, words : In(range(thread_groups)), In(4)
        Group of the micro-operation, and 32-bit words of its result buffers that take the product.
    last_word : In(1)
        The micro-operation has the last number of a packed word.
    takes : Out(1)
        The micro-operation has late results.
    scale : Out(1)
        The function is SCALE: products take the place of a, the shift amount that of b.
    narrow_take : Out(slots)
        Narrowing units that take a number in this cycle.
    narrow_show : Out(1)
        Packed words are the results of the SIMD lanes in this cycle.
    product : Out(32).array(slot_multipliers)
        Product of lane j at place j mod ``slot_multipliers``; zero without one.
    o_slots, o_group, o_words : Out(slots), Out(range(thread_groups)), Out(4)
        SIMD lanes with a late result in this cycle, their group, and the words that take it.
    busy : Out(1)
        Late results are in flight.
    event_stalls : Out(1)
        A micro-operation waits for a multiplier in this cycle.

    *Latency*: a product is at ``product`` ``MULTIPLIER_LATENCY`` (3) cycles after the multiplier took its operands. A packed word comes two
    cycles after its last number: for NARROW after the micro-operation, for SCALE after the product.

    *Throughput*: one group of ``slot_multipliers`` products a cycle.

    *Back-pressure*: ``ready`` is low while a micro-operation of products has lanes without a grant. The signal is combinational from
    ``valid`` and ``function``.

    *Reset*: no result is in flight.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
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
        # With registered ALUs ``function`` is valid a cycle before the first micro-operation.
        domain = m.d.sync if self.cfg.registered_alu else m.d.comb
        domain += self.scale.eq(function == AluFunction.SCALE)
        served = self._multiply(m, multiplies)
        product = self._follow_products(m, multiplies, served)
        self._follow_words(m, narrows, product)
        return m

    def _multiply(self, m, multiplies):
        """Multiplies; returns the lanes that are granted a multiplier in this cycle."""
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
        """Layout of the lanes with a result, their group, and ``more`` about it."""
        buffer = {"buffer": 1} if self.cfg.thread_overlap else {}
        return data.StructLayout({"slots": self.slots, "group": self.o_group.shape(), **more, **buffer})

    def _follow_products(self, m, multiplies, served):
        """Tracks the products; returns lanes, group and words of those at ``product`` in this cycle."""
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
        """Numbers go to the narrowing units from the lanes, or as products; a packed word comes two cycles after its last number."""
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
        """Results come in the order of the groups: the last one may come ``thread_groups`` - 2 cycles after the read of group 0."""
        early, packing = self.cfg.thread_groups - 2, 2
        far = [stage for cycles, stage in enumerate((second, first)) if cycles > early]
        far += [stage for cycles, stage in enumerate(reversed(self._products)) if cycles > early]
        far_to_pack = [stage for cycles, stage in enumerate(reversed(self._products)) if cycles <= early < cycles + packing]

        def land(stages):
            return Cat(stage.slots.any() & (stage.buffer == self.landing_buffer) for stage in stages).any()

        m.d.comb += self.landing.eq(land(far) | (self.scale & land(far_to_pack)))


def destination_words(operation, narrows):
    """Mask of the four registers around ``dst`` that an operation writes; with ``narrows`` only one, whatever the access."""
    place, access = operation.dst[:2], operation.access
    vector = Mux(access == Access.V4, 0b1111, Mux(place[1], 0b1100, 0b0011))
    return Mux(((access == Access.V2) | (access == Access.V4)) & ~narrows, vector, 1 << place)


class ResultRouting(Component):
    """Result routing: which SIMD lanes write which words of their result buffers, for ALU results, late results and load data.

    ALU results and late results never come in the same cycle, nor does either with load data.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    computed : In(1)
        All lanes have an ALU result; with ``registered_alu`` it is valid in the next cycle.
    group, words : In(range(thread_groups)), In(4)
        Group of this result and the 32-bit words that take it.
    late_slots, late_group, late_words : In(slots), In(range(thread_groups)), In(4)
        Lanes with a late result in this cycle, their group, and the words that take it.
    arrived_slots, arrived_group : In(slots), In(range(thread_groups))
        Lanes whose load data are at the banks in this cycle, and their group.
    store, store_group, store_words : Out(slots), Out(range(thread_groups)), Out(4)
        Lanes that write their result buffer in this cycle, group and words of the entry. Load data go to all four words.
    store_current : Out(1)
        The result is of the ALU or late, else load data.
    pending : Out(1)
        Load data are written in this cycle.

    *Latency*: ALU results and late results are written in their cycle, ALU results with ``registered_alu`` one after ``computed``. Load
    data are written one cycle after ``arrived_slots``.

    *Throughput*: one group a cycle, no back-pressure.

    *Reset*: no data are in flight.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
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
    """Result hazards: which operation may compute in the SIMD lanes while results of its predecessor, in write-back, are in flight.

    ALU results wait until these have landed, with ``late_address_checks`` one cycle longer. With ``thread_overlap`` late results do not
    wait: no load data that were granted can meet them, and results of equal function come in order. The function of late results in flight
    is registered here, so that another operation may enter the SIMD lanes. Without ``thread_overlap`` an operation remains in the SIMD
    lanes until it has all its late results.

    Parameters
    ----------
    cfg : ThreadParameters

    *Ports*:
    load : In(1)
        A micro-operation that computes or compares enters the SIMD lanes.
    function, unsigned, amount : In(AluFunction), In(1), In(5)
        Of the operation in the SIMD lanes; the function is MOV unless its kind is ALU.
    leave, buffer : In(1)
        This operation goes to write-back in this cycle; half of the result buffers for its results.
    pending : In(1)
        Results of the operation in write-back are in flight.
    requesting : In(1)
        Accesses to shared memory are not granted.
    data_landing : In(1)
        Accesses to shared memory, or their data, are in flight.
    late_landing, late_busy : In(1)
        Late results of the operation in write-back are in flight; any late results are.
    o_function, o_unsigned, o_amount : Out(AluFunction), Out(1), Out(5)
        Function of the micro-operation in the SIMD lanes and of the late results in flight.
    may_compute : Out(1)
        A micro-operation that computes may enter the SIMD lanes.
    waiting_for_data : Out(1)
        Load data of the operation in write-back are in flight, so no others may be requested.
    keep_buffer : Out(1)
        Load data still go to the half of the operation in write-back.
    keep_control : Out(1)
        Late results in flight need the present controls of the ALUs.
    landing : Out(1)
        Results of the operation in write-back are in flight.
    landing_buffer : Out(1)
        Half of the result buffers of this operation.

    *Latency*: outputs are combinational; with ``late_address_checks`` ``may_compute`` and ``waiting_for_data`` follow ``pending`` one
    cycle later.

    *Reset*: no function is registered as late.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
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
            if self.cfg.late_address_checks:    # an operation enters the SIMD lanes two cycles after the ``leave`` of its predecessor
                pending = Signal(name="was_pending")
                m.d.sync += pending.eq(self.pending)
            m.d.comb += [
                self.may_compute.eq(~pending), self.waiting_for_data.eq(pending), self.landing.eq(self.data_landing),
                self.keep_buffer.eq(pending | self.pending),
            ]
            return m
        late, written, alike = Signal(), Signal(), Signal()      # late: in the SIMD lanes, in write-back; like those in flight
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
