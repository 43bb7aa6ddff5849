"""Issue: executes control and uniform instructions and hands the others to their units, in order."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..config import FIRST_FACTOR_REGISTER, TOKEN_GRANULES, UNIFORM_PREDICATES
from ..errors import ErrorCode
from ..isa.layout import Access, AluFunction, ElementType, Opcode, OperandSource, Special, WaitUnit
from ..layouts import ErrorStream, ThreadKind, matrix_operation_layout, row_operation_layout, thread_operation_layout
from ..thread.alu import AluDatapath
from .checks import FailedField, failed_operand
from .decode import THREAD_KINDS, decoded_layout
from .tokens import Tokens
from .uniform import segment_layout

__all__ = ["Issue", "issue_members"]

QUIET_CYCLES = 8        # idle cycles of the copy unit after which a waiting barrier can no longer complete


def issue_members(cfg):
    """Ports of ``Issue``; those that ``FrontEnd`` passes on keep their names."""
    return ({"matrix_hold": Out(1)} if cfg.issue_ahead else {}) | {
        "i": In(stream.Signature(decoded_layout)), "start": In(1), "stop": In(1),
        "redirect": Out(1), "target": Out(cfg.program_counter_bits), "flush": Out(1), "hold": Out(1),
        "active": Out(1), "ended": Out(1), "o_error": Out(ErrorStream()),
        "o_thread": Out(stream.Signature(thread_operation_layout)),
        "o_matrix": Out(stream.Signature(matrix_operation_layout(cfg))),
        "o_copy": Out(stream.Signature(row_operation_layout)),
        "predicates": In(cfg.threads).array(7), "lane_mask": In(cfg.threads),
        "thread_done": In(1), "matrix_done": In(1),
        "thread_busy": In(1), "matrix_busy": In(1), "copy_busy": In(1), "writes_pending": In(1),
        "tokens_empty": Out(1),
        "uniform_write": Out(1), "uniform_index": Out(6), "uniform_data": Out(32),
        "segment_write": Out(1), "segment_index": Out(4), "segment_data": Out(segment_layout),
        "expect": Out(1), "barrier": Out(4), "expect_bytes": Out(32),
        "barrier_complete": In(1), "barrier_overrun": In(1),
        "event_instructions": Out(1), "event_token_stalls": Out(1), "event_queue_stalls": Out(1),
        "event_barrier_stalls": Out(1), "waiting_copy": Out(1), "waiting_thread": Out(1),
    }


class Issue(Component):
    """One decoded instruction at a time, in program order.

    Control and uniform instructions take one cycle; instructions of units leave when their register tokens are free and the unit's queue
    takes them; ``wait`` and ``barrier.wait`` stay until what they wait for has happened. A failed check or trap is reported at ``o_error``
    and ends the program.

    Members
    -------
    i : stream of ``decoded_layout``
    start, stop
        Begin a run (predicates and tokens are cleared); end it: control instructions are dropped, the others go to their units.
    redirect, target
        A branch is taken.
    flush
        Instructions behind this one are void (a branch is taken, or the program has ended).
    hold
        The instruction writes uniform registers or segments: the next one must not read them yet.
    active, ended
        A program runs; it has ended by ``halt`` or by an error of its own.
    o_thread, o_matrix, o_copy
        Operations for the units.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__(issue_members(cfg))

    def elaborate(self, platform):
        m = Module()
        m.submodules.tokens = self._tokens = Tokens(self.cfg)
        m.submodules.alu = self._alu = AluDatapath()
        self._uniform_predicates = Signal(UNIFORM_PREDICATES)
        self._leave = Signal()              # the instruction leaves this stage
        self._execute = Signal()            # it is a legal instruction of a running program
        self._guarded = Signal()            # its uniform guard holds
        self._fail = Signal()               # it raises an error
        instruction, word = self.i.payload, self.i.payload.word

        self._failed = failed = Signal(FailedField)     # the operand of the error
        always = Cat(self._uniform_predicates, 1)
        legal = instruction.code == ErrorCode.NONE
        m.d.comb += [
            self._guarded.eq(always.bit_select(word.guard, 1) ^ word.guard_negate),
            self._execute.eq(self.i.valid & self.active & legal),
            self.i.ready.eq(self._leave),
            self.hold.eq(self._execute & instruction.writes_uniform),
            self.o_error.valid.eq(self._fail & self.active),
            self.o_error.payload.pc.eq(instruction.pc),
            self.o_error.payload.code.eq(instruction.code),
            failed.eq(instruction.field),
            self.o_error.payload.operand.eq(failed_operand(self.cfg, word, failed)),
            self.event_instructions.eq(self._leave & self._execute),
        ]
        with m.If(self.i.valid & ~legal):
            m.d.comb += [self._fail.eq(1), self._leave.eq(1)]
        with m.If(~self.active):
            m.d.comb += self._leave.eq(1)
        with m.If(self._execute):
            self._control(m, word)
            self._uniform(m, word)
            self._barriers(m, word)
        self._values(m, instruction, word)
        self._thread(m, instruction, word)
        self._matrix(m, instruction, word)
        self._copy(m, instruction, word)
        self._state(m)
        return m

    def _raise(self, m, code, field):
        m.d.comb += [self._fail.eq(1), self.o_error.payload.code.eq(code), self._failed.eq(field)]

    def _state(self, m):
        halted = Signal()
        m.d.comb += [
            halted.eq(self._execute & (self.i.payload.word.opcode == Opcode.HALT) & self._guarded),
            self.flush.eq(self.redirect | self._fail | halted | ~self.active),
            self.tokens_empty.eq(self._tokens.thread_empty & self._tokens.matrix_empty),
            self._tokens.thread_done.eq(self.thread_done),
            self._tokens.matrix_done.eq(self.matrix_done),
            self._tokens.clear.eq(self.start),
        ]
        # A unit's operation that waits to be taken stays offered; anything else ends with the program.
        offering = self._operation() & self.i.valid
        with m.If(halted | self._fail | (self.stop & ~offering)):
            m.d.sync += [self.active.eq(0), self.ended.eq(1)]
        with m.If(self.start):
            m.d.sync += [self.active.eq(1), self.ended.eq(0), self._uniform_predicates.eq(0)]

    def _operation(self):
        instruction = self.i.payload
        return instruction.for_thread | instruction.for_matrix | instruction.for_copy

    def _values(self, m, instruction, word):
        """What control and uniform instructions write, not gated by their execution: the strobes beside it are."""
        alu = self._alu
        m.d.comb += [
            alu.control.eq(instruction.control), alu.a.eq(instruction.a_value), alu.b.eq(instruction.b_value),
            self.uniform_index.eq(word.dst), self.uniform_data.eq(alu.result),
            self.segment_index.eq(word.dst),
            self.segment_data.base.eq(instruction.b_value),
            self.segment_data.space.eq(word.modifiers.segment.space),
            self.segment_data.element_shift.eq(word.modifiers.segment.element_shift),
            self.barrier.eq(word.a), self.expect_bytes.eq(instruction.b_value), self.target.eq(word.imm),
        ]

    # -- control ----------------------------------------------------------------------------

    def _control(self, m, word):
        with m.Switch(word.opcode):
            with m.Case(Opcode.NOP, Opcode.HALT):
                m.d.comb += self._leave.eq(1)
            with m.Case(Opcode.TRAP):
                m.d.comb += self._leave.eq(1)
                with m.If(self._guarded):
                    self._raise(m, ErrorCode.TRAP, FailedField.imm)
            with m.Case(Opcode.BRANCH):
                m.d.comb += self._leave.eq(1)
                with m.If(self._guarded & (word.imm >= self.cfg.instruction_words)):
                    self._raise(m, ErrorCode.PROGRAM_COUNTER, FailedField.imm)
                with m.Elif(self._guarded):
                    m.d.comb += self.redirect.eq(1)
            with m.Case(Opcode.WAIT):
                self._wait(m, word)
            with m.Case(Opcode.SEGMENT):
                m.d.comb += [self._leave.eq(1), self.segment_write.eq(self._guarded)]

    def _wait(self, m, word):
        units = word.modifiers.wait.units
        busy = Signal(3)
        m.d.comb += [
            busy[WaitUnit.THREAD.value].eq(~self._tokens.thread_empty | self.thread_busy | self.writes_pending),
            busy[WaitUnit.COPY.value].eq(self.copy_busy),
            busy[WaitUnit.MATRIX.value].eq(~self._tokens.matrix_empty | self.matrix_busy),
            self._leave.eq(~self._guarded | ~(busy & units).any()),
            self.waiting_thread.eq(~self._leave & (busy & units)[WaitUnit.THREAD.value]),
            self.waiting_copy.eq(~self._leave & (busy & units)[WaitUnit.COPY.value]),
        ]

    # -- uniform instructions ---------------------------------------------------------------

    def _uniform(self, m, word):
        with m.Switch(word.opcode):
            with m.Case(Opcode.UNIFORM_ALU, Opcode.UNIFORM_SPECIAL):
                m.d.comb += [self._leave.eq(1), self.uniform_write.eq(self._guarded)]
            with m.Case(Opcode.UNIFORM_COMPARE):
                m.d.comb += self._leave.eq(1)
                with m.If(self._guarded):
                    m.d.sync += self._uniform_predicates.bit_select(word.dst, 1).eq(self._alu.compare_result)

    # -- barriers ---------------------------------------------------------------------------

    def _barriers(self, m, word):
        quiet = Signal(range(QUIET_CYCLES + 1))     # cycles that this barrier.wait has seen no copy in flight
        with m.If((word.opcode == Opcode.BARRIER_WAIT) & ~self._leave & ~self.copy_busy):
            m.d.sync += quiet.eq(quiet + 1)
        with m.Else():
            m.d.sync += quiet.eq(0)
        with m.Switch(word.opcode):
            with m.Case(Opcode.BARRIER_EXPECT):
                m.d.comb += [self._leave.eq(1), self.expect.eq(self._guarded)]
            with m.Case(Opcode.BARRIER_WAIT):
                settled = quiet == QUIET_CYCLES
                m.d.comb += self._leave.eq(~self._guarded | self.barrier_complete | settled)
                with m.If(self._guarded & settled & ~self.barrier_complete):
                    self._raise(m, Mux(self.barrier_overrun, ErrorCode.BARRIER_OVERRUN, ErrorCode.BARRIER_UNDERRUN),
                                FailedField.a)
                m.d.comb += [self.event_barrier_stalls.eq(~self._leave), self.waiting_copy.eq(~self._leave)]

    # -- operations of units ----------------------------------------------------------------

    def _offer(self, m, port, wanted, free):
        """Offer the instruction to a unit when its tokens are free."""
        offered = self._execute & wanted
        m.d.comb += port.valid.eq(offered & free)
        with m.If(offered):
            m.d.comb += [
                self._leave.eq(free & port.ready),
                self.event_token_stalls.eq(~free),
                self.event_queue_stalls.eq(free & ~port.ready),
            ]
        return offered

    def _thread(self, m, instruction, word):
        tokens, operation = self._tokens, self.o_thread.payload
        offered = self._offer(m, self.o_thread, instruction.for_thread, tokens.free)
        writes_predicate = (word.opcode == Opcode.THREAD_COMPARE) | (word.opcode == Opcode.LANE_MASK)
        m.d.comb += [
            tokens.token.eq(instruction.token), tokens.for_matrix.eq(instruction.for_matrix), tokens.writes_predicate.eq(writes_predicate),
            tokens.add.eq((self.o_thread.valid & self.o_thread.ready) | (self.o_matrix.valid & self.o_matrix.ready)),
        ]
        with m.If(offered & ~self._leave):
            m.d.comb += self.waiting_thread.eq(1)
        special = word.opcode == Opcode.THREAD_SPECIAL
        thread_number = word.modifiers.alu.special == Special.TID
        accesses = (word.opcode == Opcode.LOAD) | (word.opcode == Opcode.STORE)
        alu = word.modifiers.alu
        narrows = (alu.function == AluFunction.NARROW) | (alu.function == AluFunction.SCALE)
        vector = (word.opcode == Opcode.THREAD_ALU) & (alu.vector | narrows)
        with m.Switch(word.opcode):
            for opcode, kind in THREAD_KINDS.items():
                with m.Case(opcode):
                    m.d.comb += operation.kind.eq(kind)
        with m.If(special & ~thread_number):
            m.d.comb += operation.kind.eq(ThreadKind.ALU)
        m.d.comb += [
            operation.function.eq(Mux(special, AluFunction.MOV, alu.function)),
            operation.compare.eq(alu.compare), operation.unsigned.eq(alu.unsigned),
            operation.access.eq(Mux(accesses, word.modifiers.memory.access, Mux(vector, Access.V4, Access.B32))),
            operation.space.eq(instruction.segment.space),
            operation.element_shift.eq(instruction.segment.element_shift), operation.guard.eq(word.guard),
            operation.guard_negate.eq(word.guard_negate), operation.dst.eq(word.dst), operation.a.eq(word.a),
            operation.b.eq(word.b), operation.b_is_register.eq(~special & (word.b_source == OperandSource.REGISTER)),
            operation.c.eq(word.c), operation.pc.eq(instruction.pc),
            operation.value.eq(instruction.b_value),
        ]

    def _matrix(self, m, instruction, word):
        operation, fields = self.o_matrix.payload, word.modifiers.matrix
        part_bits = self.cfg.numbers_per_word.bit_length() - 1
        offered = self._offer(m, self.o_matrix, instruction.for_matrix, self._tokens.free)
        if self.cfg.issue_ahead:        # all but the offsets of B
            shift = part_bits + self.cfg.factor_address_bits - exact_log2(TOKEN_GRANULES)
            offset = (word.a - FIRST_FACTOR_REGISTER)[shift:][:exact_log2(TOKEN_GRANULES)]
            m.d.comb += [self._tokens.lanes_only.eq(~(1 << offset)), self.matrix_hold.eq(self._tokens.matrix_hold)]
        guard = Signal(self.cfg.threads)
        with m.Switch(word.guard):
            for index, predicate in enumerate(self.predicates):
                with m.Case(index):
                    m.d.comb += guard.eq(predicate)
            with m.Default():
                m.d.comb += guard.eq(~0)
        with m.If(offered & ~self._tokens.free):
            m.d.comb += self.waiting_thread.eq(1)
        m.d.comb += [
            operation.product.eq(word.dst),
            operation.factor_word.eq((word.c - 256)[part_bits:]),
            operation.offset_register.eq(word.a - 256),
            operation.base.eq(instruction.b_value), operation.element_shift.eq(instruction.segment.element_shift),
            operation.columns.eq(guard ^ word.guard_negate.replicate(self.cfg.threads)),
            operation.lanes.eq(self.lane_mask),
            operation.a_signed.eq(fields.a_signed), operation.b_signed.eq(fields.b_signed),
            operation.k_length.eq(fields.k_length), operation.order.eq(fields.order), operation.zero.eq(fields.zero),
            operation.ka.eq(fields.ka), operation.ka_interleaved.eq(fields.ka_interleaved),
            operation.kb.eq(fields.kb), operation.kb_destination.eq(fields.kb_destination),
            operation.lane_sum.eq(fields.lane_sum), operation.int16.eq(fields.element == ElementType.INT16),
            operation.pc.eq(instruction.pc),
        ]
        if self.cfg.transpose:
            m.d.comb += [
                operation.transpose.eq(fields.transpose),
                operation.pitch.eq(instruction.a_value << instruction.segment.element_shift),
            ]

    def _copy(self, m, instruction, word):
        """Copies have uniform guards and need no tokens: their registers were read at decode."""
        operation, first, fields = self.o_copy.payload, self.o_copy.payload.first, word.modifiers.copy
        copies = instruction.for_copy
        offered = self._offer(m, self.o_copy, copies & self._guarded, 1)
        with m.If(offered & ~self._leave):
            m.d.comb += self.waiting_copy.eq(1)
        with m.If(self._execute & copies & ~self._guarded):
            m.d.comb += self._leave.eq(1)
        m.d.comb += [
            first.destination_space.eq(fields.destination), first.source_space.eq(fields.source),
            first.destination.eq(instruction.destination), first.source.eq(instruction.a_value),
            first.blocks.eq(instruction.b_value), first.swizzle.eq(fields.swizzle), first.reduction.eq(fields.reduction),
            first.barrier.eq(fields.barrier), first.has_barrier.eq(fields.has_barrier), first.pc.eq(instruction.pc),
            operation.rows.eq(instruction.rows),
            operation.destination_pitch.eq(instruction.destination_pitch), operation.source_pitch.eq(instruction.source_pitch),
        ]
