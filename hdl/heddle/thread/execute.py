"""Execution stage of the thread unit."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.control import EventPort
from ..interfaces.front_end import ThreadMaskPort
from ..interfaces.layouts import (
    ErrorStream,
    GlobalPort,
    SharedReadPort,
    SharedWritePort,
    ThreadKind,
    thread_operation_layout,
)
from ..isa.encoding import PACKING, Access, AluFunction, OutputUse, Space, output_bounds_layout
from ..isa.error_codes import ErrorCode
from ..lib.members import connect_members
from ..parameters.thread import ThreadParameters
from .lsu import Lsu
from .micro_op_issue import MicroOpIssue
from .offset_fetch import gathered_words, offset_layout
from .operand_fetch import ExecutingPort, OperandEntryPort, OperandQueuePort, fetched_layout
from .operand_sequencer import operand_kind_layout
from .predicates import Predicates
from .result_bus import ResultBus
from .result_hazards import ResultHazards
from .result_routing import ResultRouting
from .simd_lane import ResultReadPort
from .simd_lanes import SimdLanes
from .write_back import LandingPort, write_back_layout

__all__ = ["EXECUTE_EVENTS", "Execute"]

EXECUTE_EVENTS = ("thread_bank_conflicts", "multiply_stalls")


def destination_words(cfg, operation, narrows):
    """Mask of the four registers around ``dst`` that an operation writes; with ``narrows`` only one, whatever the access."""
    place, access = operation.dst[:2], operation.access
    vector = Mux(access == Access.V4, 0b1111, Mux(place[1], 0b1100, 0b0011))
    words = Mux(((access == Access.V2) | (access == Access.V4)) & ~narrows, vector, 1 << place)
    return Mux(operation.gathers, gathered_words(operation), words) if cfg.gather_offsets else words


class Execute(Component):
    """Execution stage: executes an operation in the SIMD lanes, micro-operation by micro-operation, and hands its results to write-back.

    A micro-operation computes, compares, or accesses memory for a group of threads; in global memory for one thread.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    i : In(stream.Signature(fetched_layout(cfg)))
        Operations.
    queue, entries : In(OperandQueuePort()), In(OperandEntryPort())
        Operand queues.
    offset : In(stream.Signature(offset_layout))
        With ``gather_offsets``: entries of the compiled-offset memory for the micro-operations of gathers.
    operand, operand_second : In(32).array(slots)
        Operands from the register files; the other registers of pairs, with ``register_pairs``.
    executing : Out(ExecutingPort(cfg))
        The operation in this stage.
    o : Out(stream.Signature(write_back_layout(cfg)))
        Operations whose micro-operations are over; results of the last ones may be in flight.
    landing : In(LandingPort())
        Results in flight of the operation in write-back.
    read : In(ResultReadPort(cfg))
        Reads of the result buffers.
    result : Out(8 * dot).array(slots)
        Results of ``read.entry`` of the cycle before.
    bank_read, bank_write : Out(SharedReadPort(cfg)), Out(SharedWritePort(cfg))
        Shared memory.
    global_port : Out(GlobalPort(cfg, cfg.tag_bits))
        Global memory.
    masks : Out(ThreadMaskPort(threads))
        Predicates and lane mask of the threads.
    start, stop : In(1)
        As those of ``ThreadUnit``.
    o_error : Out(ErrorStream())
        Errors; registered.
    busy : Out(1)
        An operation is in this stage.
    writes_pending : Out(1)
        Stores to global memory are not acknowledged.
    events : Out(EventPort(EXECUTE_EVENTS))
        Events of this cycle.

    *Latency*: the first micro-operation is in the SIMD lanes two cycles after ``i`` at the earliest. ALU results are in the result buffers
    two cycles later, load data and multi-cycle results when they come.

    *Throughput*: one micro-operation a cycle. With ``thread_overlap`` an operation leaves with its last micro-operation, and its successor
    enters in the same cycle. It leaves a cycle later where its successor needs its result. A load leaves when its last request is made,
    an access to global memory when memory has answered. Without ``thread_overlap`` an operation leaves when its multi-cycle results have
    come, and its successor enters a cycle later.

    *Back-pressure*: ``o.valid`` is combinational from the ports of memory, ``i.ready`` with ``thread_overlap`` also from ``o.ready``.

    *Reset*: no operation is in this stage.

    *Errors*: as those of ``ThreadUnit``.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        self.slots = slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "i": In(stream.Signature(fetched_layout(cfg))),
            "queue": In(OperandQueuePort()),
            "entries": In(OperandEntryPort()),
            **({"offset": In(stream.Signature(offset_layout))} if cfg.gather_offsets else {}),
            "operand": In(32).array(slots),
            **({"operand_second": In(32).array(slots)} if cfg.register_pairs else {}),
            "executing": Out(ExecutingPort(cfg)),
            "o": Out(stream.Signature(write_back_layout(cfg))),
            "landing": In(LandingPort()),
            "read": In(ResultReadPort(cfg)),
            "result": Out(cfg.word_bits).array(slots),
            "bank_read": Out(SharedReadPort(cfg)),
            "bank_write": Out(SharedWritePort(cfg)),
            "global_port": Out(GlobalPort(cfg, cfg.tag_bits)),
            "masks": Out(ThreadMaskPort(cfg.threads)),
            "start": In(1),
            "stop": In(1),
            "o_error": Out(ErrorStream()),
            "busy": Out(1),
            "writes_pending": Out(1),
            "events": Out(EventPort(EXECUTE_EVENTS)),
        })

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        m.submodules.predicate_file = self._predicates = Predicates(cfg)
        m.submodules.micro_ops = self._issue = MicroOpIssue(cfg)
        m.submodules.lanes = self._lanes = SimdLanes(cfg)
        m.submodules.result_bus = self._bus = ResultBus(cfg)
        m.submodules.result_hazards = self._hazards = ResultHazards(cfg)
        m.submodules.result_routing = self._routing = ResultRouting(cfg)
        m.submodules.memory = self._memory = Lsu(cfg)
        self._enter(m)
        self._issue_steps(m)
        self._connect_lanes(m)
        self._compare(m)
        self._access(m)
        self._multiply(m)
        self._follow_results(m)
        self._leave(m)
        self._report(m)
        return m

    def _enter(self, m):
        """The operation in this stage, decoded when it enters."""
        incoming = self.i.payload
        self._valid, self._leaving, self._taken = Signal(name="valid"), Signal(name="leaving"), Signal(name="taken")
        self._operation = operation = Signal(thread_operation_layout(self.cfg), name="operation", reset_less=True)
        self._kind = Signal(operand_kind_layout(self.cfg), name="kind", reset_less=True)
        self._is = {kind: Signal(name=f"is_{kind.name.lower()}", reset_less=True) for kind in ThreadKind}
        self._discarded = Signal(name="discarded", reset_less=True)
        self._half = Signal(name="half")        # of the result buffers; consecutive operations have different ones, which number them
        self._computes, self._accesses = Signal(name="computes"), Signal(name="accesses")
        self._function, self._narrows = Signal(AluFunction, name="function"), Signal(name="narrows")
        m.d.comb += [
            self.i.ready.eq(~self._valid | (self._leaving if self.cfg.thread_overlap else 0)),
            self._taken.eq(self.i.valid & self.i.ready),
            self._computes.eq(self._is[ThreadKind.ALU] | self._is[ThreadKind.TID]),
            self._accesses.eq(self._is[ThreadKind.LOAD] | self._is[ThreadKind.STORE]),
            self._function.eq(Mux(self._is[ThreadKind.ALU], operation.function, AluFunction.MOV)),
            self._narrows.eq((self._function == AluFunction.NARROW) | (self._function == AluFunction.SCALE)),
            self.busy.eq(self._valid),
        ]
        with m.If(self._leaving):
            m.d.sync += [self._valid.eq(0), self._half.eq(~self._half)]
        with m.If(self._taken):
            m.d.sync += [self._valid.eq(1), operation.eq(incoming.operation), self._kind.eq(incoming.kind), self._discarded.eq(self.stop)]
            m.d.sync += [signal.eq(incoming.operation.kind == kind) for kind, signal in self._is.items()]

    def _issue_steps(self, m):
        """Micro-operations enter the SIMD lanes; what they compute waits for results of the operation before."""
        issue, fault, kind = self._issue, self._memory.fault, self.i.payload.operation.kind
        overlap = self.cfg.thread_overlap       # then operands are read before the operation enters, and all of them are taken
        m.d.comb += [
            issue.kind.eq(self._kind), issue.start.eq(self._taken), issue.active.eq(self._predicates.active),
            issue.none.eq((kind == ThreadKind.LANE_MASK) | (0 if overlap else self.stop)),
            issue.may.eq(self._valid & ~fault.failing & (self._accesses | self._hazards.may_compute)),
            issue.skip.eq((fault.failed | self._discarded) if overlap else 0), issue.cancel.eq(0 if overlap else fault.failing),
            issue.o.ready.eq(Mux(self._accesses & ~self._memory.access.stopped, self._memory.access.taken, self._bus.i.ready)),
        ]
        connect(m, flipped(self.entries), issue.entries)
        if self.cfg.gather_offsets:
            connect(m, flipped(self.offset), issue.offset)

    def _connect_lanes(self, m):
        lanes, hazards = self._lanes, self._hazards
        m.d.comb += [
            lanes.operation.eq(self._operation), lanes.keep_buffer.eq(hazards.keep_buffer), lanes.leave.eq(self._leaving),
            lanes.buffer.eq(self._half), lanes.choose.eq(self._issue.o.payload.active), lanes.narrows.eq(self._narrows),
            lanes.keep_control.eq(hazards.keep_control & self._accesses),
        ]
        connect(m, self._issue.load, lanes.load)
        connect_members(m, flipped(self), lanes, ("queue", "operand", *["operand_second"] * self.cfg.register_pairs, "read"))
        m.d.comb += [outer.eq(inner) for outer, inner in zip(self.result, lanes.o, strict=True)]
        m.d.comb += [inner.eq(bank) for inner, bank in zip(lanes.banks, self.bank_read.answer.payload.data, strict=True)]

    def _compare(self, m):
        """Guards; results of comparisons go to the predicates, a lane mask when its operation leaves."""
        predicates, operation, micro_op = self._predicates, self._operation, self._issue.o
        m.d.comb += [
            predicates.start.eq(self.start), predicates.guard.eq(operation.guard), predicates.negate.eq(operation.guard_negate),
            predicates.write_lane_mask.eq(self._leaving & self._is[ThreadKind.LANE_MASK] & ~self._discarded),
            self.masks.lanes.eq(predicates.lane_mask),
        ]
        # In the cycle in which the operation leaves at the earliest: its successor evaluates its guard after that.
        m.d.sync += [
            predicates.write.eq(micro_op.valid & self._is[ThreadKind.COMPARE]), predicates.write_predicate.eq(operation.dst),
            predicates.write_group.eq(micro_op.payload.group), predicates.write_slots.eq(micro_op.payload.active),
            predicates.write_value.eq(self._lanes.compare_result),
        ]
        connect_members(m, flipped(self.masks), predicates, ("predicates",))

    def _access(self, m):
        """Loads and stores."""
        memory, fault, micro_op = self._memory, self._memory.fault, self._issue.o
        m.d.comb += [
            memory.operation.eq(self._operation), memory.number.eq(self._half),
            memory.start.eq(self._taken), memory.leave.eq(self._leaving),
            memory.access.valid.eq(micro_op.valid & self._accesses), memory.access.step.eq(micro_op.payload),
            memory.hold.eq(self.landing.pending), memory.hold_loads.eq(self._hazards.waiting_for_data),
            memory.hold_errors.eq(fault.failing | (self._valid & (fault.failed | fault.error))),
            self.events.thread_bank_conflicts.eq(memory.event_conflicts),
        ]
        connect(m, self._lanes.access, memory.lanes)
        for name in ("bank_read", "bank_write"):
            connect(m, getattr(memory, name), flipped(getattr(self, name)))
        connect(m, memory.port, flipped(self.global_port))
        connect_members(m, flipped(self), memory, ("writes_pending",))

    def _multiply(self, m):
        """Micro-operations that compute, at the result bus: products and packed bytes are multi-cycle results, all else is of the ALUs."""
        bus, lanes, routing, micro_op, multi_cycle = self._bus, self._lanes, self._routing, self._issue.o, self._hazards.operation
        words, step = Signal(4, name="step_words"), bus.i.payload
        m.d.comb += [
            words.eq(Mux(self._operation.access == Access.V4, 1 << micro_op.payload.word, 0b1111)),
            bus.i.valid.eq(micro_op.valid & self._computes),
            step.group.eq(Mux(self._kind.by_group, micro_op.payload.word, micro_op.payload.group)),
            step.last_word.eq(micro_op.payload.last_word), step.words.eq(words),
            step.buffer.eq(self._half),
            routing.i.valid.eq(bus.i.valid & ~bus.takes), routing.i.payload.group.eq(micro_op.payload.group),
            routing.i.payload.words.eq(words), routing.i.payload.buffer.eq(self._half),
            multi_cycle.function.eq(self._function), multi_cycle.unsigned.eq(self._operation.unsigned),
            multi_cycle.amount.eq(self._operation.c), multi_cycle.scale.eq(self._function == AluFunction.SCALE),
            *self._bounds(multi_cycle),
            self.events.multiply_stalls.eq(bus.event_stalls),
        ]
        connect(m, self._hazards.o, bus.operation, lanes.multi_cycle_operation)
        for lane, operands in zip(lanes.multiplier_operands, bus.operands, strict=True):
            connect(m, lane, operands)
        connect(m, bus.use, lanes.multi_cycle)

    def _bounds(self, multi_cycle):
        """Bounds of packed bytes and what else belongs to them; those of their type unless the output stage is used. The set has been
        used before."""
        if not self.cfg.output_stage:
            return []
        operation, given = self._operation, output_bounds_layout(self._operation.value[:output_bounds_layout.size])
        packs = Cat(operation.output == use for use in PACKING).any()
        plain = {"zero_point": 0, "minimum": Mux(operation.unsigned, 0, 0x80), "maximum": Mux(operation.unsigned, 0xff, 0x7f),
                 "own_shifts": 0, "double_rounding": 0}
        return [*(multi_cycle.bounds[name].eq(Mux(packs, given[name], value)) for name, value in plain.items()),
                multi_cycle.transpose.eq(operation.output == OutputUse.TRANSPOSE)]

    def _follow_results(self, m):
        """Results go to the result buffers; hazards with those of the operation in write-back."""
        hazards, shared, memory = self._hazards, self._memory.shared, self._memory
        of_writer = 1 << ~self._half
        m.d.comb += [
            hazards.load.eq(self._issue.load.step & ~self._accesses), hazards.loads.eq(self._is[ThreadKind.LOAD]),
            hazards.leave.eq(self._leaving), hazards.buffer.eq(self._half), hazards.pending.eq(self.landing.pending),
            hazards.requesting.eq((shared.waiting & of_writer).any()),
            hazards.data_landing.eq((shared.in_flight & of_writer).any() | self._routing.pending),
            self.landing.landing.eq(hazards.landing),
        ]
        connect(m, self._bus.status, hazards.multi_cycle)
        connect(m, memory.arrived, self._routing.arrived)
        connect(m, self._bus.o, self._routing.multi_cycle)
        connect(m, self._routing.o, self._lanes.store)
        connect(m, memory.load_data, self._lanes.load_data)

    def _leave(self, m):
        """After its last micro-operation the operation goes to write-back."""
        operation, fault, micro_op, written = self._operation, self._memory.fault, self._issue.o, self.o.payload
        words, over = Signal(4, name="words_written"), Signal(name="over")
        sets = operation.output == OutputUse.CHANNEL if self.cfg.output_stage else C(0)
        stores = self._is[ThreadKind.STORE] & (operation.space == Space.SHARED)
        if self.cfg.thread_overlap:
            m.d.comb += [
                over.eq(~micro_op.valid | ((self._computes | stores) & micro_op.ready)), written.same.eq(self._memory.same),
            ]
        else:
            m.d.comb += over.eq(~micro_op.valid & ~self._bus.status.busy & ~self.entries.arriving)
        m.d.comb += [
            words.eq(Mux(self._computes & ~sets | self._is[ThreadKind.LOAD], destination_words(self.cfg, operation, self._narrows), 0)),
            self.o.valid.eq(self._valid & self._issue.done & ~self._memory.occupied & over), self._leaving.eq(self.o.valid & self.o.ready),
            written.buffer.eq(self._half), written.register.eq(operation.dst),
            written.lanes.eq(self._predicates.active | (self._function == AluFunction.SEL).replicate(self.cfg.threads)),
            written.words.eq(Mux(fault.failed | fault.error | self._discarded, 0, words)),
            self.executing.operation.eq(operation), self.executing.kind.eq(self._kind), self.executing.failing.eq(fault.failing),
            self.executing.words.eq(Mux(self._valid, words, 0)),
        ]

    def _report(self, m):
        """Errors: of shared memory after the check, of global memory when the operation leaves, of its stores when memory answers."""
        fault, write_error, report = self._memory.fault, self._memory.o_write_error, self.o_error.payload
        leaves_with_error = self._leaving & (self._operation.space == Space.GLOBAL) & (fault.failed | fault.error)
        m.d.sync += self.o_error.valid.eq(leaves_with_error | fault.report | write_error.valid)
        with m.If(write_error.valid):
            m.d.sync += [report.code.eq(ErrorCode.AXI_WRITE), report.pc.eq(write_error.payload.pc),
                         report.operand.eq(write_error.payload.address)]
        with m.Else():
            m.d.sync += [report.code.eq(fault.code), report.pc.eq(fault.pc), report.operand.eq(fault.operand)]
