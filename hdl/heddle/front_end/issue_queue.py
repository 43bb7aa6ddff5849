"""Issue queue: holds one thread or matrix operation until its hazards are resolved and its unit takes it."""

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, Signature
from amaranth.utils import exact_log2

from ..constants import FIRST_FACTOR_REGISTER, REGISTER_GROUPS
from ..interfaces.control import EventPort
from ..interfaces.front_end import ThreadMaskPort
from ..interfaces.layouts import ThreadKind, matrix_operation_layout, thread_operation_layout
from ..isa.compiled_offsets import OffsetEntry, uniform_layout
from ..isa.encoding import Access, AluFunction, ElementType, Opcode, OperandSource, OutputUse, Special
from ..parameters.front_end import FrontEndParameters
from .decode import decoded_layout
from .opcode_class import thread_kinds
from .scoreboard import THREAD_LEFT_BITS, Scoreboard

__all__ = ["IssueQueue", "IssueQueueStatus"]


def IssueQueueStatus():
    """Operations in the issue queue and in flight, seen from the queue; from registers.

    *Ports*:
    waiting : Out(1)
        An operation is pending.
    thread_empty, matrix_empty : Out(1)
        No operation of the unit is pending or in flight.
    thread_left : Out(THREAD_LEFT_BITS)
        Number of thread operations that are pending or in flight.
    mm_awaits : Out(1)
        An ``mm`` was dispatched before the loads of its factors were done, and they are not: ``matrix_hold`` of the cycle before.
    """
    return Signature(dict.fromkeys(("waiting", "thread_empty", "matrix_empty", "mm_awaits"), Out(1))
                     | {"thread_left": Out(THREAD_LEFT_BITS)})


