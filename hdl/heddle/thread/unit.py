"""The thread unit."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..config import PREDICATES
from ..datapath.gates import select_one_hot
from ..errors import ErrorCode
from ..isa.layout import Access, AluFunction, Space
from ..layouts import (
    BankReadPort,
    BankWritePort,
    ErrorStream,
    GlobalPort,
    RegisterPort,
    ThreadKind,
    thread_operation_layout,
)
from ..stream import Queue, link
from .checks import AddressCheck
from .gather import Gather
from .global_access import GlobalAccess
from .late import LateResults
from .predicates import Predicates
from .registers import OperandReader, ResultWriter
from .returns import Returns, destination_words
from .slot_array import SlotArray
from .steps import Steps

__all__ = ["ThreadUnit"]


class ThreadUnit(Component):
    """Executes thread operations in order: integer functions, comparisons, loads and stores of all threads [S0.17, S0.9, S4.5].

    An operation passes three stages: operand read (all lanes), slots (group by group), result write (all lanes). A load reads its
    addresses while earlier operations are in the other stages. Latencies, throughput and errors are in docs/units/thread.md.

    Members
    -------
    i_operation
        Operations; ``cfg.thread_queue`` of them wait in the unit. Register numbers must exist and be aligned.
    registers, bank_read, bank_write, global_port
        To the lanes, shared memory and global memory. A register write must be visible to reads granted in later cycles.
    predicates, lane_mask
        predicates[p][t] is predicate p of thread t.
    start : In(1)
        Clears the predicates and fills the lane mask; for a cycle in which nothing is under way.
    stop : In(1)
        While high, operations that have not entered the slot stage are discarded, each with its ``done``.
    o_error, done, busy
        See docs/architecture.md.
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
            "writes_pending": Out(1),
            "event_register_stalls": Out(1),
            "event_thread_bank_conflicts": Out(1),
            "event_multiply_stalls": Out(1),
            "event_thread_shared_cycles": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        m.submodules.queue = self._queue = Queue(thread_operation_layout, cfg.thread_queue)
        m.submodules.reader = self._reader = OperandReader()
        m.submodules.predicate_file = self._predicates = Predicates(cfg)
        m.submodules.steps = self._steps = Steps(cfg)
        m.submodules.slot_array = self._array = SlotArray(cfg)
        m.submodules.late = self._late = LateResults(cfg)
        m.submodules.returns = self._returns = Returns(cfg)
        m.submodules.gather = self._gather = Gather(cfg)
        m.submodules.global_access = self._global = GlobalAccess(cfg)
        m.submodules.writer = self._writer = ResultWriter(cfg)
        link(m, flipped(self.i_operation), self._queue.i)
        link(m, self._queue.o, self._reader.i)
        connect(m, self._gather.bank_read, flipped(self.bank_read))
        connect(m, self._gather.bank_write, flipped(self.bank_write))
        connect(m, self._global.port, flipped(self.global_port))

        self._declare()
        self._kind(m)
        self._enter(m)
        self._connect_slots(m)
        self._step(m)
        self._compute(m)
        self._check(m)
        self._multiply(m)
        self._access_shared(m)
        self._access_global(m)
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
        self._active = Signal(cfg.threads, name="slot_active", reset_less=True)
        self._discarded = Signal(name="slot_discarded", reset_less=True)
        self._failed = Signal(name="slot_failed")
        self._failed_slot = Signal(range(self.slots), name="failed_slot", reset_less=True)
        self._step_valid = Signal(name="step_valid")
        self._step_taken = Signal(name="step_taken")
        self._step_group = Signal(range(cfg.thread_groups), name="step_group", reset_less=True)
        self._step_slot = Signal(range(self.slots), name="step_slot", reset_less=True)
        self._step_word = Signal(2, name="step_word", reset_less=True)
        self._step_last_word = Signal(name="step_last_word", reset_less=True)
        self._step_words = Signal(4, name="step_words")         # of the lanes, that take its result
        self._step_active = Signal(self.slots, name="step_active", reset_less=True)
        self._load_step = Signal(name="load_step")
        self._failing = Signal(name="failing")
        self._global_taken = Signal(name="global_taken")

    def _kind(self, m):
        """What kind of operation is in the slot stage."""
        operation = self._operation
        self._is = {kind: Signal(name=f"is_{kind.name.lower()}") for kind in ThreadKind}
        m.d.comb += [signal.eq(operation.kind == kind) for kind, signal in self._is.items()]
        self._computes, self._accesses, self._is_global = Signal(name="computes"), Signal(name="accesses"), Signal(name="is_global")
        m.d.comb += [
            self._computes.eq(self._is[ThreadKind.ALU] | self._is[ThreadKind.TID]),
            self._accesses.eq(self._is[ThreadKind.LOAD] | self._is[ThreadKind.STORE]),
            self._is_global.eq(self._accesses & (operation.space == Space.GLOBAL)),
        ]

    def _enter(self, m):
        """An operation goes from the read stage to the slot stage; its guard is evaluated."""
        incoming, predicates = self._reader.o, self._predicates
        operation, taken = incoming.payload, Signal(name="taken")
        leave = self._leaving = Signal(name="leaving")
        m.d.comb += [
            incoming.ready.eq(~self._valid | leave),
            taken.eq(incoming.valid & incoming.ready),
            predicates.start.eq(self.start),
            predicates.guard.eq(operation.guard), predicates.negate.eq(operation.guard_negate),
            predicates.write_lane_mask.eq(taken & (operation.kind == ThreadKind.LANE_MASK) & ~self.stop),
            self._reader.stop.eq(self.stop),
            self._steps.start.eq(taken),
            self._steps.none.eq(self.stop | (operation.kind == ThreadKind.LANE_MASK)),
            self._global.clear_error.eq(taken),
        ]
        with m.If(leave):
            m.d.sync += [self._valid.eq(0), self._failed.eq(0)]
        with m.If(taken):
            m.d.sync += [self._valid.eq(1), self._operation.eq(operation), self._active.eq(predicates.active),
                         self._discarded.eq(self.stop)]

    def _connect_slots(self, m):
        port, array, steps = self.registers, self._array, self._steps
        m.d.comb += [
            array.operation.eq(self._operation), array.load.eq(self._load_step), array.group.eq(steps.group),
            array.word.eq(steps.word), array.keep_form.eq(self._writer.valid),
        ]
        for thread in range(self.cfg.threads):
            m.d.comb += [array.operands[thread].eq(port.operand[thread]), array.addresses[thread].eq(port.address[thread])]
        m.d.comb += [outer.eq(inner) for outer, inner in zip(port.return_data, array.o)]

    def _step(self, m):
        """The next step goes into the slots when the last one was taken; results wait for the operation before this one."""
        steps = self._steps
        words = Signal(2, name="words")
        word_by_word, access = self._is[ThreadKind.STORE] | self._computes, self._operation.access
        m.d.comb += [
            words.eq(Cat(word_by_word & ((access == Access.V2) | (access == Access.V4)), word_by_word & (access == Access.V4))),
            steps.serial.eq(self._is_global), steps.words.eq(words),
            self._load_step.eq(self._valid & ~steps.done & ~self._failing & (~self._step_valid | self._step_taken)
                               & (self._accesses | ~self._writer.valid)),
            steps.advance.eq(self._load_step), steps.cancel.eq(self._failing),
        ]
        with m.If(self._step_taken):
            m.d.sync += self._step_valid.eq(0)
        with m.If(self._load_step):
            groups = [self._active[group * self.slots:(group + 1) * self.slots] for group in range(self.cfg.thread_groups)]
            m.d.sync += [
                self._step_valid.eq(1), self._step_group.eq(steps.group), self._step_slot.eq(steps.slot),
                self._step_word.eq(steps.word), self._step_last_word.eq(steps.last_word),
                self._step_active.eq(select_one_hot(1 << steps.group, groups)),
            ]

    def _compute(self, m):
        """Results of comparisons; those of other functions go back to the lanes in _results."""
        predicates = self._predicates
        m.d.comb += [
            predicates.write.eq(self._step_valid & self._is[ThreadKind.COMPARE]),
            predicates.write_predicate.eq(self._operation.dst),
            predicates.write_group.eq(self._step_group),
            predicates.write_slots.eq(self._step_active),
            predicates.write_value.eq(self._array.compare_result),
            self._step_taken.eq(Mux(self._accesses & ~self._failing, Mux(
                self._is_global, self._global_taken, self._gather.ready), self._step_valid & self._late.ready)),
        ]

    def _multiply(self, m):
        """Products and packed bytes, whose results come later."""
        late, array, operation = self._late, self._array, self._operation
        m.d.comb += [
            late.valid.eq(self._step_valid & self._is[ThreadKind.ALU]), late.function.eq(operation.function),
            late.unsigned.eq(operation.unsigned), late.group.eq(self._step_group), late.last_word.eq(self._step_last_word),
            self._step_words.eq(Mux(operation.access == Access.V4, 1 << self._step_word, 0b1111)), late.words.eq(self._step_words),
            array.choose.eq(self._step_active), array.narrow_take.eq(late.narrow_take), array.narrow_show.eq(late.narrow_show),
        ]
        for source, target in ((array.a, late.a), (array.b, late.b), (late.product, array.product)):
            m.d.comb += [inner.eq(outer) for inner, outer in zip(target, source)]

    def _check(self, m):
        """A wrong address in a group ends the operation before that group."""
        m.submodules.address_check = check = self._address_check = AddressCheck(self.cfg)
        operands = list(self._array.address)
        self._address = Signal(32, name="one_address")      # of the slot that has its turn, or of the one with the error
        m.d.comb += [port.eq(address) for port, address in zip(check.addresses, operands)]
        m.d.comb += [
            check.active.eq(self._step_active), check.access.eq(self._operation.access),
            check.space.eq(self._operation.space), check.address.eq(self._address),
            self._failing.eq(self._step_valid & self._accesses & check.bad),
            self._address.eq(select_one_hot(1 << Mux(self._failed, self._failed_slot, self._step_slot), operands)),
        ]
        with m.If(self._failing):
            m.d.sync += [self._failed.eq(1), self._failed_slot.eq(check.bad_slot)]

    def _access_shared(self, m):
        gather = self._gather
        m.d.comb += [
            gather.valid.eq(self._step_valid & self._accesses & ~self._is_global & ~self._failing),
            gather.hold.eq(self._writer.valid),
            gather.waiting.eq(self._step_active), gather.word.eq(self._step_word), gather.group.eq(self._step_group),
            gather.store.eq(self._is[ThreadKind.STORE]), gather.access.eq(self._operation.access),
        ]
        for slot in range(self.slots):
            m.d.comb += [gather.address[slot].eq(self._array.address[slot]), gather.data[slot].eq(self._array.data[slot])]

    def _access_global(self, m):
        access, operation = self._global, self._operation
        active = Signal(name="one_active")
        m.d.comb += [
            active.eq(self._step_active.bit_select(self._step_slot, 1)),
            access.valid.eq(self._step_valid & self._is_global & ~self._failing & active & ~self._writer.valid),
            self._global_taken.eq(self._step_valid & (~active | (access.valid & access.ready))),
            access.address.eq(self._address),
            access.data.eq(select_one_hot(1 << self._step_slot, self._array.data)),
            access.group.eq(self._step_group), access.slot.eq(self._step_slot),
            access.word.eq(self._step_word), access.last_word.eq(self._step_last_word),
            access.store.eq(self._is[ThreadKind.STORE]), access.access.eq(operation.access), access.pc.eq(operation.pc),
        ]

    def _results(self, m):
        """What comes from the banks, from global memory (in the place of bank 0) or from the ALU returns to the lanes."""
        gather, late, returns, port = self._gather, self._late, self._returns, self.registers
        one = self._global
        one_slot = Signal(self.slots, name="one_slot")
        m.d.comb += [
            one_slot.bit_select(one.o_slot, 1).eq(one.o_valid),
            returns.arrived_slots.eq(gather.return_slots | one_slot),
            returns.arrived_group.eq(Mux(one.o_valid, one.o_group, gather.return_group)),
            returns.computed.eq(self._step_valid & self._computes & ~late.takes),
            returns.group.eq(self._step_group), returns.words.eq(self._step_words),
            returns.late_slots.eq(late.o_slots), returns.late_group.eq(late.o_group), returns.late_words.eq(late.o_words),
        ]
        m.d.comb += [array.eq(bank) for array, bank in zip(self._array.banks, self.bank_read.data)]
        m.d.comb += self._array.banks[0].eq(Mux(one.o_valid, one.o_data, self.bank_read.data[0]))
        for slot, (place, returned) in enumerate(zip(self._array.place, gather.return_place)):
            m.d.comb += [place.bank.eq(Mux(one.o_valid, one_slot[slot], returned.bank)),
                         place.offset.eq(Mux(one.o_valid, one.o_offset, returned.offset))]
        m.d.comb += [
            port.return_lanes.eq(returns.lanes), port.return_words.eq(returns.lane_words),
            self._writer.landing.eq(gather.in_flight | late.busy | returns.pending),
        ]

    def _leave(self, m):
        """The last group is on its way: the operation goes to the write stage, with its error."""
        operation, writer, error = self._operation, self._writer, self._global.read_error
        selects, narrows, writes = Signal(name="selects"), Signal(name="narrows"), Signal(name="writes_registers")
        words = destination_words(operation, narrows)
        m.d.comb += [
            selects.eq(self._is[ThreadKind.ALU] & (operation.function == AluFunction.SEL)),
            narrows.eq(self._is[ThreadKind.ALU] & (operation.function == AluFunction.NARROW)),
            writes.eq(self._computes | self._is[ThreadKind.LOAD]),
            self._leaving.eq(self._valid & self._steps.done & ~self._step_valid & ~self._gather.occupied
                             & ~self._global.loading & ~writer.valid),
            writer.take.eq(self._leaving), writer.register.eq(operation.dst),
            writer.lanes.eq(self._active | selects.replicate(self.cfg.threads)),
            writer.words.eq(Mux(writes & ~self._failed & ~error & ~self._discarded, words, 0)),
        ]
        report = self.o_error.payload
        m.d.sync += [self.o_error.valid.eq((self._leaving & (self._failed | error)) | self._global.write_error)]
        with m.If(self._global.write_error):
            m.d.sync += [report.code.eq(ErrorCode.AXI_WRITE), report.pc.eq(self._global.write_error_pc),
                         report.operand.eq(self._global.write_error_address)]
        with m.Else():
            m.d.sync += [
                report.code.eq(Mux(error, ErrorCode.AXI_READ, self._address_check.code)), report.pc.eq(operation.pc),
                report.operand.eq(Mux(error, self._global.read_error_address, self._address)),
            ]
        m.d.comb += self._global.hold_errors.eq(self._valid & (self._failed | error))

    def _connect_registers(self, m):
        port, reader, writer = self.registers, self._reader, self._writer
        for name in ("read_banks", "read_row", "read_factor", "read_number", "capture"):
            m.d.comb += getattr(port, name).eq(getattr(reader, name))
        for name in ("write_banks", "write_row", "write_factor", "write_word", "write_chunk", "write_parts", "write_lanes"):
            m.d.comb += getattr(port, name).eq(getattr(writer, name))
        writes = self._computes | self._is[ThreadKind.LOAD]
        m.d.comb += [
            reader.read_grant.eq(port.read_grant), reader.read_factor_grant.eq(port.read_factor_grant),
            writer.write_grant.eq(port.write_grant), writer.write_factor_grant.eq(port.write_factor_grant),
            reader.operand_free.eq(~self._valid & ~writer.valid),
            reader.address_free.eq(~self._valid | ~self._accesses | self._steps.done),
            reader.writing.eq(Cat(self._valid & writes, writer.writing)),
            reader.destination[0].eq(self._operation.dst), reader.destination[1].eq(writer.destination),
        ]

    def _observe(self, m):
        m.d.sync += [
            self.done.eq(self._writer.complete),
            self.event_register_stalls.eq(self._reader.event_stalls | self._writer.event_stalls),
            self.event_thread_bank_conflicts.eq(self._gather.event_conflicts),
            self.event_multiply_stalls.eq(self._late.event_stalls),
            self.event_thread_shared_cycles.eq(self.bank_read.request.any() | self.bank_write.request.any()),
        ]
        m.d.comb += [
            self.busy.eq((self._queue.level != 0) | self._reader.occupied | self._valid | self._writer.valid | self.done),
            self.writes_pending.eq(self._global.writes_pending),
            self.lane_mask.eq(self._predicates.lane_mask),
        ]
        m.d.comb += [outer.eq(inner) for outer, inner in zip(self.predicates, self._predicates.predicates)]
