"""Scheduler: the next matrix-vector pass of each context, and the grant of one of them to the PEs."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..parameters.rnn import RnnParameters
from .context_arbiter import ContextArbiter
from .dependency_scoreboard import status_layout
from .layouts import (
    COUNT_BITS,
    DISTRIBUTED,
    PRODUCT_ADDRESS_BITS,
    ContextEvent,
    RecordReadPort,
    Start,
    Wait,
    chosen_sweep_layout,
    context_bits,
    context_layout,
    context_place_layout,
    header_layout,
    step_count_layout,
    stored,
    sweep_layout,
    tail_job_layout,
    task_start_layout,
)

__all__ = ["Scheduler"]


class Scheduler(Component):
    """Scheduler: holds the state of the tasks of all contexts and grants their matrix-vector passes one after the other [S3.6].

    The record of the next pass of each context is prefetched from the table. ``ContextArbiter`` selects the context. Granted passes
    have absolute positions in vector memory and product register file.

    A context is ready when its record is prefetched and the producer of its vector (``Wait``) has written the first column group. A
    pass that defines sums or launches a job also needs fewer than two unfinished jobs of its context.

    *Ports*:
    header : In(header_layout)
        Header of the image; constant while contexts run.
    clear : In(1)
        Discards all tasks.
    i_task : In(stream.Signature(task_start_layout(cfg)))
        A task begins in a context that does not run.
    sweeps : Out(RecordReadPort(cfg, stored(sweep_layout)))
        Read port of the table of matrix-vector passes.
    status : In(status_layout(cfg)).array(rnn_contexts)
        State of each context, from ``DependencyScoreboard``.
    begun : In(1)
        The oldest job has written a column group (``dot`` elements).
    has_input : In(rnn_contexts)
        Contexts whose task has input rows; without them a pass does not wait for INPUT.
    drained : In(1)
        The column reader has no pass in progress.
    o_job : Out(stream.Signature(tail_job_layout(cfg), always_ready=True))
        Job of the tail that the granted pass launches.
    o_taken : Out(ContextEvent(cfg))
        The granted pass is the last one that reads its input row.
    o : Out(stream.Signature(chosen_sweep_layout(cfg)))
        Granted passes; registered.
    running : Out(rnn_contexts)
        Contexts with a task that has passes or unfinished jobs.

    *Latency*: 2 cycles from the cycle in which a context is ready to ``o.valid``; ``o_job`` and ``o_taken`` are valid one cycle before
    ``o``. 5 cycles from the transfer at ``i_task`` to ``o.valid``. ``running`` rises in the cycle after the transfer, and
    falls when the last pass is granted and all jobs are finished; without jobs in the last pass also not before ``drained``.

    *Throughput*: one pass every 2 cycles; one pass of the same context every 4 cycles.

    *Back-pressure*: ``i_task.ready`` depends on a register. A pass is granted only if ``o`` is empty or accepted, combinationally from
    ``o.ready``.

    *Reset*: no context runs; tables of tasks have no reset.

    *Source*: [S3.6].
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
        contexts = cfg.rnn_contexts
        super().__init__({
            "header": In(header_layout),
            "clear": In(1),
            "i_task": In(stream.Signature(task_start_layout(cfg))),
            "sweeps": Out(RecordReadPort(cfg, stored(sweep_layout))),
            "status": In(status_layout(cfg)).array(contexts),
            "begun": In(1),
            "has_input": In(contexts),
            "drained": In(1),
            "o_job": Out(stream.Signature(tail_job_layout(cfg), always_ready=True)),
            "o_taken": Out(ContextEvent(cfg)),
            "o": Out(stream.Signature(chosen_sweep_layout(cfg))),
            "running": Out(contexts),
        })

    def elaborate(self, platform):
        m = Module()
        contexts = self.cfg.rnn_contexts
        self._number = context_bits(self.cfg)
        self._kinds = [Signal(data.StructLayout({"wait": Wait, "limited": 1, "last": 1}), name=f"kind_{index}")
                       for index in range(contexts)]
        self._fetched = [Signal(name=f"fetched_{index}") for index in range(contexts)]      # the record of its next pass is prefetched
        self._chosen, self._context = Signal(), Signal(self._number)
        self._choose(m)
        self._fetch(m, *self._advance(m))
        return m

    def _choose(self, m):
        m.submodules.context_arbiter = arbiter = ContextArbiter(self.cfg.rnn_contexts)
        for index, (kind, fetched, status) in enumerate(zip(self._kinds, self._fetched, self.status, strict=True)):
            unfinished = (status.launched - status.finished)[:COUNT_BITS]
            room, writes, waits, present = (Signal(name=f"{name}_{index}") for name in ("room", "writes", "waits", "present"))
            m.d.comb += [
                room.eq(~kind.limited | (unfinished < 2)), writes.eq(status.oldest & self.begun),
                waits.eq(((kind.wait == Wait.LAST) & (unfinished == 1)) | ((kind.wait == Wait.BEFORE) & (unfinished == 2))),
            ]
            with m.Switch(kind.wait):
                with m.Case(Wait.NONE):
                    m.d.comb += present.eq(1)
                with m.Case(Wait.INPUT):
                    m.d.comb += present.eq((status.rows != 0) | ~self.has_input[index])
                with m.Case(Wait.LAST):
                    m.d.comb += present.eq((unfinished == 0) | ((unfinished == 1) & writes))
                with m.Case(Wait.BEFORE):
                    m.d.comb += present.eq((unfinished <= 1) | writes)
            m.d.comb += [
                arbiter.ready[index].eq(fetched & room & present), arbiter.waits[index].eq(fetched & room & waits),
                arbiter.ends[index].eq(kind.last),
                arbiter.expected[index].eq(status.oldest),
            ]
        m.d.comb += [
            arbiter.eager.eq(self.drained & ~self.o.valid),
            arbiter.take.eq(~self._chosen & (~self.o.valid | self.o.ready)),
        ]
        m.d.sync += self._chosen.eq(arbiter.valid & arbiter.take & ~self.clear)
        for index, bit in enumerate(arbiter.choice):
            with m.If(bit & arbiter.take):
                m.d.sync += [self._context.eq(index), self._fetched[index].eq(0)]

    def _advance(self, m):
        """Converts the record of the granted pass to absolute positions and advances the state of its task."""
        cfg, context, chosen, task = self.cfg, self._context, self._chosen, self.i_task
        start, last, step_end = Signal(), Signal(), Signal()
        written = Mux(chosen, context, task.payload.context)
        memories = {}
        for name, layout, enable in (("head", stored(sweep_layout), None), ("record", context_layout(cfg), chosen | start),
                                     ("count", step_count_layout(cfg), step_end | start), ("place", context_place_layout(cfg), start)):
            memory = m.submodules[f"{name}s"] = Memory(shape=layout, depth=1 << context_bits(cfg), init=[], attrs=DISTRIBUTED)
            read, write = memory.read_port(domain="comb"), memory.write_port()
            m.d.comb += read.addr.eq(context)
            if enable is not None:
                m.d.comb += [write.addr.eq(written), write.en.eq(enable)]
            memories[name] = read.data, write
        (sweep, self._head_write), (record, record_write), (count, count_write), (place, place_write) = memories.values()
        new = record_write.data
        m.d.comb += [
            last.eq(sweep.last | (record.next + 1 == self.header.sweeps)), step_end.eq(chosen & last),
            task.ready.eq(~chosen), start.eq(task.valid & task.ready),
            self.o_job.valid.eq(chosen & sweep.launch),
            self.o_taken.valid.eq(chosen & sweep.release), self.o_taken.payload.context.eq(context),
            place_write.data.eq(task.payload.place), count_write.data.eq(task.payload.count), new.eq(task.payload.task),
        ]
        with m.If(chosen):
            m.d.comb += [
                new.eq(record), new.next.eq(Mux(last, place.first, record.next + 1)), new.odd.eq(record.odd ^ last),
                count_write.data.left.eq(count.left - 1), count_write.data.row.eq(count.row + place.pitch.as_signed()),
            ]
            if cfg.rnn_differences:
                m.d.comb += new.fresh.eq(record.fresh & ~last)
        self._position(m, sweep, record, place)
        job = self.o_job.payload
        m.d.comb += [
            job.context.eq(context), job.operation.eq(sweep.operation), job.operations.eq(sweep.operations), job.groups.eq(sweep.groups),
            job.pairs.eq(sweep.pairs), job.settled.eq(sweep.settled),
            job.elements.eq(place.elements), job.registers.eq(place.registers), job.row.eq(count.row),
            job.parity_registers.eq(Mux(record.odd, place.odd_registers, place.registers)),
        ]
        spent = step_end & (count.left == 1)
        self._end(m, start, spent, sweep.launch)
        fetch, next_sweep, fetch_context = Signal(), Signal.like(record.next, name="next_sweep", reset_less=True), Signal(self._number)
        m.d.sync += [fetch.eq((chosen & ~spent | start) & ~self.clear), next_sweep.eq(new.next), fetch_context.eq(written)]
        return next_sweep, fetch, fetch_context

    def _position(self, m, sweep, record, place):
        """The granted pass with absolute positions in vector memory and product register file."""
        cfg, context, o = self.cfg, self._context, self.o.payload
        status = Array(self.status)[context]
        product = Signal(PRODUCT_ADDRESS_BITS)
        m.d.comb += product.eq(sweep.product + Mux(sweep.parity & record.odd, place.odd_registers, place.registers))
        biased, before = sweep.start == Start.BIAS, product     # initial sums: the biases, or the accumulators
        if cfg.rnn_differences:
            biased = biased | ((sweep.start == Start.PERSIST) & record.fresh)
            odd = (sweep.start == Start.PERSIST) ^ record.odd
            before = (sweep.product + Mux(sweep.parity & odd, place.odd_registers, place.registers))[:PRODUCT_ADDRESS_BITS]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(self._chosen):
            m.d.sync += [
                self.o.valid.eq(1), o.context.eq(context), o.waits.eq((sweep.wait == Wait.LAST) | (sweep.wait == Wait.BEFORE)),
                o.job.eq(status.launched - Mux(sweep.wait == Wait.BEFORE, 2, 1)),
                o.element.eq(sweep.element + Mux(sweep.input & record.odd, place.odd_input, place.elements)),
                o.columns.eq(sweep.columns), o.weight.eq(sweep.weight), o.blocks.eq(sweep.blocks), o.cat.eq(sweep.cat),
                o.skip.eq(sweep.skip),
                o.release.eq(sweep.release), o.launch.eq(sweep.launch), o.zero.eq(sweep.start == Start.ZERO),
                o.product.eq(product), o.begins.eq(sweep.start != Start.CONTINUE), o.source.eq(Mux(biased, sweep.bias, before)),
            ]
            if cfg.rnn_differences:
                m.d.sync += [
                    o.fresh.eq(record.fresh), o.difference.eq(sweep.difference), o.held.eq(sweep.held),
                    o.sent.eq(place.elements + sweep.sent),
                ]

    def _fetch(self, m, next_sweep, fetch, fetch_context):
        """Prefetches the record of a context whose state was written in the previous cycle."""
        arrived, arrived_context, sweep = Signal(), Signal(self._number), self.sweeps.record
        m.d.comb += [
            self.sweeps.address.eq(next_sweep),
            self._head_write.addr.eq(arrived_context), self._head_write.data.eq(sweep), self._head_write.en.eq(arrived),
        ]
        m.d.sync += [arrived.eq(fetch & ~self.clear), arrived_context.eq(fetch_context)]
        for index, (kind, fetched) in enumerate(zip(self._kinds, self._fetched, strict=True)):
            with m.If(arrived & (arrived_context == index)):
                m.d.sync += [
                    fetched.eq(1), kind.wait.eq(sweep.wait), kind.last.eq(sweep.last),
                    kind.limited.eq((sweep.start != Start.CONTINUE) | sweep.launch),
                ]
            with m.If(self.clear):
                m.d.sync += fetched.eq(0)

    def _end(self, m, start, spent, launched):
        """A context is free when its last pass was granted and its jobs are finished; without a job in that pass, when the column
        reader is idle.
        """
        for index, (running, status) in enumerate(zip(self.running, self.status, strict=True)):
            over, jobs = Signal(name=f"over_{index}"), Signal(name=f"jobs_{index}")
            with m.If(spent & (self._context == index)):
                m.d.sync += [over.eq(1), jobs.eq(launched)]
            with m.If(over & (status.launched == status.finished) & (jobs | (self.drained & ~self.o.valid & ~self._chosen))):
                m.d.sync += [over.eq(0), running.eq(0)]
            with m.If(start & (self.i_task.payload.context == index)):
                m.d.sync += running.eq(1)
            with m.If(self.clear):
                m.d.sync += [over.eq(0), running.eq(0)]
