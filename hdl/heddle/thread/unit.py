"""Thread unit."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.control import EventPort
from ..interfaces.front_end import ThreadMaskPort
from ..interfaces.layouts import (
    ErrorStream,
    GlobalPort,
    RegisterPort,
    SharedReadPort,
    SharedWritePort,
    ThreadKind,
    thread_operation_layout,
)
from ..isa.counter_table import THREAD_EVENTS
from ..isa.encoding import Access, AluFunction, Space
from ..isa.error_codes import ErrorCode
from ..lib.members import connect_members
from ..lib.onehot import select_one_hot
from ..lib.stream import link
from ..parameters.thread import ThreadParameters
from .lsu import Lsu, slot_step_layout
from .micro_ops import MicroOps
from .operand_fetch import OperandFetch
from .operand_sequencer import walk_kind, walk_kind_layout
from .predicates import Predicates
from .result_bus import ResultBus, ResultHazards, ResultRouting, destination_words
from .simd_lanes import SimdLanes
from .write_back import WriteBack

__all__ = ["ThreadUnit"]


class ThreadUnit(Component):
    """Thread unit: executes integer functions, comparisons, loads and stores of all threads, in order [S0.17, S0.9, S4.5].

    Stages: operand fetch; SIMD lanes, group of threads by group; write-back. With ``thread_overlap`` (four SIMD lanes or more) operand
    fetch of the next operation and write-back of the one before overlap with execution. SIMD lane j serves thread g * ``slots`` + j of
    group g. ``slots`` is ``min(thread_slots, threads)``.

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

    *Errors*: MISALIGNED, OUT_OF_RANGE and AXI_READ, once for each operation, of the lowest thread; the operation then writes no register.
    AXI_WRITE once for each failing store of a thread. The unit goes on with the next operation.
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
        cfg = self.cfg
        m.submodules.entrance = self._entrance = OperandFetch(cfg)
        m.submodules.predicate_file = self._predicates = Predicates(cfg)
        m.submodules.steps = self._steps = MicroOps(cfg)
        m.submodules.slot_array = self._array = SimdLanes(cfg)
        m.submodules.late = self._late = ResultBus(cfg)
        m.submodules.late_operation = self._late_operation = ResultHazards(cfg)
        m.submodules.returns = self._returns = ResultRouting(cfg)
        m.submodules.memory = self._memory = Lsu(cfg)
        m.submodules.writer = self._writer = WriteBack(cfg)
        link(m, flipped(self.i_operation), self._entrance.i)
        connect(m, self._memory.bank_read, flipped(self.bank_read))
        connect(m, self._memory.bank_write, flipped(self.bank_write))
        connect(m, self._memory.port, flipped(self.global_port))

        self._declare()
        self._kind(m)
        self._enter(m)
        self._connect_slots(m)
        self._step(m)
        self._compute(m)
        self._multiply(m)
        self._hold(m)
        self._access(m)
        self._results(m)
        self._leave(m)
        self._connect_registers(m)
        self._observe(m)
        return m

    def _declare(self):
        """Registers of the operation in the SIMD lanes, and of the micro-operation whose operands they hold."""
        cfg = self.cfg
        self._valid = Signal(name="slot_valid")
        self._operation = Signal(thread_operation_layout(self.cfg), name="slot_operation", reset_less=True)
        self._walk_kind = Signal(walk_kind_layout, name="slot_kind", reset_less=True)
        self._discarded = Signal(name="slot_discarded", reset_less=True)
        self._step_valid = Signal(name="step_valid")
        self._step_taken = Signal(name="step_taken")
        self._slot_step = Signal(slot_step_layout(cfg), name="slot_step", reset_less=True)
        self._step_words = Signal(4, name="step_words")         # words that take its result
        self._load_step = Signal(name="load_step")
        self._skip = Signal(name="skip")                        # operands are taken and not used
        self._words = Signal(4, name="words_written")           # of the four registers around the destination
        self._buffer = Signal(name="result_buffer")

    def _kind(self, m):
        """Kind of the operation in the SIMD lanes, decoded when it enters."""
        self._is = {kind: Signal(name=f"is_{kind.name.lower()}", reset_less=True) for kind in ThreadKind}
        self._computes, self._accesses = Signal(name="computes"), Signal(name="accesses")
        m.d.comb += [
            self._computes.eq(self._is[ThreadKind.ALU] | self._is[ThreadKind.TID]),
            self._accesses.eq(self._is[ThreadKind.LOAD] | self._is[ThreadKind.STORE]),
        ]

    def _enter(self, m):
        """An operation goes from operand fetch to the SIMD lanes; its guard is evaluated."""
        incoming, predicates = self._entrance.o, self._predicates
        operation, none = incoming.payload, Signal(name="no_steps")
        taken = self._taken = Signal(name="taken")
        leave = self._leaving = Signal(name="leaving")
        m.d.comb += [
            # Without overlap the next one enters a cycle later, so that ``leave`` does not reach the registers of its successor.
            incoming.ready.eq(~self._valid | (leave if self.cfg.thread_overlap else 0)),
            taken.eq(incoming.valid & incoming.ready),
            none.eq((operation.kind == ThreadKind.LANE_MASK) | (self.stop & (not self.cfg.thread_overlap))),
            predicates.start.eq(self.start),
            predicates.guard.eq(self._operation.guard), predicates.negate.eq(self._operation.guard_negate),
            predicates.write_lane_mask.eq(leave & self._is[ThreadKind.LANE_MASK] & ~self._discarded),
            self._steps.serial.eq(self._walk_kind.serial), self._steps.words.eq(self._walk_kind.words),
            self._steps.start.eq(taken), self._steps.none.eq(none),
            self._steps.cancel.eq(self._memory.fault.failing & (not self.cfg.thread_overlap)),
            self._entrance.slots_operation.eq(self._operation), self._entrance.slots_kind.eq(self._walk_kind),
            self._entrance.stop.eq(self.stop), self._entrance.cancel.eq(self._memory.fault.failing),
        ]
        if self.cfg.thread_overlap:
            m.d.comb += self._skip.eq(self._memory.fault.failed | self._discarded)
        with m.If(leave):
            m.d.sync += [self._valid.eq(0), self._buffer.eq(~self._buffer)]
        with m.If(taken):
            m.d.sync += [self._valid.eq(1), self._operation.eq(operation), self._discarded.eq(self.stop)]
            m.d.sync += [signal.eq(operation.kind == kind) for kind, signal in self._is.items()]
            m.d.sync += [self._walk_kind[name].eq(value) for name, value in walk_kind(self.cfg, operation).items()]

    def _connect_slots(self, m):
        port, array = self.registers, self._array
        m.d.comb += [
            array.operation.eq(self._operation), array.load.group.eq(self._steps.micro_op.group),
            array.keep_buffer.eq(self._late_operation.keep_buffer), array.leave.eq(self._leaving), array.buffer.eq(self._buffer),
        ]
        connect(m, self._entrance.queue, array.queue)
        connect(m, self._writer.read, array.read)
        m.d.comb += [inner.eq(outer) for inner, outer in zip(array.operand, port.read_data, strict=True)]
        if self.cfg.register_pairs:
            m.d.comb += [inner.eq(outer) for inner, outer in zip(array.operand_second, port.read_second, strict=True)]
        m.d.comb += [outer.eq(inner) for outer, inner in zip(port.return_data, array.o, strict=True)]

    def _step(self, m):
        """The operands of the next micro-operation enter the SIMD lanes when the last one was taken; ALU results wait for the operation
        before.
        """
        steps, kind, load, reader = self._steps, self._walk_kind, self._array.load, self._entrance
        advance, addresses, needed = Signal(name="advance"), Signal(name="new_address"), Signal(name="operands_needed")
        m.d.comb += [
            addresses.eq(kind.accesses & (steps.micro_op.slot == 0) & (steps.micro_op.word == 0)),
            needed.eq(kind.first | kind.second | addresses),
            advance.eq(self._valid & ~steps.done & ~self._memory.fault.failing & (~needed | reader.available)
                       & (~self._step_valid | self._step_taken) & (self._accesses | self._late_operation.may_compute)),
            reader.take.eq(advance & needed & (~kind.pairs | steps.micro_op.word[0])), steps.advance.eq(advance),
            self._load_step.eq(advance & ~self._skip),
            load.step.eq(self._load_step), load.address.eq(self._load_step & addresses), load.other.eq(kind.pairs & steps.micro_op.word[0]),
        ]
        with m.If(self._step_taken):
            m.d.sync += self._step_valid.eq(0)
        with m.If(self._load_step):
            active = self._predicates.active
            groups = [active[group * self.slots:(group + 1) * self.slots] for group in range(self.cfg.thread_groups)]
            m.d.sync += [
                self._step_valid.eq(1), self._slot_step.active.eq(select_one_hot(1 << steps.micro_op.group, groups)),
                *(self._slot_step[name].eq(getattr(steps.micro_op, name)) for name in ("group", "slot", "word", "last_word")),
            ]

    def _compute(self, m):
        """Results of comparisons go to the predicates; those of other functions go to the PEs in _results."""
        predicates, memory = self._predicates, self._memory
        # A cycle later, in which the operation leaves at the earliest: its successor evaluates its guard after that.
        m.d.sync += [
            predicates.write.eq(self._step_valid & self._is[ThreadKind.COMPARE]),
            predicates.write_predicate.eq(self._operation.dst),
            predicates.write_group.eq(self._slot_step.group),
            predicates.write_slots.eq(self._slot_step.active),
            predicates.write_value.eq(self._array.compare_result),
        ]
        m.d.comb += [
            self._step_taken.eq(Mux(self._accesses & ~memory.access.stopped, memory.access.taken, self._step_valid & self._late.i.ready)),
        ]

    def _multiply(self, m):
        """Connects the result bus: products and packed bytes, which are late results."""
        late, array, operation, step = self._late, self._array, self._operation, self._late.i.payload
        function = self._function = Signal(AluFunction, name="function")
        self._narrows = Signal(name="narrows")
        m.d.comb += [
            function.eq(Mux(self._is[ThreadKind.ALU], operation.function, AluFunction.MOV)),
            self._narrows.eq((function == AluFunction.NARROW) | (function == AluFunction.SCALE)),
            late.i.valid.eq(self._step_valid & self._computes),
            step.group.eq(self._slot_step.group), step.last_word.eq(self._slot_step.last_word),
            self._step_words.eq(Mux(operation.access == Access.V4, 1 << self._slot_step.word, 0b1111)), step.words.eq(self._step_words),
            step.buffer.eq(self._buffer), array.choose.eq(self._slot_step.active), array.narrows.eq(self._narrows),
        ]
        connect(m, self._late_operation.o, late.operation, array.late_operation)
        connect(m, array.multiplier_operands, late.operands)
        connect(m, late.use, array.late)

    def _hold(self, m):
        """Connects the result hazards with the operation in write-back."""
        kept, shared, late, operation = self._late_operation, self._memory.shared, self._late, self._operation
        of_writer = 1 << ~self._buffer      # consecutive operations have different halves of the result buffers, which number them
        m.d.comb += [
            kept.load.eq(self._load_step & ~self._accesses), kept.loads.eq(self._is[ThreadKind.LOAD]),
            kept.operation.function.eq(self._function), kept.operation.unsigned.eq(operation.unsigned),
            kept.operation.amount.eq(operation.c), kept.operation.scale.eq(self._function == AluFunction.SCALE),
            kept.leave.eq(self._leaving), kept.buffer.eq(self._buffer), kept.pending.eq(self._writer.pending),
            kept.requesting.eq((shared.waiting & of_writer).any()),
            kept.data_landing.eq((shared.in_flight & of_writer).any() | self._returns.pending),
            self._writer.landing.eq(kept.landing), self._array.load.keep_control.eq(kept.keep_control & self._accesses),
        ]
        connect(m, late.status, kept.late)

    def _last_step_taken(self):
        """With ``thread_overlap`` an operation leaves with its last micro-operation, unless its successor needs what that one computes, or
        memory may answer with an error.
        """
        stores = self._is[ThreadKind.STORE] & (self._operation.space == Space.SHARED)
        return ~self._step_valid | ((self._computes | stores) & self._step_taken)

    def _access(self, m):
        memory, writer = self._memory, self._writer
        m.d.comb += [
            memory.operation.eq(self._operation), memory.number.eq(self._buffer),
            memory.start.eq(self._taken), memory.leave.eq(self._leaving),
            memory.access.valid.eq(self._step_valid & self._accesses), memory.access.step.eq(self._slot_step),
            memory.hold.eq(writer.pending), memory.hold_loads.eq(self._late_operation.waiting_for_data), writer.i.same.eq(memory.same),
            memory.hold_errors.eq(memory.fault.failing | (self._valid & (memory.fault.failed | memory.fault.error))),
        ]
        connect(m, self._array.access, memory.lanes)

    def _results(self, m):
        """Data from the banks, from global memory and from the ALU go to the result buffers."""
        memory, array, late, returns = self._memory, self._array, self._late, self._returns
        m.d.comb += [
            returns.i.valid.eq(self._step_valid & self._computes & ~late.takes),
            returns.i.payload.group.eq(self._slot_step.group), returns.i.payload.words.eq(self._step_words),
            returns.i.payload.buffer.eq(self._buffer),
        ]
        m.d.comb += [inner.eq(bank) for inner, bank in zip(array.banks, self.bank_read.answer.payload.data, strict=True)]
        connect(m, memory.arrived, returns.arrived)
        connect(m, late.o, returns.late)
        connect(m, returns.o, array.store)
        connect(m, memory.load_data, array.load_data)

    def _leave(self, m):
        """After the last group the operation goes to write-back, with its error."""
        operation, results, memory, fault = self._operation, self._writer.i, self._memory, self._memory.fault
        selects, writes = self._function == AluFunction.SEL, Signal(name="writes_registers")
        m.d.comb += [
            self._words.eq(Mux(writes, destination_words(operation, self._narrows), 0)),
            writes.eq(self._computes | self._is[ThreadKind.LOAD]),
            self._leaving.eq(self._valid & self._steps.done & ~memory.occupied & results.ready
                             & (self._last_step_taken() if self.cfg.thread_overlap else
                                ~self._step_valid & ~self._late.status.busy & ~self._entrance.arriving)),
            results.take.eq(self._leaving), results.buffer.eq(self._buffer), results.register.eq(operation.dst), results.lanes.eq(
                self._predicates.active | selects.replicate(self.cfg.threads)),
            results.words.eq(Mux(fault.failed | fault.error | self._discarded, 0, self._words)),
        ]
        report, write_error = self.o_error.payload, memory.o_write_error
        leaves_with_error = self._leaving & (operation.space == Space.GLOBAL) & (fault.failed | fault.error)
        m.d.sync += self.o_error.valid.eq(leaves_with_error | fault.report | write_error.valid)
        with m.If(write_error.valid):
            m.d.sync += [report.code.eq(ErrorCode.AXI_WRITE), report.pc.eq(write_error.payload.pc),
                         report.operand.eq(write_error.payload.address)]
        with m.Else():
            m.d.sync += [report.code.eq(fault.code), report.pc.eq(fault.pc), report.operand.eq(fault.operand)]

    def _connect_registers(self, m):
        port, reader, writer = flipped(self.registers), self._entrance, self._writer
        for part in (reader.registers, writer.registers):
            connect_members(m, port, part, part.signature.members)
        m.d.comb += reader.factor_write.eq(writer.registers.write_factor)
        for pending, reads in zip(writer.pending_writes, reader.pending_writes):
            connect(m, pending, reads)
        if self.cfg.thread_overlap:
            last = reader.pending_writes[-1]
            m.d.comb += [last.words.eq(Mux(self._valid, self._words, 0)), last.register.eq(self._operation.dst)]

    def _observe(self, m):
        m.d.sync += [
            self.done.eq(self._writer.complete),
            self.events.register_stalls.eq(self._entrance.event_stalls | self._writer.event_stalls),
            self.events.thread_bank_conflicts.eq(self._memory.event_conflicts),
            self.events.multiply_stalls.eq(self._late.event_stalls),
            self.events.thread_shared_cycles.eq(self.bank_read.request.valid | self.bank_write.request.valid),
        ]
        m.d.comb += [
            self.busy.eq(self._entrance.busy | self._valid | self._writer.busy | self.done),
            self.writes_pending.eq(self._memory.writes_pending),
            self.masks.lanes.eq(self._predicates.lane_mask),
        ]
        connect_members(m, flipped(self.masks), self._predicates, ("predicates",))
