"""Issue: executes control and uniform instructions and hands the others to their units, in order."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..constants import STORE_GROUPS, UNIFORM_PREDICATES
from ..interfaces.layouts import PC_BITS, CopyKind, ErrorStream, matrix_operation_layout, row_operation_layout, thread_operation_layout
from ..isa.encoding import Opcode, Reduction, Space, WaitUnit
from ..isa.error_codes import ErrorCode
from ..lib.members import connect_members
from ..thread.alu import AluDatapath
from ..tmau.layouts import tensor_operation_layout
from .decode import decoded_layout
from .instruction_checks import failed_operand
from .issue_queue import IssueQueue
from .recurrent_control import RecurrentControl, recurrent_error_layout
from .uniform_state import segment_layout
from .wait_limit import QuietCounter, WaitLimit

__all__ = ["Issue", "issue_members"]


class Issue(Component):
    """One decoded instruction at a time, in program order.

    Control and uniform instructions take one cycle; operations of the thread and the matrix unit go to the gate (``gate.py``), which
    holds one until its register tokens are free, copies to their unit; ``wait`` and its like stay until what they wait for has
    happened, and a cycle more. With ``cfg.far_registers`` a ``barrier.wait`` takes two cycles more, a comparison of uniform registers one.
    A failed check or trap is reported at ``o_error`` and ends the program. Instructions behind an operation at the gate, other than
    operations, execute while it waits.

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
    pc
        Number of the instruction at issue, a cycle later; between instructions that of the last one. Void before the first one of a run.
    o_thread, o_matrix, o_copy, o_tensor
        Operations for the units; copies of tensors only with ``cfg.tensors``.
    opens, opens_barrier, barrier, barrier_complete, barrier_overrun, barrier_excess, barrier_passed
        To and from ``Barriers``: ``opened``, ``index``, ``complete``, ``overrun``, ``excess``, ``passed``.
    invalidate, invalidate_address
        A descriptor of a tensor is to be forgotten, in this cycle.
    wait_timeout
        Cycles that an instruction may wait (with ``cfg.wait_timeout``), 0: any number. WAIT_TIMEOUT: operand is the barrier, the mask of
        the units, the number of groups.
    settled, peers_settled
        With ``cfg.multicast``: no copy of this core will come, as its program has ended or waits at a barrier; nor of any other core.
    rows_busy, commit, groups_pending, groups_unread
        Rows of a copy are not yet with the TMAU; the groups of stores, see ``StoreGroups``.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__(issue_members(cfg))

    def elaborate(self, platform):
        m = Module()
        m.submodules.gate = self._gate = IssueQueue(self.cfg)
        m.submodules.alu = self._alu = AluDatapath(registered=True)
        self._uniform_predicates = Signal(UNIFORM_PREDICATES)
        self._leave = Signal()              # the instruction leaves this stage
        self._execute = Signal()            # it is a legal instruction of a running program
        self._guarded = Signal()            # its uniform guard holds
        self._guarded_before = Signal()     # it held a cycle before: enough for a copy of blocks, which is here before it is valid
        self._passes = Signal()             # what a ``wait`` or ``barrier.wait`` waits for has happened a cycle before
        self._fail = Signal()               # it raises an error
        instruction, word = self.i.payload, self.i.payload.word

        always = Cat(self._uniform_predicates, 1)
        m.d.comb += [
            self._guarded.eq(always.bit_select(word.guard, 1) ^ word.guard_negate),
            self._execute.eq(self.i.valid & self.active & instruction.legal),
            self.i.ready.eq(self._leave),
            self.hold.eq(self.i.valid & instruction.writes_uniform),
            self.o_error.valid.eq(self._fail & self.active),
            self.o_error.payload.pc.eq(instruction.pc),
            self.o_error.payload.code.eq(instruction.code),
            self.o_error.payload.operand.eq(failed_operand(self.cfg, instruction.pc, word, instruction.field)),
            self.event_instructions.eq(self._leave & self._execute),
        ]
        # What stands here without being valid may leave: ``leave`` is on the longest paths.
        m.d.comb += self._leave.eq(instruction.at_once | ~instruction.legal | ~self.active | self._passes
                                   | ((instruction.for_thread | instruction.for_matrix) & self._gate.i.ready)
                                   | (instruction.for_copy & (~self._guarded_before | (self.o_copy.ready & ~self._gate.waiting)))
                                   | self._tensor_leaves(instruction))
        m.d.sync += [self._guarded_before.eq(self._guarded), self._passes.eq(0)]
        self._values(m, instruction, word)
        if self.cfg.far_registers:
            self._later(m, word)
        with m.If(~instruction.legal):
            m.d.comb += self._fail.eq(self.i.valid)
        self._settle(m, word)
        with m.If(self._execute):
            self._control(m, word)
            self._uniform(m, word)
            self._barriers(m, word)
        self._operations(m, instruction)
        self._copy(m, instruction, word)
        if self.cfg.tensors:
            self._tensor(m, instruction, word)
        if self.cfg.multicast:
            self._multicast(m, instruction, word)
        if self.cfg.wait_timeout:
            self._limit(m, instruction, word)
        if self.cfg.rnn:
            self._recurrent(m, instruction, word)
        self._state(m)
        return m

    def _state(self, m):
        halted = Signal()
        m.d.comb += [
            halted.eq(self._execute & (self.i.payload.word.opcode == Opcode.HALT) & self._guarded),
            self.flush.eq(self.redirect | self._fail | halted | ~self.active),
            self.tokens_empty.eq(self._gate.thread_empty & self._gate.matrix_empty),
        ]
        # A copy that waits to be taken stays offered, as an operation at the gate does; anything else ends with the program.
        for_copies = self.i.payload.for_copy | self.i.payload.for_tensor if self.cfg.tensors else self.i.payload.for_copy
        offering = for_copies & self.i.valid
        with m.If(halted | self._fail | (self.stop & ~offering)):
            m.d.sync += [self.active.eq(0), self.ended.eq(1)]
        with m.If(self.i.valid & self.active):
            m.d.sync += self.pc.eq(self.i.payload.pc)
        with m.If(self.start):
            m.d.sync += [self.active.eq(1), self.ended.eq(0), self._uniform_predicates.eq(0)]

    def _values(self, m, instruction, word):
        """What control and uniform instructions write, not gated by their execution: the strobes beside it are. Uniform registers are
        written a cycle later."""
        alu = self._alu
        m.d.sync += [self.uniform_index.eq(word.dst), self.uniform_write.eq(0)]
        m.d.comb += [
            alu.control.eq(instruction.control), alu.a.eq(instruction.a_value), alu.b.eq(instruction.b_value),
            self.uniform_data.eq(alu.result),
            self.segment_index.eq(word.dst),
            self.segment_data.base.eq(instruction.b_value),
            self.segment_data.space.eq(word.modifiers.segment.space),
            self.segment_data.element_shift.eq(word.modifiers.segment.element_shift),
            self.barrier.eq(word.a), self.expect_bytes.eq(instruction.b_value), self.target.eq(word.imm),
            self.opens_barrier.eq(word.modifiers.copy.barrier),
        ]

    def _later(self, m, word):
        """A cycle later: the predicate of a comparison; two cycles later: the state of a barrier."""
        self._known, self._compared, result = Signal(name="known"), Signal(name="compared"), Signal(name="compare_result", reset_less=True)
        waits = self._execute & (word.opcode == Opcode.BARRIER_WAIT) & ~self._passes
        waited = Signal(name="waited")
        m.d.sync += [result.eq(self._alu.compare_result), self._compared.eq(0), waited.eq(waits), self._known.eq(waits & waited)]
        with m.If(self._compared):
            m.d.sync += self._uniform_predicates.bit_select(self.uniform_index, 1).eq(result)

    def _control(self, m, word):
        with m.Switch(word.opcode):
            with m.Case(Opcode.TRAP):
                m.d.comb += self._fail.eq(self._guarded)
            with m.Case(Opcode.BRANCH):
                exists = self.i.payload.target_exists
                m.d.comb += [self.redirect.eq(self._guarded & exists), self._fail.eq(self._guarded & ~exists)]
            with m.Case(Opcode.WAIT):
                self._wait(m, word)
            with m.Case(Opcode.SEGMENT):
                m.d.comb += self.segment_write.eq(self._guarded)
            if self.cfg.tensors:
                with m.Case(Opcode.COMMIT_GROUP):
                    self._await(m, ~self.rows_busy & (self.groups_pending != STORE_GROUPS))
                    m.d.comb += self.commit.eq(self._passes & self._guarded)
                with m.Case(Opcode.WAIT_GROUP):
                    self._await(m, Mux(word.modifiers.wait.read, self.groups_unread, self.groups_pending) <= word.imm)

    def _await(self, m, happened):
        """An instruction about groups of stores stays until ``happened``."""
        m.d.sync += self._passes.eq(~self._passes & (~self._guarded | happened))
        m.d.comb += self.waiting_copy.eq(~self._passes & self._guarded & ~happened)

    def _wait(self, m, word):
        units = word.modifiers.wait.units
        busy = Signal(3)
        m.d.comb += [
            busy[WaitUnit.THREAD.value].eq(~self._gate.thread_empty | self.thread_busy | self.writes_pending),
            busy[WaitUnit.COPY.value].eq(self.copy_busy),
            busy[WaitUnit.MATRIX.value].eq(~self._gate.matrix_empty | self.matrix_busy),
            self.waiting_thread.eq(~self._passes & self._guarded & (busy & units)[WaitUnit.THREAD.value]),
            self.waiting_copy.eq(~self._passes & self._guarded & (busy & units)[WaitUnit.COPY.value]),
        ]
        m.d.sync += self._passes.eq(~self._passes & ~(self._guarded & (busy & units).any()))

    def _limit(self, m, instruction, word):
        """A wait of more than ``wait_timeout`` cycles is an error."""
        m.submodules.wait_limit = limit = WaitLimit()
        # Cycles in which its barrier is looked up are none.
        looks = (word.opcode == Opcode.BARRIER_WAIT) & ~self._known if self.cfg.far_registers else Const(0)
        waits = self._execute & instruction.waits & self._guarded & ~self._passes & ~looks
        m.d.comb += [limit.waits.eq(waits), limit.limit.eq(self.wait_timeout)]
        with m.If(limit.over):
            m.d.comb += [
                self._fail.eq(1), self.o_error.payload.code.eq(ErrorCode.WAIT_TIMEOUT),
                self.o_error.payload.operand.eq(Mux(word.opcode == Opcode.WAIT, word.modifiers.wait.units,
                                                    Mux(word.opcode == Opcode.BARRIER_WAIT, word.a, word.imm))),
            ]

    def _recurrent(self, m, instruction, word):
        m.submodules.recurrent = control = RecurrentControl()
        gate = self._gate
        busy = ~gate.thread_empty | self.thread_busy | self.writes_pending | ~gate.matrix_empty | self.matrix_busy
        m.d.comb += [
            control.execute.eq(self._execute & (word.opcode == Opcode.RECURRENT)), control.guarded.eq(self._guarded),
            control.quiet.eq(~busy), control.busy.eq(self.recurrent_busy), self.recurrent_start.eq(control.start),
            self.recurrent_address.eq(instruction.a_value),
        ]
        with m.If(control.execute):
            m.d.sync += self._passes.eq(control.ended)
        with m.If(control.execute & self.recurrent_error.failed):
            m.d.comb += [self._fail.eq(1), self.o_error.payload.code.eq(self.recurrent_error.code),
                         self.o_error.payload.operand.eq(
                             Mux(self.recurrent_error.of_image, instruction.a_value, self.recurrent_error.operand))]

    def _uniform(self, m, word):
        with m.Switch(word.opcode):
            with m.Case(Opcode.UNIFORM_ALU, Opcode.UNIFORM_SPECIAL):
                m.d.sync += self.uniform_write.eq(self._guarded)
            with m.Case(Opcode.UNIFORM_COMPARE):
                if self.cfg.far_registers:
                    m.d.sync += self._compared.eq(self._guarded)
                else:
                    with m.If(self._guarded):
                        m.d.sync += self._uniform_predicates.bit_select(word.dst, 1).eq(self._alu.compare_result)

    def _settle(self, m, word):
        """Whether no copy comes any more: while a ``barrier.wait`` waits; with multicast behind the program too, as other cores ask."""
        m.submodules.quiet_counter = self._quiet = quiet = QuietCounter()
        waits = self._execute & (word.opcode == Opcode.BARRIER_WAIT) & ~self._passes
        asks = waits
        if self.cfg.multicast:          # a core that can go on may still send
            asks = waits | ~self.active
            m.d.comb += self.settled.eq(quiet.reached & ~(waits & self.barrier_complete))
        m.d.comb += quiet.quiet.eq(asks & ~self.copy_busy)

    def _barriers(self, m, word):
        never = Signal()                # the barrier cannot complete: an error when the instruction passes
        settled = self.settled & self.peers_settled if self.cfg.multicast else self._quiet.reached
        with m.Switch(word.opcode):
            with m.Case(Opcode.BARRIER_EXPECT):
                m.d.comb += self.expect.eq(self._guarded)
            with m.Case(Opcode.BARRIER_WAIT):
                passes = ~self._guarded | self.barrier_complete | settled
                if self.cfg.far_registers:      # in its first cycles it sees the barrier of an instruction before
                    passes = ~self._guarded | (self._known & (self.barrier_complete | settled))
                m.d.sync += [self._passes.eq(~self._passes & passes), never.eq(self._guarded & ~self.barrier_complete)]
                m.d.comb += [self._fail.eq(self._passes & never), self.barrier_passed.eq(self._passes & self._guarded & ~never)]
                with m.If(self.barrier_excess):
                    m.d.comb += self.o_error.payload.code.eq(ErrorCode.BARRIER_EXPECT)
                with m.Elif(self.barrier_overrun):
                    m.d.comb += self.o_error.payload.code.eq(ErrorCode.BARRIER_OVERRUN)
                m.d.comb += [self.event_barrier_stalls.eq(~self._passes), self.waiting_copy.eq(~self._passes)]

    def _operations(self, m, instruction):
        gate = self._gate
        connect(m, gate.o_thread, flipped(self.o_thread))
        connect(m, gate.o_matrix, flipped(self.o_matrix))
        for_gate = instruction.for_thread | instruction.for_matrix
        m.d.comb += [
            gate.i.payload.eq(instruction), gate.i.valid.eq(self._execute & for_gate), gate.clear.eq(self.start),
        ]
        connect_members(m, flipped(self), gate, ("thread_done", "matrix_done", "lane_mask", "event_token_stalls", "predicates"))
        if self.cfg.issue_ahead:
            m.d.comb += self.matrix_hold.eq(gate.matrix_hold)
        with m.If(gate.waiting_thread):
            m.d.comb += self.waiting_thread.eq(1)

    def _copy(self, m, instruction, word):
        """Copies have uniform guards and need no tokens: their registers were read at decode.

        They stay behind operations at the gate: a program may know by the tokens of those that memory has been read.
        """
        operation, first, fields = self.o_copy.payload, self.o_copy.payload.first, word.modifiers.copy
        offered = self._execute & instruction.for_copy & self._guarded_before & ~self._gate.waiting & ~self._refused(instruction)
        refused = offered & ~self.o_copy.ready
        m.d.comb += [self.o_copy.valid.eq(offered), self.event_queue_stalls.eq(self._gate.event_queue_stalls | refused)]
        with m.If(refused):
            m.d.comb += self.waiting_copy.eq(1)
        m.d.comb += [
            first.destination_space.eq(fields.destination), first.source_space.eq(fields.source),
            first.destination.eq(instruction.destination), first.source.eq(instruction.a_value),
            first.blocks.eq(instruction.b_value), first.swizzle.eq(fields.swizzle), first.reduction.eq(fields.reduction),
            first.barrier.eq(fields.barrier), first.has_barrier.eq(fields.has_barrier), first.pc.eq(instruction.pc),
            first.format.eq(fields.format.as_value()), operation.rows.eq(instruction.rows),
            operation.destination_pitch.eq(instruction.destination_pitch), operation.source_pitch.eq(instruction.source_pitch),
        ]
        if self.cfg.prefetches:
            with m.If(word.opcode == Opcode.PREFETCH_BLOCK):
                m.d.comb += [first.kind.eq(CopyKind.PREFETCH_BLOCK), first.has_barrier.eq(0)]
        self._opens(m, self.o_copy, first, instruction.rows.any())

    def _opens(self, m, port, request, moves):
        """The barrier of a copy that is handed over and moves something hears of it. Those to other cores tell the barriers of these."""
        alone = ~self.i.payload.multicast if self.cfg.multicast else 1
        with m.If(port.valid & port.ready & request.has_barrier & moves & alone):
            m.d.comb += self.opens.eq(1)

    def _refused(self, instruction):
        """A multicast without a legal mask."""
        return instruction.multicast & instruction.bad_mask if self.cfg.multicast else Const(0)

    def _multicast(self, m, instruction, word):
        wrong = (instruction.for_copy | (instruction.for_tensor if self.cfg.tensors else 0)) & self._refused(instruction)
        with m.If(self._execute & wrong & self._guarded):
            m.d.comb += [self._fail.eq(1), self.o_error.payload.code.eq(ErrorCode.MULTICAST_MASK),
                         self.o_error.payload.operand.eq(instruction.mask)]
        with m.If(instruction.multicast):
            m.d.comb += self.o_copy.payload.first.mask.eq(instruction.mask)
            if self.cfg.tensors:
                m.d.comb += self.o_tensor.payload.request.mask.eq(instruction.mask)

    def _tensor_leaves(self, instruction):
        if not self.cfg.tensors:
            return Const(0)
        return instruction.for_tensor & (~self._guarded | (self.o_tensor.ready & ~self._gate.waiting))

    def _tensor(self, m, instruction, word):
        """Copies of tensors, like others; what they read of uniform registers lies in the members of a copy of rows and in further ones."""
        request, fields = self.o_tensor.payload.request, word.modifiers.copy
        offered = self._execute & instruction.for_tensor & self._guarded & ~self._gate.waiting & ~self._refused(instruction)
        m.d.comb += self.o_tensor.valid.eq(offered)
        with m.If(offered & ~self.o_tensor.ready):
            m.d.comb += [self.event_queue_stalls.eq(1), self.waiting_copy.eq(1)]
        coordinates = (instruction.b_value, instruction.rows, instruction.source_pitch, *instruction.coordinates)
        offsets = (instruction.destination_pitch, *instruction.offsets)
        m.d.comb += [
            self.o_tensor.payload.address.eq(instruction.a_value), request.shared_address.eq(instruction.destination),
            *(place.eq(value) for place, value in zip(request.coordinates, coordinates, strict=True)),
            *(place.eq(value) for place, value in zip(request.offsets, offsets, strict=True)),
            request.mode.eq(fields.mode), request.rank_minus_one.eq(fields.rank_minus_one),
            request.store.eq(fields.destination == Space.GLOBAL), request.reduction.eq(fields.reduction),
            request.barrier.eq(fields.barrier), request.has_barrier.eq(fields.has_barrier), request.pc.eq(instruction.pc),
            self.invalidate.eq(self._execute & instruction.invalidates & self._guarded),
            self.invalidate_address.eq(instruction.a_value),
        ]
        if self.cfg.prefetches:     # of the modifiers it has only mode and rank
            with m.If(word.opcode == Opcode.PREFETCH_TENSOR):
                m.d.comb += [request.prefetch.eq(1), request.store.eq(0), request.reduction.eq(Reduction.NONE), request.has_barrier.eq(0)]
        self._opens(m, self.o_tensor, request, 1)


