"""Result bus of the SIMD lanes: shared multipliers and multi-cycle results."""

import itertools

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, Signature

from ..isa.encoding import AluFunction, output_bounds_layout
from ..lib.delay import Stages
from ..lib.multiplier import MULTIPLIER_LATENCY, Multiplier
from ..lib.onehot import select_one_hot
from ..parameters.thread import ThreadParameters
from .simd_lane import MultiplierOperandPort

__all__ = ["MultiCycleOperationPort", "MultiCycleResultPort", "MultiCycleStatusPort", "MultiCycleUsePort", "ResultBus", "bus_step_layout"]


def bus_step_layout(cfg):
    """Micro-operation at the result bus: its group, and the 32-bit words of the result buffers that take a product.

    ``last_word``: it has the last number of a packed word. ``buffer``: half of the result buffers for its results.
    """
    return data.StructLayout({"group": range(cfg.thread_groups), "words": 4, "last_word": 1, "buffer": 1})


def MultiCycleOperationPort(cfg):
    """Function of multi-cycle results, seen from the result hazards.

    *Ports*:
    function : Out(AluFunction)
        The function.
    unsigned : Out(1)
        Its operands are unsigned, and bytes are packed unsigned.
    amount : Out(5)
        Shift amount of SCALE without ``own_shifts``.
    scale : Out(1)
        The function is SCALE.
    bounds, transpose : Out(output_bounds_layout), Out(1)
        With ``output_stage``: zero point and bounds of the bytes and forms of shift and rounding, without the set; rows and columns of
        the bytes of a group are exchanged.
    """
    return Signature({"function": Out(AluFunction), "unsigned": Out(1), "amount": Out(5), "scale": Out(1)} | (
        {"bounds": Out(output_bounds_layout), "transpose": Out(1)} if cfg.output_stage else {}))


def MultiCycleUsePort(cfg):
    """Multi-cycle results on their way through the SIMD lanes, seen from the result bus.

    *Ports*:
    scale : Out(1)
        The function is SCALE: products take the place of a in front of the ALUs, the shift amount that of b.
    product : Out(32).array(slot_multipliers)
        Product of lane j at place j mod ``slot_multipliers``; zero without one.
    amount : Out(5).array(slot_multipliers)
        With ``output_stage``: shift amount of this product.
    narrow_take : Out(slots)
        Narrowing units that take a number in this cycle.
    narrow_show : Out(1)
        Packed words are the results of the SIMD lanes in this cycle.
    """
    return Signature({
        "scale": Out(1), "product": Out(32).array(cfg.slot_multipliers), "narrow_take": Out(min(cfg.thread_slots, cfg.threads)),
        "narrow_show": Out(1),
    } | ({"amount": Out(5).array(cfg.slot_multipliers)} if cfg.output_stage else {}))


def MultiCycleResultPort(cfg):
    """Multi-cycle results of a cycle, seen from the result bus.

    *Ports*:
    slots : Out(slots)
        SIMD lanes with a multi-cycle result in this cycle.
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


def MultiCycleStatusPort():
    """Multi-cycle results in flight, seen from the result bus.

    *Ports*:
    busy : Out(1)
        Multi-cycle results are in flight.
    landing : Out(1)
        Multi-cycle results for ``landing_buffer`` are in flight. A read of group 0 in this cycle, and of a group in each later one, would
        come before them.
    landing_buffer : In(1)
        Half of the operation in write-back.
    """
    return Signature({"busy": Out(1), "landing": Out(1), "landing_buffer": In(1)})


class ResultBus(Component):
    """Result bus: multipliers shared by the SIMD lanes, and the tracking of multi-cycle results [S0.17].

    Multi-cycle results are products and packed bytes.

    The round-robin pointer grants ``slot_multipliers`` lanes a cycle. A micro-operation of products therefore takes ``slots`` /
    ``slot_multipliers`` cycles.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    i : In(stream.Signature(bus_step_layout(cfg)))
        The micro-operation that computes in the SIMD lanes; it may leave with ``ready``.
    operation : In(MultiCycleOperationPort(cfg))
        Function and signedness of its operation; constant while ``status.busy``.
    operands : In(MultiplierOperandPort(cfg)).array(slots)
        Operands of the SIMD lanes.
    takes : Out(1)
        The micro-operation has multi-cycle results.
    use : Out(MultiCycleUsePort(cfg))
        Products and packed words for the SIMD lanes.
    o : Out(MultiCycleResultPort(cfg))
        Multi-cycle results of this cycle.
    status : Out(MultiCycleStatusPort())
        Multi-cycle results in flight.
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
            "operation": In(MultiCycleOperationPort(cfg)),
            "operands": In(MultiplierOperandPort(cfg)).array(min(cfg.thread_slots, cfg.threads)),
            "takes": Out(1),
            "use": Out(MultiCycleUsePort(cfg)),
            "o": Out(MultiCycleResultPort(cfg)),
            "status": Out(MultiCycleStatusPort()),
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
        pass_number = Signal(range(passes))
        chosen = Signal(passes)         # one-hot
        m.d.comb += [chosen.eq(1 << pass_number), self.i.ready.eq(~multiplies | chosen[-1])]
        if passes > 1:
            with m.If(multiplies):
                m.d.sync += pass_number.eq(pass_number + 1)
        for number in range(many):
            operands = list(self.operands)[number::many]
            m.submodules[f"multiplier_{number}"] = multiplier = Multiplier(nudged=self.cfg.output_stage)
            m.d.comb += [
                multiplier.valid.eq(multiplies), multiplier.high.eq(self.operation.function != AluFunction.MUL),
                multiplier.unsigned.eq(self.operation.unsigned & ~self.use.scale),
                multiplier.a.eq(select_one_hot(chosen, [lane.a for lane in operands])),
                multiplier.b.eq(select_one_hot(chosen, [lane.b for lane in operands])),
                self.use.product[number].eq(multiplier.o),
            ]
            if self.cfg.output_stage:
                amount, bounds = select_one_hot(chosen, [lane.amount for lane in operands]), self.operation.bounds
                taken = Mux(bounds.own_shifts, amount, self.operation.amount)
                m.d.comb += [
                    multiplier.nudge.eq(bounds.double_rounding & self.use.scale),
                    self.use.amount[number].eq(Stages(m, taken, f"amount_{number}")[MULTIPLIER_LATENCY]),
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
        for before, after in itertools.pairwise(stages):
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
        """Results come in the order of the groups: the last one may come ``thread_groups`` - 2 cycles after the read of group 0, and in its
        cycle with one group.
        """
        early, packing = max(self.cfg.thread_groups - 2, 0), 2
        far = [stage for cycles, stage in enumerate((second, first)) if cycles > early]
        far += [stage for cycles, stage in enumerate(reversed(self._products)) if cycles > early]
        far_to_pack = [stage for cycles, stage in enumerate(reversed(self._products)) if cycles <= early < cycles + packing]

        def land(stages):
            return Cat(stage.slots.any() & (stage.buffer == self.status.landing_buffer) for stage in stages).any()

        m.d.comb += self.status.landing.eq(land(far) | (self.use.scale & land(far_to_pack)))
