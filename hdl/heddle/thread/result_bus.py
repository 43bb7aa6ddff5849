"""Result bus of the SIMD lanes: shared multipliers and late results, result hazards and result routing."""

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, Signature

from ..isa.encoding import Access, AluFunction
from ..lib.onehot import select_one_hot
from ..parameters.thread import ThreadParameters
from .multiplier import MULTIPLIER_LATENCY, Multiplier
from .shared_lsu import ArrivalPort

__all__ = ["LateOperationPort", "LateResultPort", "LateStatusPort", "LateUsePort", "MultiplierOperandPort", "ResultBus", "ResultHazards",
           "ResultRouting", "ResultWritePort", "alu_result_layout", "bus_step_layout", "destination_words"]

LATE = (AluFunction.MUL, AluFunction.MULH, AluFunction.NARROW, AluFunction.SCALE)


def alu_result_layout(cfg):
    """ALU results of a group of threads: the group, and the 32-bit words and the half of its result buffers that take them."""
    return data.StructLayout({"group": range(cfg.thread_groups), "words": 4, "buffer": 1})


def bus_step_layout(cfg):
    """Micro-operation at the result bus: its group, and the 32-bit words of the result buffers that take a product.

    ``last_word``: it has the last number of a packed word. ``buffer``: half of the result buffers for its results.
    """
    return data.StructLayout({"group": range(cfg.thread_groups), "words": 4, "last_word": 1, "buffer": 1})


def LateOperationPort():
    """Function of late results, seen from the result hazards.

    *Ports*:
    function : Out(AluFunction)
        The function.
    unsigned : Out(1)
        Its operands are unsigned, and bytes are packed unsigned.
    amount : Out(5)
        Shift amount of SCALE.
    scale : Out(1)
        The function is SCALE.
    """
    return Signature({"function": Out(AluFunction), "unsigned": Out(1), "amount": Out(5), "scale": Out(1)})


def MultiplierOperandPort(cfg):
    """Operands of the SIMD lanes for the shared multipliers, seen from the lanes.

    *Ports*:
    a, b : Out(32).array(slots)
        Operands of each lane.
    """
    slots = min(cfg.thread_slots, cfg.threads)
    return Signature({"a": Out(32).array(slots), "b": Out(32).array(slots)})


def LateUsePort(cfg):
    """Late results on their way through the SIMD lanes, seen from the result bus.

    *Ports*:
    scale : Out(1)
        The function is SCALE: products take the place of a in front of the ALUs, the shift amount that of b.
    product : Out(32).array(slot_multipliers)
        Product of lane j at place j mod ``slot_multipliers``; zero without one.
    narrow_take : Out(slots)
        Narrowing units that take a number in this cycle.
    narrow_show : Out(1)
        Packed words are the results of the SIMD lanes in this cycle.
    """
    return Signature({
        "scale": Out(1), "product": Out(32).array(cfg.slot_multipliers), "narrow_take": Out(min(cfg.thread_slots, cfg.threads)),
        "narrow_show": Out(1),
    })


def LateResultPort(cfg):
    """Late results of a cycle, seen from the result bus.

    *Ports*:
    slots : Out(slots)
        SIMD lanes with a late result in this cycle.
    group : Out(range(thread_groups))
        Their group.
    words : Out(4)
        32-bit words of the result buffers that take it.
    buffer : Out(1)
        Half of the result buffers.
    """
    return Signature({
        "slots": Out(min(cfg.thread_slots, cfg.threads)), "group": Out(range(cfg.thread_groups)), "words": Out(4), "buffer": Out(1),
    })


def LateStatusPort():
    """Late results in flight, seen from the result bus.

    *Ports*:
    busy : Out(1)
        Late results are in flight.
    landing : Out(1)
        Late results for ``landing_buffer`` are in flight. A read of group 0 in this cycle, and of a group in each later one, would come
        before them.
    landing_buffer : In(1)
        Half of the operation in write-back.
    """
    return Signature({"busy": Out(1), "landing": Out(1), "landing_buffer": In(1)})


