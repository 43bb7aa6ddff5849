"""Jobs on their way from the lanes to the tail."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..errors import UsageError
from ..lib.stream import Queue
from .layouts import tail_job_layout

__all__ = ["ActivationQueue"]


class ActivationQueue(Component):
    """Holds each job until the sums of its first block can be read, ``delay`` cycles after ``launch``, and then until the tail takes it.

    Jobs come (``coming``) when their sweeps are chosen, and are launched in the same order, later. Room for two jobs of each context,
    which never has more. ``o`` offers a job no earlier than ``delay`` cycles after its ``launch``, at least three. Reset empties it.

    Members
    -------
    coming, job : In(1), In(tail_job_layout(cfg))
    launch : In(1)
    o : Out(stream.Signature(tail_job_layout(cfg)))
    busy : Out(1)
        There are jobs.
    """

    def __init__(self, cfg, delay):
        if delay < 3:
            raise UsageError(f"delay must be at least 3, not {delay!r}")
        self.cfg = cfg
        self.delay = delay
        super().__init__({"coming": In(1), "launch": In(1), "job": In(tail_job_layout(cfg)), "busy": Out(1),
                          "o": Out(stream.Signature(tail_job_layout(cfg)))})

    def elaborate(self, platform):
        m = Module()
        limit = 2 * self.cfg.rnn_contexts + 1
        m.submodules.queue = queue = Queue(tail_job_layout(self.cfg), limit)
        ages = Signal(self.delay - 1)
        ready = Signal(range(limit + 1))        # jobs that are old enough
        taken = Signal()
        m.d.comb += [
            queue.i.valid.eq(self.coming), queue.i.payload.eq(self.job),
            self.o.payload.eq(queue.o.payload), self.o.valid.eq(queue.o.valid & (ready != 0)),
            queue.o.ready.eq(self.o.ready & (ready != 0)),
            self.busy.eq(queue.level != 0),
            taken.eq(self.o.valid & self.o.ready),
        ]
        m.d.sync += [ages.eq(Cat(self.launch, ages)), ready.eq(ready + ages[-1] - taken)]
        return m
