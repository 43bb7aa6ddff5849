"""The thread unit."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..constants import BANKS, PREDICATES
from ..interfaces.layouts import (
    BankReadPort,
    BankWritePort,
    ErrorStream,
    GlobalPort,
    RegisterPort,
    ThreadKind,
    thread_operation_layout,
)
from ..isa.encoding import Access, AluFunction
from ..isa.error_codes import ErrorCode
from ..lib.members import connect_members
from ..lib.onehot import select_one_hot
from ..lib.stream import link
from .lsu import Lsu, slot_step_layout
from .operand_fetch import OperandFetch
from .operand_sequencer import OperandSequencer, walk_kind, walk_kind_layout
from .predicates import Predicates
from .result_bus import ResultBus, ResultHazards, ResultRouting, destination_words
from .simd_lanes import SimdLanes
from .write_back import WriteBack

__all__ = ["ThreadUnit"]


class ThreadUnit(Component):
    """Executes thread operations in order: integer functions, comparisons, loads and stores of all threads [S0.17, S0.9, S4.5].

    An operation passes two stages: the slots, which read registers and execute group by group, and the result write. Latencies,
    throughput and errors are in docs/units/thread.md.

    Members
    -------
    i_operation
        Operations; ``cfg.thread_queue`` of them wait in the unit. Register numbers must exist and be aligned.
    registers, bank_read, bank_write, global_port
        To the lanes, shared memory and global memory. A register write must be visible to reads granted in later cycles.
    bank_ahead : In(BANKS)
        With ``cfg.banks_known_ahead``: banks of shared memory that grant nothing in the next cycle.
    predicates, lane_mask
        predicates[p][t] is predicate p of thread t.
    start : In(1)
        Clears the predicates and fills the lane mask; for a cycle in which nothing is under way.
    stop : In(1)
        While high, operations that have not entered the slot stage are discarded, each with its ``done``.
    o_error, done, busy
        See docs/architecture.md.
    storing : Out(1)
        ``bank_write`` asks for a bank; registered.
    writes_pending : Out(1)
        Stores to global memory are not acknowledged.
    event_register_stalls, event_thread_bank_conflicts, event_multiply_stalls, event_thread_shared_cycles
        For the counters.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        self.slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "i_operation": In(stream.Signature(thread_operation_layout)),
            "registers": Out(RegisterPort(cfg)),
            "bank_read": Out(BankReadPort(cfg)),
            "bank_write": Out(BankWritePort(cfg)),
            "global_port": Out(GlobalPort(cfg, cfg.tag_bits)),
            "predicates": Out(cfg.threads).array(PREDICATES),
            "lane_mask": Out(cfg.threads),
            "start": In(1),
            "stop": In(1),
            "o_error": Out(ErrorStream()),
            "done": Out(1),
            "busy": Out(1),
            "storing": Out(1),
            "writes_pending": Out(1),
            "event_register_stalls": Out(1),
            "event_thread_bank_conflicts": Out(1),
            "event_multiply_stalls": Out(1),
            "event_thread_shared_cycles": Out(1),
        } | ({"bank_ahead": In(BANKS)} if cfg.banks_known_ahead else {}))

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        m.submodules.entrance = self._entrance = OperandFetch(cfg)
        m.submodules.predicate_file = self._predicates = Predicates(cfg)
        m.submodules.steps = self._steps = OperandSequencer(cfg)
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
        if cfg.banks_known_ahead:
            m.d.comb += self._memory.bank_ahead.eq(self.bank_ahead)

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
        """The operation in the slot stage, and the step whose operands the slots hold."""
        cfg = self.cfg
        self._valid = Signal(name="slot_valid")
        self._operation = Signal(thread_operation_layout, name="slot_operation", reset_less=True)
        self._walk_kind = Signal(walk_kind_layout, name="slot_kind", reset_less=True)
        self._active = Signal(cfg.threads, name="slot_active", reset_less=True)
        self._discarded = Signal(name="slot_discarded", reset_less=True)
        self._step_valid = Signal(name="step_valid")
        self._step_taken = Signal(name="step_taken")
        self._slot_step = Signal(slot_step_layout(cfg), name="slot_step", reset_less=True)
        self._step_words = Signal(4, name="step_words")         # that take its result
        self._load_step = Signal(name="load_step")
        self._skip = Signal(name="skip")                        # operands are taken, but nothing is done with them
        self._words = Signal(4, name="words_written")           # of the four registers around the destination
        self._buffer = Signal(name="result_buffer")

    def _kind(self, m):
        """What kind of operation is in the slot stage, decoded when it enters."""
        self._is = {kind: Signal(name=f"is_{kind.name.lower()}", reset_less=True) for kind in ThreadKind}
        self._computes, self._accesses = Signal(name="computes"), Signal(name="accesses")
        m.d.comb += [
            self._computes.eq(self._is[ThreadKind.ALU] | self._is[ThreadKind.TID]),
            self._accesses.eq(self._is[ThreadKind.LOAD] | self._is[ThreadKind.STORE]),
        ]

    def _enter(self, m):
        """An operation goes from the queue to the slot stage; its guard is evaluated."""
        incoming, predicates = self._entrance.o, self._predicates
        operation, none = incoming.payload, Signal(name="no_steps")
        taken = self._taken = Signal(name="taken")
        leave = self._leaving = Signal(name="leaving")
        m.d.comb += [
            # With far registers the next one a cycle later: what lets one go does not reach the registers of another.
            incoming.ready.eq(~self._valid | (0 if self.cfg.late_address_checks else leave)),
            taken.eq(incoming.valid & incoming.ready),
            none.eq((operation.kind == ThreadKind.LANE_MASK) | (self.stop & (not self.cfg.thread_overlap))),
            predicates.start.eq(self.start),
            predicates.guard.eq(operation.guard), predicates.negate.eq(operation.guard_negate),
            predicates.write_lane_mask.eq(taken & (operation.kind == ThreadKind.LANE_MASK) & ~self.stop),
            self._steps.operation.eq(self._operation), self._steps.kind.eq(self._walk_kind),
            self._steps.start.eq(taken), self._steps.none.eq(none),
            self._steps.cancel.eq(self._memory.failing & (not self.cfg.thread_overlap)),
            self._entrance.slots_operation.eq(self._operation), self._entrance.slots_kind.eq(self._walk_kind),
            self._entrance.stop.eq(self.stop), self._entrance.cancel.eq(self._memory.failing),
        ]
        if self.cfg.thread_overlap:
            m.d.comb += self._skip.eq(self._memory.failed | self._discarded)
        with m.If(leave):
            m.d.sync += [self._valid.eq(0), self._buffer.eq(~self._buffer)]
        with m.If(taken):
            m.d.sync += [self._valid.eq(1), self._operation.eq(operation), self._active.eq(predicates.active),
                         self._discarded.eq(self.stop)]
            m.d.sync += [signal.eq(operation.kind == kind) for kind, signal in self._is.items()]
            m.d.sync += [self._walk_kind[name].eq(value) for name, value in walk_kind(operation).items()]

    def _connect_slots(self, m):
        port, array, reader, writer = self.registers, self._array, self._entrance, self._writer
        m.d.comb += [
            array.operation.eq(self._operation), array.group.eq(self._steps.group),
            array.keep_buffer.eq(self._late_operation.keep_buffer), array.leave.eq(self._leaving), array.buffer.eq(self._buffer),
            array.arrive.eq(reader.arrive), array.write_place.eq(reader.write_place), array.read_place.eq(reader.read_place),
            array.entry.eq(writer.entry), array.entry_ahead.eq(writer.entry_ahead), array.word.eq(writer.place),
        ]
        m.d.comb += [inner.eq(outer) for inner, outer in zip(array.operand, port.read_data, strict=True)]
        m.d.comb += [outer.eq(inner) for outer, inner in zip(port.return_data, array.o, strict=True)]

    def _step(self, m):
        """The operands of the next step go into the slots when the last step was taken; results wait for the operation before."""
        steps, array, reader, store = self._steps, self._array, self._entrance, self._is[ThreadKind.STORE]
        advance, take = Signal(name="advance"), Signal(name="take_operand")
        m.d.comb += [
            advance.eq(self._valid & ~steps.done & ~self._memory.failing & (~steps.needed | reader.available)
                       & (~self._step_valid | self._step_taken) & (self._accesses | self._late_operation.may_compute)),
            take.eq(advance & steps.needed),
            reader.take.eq(take), steps.advance.eq(advance),
            self._load_step.eq(advance & steps.final & ~self._skip),
            array.load.eq(self._load_step),
            array.load_a.eq(take & (steps.second == store)), array.load_address.eq(
                take & ~steps.second & self._accesses & ~self._skip),
        ]
        with m.If(self._step_taken):
            m.d.sync += self._step_valid.eq(0)
        with m.If(self._load_step):
            groups = [self._active[group * self.slots:(group + 1) * self.slots] for group in range(self.cfg.thread_groups)]
            m.d.sync += [
                self._step_valid.eq(1), self._slot_step.active.eq(select_one_hot(1 << steps.group, groups)),
                *(self._slot_step[name].eq(getattr(steps, name)) for name in ("group", "slot", "word", "last_word")),
            ]

    def _compute(self, m):
        """Results of comparisons; those of the other functions go back to the lanes in _results."""
        predicates = self._predicates
        # With far registers a cycle later, in which the operation leaves: the next one then finds them.
        domain = m.d.sync if self.cfg.registered_alu else m.d.comb
        domain += [
            predicates.write.eq(self._step_valid & self._is[ThreadKind.COMPARE]),
            predicates.write_predicate.eq(self._operation.dst),
            predicates.write_group.eq(self._slot_step.group),
            predicates.write_slots.eq(self._slot_step.active),
            predicates.write_value.eq(self._array.compare_result),
        ]
        m.d.comb += [
            self._step_taken.eq(Mux(self._accesses & ~self._memory.stopped, self._memory.taken, self._step_valid & self._late.ready)),
        ]

    def _multiply(self, m):
        """Products and packed bytes, whose results come later."""
        late, array, operation, kept = self._late, self._array, self._operation, self._late_operation
        function = self._function = Signal(AluFunction, name="function")
        self._narrows = Signal(name="narrows")
        m.d.comb += [
            function.eq(Mux(self._is[ThreadKind.ALU], operation.function, AluFunction.MOV)),
            self._narrows.eq((function == AluFunction.NARROW) | (function == AluFunction.SCALE)),
            late.function.eq(kept.o_function), late.unsigned.eq(kept.o_unsigned),
            array.amount.eq(kept.o_amount), array.narrow_unsigned.eq(kept.o_unsigned),
            late.valid.eq(self._step_valid & (self._computes | (not self.cfg.thread_overlap))),
            late.group.eq(self._slot_step.group), late.last_word.eq(self._slot_step.last_word),
            self._step_words.eq(Mux(operation.access == Access.V4, 1 << self._slot_step.word, 0b1111)), late.words.eq(self._step_words),
            array.choose.eq(self._slot_step.active), array.scale.eq(late.scale), array.narrows.eq(self._narrows),
            array.narrow_take.eq(late.narrow_take), array.narrow_show.eq(late.narrow_show),
        ]
        connect_members(m, array, late, ("a", "b"))
        connect_members(m, late, array, ("product",))

    def _hold(self, m):
        """Operations that meet results of the one before."""
        kept, memory, late, operation = self._late_operation, self._memory, self._late, self._operation
        m.d.comb += [
            kept.load.eq(self._load_step & ~self._accesses),
            kept.function.eq(self._function), kept.unsigned.eq(operation.unsigned), kept.amount.eq(operation.c),
            kept.leave.eq(self._leaving), kept.buffer.eq(self._buffer), kept.pending.eq(self._writer.pending),
            kept.requesting.eq(memory.requesting), kept.data_landing.eq(memory.in_flight | self._returns.pending),
            kept.late_busy.eq(late.busy), self._writer.landing.eq(kept.landing),
            self._array.keep_control.eq(kept.keep_control & self._accesses),
        ]
        if not self.cfg.thread_overlap:
            m.d.comb += self._array.store_buffer.eq(self._buffer)
            return
        m.d.comb += [
            late.buffer.eq(self._buffer), late.landing_buffer.eq(kept.landing_buffer), kept.late_landing.eq(late.landing),
            self._array.store_buffer.eq(Mux(self._returns.computed, self._buffer, late.o_buffer)),
        ]

    def _last_step_taken(self):
        """With ``thread_overlap`` an operation leaves the slots with its last step, unless the next one needs what the step does."""
        return ~self._step_valid | (self._computes & self._late.ready)

    def _access(self, m):
        memory, writer = self._memory, self._writer
        m.d.comb += [
            memory.operation.eq(self._operation), memory.start.eq(self._taken), memory.leave.eq(self._leaving),
            memory.valid.eq(self._step_valid & self._accesses), memory.step.eq(self._slot_step),
            memory.hold.eq(writer.pending), memory.hold_shared.eq(self._late_operation.waiting_for_data),
            memory.hold_errors.eq(self._valid & (memory.failed | memory.error)), writer.same.eq(memory.same),
        ]
        connect_members(m, self._array, memory, ("address", "data"))

    def _results(self, m):
        """What comes from the banks, from global memory or from the ALU is kept for the lanes."""
        memory, array, late, returns = self._memory, self._array, self._late, self._returns
        m.d.comb += [
            returns.arrived_slots.eq(memory.arrived_slots), returns.arrived_group.eq(memory.arrived_group),
            returns.computed.eq(self._step_valid & self._computes & ~late.takes),
            returns.group.eq(self._slot_step.group), returns.words.eq(self._step_words),
            returns.late_slots.eq(late.o_slots), returns.late_group.eq(late.o_group), returns.late_words.eq(late.o_words),
            array.store.eq(returns.store), array.store_group.eq(returns.store_group), array.store_words.eq(returns.store_words),
            array.store_current.eq(returns.store_current),
        ]
        m.d.comb += [inner.eq(bank) for inner, bank in zip(array.banks, self.bank_read.data, strict=True)]
        m.d.comb += [array.other.eq(memory.other), array.take_other.eq(memory.take_other)]
        connect_members(m, memory, array, ("place",))

    def _leave(self, m):
        """The last group is on its way: the operation goes to the write stage, with its error."""
        operation, writer, memory = self._operation, self._writer, self._memory
        selects, writes = self._function == AluFunction.SEL, Signal(name="writes_registers")
        m.d.comb += [
            self._words.eq(Mux(writes, destination_words(operation, self._narrows), 0)),
            writes.eq(self._computes | self._is[ThreadKind.LOAD]),
            self._leaving.eq(self._valid & self._steps.done & ~memory.occupied & writer.ready
                             & (self._last_step_taken() if self.cfg.thread_overlap else
                                ~self._step_valid & ~self._late.busy & ~self._entrance.arriving)),
            writer.take.eq(self._leaving), writer.buffer.eq(self._buffer), writer.register.eq(operation.dst), writer.lanes.eq(
                self._active | selects.replicate(self.cfg.threads)),
            writer.words.eq(Mux(memory.failed | memory.error | self._discarded, 0, self._words)),
        ]
        report = self.o_error.payload
        m.d.sync += [self.o_error.valid.eq((self._leaving & (memory.failed | memory.error)) | memory.write_error)]
        with m.If(memory.write_error):
            m.d.sync += [report.code.eq(ErrorCode.AXI_WRITE), report.pc.eq(memory.write_error_pc),
                         report.operand.eq(memory.write_error_address)]
        with m.Else():
            m.d.sync += [report.code.eq(memory.code), report.pc.eq(operation.pc), report.operand.eq(memory.operand)]

    def _connect_registers(self, m):
        port, reader, writer = self.registers, self._entrance, self._writer
        connect_members(m, flipped(port), reader, ("read", "read_number", "read_group"))
        connect_members(m, flipped(port), writer, ("return_lanes", "write_product", "write_register", "write_factor", "write_word",
                                                   "write_parts", "write_lanes"))
        m.d.comb += [
            reader.read_grant.eq(port.read_grant), writer.write_grant.eq(port.write_grant),
            reader.factor_write.eq(writer.write_factor),
        ]
        writing, destination = list(writer.writing), list(writer.destination)
        if self.cfg.thread_overlap:
            writing, destination = [*writing, Mux(self._valid, self._words, 0)], [*destination, self._operation.dst]
        m.d.comb += [inner.eq(outer) for inner, outer in zip([*reader.writing, *reader.destination], [*writing, *destination], strict=True)]

    def _observe(self, m):
        m.d.sync += [
            self.done.eq(self._writer.complete),
            self.event_register_stalls.eq(self._entrance.event_stalls | self._writer.event_stalls),
            self.event_thread_bank_conflicts.eq(self._memory.event_conflicts),
            self.event_multiply_stalls.eq(self._late.event_stalls),
            self.event_thread_shared_cycles.eq(self.bank_read.request.any() | self.bank_write.request.any()),
        ]
        m.d.comb += [
            self.busy.eq(self._entrance.busy | self._valid | self._writer.busy | self.done),
            self.writes_pending.eq(self._memory.writes_pending),
            self.storing.eq(self._memory.storing),
            self.lane_mask.eq(self._predicates.lane_mask),
        ]
        connect_members(m, flipped(self), self._predicates, ("predicates",))
