"""Result writer: sums of rows to shared memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import SharedWritePort
from ..lib.stream import Queue
from ..parameters.sparse import SparseParameters
from .layouts import result_layout

__all__ = ["ResultWriter"]

MOST_WRITES = 8         # requests without acknowledgement


class ResultWriter(Component):
    """Result writer: writes the sums of eight PEs to all banks of shared memory, and tells the end of each job.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    i : In(stream.Signature(result_layout(cfg)))
        Sums with the row of shared memory; ends of jobs without sums.
    bank : Out(SharedWritePort(cfg))
        Write port of shared memory; each request has all banks.
    done : Out(1)
        All writes of the oldest job are acknowledged, and those of the jobs before.
    busy : Out(1)
        A request is not acknowledged.

    *Latency*: ``bank.request`` is combinational from ``i``; ``done`` comes in the cycle of the last acknowledgement.

    *Throughput*: one row of shared memory a cycle.

    *Back-pressure*: ``i.ready`` depends combinationally on ``bank.request.ready`` and on ``i.payload.empty``. The end of a job without sums
    waits for all acknowledgements.

    *Reset*: forgets the acknowledgements that are missing.
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(result_layout(cfg))), "bank": Out(SharedWritePort(cfg)), "done": Out(1), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.ends = ends = Queue(1, MOST_WRITES, registered=False)      # of each request: it is the last of its job
        item, request, idle = self.i.payload, self.bank.request, Signal()
        m.d.comb += [
            idle.eq(ends.level == 0), self.busy.eq(~idle),
            request.valid.eq(self.i.valid & ~item.empty & ends.i.ready),
            request.payload.bank.eq((1 << BANKS) - 1),
            *(row.eq(item.output) for row in request.payload.row), *(mask.eq((1 << BANK_BYTES) - 1) for mask in request.payload.mask),
            *(word.eq(value) for word, value in zip(request.payload.data, item.data, strict=True)),
            self.i.ready.eq(Mux(item.empty, idle, request.ready & ends.i.ready)),
            ends.i.valid.eq(request.valid & request.ready), ends.i.payload.eq(item.ends), ends.o.ready.eq(self.bank.written),
            self.done.eq((self.bank.written & ends.o.payload) | (self.i.valid & item.empty & idle)),
        ]
        return m
