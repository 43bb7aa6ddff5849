"""Dependency scoreboard: progress of the tail jobs and of the input rows of each context."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..parameters.rnn import RnnParameters
from .layouts import COUNT_BITS, DISTRIBUTED, ELEMENT_BITS, ContextEvent, job_order_layout, written_group_layout

__all__ = ["DependencyScoreboard", "status_layout", "written_bits"]


def status_layout(cfg):
    """State of one context for the decision whether its next matrix-vector pass or column may begin."""
    return data.StructLayout({
        "launched": COUNT_BITS,         # jobs granted, modulo 4
        "finished": COUNT_BITS,         # jobs finished, modulo 4
        "oldest": 1,                    # the oldest job in flight, the one that writes, belongs to this context
        "rows": COUNT_BITS,             # input rows that are loaded and not taken
    })


def written_bits(cfg):
    """Bits of the number of elements that a job has written."""
    return ELEMENT_BITS + exact_log2(cfg.tail_lanes) + 1


class DependencyScoreboard(Component):
    """Dependency scoreboard: counts tail jobs and input rows of each context, and the elements that the oldest job has written.

    The payload of every event has a field ``context``, the number of its context. All events may occur in one cycle, also for one
    context. Counters of jobs and rows count modulo 4: a context has at most two of either in flight.

    *Ports*:
    status : Out(status_layout(cfg)).array(rnn_contexts)
        State of each context.
    clear : In(1)
        Resets all counters in the next cycle.
    i_launch : In(stream.Signature(job_order_layout(cfg), always_ready=True))
        The matrix-vector pass of a job was granted: the job is in flight.
    i_wrote : In(stream.Signature(written_group_layout(cfg), always_ready=True))
        The oldest job has written an element group, or a pair of element groups.
    i_reserved : In(ContextEvent(cfg))
        A row of input is about to be loaded; a buffer of the context is occupied.
    i_loaded : In(ContextEvent(cfg))
        A row of input is in vector memory.
    i_taken : In(ContextEvent(cfg))
        The last pass that reads the oldest row was granted.
    i_released : In(ContextEvent(cfg))
        The last pass that reads the oldest row has ended: the buffer is free.
    i_started : In(ContextEvent(cfg))
        A task begins in the context: its row counters are reset.
    free : Out(rnn_contexts)
        Contexts with a free row buffer, of two.
    written : Out(written_bits(cfg))
        Elements that the oldest job of all contexts has written. Jobs write and finish in the order of ``i_launch``.

    *Latency*: an event is visible in the outputs in the next cycle. All outputs depend on registers only; ``written`` and
    ``status.oldest`` read a memory of the order of jobs.

    *Throughput*: one event of each kind a cycle.

    *Back-pressure*: none; events are always taken.

    *Reset*: all counters are 0; the memory of the order of jobs has no reset.
    """

    ROW_EVENTS = ("reserved", "loaded", "taken", "released", "started")
    EVENTS = ("launch", "wrote", *ROW_EVENTS)

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
        super().__init__({
            "status": Out(status_layout(cfg)).array(cfg.rnn_contexts),
            "clear": In(1),
            "i_launch": In(stream.Signature(job_order_layout(cfg), always_ready=True)),
            "i_wrote": In(stream.Signature(written_group_layout(cfg), always_ready=True)),
            **{f"i_{name}": In(ContextEvent(cfg)) for name in self.ROW_EVENTS},
            "free": Out(cfg.rnn_contexts),
            "written": Out(written_bits(cfg)),
        })

    def elaborate(self, platform):
        m = Module()
        ports = {name: getattr(self, f"i_{name}") for name in self.EVENTS}
        free = []
        for number, status in enumerate(self.status):
            event = {name: Signal(name=f"{name}_{number}") for name in self.EVENTS}
            m.d.comb += [event[name].eq(port.valid & (port.payload.context == number)) for name, port in ports.items()]
            kept = Signal(COUNT_BITS, name=f"kept_{number}")        # row buffers in use
            done = event["wrote"] & self.i_wrote.payload.finished
            m.d.sync += [
                status.launched.eq(status.launched + event["launch"]),
                status.finished.eq(status.finished + done),
                status.rows.eq(status.rows + event["loaded"] - event["taken"]),
                kept.eq(kept + event["reserved"] - event["released"]),
            ]
            with m.If(self.clear):
                m.d.sync += [status.launched.eq(0), status.finished.eq(0), status.rows.eq(0), kept.eq(0)]
            with m.If(event["started"]):
                m.d.sync += [status.rows.eq(0), kept.eq(0)]
            free.append(kept != 2)
        m.d.comb += self.free.eq(Cat(free))
        self._order(m)
        return m

    def _order(self, m):
        """Queue of the contexts of all jobs in flight, oldest first, and the progress of the oldest job."""
        jobs = 2 * self.cfg.rnn_contexts
        launch, wrote = self.i_launch.valid, self.i_wrote.valid
        m.submodules.order = order = Memory(shape=job_order_layout(self.cfg), depth=jobs, init=[], attrs=DISTRIBUTED)
        read, write = order.read_port(domain="comb"), order.write_port()
        count, groups = Signal(range(jobs + 1)), Signal(ELEMENT_BITS)
        over = wrote & self.i_wrote.payload.finished
        m.d.comb += [
            write.en.eq(launch), write.data.eq(self.i_launch.payload),
            self.written.eq((groups << exact_log2(self.cfg.tail_lanes)) << read.data.pairs),
        ]
        m.d.comb += [status.oldest.eq((count != 0) & (read.data.context == number)) for number, status in enumerate(self.status)]
        m.d.sync += [count.eq(count + launch - over), write.addr.eq(write.addr + launch), read.addr.eq(read.addr + over)]
        with m.If(wrote):
            m.d.sync += groups.eq(groups + 1)
        with m.If(over | self.clear):
            m.d.sync += groups.eq(0)
        with m.If(self.clear):
            m.d.sync += [count.eq(0), write.addr.eq(0), read.addr.eq(0)]
