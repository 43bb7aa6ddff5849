"""Activation queue: jobs between the matrix-vector passes and the activation pipeline."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..errors import UsageError
from ..lib.stream import Queue
from ..parameters.rnn import RnnParameters
from .layouts import tail_job_layout

__all__ = ["ActivationQueue"]


class ActivationQueue(Component):
    """Activation queue: offers each job of the tail when the sums of its first row block can be read.

    The queue has room for ``2 * rnn_contexts + 1`` jobs. A context has at most two jobs in the queue, so the queue is never full.

    Parameters
    ----------
    cfg : RnnParameters
    delay : int
        Cycles from ``launch`` until the job may be offered, at least 3.

    *Ports*:
    i : In(stream.Signature(tail_job_layout(cfg), always_ready=True))
        Jobs whose matrix-vector passes were granted, in order.
    launch : In(1)
        The matrix-vector pass of the oldest job without ``launch`` has ended. Jobs launch in the order of ``i``, each in a later cycle
        than its transfer at ``i``.
    o : Out(stream.Signature(tail_job_layout(cfg)))
        Jobs for the tail, in order.
    busy : Out(1)
        The queue holds at least one job.

    *Latency*: ``delay`` cycles from ``launch`` to ``o.valid`` where no earlier job waits.

    *Throughput*: one job a cycle.

    *Back-pressure*: ``i`` and ``launch`` are never refused. ``o.valid`` and ``o.payload`` depend on registers only.

    *Reset*: empties the queue.

    *Errors*: ``UsageError`` for a ``delay`` below 3.
    """

    def __init__(self, cfg, delay):
        cfg = RnnParameters.of(cfg)
        if delay < 3:
            raise UsageError(f"delay must be at least 3, not {delay!r}")
        self.cfg = cfg
        self.delay = delay
        super().__init__({
            "i": In(stream.Signature(tail_job_layout(cfg), always_ready=True)), "launch": In(1),
            "o": Out(stream.Signature(tail_job_layout(cfg))), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        limit = 2 * self.cfg.rnn_contexts + 1
        m.submodules.queue = queue = Queue(tail_job_layout(self.cfg), limit)
        ages = Signal(self.delay - 1)
        ready = Signal(range(limit + 1))        # launched jobs whose delay has elapsed
        taken = Signal()
        m.d.comb += [
            queue.i.valid.eq(self.i.valid), queue.i.payload.eq(self.i.payload),
            self.o.payload.eq(queue.o.payload), self.o.valid.eq(queue.o.valid & (ready != 0)),
            queue.o.ready.eq(self.o.ready & (ready != 0)),
            self.busy.eq(queue.level != 0),
            taken.eq(self.o.valid & self.o.ready),
        ]
        m.d.sync += [ages.eq(Cat(self.launch, ages)), ready.eq(ready + ages[-1] - taken)]
        return m