def ResultWritePort(cfg):
    """Write of results to the result buffers of the SIMD lanes, seen from the result routing.

    *Ports*:
    slots : Out(slots)
        Lanes that write their result buffer in this cycle.
    group : Out(range(thread_groups))
        Group of the entry.
    words : Out(4)
        32-bit words of the entry that are written. Load data go to all four.
    current : Out(1)
        The result is of the ALU or late, else load data.
    buffer : Out(1)
        With ``current``: half of the result buffers.
    """
    return Signature({
        "slots": Out(min(cfg.thread_slots, cfg.threads)), "group": Out(range(cfg.thread_groups)), "words": Out(4), "current": Out(1),
        "buffer": Out(1),
    })


class ResultBus(Component):
    """Result bus: multipliers shared by the SIMD lanes, and the tracking of late results, which are products and packed bytes [S0.17].

    The round-robin pointer grants ``slot_multipliers`` lanes a cycle. A micro-operation of products therefore takes ``slots`` /
    ``slot_multipliers`` cycles.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    i : In(stream.Signature(bus_step_layout(cfg)))
        The micro-operation that computes in the SIMD lanes; it may leave with ``ready``.
    operation : In(LateOperationPort())
        Function and signedness of its operation; constant while ``status.busy``.
    operands : In(MultiplierOperandPort(cfg))
        Operands of the SIMD lanes.
    takes : Out(1)
        The micro-operation has late results.
    use : Out(LateUsePort(cfg))
        Products and packed words for the SIMD lanes.
    o : Out(LateResultPort(cfg))
        Late results of this cycle.
    status : Out(LateStatusPort())
        Late results in flight.
    event_stalls : Out(1)
        A micro-operation waits for a multiplier in this cycle.

    *Latency*: a product is at ``use.product`` ``MULTIPLIER_LATENCY`` (3) cycles after the multiplier took its operands. A packed word comes
    two cycles after its last number: for NARROW after the micro-operation, for SCALE after the product.

    *Throughput*: one group of ``slot_multipliers`` products a cycle.

    *Back-pressure*: ``i.ready`` is low while a micro-operation of products has lanes without a grant. The signal is combinational from
    ``i.valid`` and ``operation.function``.

    *Reset*: no result is in flight.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        self.slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "i": In(stream.Signature(bus_step_layout(cfg))),
            "operation": In(LateOperationPort()),
            "operands": In(MultiplierOperandPort(cfg)),
            "takes": Out(1),
            "use": Out(LateUsePort(cfg)),
            "o": Out(LateResultPort(cfg)),
            "status": Out(LateStatusPort()),
            "event_stalls": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        function, multiplies, narrows = self.operation.function, Signal(), Signal()
        m.d.comb += [
            multiplies.eq(self.i.valid & ((function == AluFunction.MUL) | (function == AluFunction.MULH) | self.use.scale)),
            narrows.eq(self.i.valid & (function == AluFunction.NARROW)),
            self.takes.eq(multiplies | narrows), self.event_stalls.eq(multiplies & ~self.i.ready), self.use.scale.eq(self.operation.scale),
        ]
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
        m.d.comb += [chosen.eq(1 << turn), self.i.ready.eq(~multiplies | chosen[-1])]
        if passes > 1:
            with m.If(multiplies):
                m.d.sync += turn.eq(turn + 1)
        for number in range(many):
            m.submodules[f"multiplier_{number}"] = multiplier = Multiplier()
            m.d.comb += [
                multiplier.valid.eq(multiplies), multiplier.high.eq(self.operation.function != AluFunction.MUL),
                multiplier.unsigned.eq(self.operation.unsigned & ~self.use.scale),
                multiplier.a.eq(select_one_hot(chosen, list(self.operands.a)[number::many])),
                multiplier.b.eq(select_one_hot(chosen, list(self.operands.b)[number::many])),
                self.use.product[number].eq(multiplier.o),
            ]
        return Cat(chosen[slot // many] for slot in range(self.slots))

    def _place(self, **more):
        """Layout of the lanes with a result, their group, and ``more`` about it."""
        return data.StructLayout({"slots": self.slots, "group": self.o.group.shape(), "buffer": 1, **more})

    def _follow_products(self, m, multiplies, served):
        """Tracks the products; returns lanes, group and words of those at ``use.product`` in this cycle."""
        micro_op = self.i.payload
        stages = [Signal(self._place(words=4, last_word=1), name=f"product_{stage}") for stage in range(MULTIPLIER_LATENCY)]
        m.d.sync += [
            stages[0].slots.eq(Mux(multiplies, served, 0)), stages[0].group.eq(micro_op.group),
            stages[0].words.eq(micro_op.words), stages[0].last_word.eq(micro_op.last_word), stages[0].buffer.eq(micro_op.buffer),
        ]
        for before, after in zip(stages, stages[1:]):
            m.d.sync += after.eq(before)
        self._products = stages
        self._multiplying = Cat(stage.slots.any() for stage in stages).any()
        return stages[-1]

    def _follow_words(self, m, narrows, product):
        """Numbers go to the narrowing units from the lanes, or as products; a packed word comes two cycles after its last number."""
        first, second = (Signal(self._place(), name=f"packed_{stage}") for stage in range(2))
        micro_op, use = self.i.payload, self.use
        m.d.comb += use.narrow_take.eq(Mux(narrows, ~0, Mux(use.scale, product.slots, 0)))
        m.d.sync += [
            first.slots.eq(Mux(Mux(narrows, micro_op.last_word, product.last_word), use.narrow_take, 0)),
            first.group.eq(Mux(narrows, micro_op.group, product.group)), first.buffer.eq(Mux(narrows, micro_op.buffer, product.buffer)),
            second.eq(first),
        ]
        m.d.comb += [
            use.narrow_show.eq(second.slots.any()),
            self.o.slots.eq(Mux(use.scale, 0, product.slots) | second.slots),
            self.o.group.eq(Mux(use.narrow_show, second.group, product.group)),
            self.o.words.eq(product.words | use.narrow_show.replicate(4)),
            self.o.buffer.eq(Mux(use.narrow_show, second.buffer, product.buffer)),
            self.status.busy.eq(self._multiplying | first.slots.any() | second.slots.any()),
        ]
        self._land(m, first, second)

    def _land(self, m, first, second):
        """Results come in the order of the groups: the last one may come ``thread_groups`` - 2 cycles after the read of group 0."""
        early, packing = self.cfg.thread_groups - 2, 2
        far = [stage for cycles, stage in enumerate((second, first)) if cycles > early]
        far += [stage for cycles, stage in enumerate(reversed(self._products)) if cycles > early]
        far_to_pack = [stage for cycles, stage in enumerate(reversed(self._products)) if cycles <= early < cycles + packing]

        def land(stages):
            return Cat(stage.slots.any() & (stage.buffer == self.status.landing_buffer) for stage in stages).any()

        m.d.comb += self.status.landing.eq(land(far) | (self.use.scale & land(far_to_pack)))


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
    i : In(stream.Signature(alu_result_layout(cfg), always_ready=True))
        All lanes have an ALU result in the next cycle.
    late : In(LateResultPort(cfg))
        Late results of this cycle.
    arrived : In(ArrivalPort(cfg))
        Lanes whose load data are at the banks in this cycle.
    o : Out(ResultWritePort(cfg))
        Writes of the result buffers.
    pending : Out(1)
        Load data are written in this cycle; or ALU results, where a group read in this cycle could come before them.

    *Latency*: late results are written in their cycle, ALU results one cycle after ``i``, load data one cycle after ``arrived``.

    *Throughput*: one group a cycle, no back-pressure.

    *Reset*: no data are in flight.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(alu_result_layout(cfg), always_ready=True)),
            "late": In(LateResultPort(cfg)),
            "arrived": In(ArrivalPort(cfg)),
            "o": Out(ResultWritePort(cfg)),
            "pending": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        arrived, late = Signal.like(self.arrived.slots, name="arrived"), Signal()
        arrived_group = Signal.like(self.arrived.group, name="group_of_arrived", reset_less=True)
        m.d.sync += [arrived.eq(self.arrived.slots), arrived_group.eq(self.arrived.group)]
        computed, result = Signal(name="was_computed"), Signal.like(self.i.payload, name="computed", reset_less=True)
        m.d.sync += [computed.eq(self.i.valid), result.eq(self.i.payload)]
        m.d.comb += [
            late.eq(self.late.slots.any()),
            self.o.current.eq(computed | late),
            self.o.slots.eq(Mux(computed, ~0, self.late.slots | arrived)),
            self.o.group.eq(Mux(late, self.late.group, Mux(computed, result.group, arrived_group))),
            self.o.words.eq(Mux(computed, result.words, Mux(late, self.late.words, 0b1111))),
            self.o.buffer.eq(Mux(computed, result.buffer, self.late.buffer)),
            # Groups are written in order: write-back reads the last of several in a later cycle.
            self.pending.eq(arrived.any() | (computed & (self.cfg.thread_groups == 1))),
        ]
        return m


class ResultHazards(Component):
    """Result hazards: which operation may compute in the SIMD lanes while results of its predecessor, in write-back, are in flight.

    ALU results wait until load data have landed and no late results are in flight. Late results wait for the answers of loads only, and
    for late results of another function: those of equal function come in order. The function of late results in flight is registered
    here, so that another operation may enter the SIMD lanes.

    Parameters
    ----------
    cfg : ThreadParameters

    *Ports*:
    load : In(1)
        A micro-operation that computes or compares enters the SIMD lanes.
    operation : In(LateOperationPort())
        The operation in the SIMD lanes; the function is MOV unless its kind is ALU.
    loads : In(1)
        This operation is a load.
    leave, buffer : In(1)
        This operation goes to write-back in this cycle; half of the result buffers for its results.
    pending : In(1)
        Results of the operation in write-back are in flight.
    requesting : In(1)
        After this cycle, accesses to shared memory of the operation in write-back have answers or acknowledgements to come.
    data_landing : In(1)
        Such accesses, or their data, are in flight.
    late : In(LateStatusPort())
        Late results in flight; ``landing_buffer`` is the half of the operation in write-back.
    o : Out(LateOperationPort())
        Function of the micro-operation in the SIMD lanes and of the late results in flight.
    may_compute : Out(1)
        A micro-operation that computes may enter the SIMD lanes.
    waiting_for_data : Out(1)
        Load data of the operation in write-back are in flight, so no other loads may be requested.
    keep_buffer : Out(1)
        Load data still go to the half of the operation in write-back.
    keep_control : Out(1)
        Late results in flight need the present controls of the ALUs.
    landing : Out(1)
        Results of the operation in write-back are in flight, or its stores are not acknowledged.

    *Latency*: outputs are combinational, ``o`` is registered with ``load``.

    *Reset*: the operation in write-back is no load and has no late results.
    """

    def __init__(self, cfg):
        ThreadParameters.of(cfg)
        super().__init__({
            "load": In(1),
            "operation": In(LateOperationPort()),
            "loads": In(1),
            "leave": In(1),
            "buffer": In(1),
            "pending": In(1),
            "requesting": In(1),
            "data_landing": In(1),
            "late": In(LateStatusPort()),
            "o": Out(LateOperationPort()),
            "may_compute": Out(1),
            "waiting_for_data": Out(1),
            "keep_buffer": Out(1),
            "keep_control": Out(1),
            "landing": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        now, kept = ([getattr(port, name) for name in port.signature.members] for port in (self.operation, self.o))
        busy = self.late.busy
        late, alike = Signal(), Signal()                            # the operation in the SIMD lanes: late, like those in flight
        written_late, written_loads = Signal(), Signal()            # the operation in write-back
        m.d.comb += [
            late.eq(Cat(self.operation.function == function for function in LATE).any()),
            alike.eq(Cat(value == other for value, other in zip(now, kept)).all()),
            self.waiting_for_data.eq(self.pending & written_loads), self.keep_buffer.eq(self.waiting_for_data),
            self.may_compute.eq(Mux(late, (alike | ~busy) & ~(self.waiting_for_data & self.requesting), ~busy & ~self.waiting_for_data)),
            self.keep_control.eq(busy),
            self.landing.eq(Mux(written_late, self.late.landing, self.data_landing)),
        ]
        with m.If(self.load):
            m.d.sync += [output.eq(value) for output, value in zip(kept, now)]
        with m.If(self.leave):
            m.d.sync += [written_late.eq(late), written_loads.eq(self.loads), self.late.landing_buffer.eq(self.buffer)]
        return m
