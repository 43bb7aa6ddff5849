"""Thread unit."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.control import EventPort
from ..interfaces.front_end import ThreadMaskPort
from ..interfaces.layouts import (
    ErrorStream,
    GlobalPort,
    OffsetWritePort,
    RegisterPort,
    SharedReadPort,
    SharedWritePort,
    thread_operation_layout,
)
from ..isa.counter_table import THREAD_EVENTS
from ..lib.members import connect_members
from ..lib.stream import link
from ..parameters.thread import ThreadParameters
from .execute import EXECUTE_EVENTS, Execute
from .offset_fetch import OffsetFetch
from .operand_fetch import OperandFetch
from .write_back import WriteBack

__all__ = ["ThreadUnit"]


class ThreadUnit(Component):
    """Thread unit: executes integer functions, comparisons, loads and stores of all threads, in order [S0.17, S0.9, S2.3, S4.5].

    Stages: operand fetch (``OperandFetch``), execution in the SIMD lanes (``Execute``), write-back (``WriteBack``). An operation goes from
    stage to stage as a payload; its operands and results stay in queues and buffers of the SIMD lanes. With ``thread_overlap`` (four SIMD
    lanes or more) the stages of consecutive operations overlap. SIMD lane j serves thread g * ``slots`` + j of group g. ``slots`` is
    ``min(thread_slots, threads)``.

    Parameters
    ----------
    cfg : ThreadParameters

    *Ports*:
    i_operation : In(stream.Signature(thread_operation_layout(cfg)))
        Operations; ``thread_queue`` of them are queued. Their register numbers must exist and be aligned.
    registers : Out(RegisterPort(cfg))
        Register files of the PEs. A write must be visible to reads granted in later cycles.
    bank_read : Out(SharedReadPort(cfg))
        Reads of shared memory.
    bank_write : Out(SharedWritePort(cfg))
        Writes of shared memory.
    global_port : Out(GlobalPort(cfg, cfg.tag_bits))
        Global memory.
    offset_write : In(OffsetWritePort(cfg))
        With ``gather_offsets``: writes of the compiled-offset memory of the threads; none while a gather is queued or in flight.
    masks : Out(ThreadMaskPort(threads))
        Predicates and lane mask of the threads.
    start : In(1)
        Clears the predicates and sets the lane mask to ones; only while no operation is in flight.
    stop : In(1)
        While high, operations that have not entered the SIMD lanes are discarded, each with its ``done``.
    o_error : Out(ErrorStream())
        Errors; registered.
    done : Out(1)
        The oldest operation has completed, one a cycle at most: its registers are written for reads granted from the next cycle on.
    busy : Out(1)
        Operations are pending or in flight.
    writes_pending : Out(1)
        Stores to global memory are not acknowledged.
    events : Out(EventPort(THREAD_EVENTS))
        Events of the cycle before. ``register_stalls``: a read or a write of the register files was refused. ``thread_bank_conflicts``:
        threads waited for a bank (``SharedLsu``). ``multiply_stalls``: a micro-operation waited for a multiplier. ``thread_shared_cycles``:
        a request to shared memory was at a port.

    *Latency* and *Throughput*: docs/units/thread.md has a table of the cycles of each operation. A function of a register and a uniform
    value takes G + 5 cycles for G groups, with ``thread_overlap`` G + 2.

    *Back-pressure*: ``i_operation.ready`` comes from a register. Refused register reads and writes, refused banks, global memory and
    write-back each hold the stage that waits for them.

    *Reset*: no operation is pending or in flight; predicates and lane mask as after ``start``.

    *Errors*: OFFSET_RANGE, MISALIGNED, OUT_OF_RANGE and AXI_READ, once for each operation, of the lowest thread; the operation then writes
    no register. AXI_WRITE once for each failing store of a thread. The unit goes on with the next operation.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        self.slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "i_operation": In(stream.Signature(thread_operation_layout(cfg))),
            "registers": Out(RegisterPort(cfg)),
            "bank_read": Out(SharedReadPort(cfg)),
            "bank_write": Out(SharedWritePort(cfg)),
            "global_port": Out(GlobalPort(cfg, cfg.tag_bits)),
            **({"offset_write": In(OffsetWritePort(cfg))} if cfg.gather_offsets else {}),
            "masks": Out(ThreadMaskPort(cfg.threads)),
            "start": In(1),
            "stop": In(1),
            "o_error": Out(ErrorStream()),
            "done": Out(1),
            "busy": Out(1),
            "writes_pending": Out(1),
            "events": Out(EventPort(THREAD_EVENTS)),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, port = self.cfg, self.registers
        m.submodules.operand_fetch = fetch = OperandFetch(cfg)
        m.submodules.execute = execute = Execute(cfg)
        m.submodules.write_back = writer = WriteBack(cfg)
        link(m, flipped(self.i_operation), fetch.i)
        link(m, fetch.o, execute.i)
        link(m, execute.o, writer.i)
        if cfg.gather_offsets:
            self._offsets(m, fetch, execute)
        connect(m, fetch.queue, execute.queue)
        connect(m, fetch.entries, execute.entries)
        connect(m, execute.executing, fetch.executing)
        connect(m, writer.landing, execute.landing)
        connect(m, writer.read, execute.read)
        connect_members(m, flipped(self), execute, (
            "bank_read", "bank_write", "global_port", "o_error", "start", "stop", "masks", "writes_pending"))
        for part in (fetch.registers, writer.registers):
            connect_members(m, flipped(port), part, part.signature.members)
        for pending, reads in zip(writer.pending_writes, fetch.pending_writes, strict=True):
            connect(m, pending, reads)
        operands = [(execute.operand, port.read_data), *([(execute.operand_second, port.read_second)] if cfg.register_pairs else [])]
        for inner, outer in (*operands, (port.return_data, execute.result)):
            m.d.comb += [sink.eq(source) for sink, source in zip(inner, outer, strict=True)]
        m.d.comb += [
            fetch.factor_write.eq(writer.registers.write_factor), fetch.stop.eq(self.stop),
            self.busy.eq(fetch.busy | execute.busy | writer.busy | self.done),
        ]
        m.d.sync += [
            self.done.eq(writer.complete),
            self.events.register_stalls.eq(fetch.event_stalls | writer.event_stalls),
            self.events.thread_shared_cycles.eq(self.bank_read.request.valid | self.bank_write.request.valid),
            *(getattr(self.events, name).eq(getattr(execute.events, name)) for name in EXECUTE_EVENTS),
        ]
        return m

    def _offsets(self, m, fetch, execute):
        """Entries of the compiled-offset memory, beside the operands."""
        m.submodules.offset_fetch = offsets = OffsetFetch(self.cfg)
        connect(m, flipped(self.offset_write), offsets.write)
        connect(m, offsets.o, execute.offset)
        m.d.comb += [
            offsets.operation.eq(fetch.o.payload.operation), offsets.waits.eq(fetch.o.valid),
            offsets.enters.eq(fetch.o.valid & fetch.o.ready),
        ]