def issue_members(cfg):
    """Ports of ``Issue``; those that ``FrontEnd`` passes on keep their names."""
    tensors = {"o_tensor": Out(stream.Signature(tensor_operation_layout())), "invalidate": Out(1), "invalidate_address": Out(32),
               "rows_busy": In(1), "commit": Out(1),
               "groups_pending": In(range(STORE_GROUPS + 1)), "groups_unread": In(range(STORE_GROUPS + 1))}
    limit = {"wait_timeout": In(32)} if cfg.wait_timeout else {}
    limit |= {"recurrent_start": Out(1), "recurrent_address": Out(32), "recurrent_busy": In(1),
              "recurrent_error": In(recurrent_error_layout)} if cfg.rnn else {}
    limit |= {"settled": Out(1), "peers_settled": In(1)} if cfg.multicast else {}
    return ({"matrix_hold": Out(1)} if cfg.issue_ahead else {}) | (tensors if cfg.tensors else {}) | limit | {
        "i": In(stream.Signature(decoded_layout(cfg))), "start": In(1), "stop": In(1),
        "redirect": Out(1), "target": Out(cfg.program_counter_bits), "flush": Out(1), "hold": Out(1),
        "active": Out(1), "ended": Out(1), "pc": Out(PC_BITS), "o_error": Out(ErrorStream()),
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
        "opens": Out(1), "opens_barrier": Out(4), "barrier_passed": Out(1),
        "barrier_complete": In(1), "barrier_overrun": In(1), "barrier_excess": In(1),
        "event_instructions": Out(1), "event_token_stalls": Out(1), "event_queue_stalls": Out(1),
        "event_barrier_stalls": Out(1), "waiting_copy": Out(1), "waiting_thread": Out(1),
    }