class IssueQueue(Component):
    """Issue queue of one operation, for the thread unit and the matrix unit, with their scoreboard [S0.10].

    Parameters
    ----------
    cfg : FrontEndParameters

    *Ports*:
    i : In(stream.Signature(decoded_layout(cfg)))
        Operations of the two units; nothing else may be valid.
    o_thread : Out(stream.Signature(thread_operation_layout(cfg)))
        Operations for the thread unit.
    o_matrix : Out(stream.Signature(matrix_operation_layout(cfg)))
        Operations for the matrix unit.
    masks : In(ThreadMaskPort(threads))
        Thread predicates and lane mask; an ``mm`` evaluates its guard and reads the lane mask in the cycle in which it is dispatched.
    thread_done, matrix_done : In(1)
        The oldest operation in flight of the unit has completed.
    clear : In(1)
        Empties the queue and the scoreboard.
    status : Out(IssueQueueStatus())
        Operations that are pending or in flight.
    matrix_hold : Out(1)
        From the next cycle on the matrix unit must not begin a step: an ``mm`` was dispatched before loads of its factors are done.
    events : Out(EventPort(("scoreboard_stalls", "queue_stalls")))
        ``scoreboard_stalls``: the pending operation has a hazard or no scoreboard entry.
        ``queue_stalls``: the operation has no hazard and its unit does not take it.
    waiting_thread : Out(1)
        The pending operation has a hazard, or waits for the thread unit.

    *Latency*: one cycle from ``i`` to ``o_thread.valid`` or ``o_matrix.valid``. At least two cycles with a hazard, or directly behind an
    operation of the other unit.

    *Throughput*: one operation a cycle.

    *Back-pressure*: ``i.ready`` does not depend on ``i``; the signal is high while ``status.waiting`` is low, and combinational from
    ``o_thread.ready`` and ``o_matrix.ready`` otherwise. Both ``valid`` and all fields of ``payload`` come from registers, except
    ``columns`` and ``lanes`` (combinational from ``masks``).

    *Reset*: the queue is empty; payloads have no reset.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        self._part_bits = cfg.numbers_per_word.bit_length() - 1
        super().__init__({
            "matrix_hold": Out(1),
            "i": In(stream.Signature(decoded_layout(cfg))),
            "o_thread": Out(stream.Signature(thread_operation_layout(cfg))),
            "o_matrix": Out(stream.Signature(matrix_operation_layout(cfg))),
            "masks": In(ThreadMaskPort(cfg.threads)),
            "thread_done": In(1), "matrix_done": In(1), "clear": In(1), "status": Out(IssueQueueStatus()),
            "events": Out(EventPort(("scoreboard_stalls", "queue_stalls"))), "waiting_thread": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.scoreboard = scoreboard = Scoreboard(self.cfg)
        instruction, word = self.i.payload, self.i.payload.word
        thread = Signal(thread_operation_layout(self.cfg), reset_less=True)
        matrix = Signal(matrix_operation_layout(self.cfg), reset_less=True)
        for_matrix = Signal(reset_less=True)
        for_thread = Signal(reset_less=True)
        refused = Signal()
        m.d.comb += [
            self.i.ready.eq(scoreboard.i.ready),
            scoreboard.i.valid.eq(self.i.valid), scoreboard.i.payload.uses.eq(instruction.uses),
            scoreboard.i.payload.for_matrix.eq(instruction.for_matrix),
            scoreboard.i.payload.writes_predicate.eq((word.opcode == Opcode.THREAD_COMPARE) | (word.opcode == Opcode.LANE_MASK)),
            scoreboard.thread_done.eq(self.thread_done), scoreboard.matrix_done.eq(self.matrix_done), scoreboard.clear.eq(self.clear),
            self.status.thread_empty.eq(scoreboard.thread_empty), self.status.matrix_empty.eq(scoreboard.matrix_empty),
            self.status.thread_left.eq(scoreboard.thread_left),
            self.o_thread.payload.eq(thread), self.o_thread.valid.eq(scoreboard.free & for_thread),
            self.o_matrix.payload.eq(matrix), self.o_matrix.valid.eq(scoreboard.free & for_matrix),
            self._columns(m, thread),
            self.o_matrix.payload.lanes.eq(self.masks.lanes),
            refused.eq(~Mux(for_matrix, self.o_matrix.ready, self.o_thread.ready)),
            scoreboard.add.eq(scoreboard.free & ~refused),
            self.status.waiting.eq(scoreboard.waiting),
            self.events.scoreboard_stalls.eq(scoreboard.waiting & ~scoreboard.free),
            self.events.queue_stalls.eq(scoreboard.free & refused),
            self.waiting_thread.eq(self.events.scoreboard_stalls | (self.events.queue_stalls & for_thread)),
        ]
        # All register groups but that of the offsets of B.
        shift = self._part_bits + self.cfg.factor_address_bits - exact_log2(REGISTER_GROUPS)
        offset = (word.a - FIRST_FACTOR_REGISTER)[shift:][:exact_log2(REGISTER_GROUPS)]
        m.d.comb += [scoreboard.i.payload.lanes_only.eq(~(1 << offset)), self.matrix_hold.eq(scoreboard.matrix_hold)]
        m.d.sync += self.status.mm_awaits.eq(scoreboard.matrix_hold)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [for_thread.eq(instruction.for_thread), for_matrix.eq(instruction.for_matrix)]
            self._thread(m, thread, instruction, word)
            self._matrix(m, matrix, instruction, word)
        return m

    def _thread(self, m, operation, instruction, word):
        special = word.opcode == Opcode.THREAD_SPECIAL
        thread_number = word.modifiers.alu.special == Special.TID
        gathers = (word.opcode == Opcode.GATHER) if self.cfg.gather_offsets else Const(0)
        accesses = (word.opcode == Opcode.LOAD) | (word.opcode == Opcode.STORE) | gathers
        alu = word.modifiers.alu
        narrows = (alu.function == AluFunction.NARROW) | (alu.function == AluFunction.SCALE)
        vector = (word.opcode == Opcode.THREAD_ALU) & (alu.vector | narrows)
        kind = Signal(ThreadKind)
        with m.Switch(word.opcode):
            for opcode, of_opcode in thread_kinds(self.cfg).items():
                with m.Case(opcode):
                    m.d.comb += kind.eq(of_opcode)
        with m.If(special & ~thread_number):
            m.d.comb += kind.eq(ThreadKind.ALU)
        m.d.sync += [
            operation.kind.eq(kind),
            operation.function.eq(Mux(special, AluFunction.MOV, alu.function)),
            operation.compare.eq(alu.compare), operation.unsigned.eq(alu.unsigned),
            operation.access.eq(Mux(accesses, word.modifiers.memory.access, Mux(vector, Access.V4, Access.B32))),
            operation.space.eq(instruction.segment.space),
            operation.element_shift.eq(Mux(gathers, 0, instruction.segment.element_shift)),
            operation.swizzle.eq(instruction.segment.swizzle),
            operation.guard.eq(word.guard),
            operation.guard_negate.eq(word.guard_negate), operation.dst.eq(word.dst), operation.a.eq(word.a),
            operation.b.eq(word.b), operation.b_is_register.eq(~special & (word.b_source == OperandSource.REGISTER)),
            operation.c.eq(word.c), operation.pc.eq(instruction.pc),
            operation.value.eq(instruction.b_value),
        ]
        if self.cfg.output_stage:
            m.d.sync += operation.output.eq(Mux(word.opcode == Opcode.THREAD_ALU, alu.output, OutputUse.NONE))
        if self.cfg.gather_offsets:
            uniform = data.View(uniform_layout, instruction.a_value)
            m.d.sync += [
                operation.gathers.eq(gathers), operation.entries.eq(word.modifiers.memory.entries),
                operation.first_entry.eq(uniform.entry + word.c), operation.padding.eq(uniform.padding),
            ]

    def _matrix(self, m, operation, instruction, word):
        fields = word.modifiers.matrix
        fills = (word.opcode == Opcode.OFFSETS) if self.cfg.compiled_offsets else Const(0)
        m.d.sync += [
            operation.product.eq(word.dst),
            operation.factor_word.eq(Mux(fills, word.c, (word.c - 256)[self._part_bits:])),
            operation.offset_register.eq(word.a - 256),
            operation.base.eq(instruction.b_value), operation.element_shift.eq(instruction.segment.element_shift),
            operation.swizzle.eq(instruction.segment.swizzle),
            operation.a_signed.eq(fields.a_signed), operation.b_signed.eq(fields.b_signed),
            operation.k_length.eq(fields.k_length), operation.order.eq(fields.order), operation.zero.eq(fields.zero),
            operation.ka.eq(fields.ka), operation.ka_interleaved.eq(fields.ka_interleaved),
            operation.kb.eq(fields.kb), operation.kb_destination.eq(fields.kb_destination),
            operation.lane_sum.eq(fields.lane_sum), operation.int16.eq(fields.element == ElementType.INT16),
            operation.pc.eq(instruction.pc),
        ]
        if self.cfg.transpose:
            m.d.sync += [
                operation.transpose.eq(fields.transpose),
                operation.pitch.eq(instruction.a_value << instruction.segment.element_shift),
            ]
        if self.cfg.compiled_offsets:
            m.d.sync += [operation.compiled.eq(fields.compiled), operation.fill.eq(fills)]
            with m.If(fields.compiled != OffsetEntry.NONE):
                m.d.sync += operation.pitch.eq(instruction.a_value)

    def _columns(self, m, operation):
        """Columns of an ``mm``: the threads whose guard holds; of ``offsets`` thread 0."""
        guard = Signal(self.cfg.threads)
        with m.Switch(operation.guard):
            for index, predicate in enumerate(self.masks.predicates):
                with m.Case(index):
                    m.d.comb += guard.eq(predicate)
            with m.Default():
                m.d.comb += guard.eq(~0)
        columns = guard ^ operation.guard_negate.replicate(self.cfg.threads)
        if self.cfg.compiled_offsets:
            columns = Mux(self.o_matrix.payload.fill, 1, columns)
        return self.o_matrix.payload.columns.eq(columns)
