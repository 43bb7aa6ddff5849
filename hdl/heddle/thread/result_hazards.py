"""What operations do to each other while results of one are on their way."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..isa.encoding import AluFunction

__all__ = ["ResultHazards"]

LATE = (AluFunction.MUL, AluFunction.MULH, AluFunction.NARROW, AluFunction.SCALE)


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
