"""The turns of the contexts of the engine for recurrent networks."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Module, Signal
from amaranth.lib.wiring import Component
from heddle.rnn.context_arbiter import ContextArbiter

__all__ = ["TurnsSpec"]


class TurnsSpec(Component):
    """One context at most is chosen, and only one that may be; whenever one is ready there is a choice; a context that stays ready is
    chosen before any other one has ended a step and is chosen again.

    Environment: ready, waiting and expected contexts, and ends of steps, as they please.
    """

    def __init__(self, contexts):
        self.contexts = contexts
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = ContextArbiter(self.contexts)
        for name in ("ready", "waits", "expected", "eager", "take", "ends"):
            m.d.comb += getattr(dut, name).eq(AnySeq(len(getattr(dut, name))))
        one, none = (dut.choice & (dut.choice - 1)) == 0, dut.choice == 0
        m.d.comb += [
            Assume((dut.expected & (dut.expected - 1)) == 0),
            Assert(one), Assert(dut.valid == ~none), Assert(~dut.ready.any() | ((dut.choice & ~dut.ready) == 0)),
            Assert((dut.choice & ~(dut.ready | (dut.waits & dut.expected))) == 0), Assert(~dut.ready.any() | dut.valid),
        ]
        self._fair(m, dut)
        return m

    def _fair(self, m, dut):
        """Any two contexts: the one is ready all the time, the other one ends a step."""
        patient, other = Signal(range(self.contexts)), Signal(range(self.contexts))
        ended = Signal()
        m.d.comb += [
            patient.eq(AnyConst(len(patient))), other.eq(AnyConst(len(other))),
            Assume(patient != other), Assume(patient < self.contexts), Assume(other < self.contexts),
        ]
        taken = dut.take & dut.valid
        ready, is_patient, is_other = (value.bit_select(number, 1) for value, number in
                                       ((dut.ready, patient), (dut.choice, patient), (dut.choice, other)))
        with m.If(taken & is_other & dut.ends.bit_select(other, 1)):
            m.d.sync += ended.eq(1)
        with m.If(~ready | (taken & is_patient)):
            m.d.sync += ended.eq(0)
        m.d.comb += [Assert(~(ended & ready & taken & is_other)), Cover(ended & ready & taken & is_patient)]
