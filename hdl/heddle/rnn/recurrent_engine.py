"""Recurrent engine: executes images of recurrent layers on the PE array."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.control import EventPort
from ..interfaces.datapath import EngineStepPort
from ..interfaces.front_end import RecurrentPort
from ..interfaces.layouts import SharedReadPort, SharedWritePort
from ..isa.counter_table import RNN_EVENTS
from ..isa.error_codes import ErrorCode
from ..lib.members import connect_members
from ..lib.stream import link
from ..parameters.rnn import RnnParameters
from .activation_queue import ActivationQueue
from .column_reader import ColumnReader
from .dependency_scoreboard import DependencyScoreboard
from .image_loader import Fault, ImageLoader
from .layouts import operation_layout, stored, sweep_layout
from .output_writer import OutputWriter
from .row_sequencer import RowSequencer
from .scheduler import Scheduler
from .tail import ISSUE_LATENCY, SumReadPort, Tail
from .vector_memory import VectorMemory

__all__ = ["RecurrentEngine"]


class _Units(NamedTuple):
    """Units of the recurrent engine."""

    loader: ImageLoader
    vectors: VectorMemory
    progress: DependencyScoreboard
    scheduler: Scheduler
    columns: ColumnReader
    blocks: RowSequencer
    jobs: ActivationQueue
    tail: Tail
    writer: OutputWriter


class RecurrentEngine(Component):
    """Recurrent engine: runs LSTM, GRU, plain recurrent and dense layers on the PE array of a core, several tasks interleaved
    [S3.1-S3.6].

    An image in shared memory holds matrix-vector passes, tail operations and tasks. While ``run.busy`` the PEs and the register reads of
    threads belong to the engine. docs/units/rnn.md describes records, arithmetic and timing.

    *Ports*:
    run : In(RecurrentPort())
        Runs: start, allowed only while not busy, of the image at an address in shared memory, a multiple of 16. The end of ``run.busy``
        means that all tasks are done, all writes are acknowledged and no read is on its way. ``run.error.failed`` is high for one
        cycle, the first one without ``busy``.
    stop : In(1)
        Ends the run; granted passes and their jobs complete, also the words that are requested.
    bank_read : Out(SharedReadPort(cfg))
        Read port of shared memory.
    bank_write : Out(SharedWritePort(cfg))
        Write port of shared memory.
    pe : Out(EngineStepPort(cfg))
        Steps of the PEs and elements of the columns.
    sums : Out(SumReadPort(cfg))
        Read port of the sums in the PEs.
    events : Out(EventPort(RNN_EVENTS))
        Events for the performance counters: steps that enter the PEs, cycles of ``run.busy`` without a step, zero columns that are skipped.

    *Latency*: ``run.busy`` rises one cycle after ``run.start``.

    *Throughput*: one step of the PEs a cycle while a context is ready.

    *Back-pressure*: PEs and register reads never stall. Requests to shared memory wait as long as it pleases.

    *Reset*: no image runs. The tables, vector memory and reference vectors have no reset.

    *Errors*: an error ends the run as ``stop`` does. OUT_OF_RANGE, with the byte address: a part of the
    image, a state, an input row or an output is outside of shared memory. OUT_OF_RANGE is also the error of a misaligned image.
    RECURRENT_IMAGE, with the address of the image: a count of its header is 0 or exceeds the engine. The same holds for the vectors of
    all contexts and for tap registers.

    *Source*: [S3.1-S3.6].
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
        super().__init__({
            "run": In(RecurrentPort()), "stop": In(1),
            "bank_read": Out(SharedReadPort(cfg)), "bank_write": Out(SharedWritePort(cfg)),
            "pe": Out(EngineStepPort(cfg)), "sums": Out(SumReadPort(cfg)),
            "events": Out(EventPort(RNN_EVENTS)),
        })

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        m.submodules.loader = loader = ImageLoader(cfg)
        m.submodules.vectors = vectors = VectorMemory(cfg)
        m.submodules.progress = progress = DependencyScoreboard(cfg)
        m.submodules.scheduler = scheduler = Scheduler(cfg)
        m.submodules.columns = columns = ColumnReader(cfg)
        m.submodules.blocks = blocks = RowSequencer(cfg)
        m.submodules.jobs = jobs = ActivationQueue(cfg, max(cfg.engine_sum_latency + 1 - ISSUE_LATENCY, 3))
        m.submodules.tail = tail = Tail(cfg)
        m.submodules.writer = writer = OutputWriter(cfg)
        connect(m, flipped(self.bank_read), loader.bank)
        connect(m, flipped(self.bank_write), writer.bank)
        connect(m, blocks.pe, flipped(self.pe))
        connect(m, tail.sums, flipped(self.sums))
        for source, sink in ((loader.o_task, scheduler.i_task), (scheduler.o, columns.i), (columns.o, blocks.i), (scheduler.o_job, jobs.i),
                             (jobs.o, tail.i), (tail.o_output, writer.i)):
            link(m, source, sink)
        for requester, port in ((columns.column, vectors.column), (tail.operand, vectors.operand), (tail.write, vectors.write),
                                (loader.load, vectors.load)):
            connect(m, requester, port)
        self._tables(m, loader, scheduler, tail)
        units = _Units(loader, vectors, progress, scheduler, columns, blocks, jobs, tail, writer)
        self._progress(m, units)
        m.d.comb += [
            blocks.sweep.eq(columns.sweep), scheduler.header.eq(loader.header), scheduler.has_input.eq(loader.has_input),
            loader.begin.eq(self.run.start), loader.address.eq(self.run.address), scheduler.drained.eq(~columns.busy),
            loader.hold.eq(tail.write_next), jobs.launch.eq(columns.ended & columns.sweep.launch),
            self.events.rnn_steps.eq(blocks.pe.step.step), self.events.rnn_waits.eq(self.run.busy & ~blocks.pe.step.step),
            self.events.rnn_skipped.eq(columns.event_skipped),
        ]
        self._run(m, units)
        return m

    def _tables(self, m, loader, scheduler, tail):
        records = loader.records
        for name, layout, write_enable, reader in (("sweeps", sweep_layout, records.write_sweep, scheduler.sweeps),
                                                   ("operations", operation_layout, records.write_operation, tail.operations)):
            kept = stored(layout)
            # A table of 32 records in distributed RAM would take as many LUTs as the scheduler.
            m.submodules[name] = memory = Memory(shape=kept, depth=self.cfg.rnn_records, init=[],
                                                 attrs={"no_rw_check": 1, "ram_style": "block"})
            read, write = memory.read_port(domain="comb"), memory.write_port()
            register = Signal(kept, name=f"{name}_output", reset_less=True)
            m.d.comb += [
                write.addr.eq(records.address), write.data.eq(records.data[:kept.size]), write.en.eq(write_enable),
                read.addr.eq(reader.address), Value.cast(reader.record).eq(register),
            ]
            m.d.sync += register.eq(read.data)

    def _progress(self, m, units):
        """Dependency scoreboard: what the units report to it, and what they wait for."""
        loader, _, progress, scheduler, columns, _, _, tail, _ = units
        for unit in (scheduler, columns):
            connect_members(m, progress, unit, ("status",))
        for source, sink in ((tail.o_wrote, progress.i_wrote), (loader.o_reserved, progress.i_reserved),
                             (loader.o_loaded, progress.i_loaded), (scheduler.o_taken, progress.i_taken)):
            link(m, source, sink)
        launch, released, started = progress.i_launch, progress.i_released, progress.i_started
        job = scheduler.o_job.payload
        m.d.comb += [
            launch.valid.eq(scheduler.o_job.valid), launch.payload.context.eq(job.context), launch.payload.pairs.eq(job.pairs),
            released.valid.eq(columns.ended & columns.sweep.release), released.payload.context.eq(columns.sweep.context),
            started.valid.eq(loader.o_task.valid & loader.o_task.ready), started.payload.context.eq(loader.o_task.payload.context),
            scheduler.begun.eq(progress.written >= self.cfg.dot), columns.written.eq(progress.written),
            loader.free.eq(progress.free), loader.running.eq(scheduler.running),
        ]

    def _run(self, m, units):
        """End of a run: all tasks are done, or after an error or ``stop`` all granted work is complete. Writes are acknowledged."""
        loader, _, progress, scheduler, columns, blocks, jobs, tail, writer = units
        halted, failed, ended, fault, quiet = (Signal(name=name) for name in ("halted", "failed", "ended", "fault", "quiet"))
        m.d.comb += [
            quiet.eq(~(scheduler.o.valid | columns.busy | blocks.pe.step.step | jobs.busy | tail.busy | writer.i.valid | writer.busy
                       | loader.busy)),
            fault.eq((loader.fault != Fault.NONE) | writer.fault),
            ended.eq(self.run.busy & quiet & (halted | loader.over)),
            progress.clear.eq(ended), scheduler.clear.eq(ended | halted | fault),
            loader.stop.eq(ended | halted), writer.stop.eq(ended | halted),
        ]
        with m.If(self.run.busy & (self.stop | fault)):
            m.d.sync += halted.eq(1)
        with m.If(self.run.busy & fault & ~halted):
            m.d.sync += [
                failed.eq(1), self.run.error.code.eq(Mux(loader.fault == Fault.HEADER, ErrorCode.RECURRENT_IMAGE, ErrorCode.OUT_OF_RANGE)),
                self.run.error.of_image.eq((loader.fault == Fault.HEADER) | (loader.fault == Fault.ADDRESS)),
                self.run.error.operand.eq(Mux(loader.fault == Fault.NONE, writer.fault_value, loader.fault_value)),
            ]
        with m.If(self.run.start):
            m.d.sync += self.run.busy.eq(1)
        m.d.sync += self.run.error.failed.eq(ended & failed)
        with m.If(ended):
            m.d.sync += [self.run.busy.eq(0), halted.eq(0), failed.eq(0)]
        return m
