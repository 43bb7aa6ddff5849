"""Sparse engine: multiplies sparse matrices with dense ones on the PE array."""

from typing import NamedTuple

from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.control import EventPort
from ..interfaces.datapath import EngineStepPort, SamplePort, SparseReadPort
from ..interfaces.front_end import SPARSE_JOBS, SparsePort, sparse_start_layout
from ..interfaces.layouts import ErrorStream, SharedReadPort, SharedWritePort
from ..isa.counter_table import SPARSE_EVENTS
from ..lib.stream import Queue, link
from ..parameters.sparse import SparseParameters
from .job_fetch import JobFetch
from .layouts import Client, SparseRegisterPort, item_layout
from .left_rows import LeftRows
from .nonzero_reader import NonzeroReader
from .panel_loader import PanelLoader
from .result_writer import ResultWriter
from .row_drain import RowDrain
from .row_pointers import RowPointers
from .sample_collector import SampleCollector
from .step_sequencer import StepSequencer
from .sum_scaler import SumScaler
from .word_reads import WordReads

__all__ = ["SparseEngine"]

ITEMS_AHEAD = 8         # rows whose pointers are read ahead of their steps


class _Units(NamedTuple):
    """Parts of the sparse engine."""

    reads: WordReads
    starts: Queue
    jobs: JobFetch
    pointers: RowPointers
    items: Queue
    elements: NonzeroReader
    steps: StepSequencer
    loader: PanelLoader
    left: LeftRows
    drain: RowDrain
    scaler: SumScaler
    samples: SampleCollector
    writer: ResultWriter


