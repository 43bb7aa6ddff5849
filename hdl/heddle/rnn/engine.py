"""Recurrent engine: executes images of recurrent layers on the PE array."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.front_end import recurrent_error_layout
from ..interfaces.layouts import BankReadPort, BankWritePort
from ..isa.counter_table import most_in_a_cycle
from ..isa.error_codes import ErrorCode
from ..lib.members import connect_members
from ..lib.stream import link
from ..parameters.rnn import RnnParameters
from .activation_queue import ActivationQueue
from .column_reader import ColumnReader
from .dependency_scoreboard import DependencyScoreboard
from .image_loader import Fault, ImageLoader
from .layouts import engine_step_layout, operation_layout, stored, sweep_layout
from .output_writer import OutputWriter
from .row_sequencer import RowSequencer
from .scheduler import Scheduler
from .tail import ISSUE_LATENCY, Tail
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

    An image in shared memory holds matrix-vector passes, tail operations and tasks. While ``busy`` the PEs and the register reads of
    threads belong to the engine. docs/units/rnn.md describes records, arithmetic and timing.

    *Ports*:
    start : In(1)
        Starts an image; allowed only while not ``busy``.
    address : In(32)
        With ``start``: byte address of the image in shared memory, a multiple of 16.
    stop : In(1)
        Ends the run; granted passes and their jobs complete.
    busy : Out(1)
        An image runs. The end of ``busy`` means that all tasks are done and all outputs are in shared memory.
    bank_read : Out(BankReadPort(cfg))
        Read port of shared memory.
    bank_write : Out(BankWritePort(cfg))
        Write port of shared memory.
    step : Out(engine_step_layout(cfg))
        Step of the PEs.
    word : Out(signed(engine_element_bits)).array(dot)
        Elements of the column group, one cycle after the first step of the column.
    take : Out(1)
        ``word`` holds a new column group.
    read : Out(1)
        Reads the sums of a lane group.
    read_register : Out(8)
        Product register, or accumulator of a CAT tap.
    read_group : Out(range(thread_groups))
        Lane group.
    read_tap : Out(2)
        CAT tap.
    read_data : In(32).array(tail_lanes)
        Sums, ``cfg.register_read_latency`` cycles after ``read``.
    error : Out(recurrent_error_layout)
        Error of the run; ``error.failed`` is high for one cycle, the first cycle without ``busy``.
    event_rnn_steps : Out(1)
        A step enters the PEs in this cycle.
    event_rnn_waits : Out(1)
        ``busy`` without a step in this cycle.
    event_rnn_skipped : Out(range(most_in_a_cycle("rnn_skipped") + 1))
        Number of zero columns that are skipped in this cycle.

    *Latency*: ``busy`` rises one cycle after ``start``.

    *Throughput*: one step of the PEs a cycle while a context is ready.

    *Back-pressure*: PEs and register reads never stall; banks of shared memory may withhold grants.

    *Reset*: no image runs. The tables, vector memory and reference vectors have no reset.

    *Errors*: an error ends the run after all granted passes and jobs complete. OUT_OF_RANGE, with the byte address: a part of the
    image, a state, an input row or an output is outside of shared memory. OUT_OF_RANGE is also the error of a misaligned image.
    RECURRENT_IMAGE, with the address of the image: a count of its header is 0 or exceeds the engine. The same holds for the vectors of
    all contexts and for tap registers.

    *Source*: [S3.1-S3.6].
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
        super().__init__({
            "start": In(1), "address": In(32), "stop": In(1), "busy": Out(1),
            "bank_read": Out(BankReadPort(cfg)), "bank_write": Out(BankWritePort(cfg)),
            "step": Out(engine_step_layout(cfg)), "word": Out(signed(cfg.engine_element_bits)).array(cfg.dot), "take": Out(1),
            "read": Out(1), "read_register": Out(8), "read_group": Out(range(cfg.thread_groups)), "read_tap": Out(2),
            "read_data": In(32).array(cfg.tail_lanes),
            "error": Out(recurrent_error_layout),
            "event_rnn_steps": Out(1), "event_rnn_waits": Out(1), "event_rnn_skipped": Out(range(most_in_a_cycle("rnn_skipped") + 1)),
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
        for source, sink in ((loader.o_task, scheduler.i_task), (scheduler.o, columns.i), (columns.o, blocks.i), (jobs.o, tail.i),
                             (tail.o_output, writer.i)):
            link(m, source, sink)
        self._tables(m, loader, scheduler, tail)
        self._vectors(m, vectors, loader, columns, tail)
        units = _Units(loader, vectors, progress, scheduler, columns, blocks, jobs, tail, writer)
        self._progress(m, units)
        connect_members(m, flipped(self), blocks, ("step", "take"))
        connect_members(m, flipped(self), tail, ("read", "read_register", "read_group", "read_tap"))
        m.d.comb += [
            blocks.sweep.eq(columns.sweep), jobs.job.eq(scheduler.job), jobs.coming.eq(scheduler.launch),
            scheduler.header.eq(loader.header), scheduler.has_input.eq(loader.has_input),
            loader.begin.eq(self.start), loader.address.eq(self.address), scheduler.drained.eq(~columns.busy),
            jobs.launch.eq(columns.ended & columns.sweep.launch),
            self.event_rnn_steps.eq(blocks.step.step), self.event_rnn_waits.eq(self.busy & ~blocks.step.step),
            self.event_rnn_skipped.eq(columns.event_skipped),
        ]
        connect_members(m, flipped(self), blocks, ("word",))
        connect_members(m, flipped(self), tail, ("read_data",))
        self._run(m, units)
        return m

    def _tables(self, m, loader, scheduler, tail):
        for name, layout, write_enable, address, output in (
                ("sweeps", sweep_layout, loader.sweep_write, scheduler.sweep_address, scheduler.sweep),
                ("operations", operation_layout, loader.operation_write, tail.operation_address, tail.operation)):
            kept = stored(layout)
            # A table of 32 records in distributed RAM would take as many LUTs as the scheduler.
            m.submodules[name] = memory = Memory(shape=kept, depth=self.cfg.rnn_records, init=[],
                                                 attrs={"no_rw_check": 1, "ram_style": "block"})
            read, write = memory.read_port(domain="comb"), memory.write_port()
            register = Signal(kept, name=f"{name}_output", reset_less=True)
            m.d.comb += [
                write.addr.eq(loader.table_address), write.data.eq(loader.table_data[:kept.size]), write.en.eq(write_enable),
                read.addr.eq(address), Value.cast(output).eq(register),
            ]
            m.d.sync += register.eq(read.data)

    def _vectors(self, m, vectors, loader, columns, tail):
        m.d.comb += [
            vectors.column_read.eq(columns.column_read), vectors.column_word.eq(columns.column_word),
            vectors.operand_group.eq(tail.operand_group), vectors.write.eq(tail.write), vectors.write_group.eq(tail.write_group),
            vectors.loaded_valid.eq(loader.loaded_valid), vectors.loaded_place.eq(loader.loaded_place), vectors.loaded.eq(loader.loaded),
            loader.loaded_wait.eq(tail.write_next),
        ]
        connect_members(m, vectors, columns, ("column",))
        connect_members(m, vectors, tail, ("operand", "write_data"))

    def _progress(self, m, units):
        """Dependency scoreboard: what the units report to it, and what they wait for."""
        loader, _, progress, scheduler, columns, _, _, tail, _ = units
        for unit in (scheduler, columns):
            connect_members(m, progress, unit, ("status",))
        passed = columns.ended & columns.sweep.release
        m.d.comb += [
            progress.launch.eq(scheduler.launch), progress.launch_context.eq(scheduler.event_context),
            progress.launch_pairs.eq(scheduler.job.pairs),
            progress.taken.eq(scheduler.taken), progress.taken_context.eq(scheduler.event_context),
            progress.wrote.eq(tail.wrote), progress.wrote_context.eq(tail.wrote_context), progress.finished.eq(tail.finished),
            progress.reserved.eq(loader.reserved), progress.reserved_context.eq(loader.reserved_context),
            progress.loaded.eq(loader.loaded_row), progress.loaded_context.eq(loader.row_context),
            progress.released.eq(passed), progress.released_context.eq(columns.sweep.context),
            progress.started.eq(loader.o_task.valid & loader.o_task.ready), progress.started_context.eq(loader.o_task.payload.context),
            scheduler.begun.eq(progress.written >= self.cfg.dot), columns.written.eq(progress.written),
            loader.free.eq(progress.free), loader.running.eq(scheduler.running),
        ]

    def _run(self, m, units):
        """End of a run: all tasks are done, or after an error or ``stop`` all granted work is complete."""
        loader, _, progress, scheduler, columns, blocks, jobs, tail, writer = units
        halted, failed, ended, fault, quiet = (Signal(name=name) for name in ("halted", "failed", "ended", "fault", "quiet"))
        m.d.comb += [
            quiet.eq(~(scheduler.o.valid | columns.busy | blocks.step.step | jobs.busy | tail.busy | writer.i.valid)),
            fault.eq((loader.fault != Fault.NONE) | writer.fault),
            ended.eq(self.busy & quiet & (halted | loader.over)),
            progress.clear.eq(ended), scheduler.clear.eq(ended | halted | fault),
            loader.stop.eq(ended | halted), writer.stop.eq(ended | halted),
        ]
        with m.If(self.busy & (self.stop | fault)):
            m.d.sync += halted.eq(1)
        with m.If(self.busy & fault & ~halted):
            m.d.sync += [
                failed.eq(1), self.error.code.eq(Mux(loader.fault == Fault.HEADER, ErrorCode.RECURRENT_IMAGE, ErrorCode.OUT_OF_RANGE)),
                self.error.of_image.eq((loader.fault == Fault.HEADER) | (loader.fault == Fault.ADDRESS)),
                self.error.operand.eq(Mux(loader.fault == Fault.NONE, writer.fault_value, loader.fault_value)),
            ]
        with m.If(self.start):
            m.d.sync += self.busy.eq(1)
        m.d.sync += self.error.failed.eq(ended & failed)
        with m.If(ended):
            m.d.sync += [self.busy.eq(0), halted.eq(0), failed.eq(0)]
        return m
