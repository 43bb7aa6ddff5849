"""Matrix unit."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..datapath.pe_array import PEArray
from ..interfaces.control import EventPort
from ..interfaces.datapath import EngineStepPort, SamplePort, SparseReadPort
from ..interfaces.layouts import ErrorStream, OffsetWritePort, RegisterPort, SharedReadPort, matrix_operation_layout
from ..isa.compiled_offsets import OffsetEntry
from ..isa.counter_table import MATRIX_EVENTS
from ..lib.members import connect_members
from ..lib.stream import Queue, link
from ..parameters.matrix import MatrixParameters
from .b_fetch import BFetch

__all__ = ["MatrixUnit"]

PIPELINE_OPERATIONS = 32        # more operations than the stages behind the queue can hold
FILLS = 7                       # operations that load compiled offsets, under way at once


class MatrixUnit(Component):
    """Matrix unit: executes ``mm`` and holds the registers of all threads [S0.1-S0.7, S0.9, S0.11].

    For each active column n, ascending, and each k-slice s, in the order given, there is one step. In it every PE t of the lane mask adds a
    dot product to product register ``product + n``, modulo 2^32. Its factors are factor word ``factor_word + s`` and ``dot`` bytes of
    shared memory. With ``zero`` slice 0 replaces the register. Elements are signed or unsigned for each operand. Merges share rows and dot
    products among neighbouring PEs. With compiled offsets the addresses of B come from a list that all threads share. ``offsets`` loads
    this list [S2.2, S2.3].

    Parameters
    ----------
    cfg : MatrixParameters

    *Ports*:
    i_operation : In(stream.Signature(matrix_operation_layout(cfg)))
        Operations; ``matrix_queue`` of them are queued.
    registers : In(RegisterPort(cfg))
        Access of the thread unit to the registers of the PEs.
    bank : Out(SharedReadPort(cfg))
        Reads of B from shared memory.
    hold : In(1)
        From the next cycle on no word of B is read and no step begins.
    stop : In(1)
        While high, the operation in flight ends at one of its steps, and queued ones are discarded, each with its ``done``.
    o_error : Out(ErrorStream())
        Errors; registered.
    engine_active : In(1)
        With ``rnn``: the engine for recurrent networks owns the PEs; no ``mm`` is in flight.
    engine : In(EngineStepPort(cfg))
        With ``rnn``: steps of the engine, and elements for the PEs.
    sparse_reads : In(SparseReadPort(cfg))
        With ``sparse``: factor words of the steps of the sparse engine.
    samples : In(SamplePort(cfg))
        With ``sparse``: steps of sampled products, and their sums over all PEs.
    done : Out(1)
        An operation is over and its last sum is in the register file: a read granted in this cycle sees it.
    busy : Out(1)
        Operations are queued or in flight, from the cycle after acceptance to the cycle of the last ``done``.
    active : Out(1)
        An operation has left the queue and is not done.
    offset_write : Out(OffsetWritePort(cfg))
        With ``gather_offsets``: writes of the compiled-offset memory, for that of the threads; those of an operation precede its ``done``.
    events : Out(EventPort(MATRIX_EVENTS))
        ``matrix_steps``: a step enters the PEs. ``matrix_blocks`` of 16 bytes come from memory. Of the cycle before:
        ``matrix_bank_conflicts``: words waited for their banks; ``matrix_bubbles``: neither a step nor a word entered the PEs, between
        steps of operations that followed each other.

    *Latency*: an operation that finds the queue empty updates its first register ``queue latency + 16 + log2(dot)`` cycles after
    acceptance. With ``fetch_slots`` above 1 it takes three cycles more. The queue latency is 1 for ``matrix_queue`` 2, else 2.

    *Throughput*: one step a cycle, without a gap between operations of three and more steps that are queued in time. Steps of merges take
    the cycles that their words need.

    *Back-pressure*: ``i_operation.ready`` is low while ``matrix_queue`` operations are queued; it comes from a register. Banks that are
    not granted hold the fetch of B.

    *Reset*: the unit is empty; registers hold their values.

    *Errors*: PRODUCT_RANGE once for each operation, whose other columns are computed. MISALIGNED and OUT_OF_RANGE drop the rest of the
    operation.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MatrixParameters.of(cfg)
        super().__init__({
            "i_operation": In(stream.Signature(matrix_operation_layout(cfg))),
            "registers": In(RegisterPort(cfg)),
            "bank": Out(SharedReadPort(cfg)),
            "hold": In(1),
            "stop": In(1),
            "o_error": Out(ErrorStream()),
            "done": Out(1),
            "busy": Out(1),
            "active": Out(1),
            "events": Out(EventPort(MATRIX_EVENTS)),
            **({"offset_write": Out(OffsetWritePort(cfg))} if cfg.gather_offsets else {}),
            **({"engine_active": In(1), "engine": In(EngineStepPort(cfg))} if cfg.rnn else {}),
            **({"sparse_reads": In(SparseReadPort(cfg)), "samples": In(SamplePort(cfg))} if cfg.sparse else {}),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(matrix_operation_layout(self.cfg), self.cfg.matrix_queue)
        m.submodules.fetch = fetch = BFetch(self.cfg)
        m.submodules.lanes = lanes = PEArray(self.cfg)
        link(m, self.i_operation, queue.i)
        self._link(m, queue, fetch)
        connect(m, flipped(self.bank), fetch.bank)
        connect(m, flipped(self.o_error), fetch.o_error)
        connect(m, flipped(self.registers), lanes.registers)
        connect_members(m, flipped(self), fetch, ("stop", "hold"))
        connect(m, fetch.offset_read, lanes.offset_read)
        connect_members(m, fetch, lanes, ("offset_load", "step", "pause", "offset", "take", "word"))
        m.d.comb += self.done.eq(lanes.done)
        if self.cfg.rnn:
            self._engine(m, lanes)
        if self.cfg.gather_offsets:
            connect(m, fetch.offset_write, flipped(self.offset_write))
        self._state(m, queue)
        self._events(m, fetch)
        return m

    def _link(self, m, queue, fetch):
        """Operations to the fetch: those with compiled offsets wait until the entries of earlier ones are in their memory."""
        if not self.cfg.compiled_offsets:
            link(m, queue.o, fetch.i)
            return
        fills, waits = Signal(range(FILLS + 1)), Signal()
        operation = queue.o.payload
        m.d.comb += [
            waits.eq(Mux(operation.fill, fills == FILLS, (operation.compiled != OffsetEntry.NONE) & (fills != 0))),
            fetch.i.payload.eq(operation), fetch.i.valid.eq(queue.o.valid & ~waits), queue.o.ready.eq(fetch.i.ready & ~waits),
        ]
        begins = fetch.i.valid & fetch.i.ready & operation.fill
        m.d.sync += fills.eq(fills + begins - fetch.fill_end)

    def _engine(self, m, lanes):
        connect_members(m, flipped(self), lanes, ("engine_active", "engine", *["sparse_reads", "samples"] * self.cfg.sparse))

    def _state(self, m, queue):
        unfinished = Signal(range(self.cfg.matrix_queue + PIPELINE_OPERATIONS))
        accepted = self.i_operation.valid & self.i_operation.ready
        with m.If(accepted & ~self.done):
            m.d.sync += unfinished.eq(unfinished + 1)
        with m.If(self.done & ~accepted):
            m.d.sync += unfinished.eq(unfinished - 1)
        m.d.comb += [self.busy.eq(unfinished != 0), self.active.eq(unfinished != queue.level)]

    def _events(self, m, fetch):
        conflict = Signal.like(fetch.conflict)
        bubble = Signal()
        started = Signal()          # a step has entered the PEs since the fetch was last idle
        answer = self.bank.answer
        m.d.sync += [
            conflict.eq(fetch.conflict),
            bubble.eq(started & fetch.pending & ~fetch.step.step & ~fetch.arrival),
            started.eq(fetch.pending & (started | fetch.step.step)),
        ]
        m.d.comb += [
            self.events.matrix_steps.eq(fetch.step.step),
            self.events.matrix_blocks.eq(Mux(answer.valid, sum(answer.payload.bank), 0)),
            self.events.matrix_bank_conflicts.eq(conflict),
            self.events.matrix_bubbles.eq(bubble),
        ]