class SparseEngine(Component):
    """Sparse engine: multiplies rows of a sparse matrix, in compressed rows, with a panel of a dense matrix that the PEs hold [S4].

    Jobs lie in shared memory (``heddle.isa.sparse_job``). A job loads rows of the dense matrix into the panel, or multiplies rows of the
    sparse matrix. Their sums, or bytes made of them, go to shared memory. While ``busy`` the PEs and their register port belong to the
    engine. The accumulators 0 to 15 of all taps, registers 0 to 15, are undefined after a job.

    Jobs are pipelined: fields, pointers and non-zeros of the next job are read while the rows of the job before have their steps.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    run : In(SparsePort())
        Jobs, and how many of them are not done. They are done in order.
    stop : In(1)
        Ends all jobs. Rows whose last step is done are stored.
    bank_read : Out(SharedReadPort(cfg))
        Read port of shared memory; a request has one bank or two.
    bank_write : Out(SharedWritePort(cfg))
        Write port of shared memory; a request has all banks.
    pe : Out(EngineStepPort(cfg))
        Steps of the PEs and their elements.
    reads : Out(SparseReadPort(cfg))
        Factor words of the steps.
    samples : Out(SamplePort(cfg))
        Steps of sampled products, writes of the rows of A, and sums over all PEs.
    registers : Out(SparseRegisterPort(cfg))
        Reads of sums and writes of the panel.
    busy : Out(1)
        A job was taken and is not done.
    o_error : Out(ErrorStream())
        Errors; registered.
    events : Out(EventPort(SPARSE_EVENTS))
        ``sparse_steps``; of these ``sparse_halves`` with one non-zero where a step has room for two, steps of empty rows not counted;
        ``sparse_loads``: cycles with a write of the panel; ``sparse_waits``: cycles of ``busy`` with neither.

    *Latency*: at the least latency of the memory 20 cycles from ``run.job`` to the first step; from the last step of a row
    ``engine_sum_latency`` + ``register_read_latency`` + 4 cycles to the end of its first write.

    *Throughput*: a row of n non-zeros takes the larger of n / ``sparse_pairs``, rounded up, and ``thread_groups`` cycles; of sub-warps a
    row each in this time, and values of 16 bits at least a cycle for four non-zeros. A panel takes 32 bytes a cycle.

    *Back-pressure*: PEs and registers never stall. Requests to shared memory wait as long as it pleases. ``run.job.ready`` comes from
    registers and ``stop``.

    *Reset*: no job is started. The register files keep their values.

    *Errors*: an error ends all jobs, as ``stop`` does; it is reported once, with the instruction of its job. It is the error of the first
    row in order that has one: rows before it are stored, this row and later ones are not. Codes and operands are those of
    ``JobFetch``, ``RowPointers`` and ``StepSequencer``. Of a panel with an error no row is loaded.

    *Source*: [S4.1-S4.6].
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        super().__init__({
            "run": In(SparsePort()), "stop": In(1), "bank_read": Out(SharedReadPort(cfg)), "bank_write": Out(SharedWritePort(cfg)),
            "pe": Out(EngineStepPort(cfg)), "reads": Out(SparseReadPort(cfg)), "samples": Out(SamplePort(cfg)),
            "registers": Out(SparseRegisterPort(cfg)), "busy": Out(1), "o_error": Out(ErrorStream()),
            "events": Out(EventPort(SPARSE_EVENTS)),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, ends = self.cfg, Signal()      # ``ends``: all jobs end, granted work completes
        units = _Units(
            WordReads(cfg), Queue(sparse_start_layout, SPARSE_JOBS, registered=False), JobFetch(cfg), RowPointers(cfg),
            Queue(item_layout, ITEMS_AHEAD), NonzeroReader(cfg), StepSequencer(cfg), PanelLoader(cfg), LeftRows(cfg, ITEMS_AHEAD),
            RowDrain(cfg), SumScaler(cfg), SampleCollector(cfg), ResultWriter(cfg))
        for name in ("reads", "drain", "scaler", "samples", "writer"):
            m.submodules[name] = getattr(units, name)
        for name in ("starts", "jobs", "pointers", "items", "elements", "steps", "loader", "left"):
            m.submodules[name] = ResetInserter(ends)(getattr(units, name))
        for source, sink in ((units.starts.o, units.jobs.i), (units.jobs.o, units.pointers.i), (units.pointers.o, units.items.i),
                             (units.pointers.o_extent, units.elements.i), (units.items.o, units.steps.i),
                             (units.elements.o, units.steps.i_vector), (units.steps.o_row, units.drain.i), (units.drain.o, units.scaler.i),
                             (units.scaler.o, units.writer.i), (units.scaler.o_piece, units.writer.i_piece),
                             (units.pointers.o_left, units.left.i), (units.steps.o_sample, units.samples.i),
                             (units.samples.o, units.writer.i_word)):
            link(m, source, sink)
        connect(m, units.steps.panel, units.left.panel)
        connect(m, units.left.load, units.loader.panel)
        for inner, outer in ((units.reads.bank, self.bank_read), (units.writer.bank, self.bank_write), (units.steps.pe, self.pe),
                             (units.steps.reads, self.reads), (units.steps.o_error, self.o_error)):
            connect(m, inner, flipped(outer))
        m.d.comb += [
            units.steps.place.eq(units.elements.place), units.steps.drained.eq(units.drain.drained), units.reads.hold.eq(ends),
        ]
        self._samples(m, units, ends)
        self._reads(m, units)
        self._registers(m, units)
        self._run(m, units, ends)
        return m

    def _samples(self, m, units, ends):
        """Sampled products: rows of A, steps and sums."""
        steps, left, samples, port = units.steps, units.left, units.samples, self.samples
        m.d.comb += [
            steps.left.eq(left.present), steps.half.eq(left.half), steps.odd.eq(left.odd),
            left.release.eq(steps.release), steps.released.eq(units.writer.released),
            steps.rows_busy.eq(units.drain.busy | units.scaler.busy), steps.samples_busy.eq(samples.busy),
            samples.total.eq(port.total), samples.flush.eq(ends),
            *(getattr(port, name).eq(getattr(steps.samples, name)) for name in ("active", "word", "unsigned", "unsigned_operand")),
            port.write.eq(units.loader.write_operand), port.write_word.eq(units.loader.write_word),
        ]

    def _reads(self, m, units):
        """Requests of the parts to shared memory, and their answers."""
        reads, jobs, pointers, elements, loader = units.reads, units.jobs, units.pointers, units.elements, units.loader
        answer = reads.answer
        for client, request in ((Client.JOBS, jobs.request), (Client.POINTERS, pointers.request), (Client.VALUES, elements.value_request),
                                (Client.INDICES, elements.index_request), (Client.PANEL, loader.request)):
            link(m, request, reads.request[client.value])
        for client, part in ((Client.JOBS, jobs), (Client.POINTERS, pointers)):
            m.d.comb += [part.answered.eq(answer.answered[client.value]), part.word.eq(answer.word)]
        for part in (elements, loader):
            connect(m, answer, part.answer)

    def _registers(self, m, units):
        """Reads of sums, and writes of the panel: a factor word is written in the part of ``write_parts``. Scales go to their unit."""
        port, sums, loader, scaler = self.registers, units.drain.sums, units.loader, units.scaler
        m.d.comb += [
            port.read.eq(sums.read), port.read_taps.eq(sums.read), port.read_number.eq(sums.number), port.read_group.eq(sums.group),
            port.write_factor.eq(loader.write), port.write_word.eq(loader.write_word), port.write_parts.eq(loader.write_parts),
            port.write_lanes.eq(loader.write_lanes), scaler.write.eq(loader.write_scale), scaler.write_row.eq(loader.scale_row),
            scaler.write_lanes.eq(loader.write_lanes), *(inner.eq(word) for inner, word in zip(scaler.data, loader.data, strict=True)),
        ]
        for inner, outer in zip(sums.sums, port.read_sums, strict=True):
            m.d.comb += [value.eq(read) for value, read in zip(inner, outer, strict=True)]
        m.d.comb += [word.eq(value.replicate(self.cfg.numbers_per_word)) for word, value in zip(port.return_data, loader.data, strict=True)]

    def _run(self, m, units, ends):
        """Jobs that are not done, the end of all of them, and events."""
        run, starts, steps, loader = self.run, units.starts, units.steps, units.loader
        left, taken, over = run.left, Signal(), Signal()
        step = self.pe.step.step
        m.d.comb += [
            run.job.ready.eq((left != SPARSE_JOBS) & ~ends & ~self.stop), taken.eq(run.job.valid & run.job.ready),
            starts.i.valid.eq(taken), starts.i.payload.eq(run.job.payload),
            over.eq(ends & units.reads.idle & ~units.drain.busy & ~units.scaler.busy & ~units.samples.busy & ~units.writer.busy & ~step),
            self.busy.eq(left != 0),
            self.events.sparse_steps.eq(step), self.events.sparse_halves.eq(steps.halves), self.events.sparse_loads.eq(loader.write),
            self.events.sparse_waits.eq(self.busy & ~step & ~loader.write),
        ]
        m.d.sync += left.eq(left + taken - units.writer.done)
        with m.If(self.busy & (self.stop | self.o_error.valid)):
            m.d.sync += ends.eq(1)
        with m.If(over):
            m.d.sync += [left.eq(0), ends.eq(0)]
        return m
