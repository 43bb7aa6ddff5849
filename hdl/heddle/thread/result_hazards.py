"""Result hazards between consecutive operations of the thread unit."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..isa.encoding import AluFunction
from ..parameters.thread import ThreadParameters
from .result_bus import MultiCycleOperationPort, MultiCycleStatusPort

__all__ = ["ResultHazards"]

MULTI_CYCLE = (AluFunction.MUL, AluFunction.MULH, AluFunction.NARROW, AluFunction.SCALE)


class ResultHazards(Component):
    """Result hazards: which operation may compute in the SIMD lanes while results of its predecessor, in write-back, are in flight.

    ALU results wait until load data have landed and no multi-cycle results are in flight. Multi-cycle results wait for the answers of
    loads only, and for multi-cycle results of another function: those of equal function come in order. The function of those in flight
    is registered here, so that another operation may enter the SIMD lanes.

    Parameters
    ----------
    cfg : ThreadParameters

    *Ports*:
    load : In(1)
        A micro-operation that computes or compares enters the SIMD lanes.
    operation : In(MultiCycleOperationPort(cfg))
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
    multi_cycle : In(MultiCycleStatusPort())
        Multi-cycle results in flight; ``landing_buffer`` is the half of the operation in write-back.
    o : Out(MultiCycleOperationPort(cfg))
        Function of the micro-operation in the SIMD lanes and of the multi-cycle results in flight.
    may_compute : Out(1)
        A micro-operation that computes may enter the SIMD lanes.
    waiting_for_data : Out(1)
        Load data of the operation in write-back are in flight, so no other loads may be requested.
    keep_buffer : Out(1)
        Load data still go to the half of the operation in write-back.
    keep_control : Out(1)
        Multi-cycle results in flight need the present controls of the ALUs.
    landing : Out(1)
        Results of the operation in write-back are in flight, or its stores are not acknowledged.

    *Latency*: outputs are combinational, ``o`` is registered with ``load``.

    *Reset*: the operation in write-back is no load and has no multi-cycle results.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        super().__init__({
            "load": In(1),
            "operation": In(MultiCycleOperationPort(cfg)),
            "loads": In(1),
            "leave": In(1),
            "buffer": In(1),
            "pending": In(1),
            "requesting": In(1),
            "data_landing": In(1),
            "multi_cycle": In(MultiCycleStatusPort()),
            "o": Out(MultiCycleOperationPort(cfg)),
            "may_compute": Out(1),
            "waiting_for_data": Out(1),
            "keep_buffer": Out(1),
            "keep_control": Out(1),
            "landing": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        now, kept = ([getattr(port, name) for name in port.signature.members] for port in (self.operation, self.o))
        busy = self.multi_cycle.busy
        multi_cycle, alike = Signal(), Signal()     # the operation in the SIMD lanes; like those in flight
        written_multi_cycle, written_loads = Signal(), Signal()     # the operation in write-back
        m.d.comb += [
            multi_cycle.eq(Cat(self.operation.function == function for function in MULTI_CYCLE).any()),
            alike.eq(Cat(value == other for value, other in zip(now, kept, strict=True)).all()),
            self.waiting_for_data.eq(self.pending & written_loads), self.keep_buffer.eq(self.waiting_for_data),
            self.may_compute.eq(
                Mux(multi_cycle, (alike | ~busy) & ~(self.waiting_for_data & self.requesting), ~busy & ~self.waiting_for_data)),
            self.keep_control.eq(busy),
            self.landing.eq(Mux(written_multi_cycle, self.multi_cycle.landing, self.data_landing)),
        ]
        with m.If(self.load):
            m.d.sync += [output.eq(value) for output, value in zip(kept, now, strict=True)]
        with m.If(self.leave):
            m.d.sync += [written_multi_cycle.eq(multi_cycle), written_loads.eq(self.loads), self.multi_cycle.landing_buffer.eq(self.buffer)]
        return m
