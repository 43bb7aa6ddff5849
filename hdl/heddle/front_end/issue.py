"""Issue stage: executes control and uniform instructions and dispatches the others to their units, in program order."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, Signature, connect, flipped

from ..constants import STORE_GROUPS, UNIFORM_PREDICATES
from ..interfaces.control import EventPort, UniformStream
from ..interfaces.front_end import (
    BarrierPort,
    RecurrentPort,
    SegmentStream,
    StoreGroupPort,
    ThreadMaskPort,
    UnitStatusPort,
    WaitPort,
)
from ..interfaces.layouts import PC_BITS, CopyKind, ErrorStream, matrix_operation_layout, row_operation_layout, thread_operation_layout
from ..isa.counter_table import ISSUE_EVENTS
from ..isa.encoding import Opcode, Reduction, Space, WaitUnit
from ..isa.error_codes import ErrorCode
from ..lib.members import connect_members
from ..parameters.front_end import FrontEndParameters
from ..thread.alu import AluDatapath
from ..tmau.layouts import tensor_operation_layout
from .decode import decoded_layout
from .instruction_checks import failed_operand
from .issue_queue import IssueQueue
from .recurrent_control import RecurrentControl
from .wait_limit import QuietCounter, WaitLimit

__all__ = ["BranchPort", "Issue", "issue_members"]


def BranchPort(cfg):
    """Taken branch, seen from the issue stage.

    *Ports*:
    taken : Out(1)
        The branch at issue is taken.
    target : Out(program_counter_bits)
        Number of the instruction behind it; valid with ``taken``.
    """
    return Signature({"taken": Out(1), "target": Out(cfg.program_counter_bits)})


class Issue(Component):
    """Issue stage: executes control and uniform instructions and dispatches thread, matrix and copy operations, in program order.

    One decoded instruction is at issue at a time. A thread or matrix operation goes to ``IssueQueue``, which holds one operation until its
    hazards are resolved. Control and uniform instructions behind a pending operation execute; operations and copies do not pass it.

    Parameters
    ----------
    cfg : FrontEndParameters

    *Ports*:
    i : In(stream.Signature(decoded_layout(cfg)))
        Decoded instructions.
    start : In(1)
        Begins a run: clears uniform predicates and scoreboard. Wins over ``stop`` in the same cycle.
    stop : In(1)
        Ends a run. A pending operation and an offered copy are still dispatched; any other instruction is dropped.
    branch : Out(BranchPort(cfg))
        Taken branch.
    flush : Out(1)
        Instructions behind the one at issue are void: a branch is taken, or the program has ended.
    hold : Out(1)
        The instruction at issue writes uniform registers or segments, so decode must not read them in this cycle.
    active : Out(1)
        A program runs.
    ended : Out(1)
        The program has ended, by ``halt``, by an error of its own or by ``stop``.
    pc : Out(PC_BITS)
        Number of the instruction at issue, one cycle later; between instructions the number of the last. Void before the first of a run.
    o_error : Out(ErrorStream())
        Error of the instruction at issue, which ends the program.
    o_thread : Out(stream.Signature(thread_operation_layout))
        Operations for the thread unit.
    o_matrix : Out(stream.Signature(matrix_operation_layout(cfg)))
        Operations for the matrix unit.
    o_copy : Out(stream.Signature(row_operation_layout))
        Copies of blocks and of rows.
    o_tensor : Out(stream.Signature(tensor_operation_layout()))
        Copies of tensors; only with ``tensors``.
    o_invalidate : Out(stream.Signature(32, always_ready=True))
        With ``tensors``: addresses of tensor descriptors to be invalidated.
    masks : In(ThreadMaskPort(threads))
        Thread predicates, the guard of ``mm``, and lane mask, the rows of C that take part in ``mm``.
    units : In(UnitStatusPort())
        Work in flight of the units.
    matrix_hold : Out(1)
        With ``issue_ahead``: the matrix unit must not begin a step, as described for ``Scoreboard``.
    tokens_empty : Out(1)
        No thread or matrix operation is pending or in flight.
    o_uniform : Out(UniformStream())
        Writes of uniform registers, one cycle after their instructions executed.
    o_segment : Out(SegmentStream())
        Writes of segments, in the cycle in which their instructions execute.
    barriers : Out(BarrierPort())
        Barriers. With ``far_registers`` their answers belong to the ``index`` of two cycles before.
    groups : Out(StoreGroupPort())
        With ``tensors``: groups of stores.
    wait_timeout : In(32)
        With ``wait_timeout``: cycles that an instruction may wait; 0 is no limit.
    settled : Out(1)
        With ``multicast``: no copy of this core can still come, because its program waits at a barrier or has ended.
    peers_settled : In(1)
        With ``multicast``: ``settled`` of every other core.
    recurrent : Out(RecurrentPort())
        With ``rnn``: runs of the recurrent engine.
    events : Out(EventPort(ISSUE_EVENTS))
        A legal instruction leaves issue; the pending operation has a hazard or no scoreboard entry; the pending operation or the copy
        at issue waits for its unit; a ``barrier.wait`` waits.
    waiting : Out(WaitPort())
        What the program waits for.

    *Latency*: control and uniform instructions execute in their first cycle at issue, copies are offered in theirs. An operation is valid
    at ``o_thread`` or ``o_matrix`` one cycle after it leaves ``i``. A comparison of uniform registers writes its predicate in the next
    cycle.

    *Throughput*: one instruction a cycle. ``wait``, ``commit_group`` and ``wait_group`` take at least two cycles: the condition goes
    through a register. ``barrier.wait`` takes at least two. With ``far_registers`` it takes at least four, and predicates are written a
    cycle later.

    *Back-pressure*: ``i.ready`` is combinational from ``i.payload``, ``o_copy.ready`` and ``o_tensor.ready``, not from ``i.valid``. Without
    ``far_registers`` it also depends on ``o_thread.ready`` and ``o_matrix.ready``. ``o_copy.valid`` and ``o_tensor.valid`` are
    combinational from ``i``.

    *Reset*: no program runs, no operation is pending, uniform predicates are false.

    *Errors*: combinational from ``i``, in the cycle in which the instruction would leave; nothing behind it executes. Codes:
    failed checks of ``Decode``, TRAP, PROGRAM_COUNTER (operand: target), BARRIER_EXPECT, BARRIER_OVERRUN, BARRIER_UNDERRUN (operand:
    barrier), MULTICAST_MASK (operand: mask), WAIT_TIMEOUT and those of the engine. A barrier cannot complete when no copy was
    in flight for 8 cycles, with ``multicast`` in no core. The operand of WAIT_TIMEOUT is the barrier, the mask of units, or the number of
    groups.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        super().__init__(issue_members(cfg))

    def elaborate(self, platform):
        m = Module()
        m.submodules.gate = self._gate = IssueQueue(self.cfg)
        m.submodules.alu = self._alu = AluDatapath(registered=True)
        self._uniform_predicates = Signal(UNIFORM_PREDICATES)
        self._leave = Signal()              # the instruction leaves issue
        self._execute = Signal()            # the instruction is valid and legal, and a program runs
        self._guarded = Signal()            # its uniform guard holds now
        self._guarded_before = Signal()     # its guard held a cycle before; the word of a copy of blocks comes before its valid
        self._passes = Signal()             # the condition of a ``wait`` or ``barrier.wait`` held a cycle before
        self._fail = Signal()               # the instruction raises an error
        self._copy_turn = Signal()          # all operations before are dispatched, and no ``mm`` among them awaits loads of its factors
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
            self.events.instructions.eq(self._leave & self._execute),
        ]
        # Not qualified by ``i.valid``, because ``leave`` is on the longest paths.
        m.d.comb += self._leave.eq(instruction.at_once | ~instruction.legal | ~self.active | self._passes
                                   | ((instruction.for_thread | instruction.for_matrix) & self._gate.i.ready)
                                   | (instruction.for_copy & (~self._guarded_before | (self.o_copy.ready & self._copy_turn)))
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
        m.d.comb += self._copy_turn.eq(~self._gate.waiting & ~(self._gate.matrix_hold if self.cfg.issue_ahead else 0))
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
            self.flush.eq(self.branch.taken | self._fail | halted | ~self.active),
            self.tokens_empty.eq(self._gate.thread_empty & self._gate.matrix_empty),
        ]
        # An offered copy stays offered, like a pending operation; anything else ends with the program.
        for_copies = self.i.payload.for_copy | self.i.payload.for_tensor if self.cfg.tensors else self.i.payload.for_copy
        offering = for_copies & self.i.valid
        with m.If(halted | self._fail | (self.stop & ~offering)):
            m.d.sync += [self.active.eq(0), self.ended.eq(1)]
        with m.If(self.i.valid & self.active):
            m.d.sync += self.pc.eq(self.i.payload.pc)
        with m.If(self.start):
            m.d.sync += [self.active.eq(1), self.ended.eq(0), self._uniform_predicates.eq(0)]

    def _values(self, m, instruction, word):
        """Data of the writes of control and uniform instructions, in every cycle; the strobes beside them are qualified.

        The data of uniform registers come a cycle later.
        """
        alu = self._alu
        uniform, segment = self.o_uniform, self.o_segment.payload
        self._uniform_index = Signal.like(uniform.payload.index, name="uniform_index")
        m.d.sync += [self._uniform_index.eq(word.dst), uniform.valid.eq(0)]
        m.d.comb += [
            alu.control.eq(instruction.control), alu.a.eq(instruction.a_value), alu.b.eq(instruction.b_value),
            uniform.payload.index.eq(self._uniform_index), uniform.payload.value.eq(alu.result),
            segment.index.eq(word.dst),
            segment.segment.base.eq(instruction.b_value),
            segment.segment.space.eq(word.modifiers.segment.space),
            segment.segment.element_shift.eq(word.modifiers.segment.element_shift),
            self.barriers.index.eq(word.a), self.barriers.expect.barrier.eq(word.a), self.barriers.expect.bytes.eq(instruction.b_value),
            self.barriers.opened.barrier.eq(word.modifiers.copy.barrier), self.branch.target.eq(word.imm),
        ]

    def _later(self, m, word):
        """With far registers: predicate of a comparison, a cycle later, and the cycle in which the state of a barrier is valid."""
        self._known, self._compared, result = Signal(name="known"), Signal(name="compared"), Signal(name="compare_result", reset_less=True)
        waits = self._execute & (word.opcode == Opcode.BARRIER_WAIT) & ~self._passes
        waited = Signal(name="waited")
        m.d.sync += [result.eq(self._alu.compare_result), self._compared.eq(0), waited.eq(waits), self._known.eq(waits & waited)]
        with m.If(self._compared):
            m.d.sync += self._uniform_predicates.bit_select(self._uniform_index, 1).eq(result)

    def _control(self, m, word):
        with m.Switch(word.opcode):
            with m.Case(Opcode.TRAP):
                m.d.comb += self._fail.eq(self._guarded)
            with m.Case(Opcode.BRANCH):
                exists = self.i.payload.target_exists
                m.d.comb += [self.branch.taken.eq(self._guarded & exists), self._fail.eq(self._guarded & ~exists)]
            with m.Case(Opcode.WAIT):
                self._wait(m, word)
            with m.Case(Opcode.SEGMENT):
                m.d.comb += self.o_segment.valid.eq(self._guarded)
            if self.cfg.tensors:
                with m.Case(Opcode.COMMIT_GROUP):
                    self._await(m, ~self.groups.rows_busy & (self.groups.pending != STORE_GROUPS))
                    m.d.comb += self.groups.commit.eq(self._passes & self._guarded)
                with m.Case(Opcode.WAIT_GROUP):
                    self._await(m, Mux(word.modifiers.wait.read, self.groups.unread, self.groups.pending) <= word.imm)

    def _await(self, m, happened):
        """A ``commit_group`` or ``wait_group`` waits until ``happened``."""
        m.d.sync += self._passes.eq(~self._passes & (~self._guarded | happened))
        m.d.comb += self.waiting.copy.eq(~self._passes & self._guarded & ~happened)

    def _wait(self, m, word):
        units = word.modifiers.wait.units
        busy = Signal(3)
        m.d.comb += [
            busy[WaitUnit.THREAD.value].eq(~self._gate.thread_empty | self.units.thread_busy | self.units.writes_pending),
            busy[WaitUnit.COPY.value].eq(self.units.copy_busy),
            busy[WaitUnit.MATRIX.value].eq(~self._gate.matrix_empty | self.units.matrix_busy),
            self.waiting.thread.eq(~self._passes & self._guarded & (busy & units)[WaitUnit.THREAD.value]),
            self.waiting.copy.eq(~self._passes & self._guarded & (busy & units)[WaitUnit.COPY.value]),
        ]
        m.d.sync += self._passes.eq(~self._passes & ~(self._guarded & (busy & units).any()))

    def _limit(self, m, instruction, word):
        """Raises WAIT_TIMEOUT after more than ``wait_timeout`` cycles of a wait."""
        m.submodules.wait_limit = limit = WaitLimit()
        # The first cycles of a ``barrier.wait``, in which the state of its barrier is not valid yet, do not count.
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
        busy = ~gate.thread_empty | self.units.thread_busy | self.units.writes_pending | ~gate.matrix_empty | self.units.matrix_busy
        m.d.comb += [
            control.execute.eq(self._execute & (word.opcode == Opcode.RECURRENT)), control.guarded.eq(self._guarded),
            control.quiet.eq(~busy), control.busy.eq(self.recurrent.busy), self.recurrent.start.eq(control.start),
            self.recurrent.address.eq(instruction.a_value),
        ]
        with m.If(control.execute):
            m.d.sync += self._passes.eq(control.ended)
        with m.If(control.execute & self.recurrent.error.failed):
            m.d.comb += [self._fail.eq(1), self.o_error.payload.code.eq(self.recurrent.error.code),
                         self.o_error.payload.operand.eq(
                             Mux(self.recurrent.error.of_image, instruction.a_value, self.recurrent.error.operand))]

    def _uniform(self, m, word):
        with m.Switch(word.opcode):
            with m.Case(Opcode.UNIFORM_ALU, Opcode.UNIFORM_SPECIAL):
                m.d.sync += self.o_uniform.valid.eq(self._guarded)
            with m.Case(Opcode.UNIFORM_COMPARE):
                if self.cfg.far_registers:
                    m.d.sync += self._compared.eq(self._guarded)
                else:
                    with m.If(self._guarded):
                        m.d.sync += self._uniform_predicates.bit_select(word.dst, 1).eq(self._alu.compare_result)

    def _settle(self, m, word):
        """Whether no copy can still come: counted while a ``barrier.wait`` waits.

        With multicast also after the end of the program, for the other cores.
        """
        m.submodules.quiet_counter = self._quiet = quiet = QuietCounter()
        waits = self._execute & (word.opcode == Opcode.BARRIER_WAIT) & ~self._passes
        asks = waits
        if self.cfg.multicast:          # a core whose barrier is complete goes on and may send again
            asks = waits | ~self.active
            m.d.comb += self.settled.eq(quiet.reached & ~(waits & self.barriers.complete))
        m.d.comb += quiet.quiet.eq(asks & ~self.units.copy_busy)

    def _barriers(self, m, word):
        never = Signal()                # the barrier cannot complete: an error when the instruction passes
        settled = self.settled & self.peers_settled if self.cfg.multicast else self._quiet.reached
        with m.Switch(word.opcode):
            with m.Case(Opcode.BARRIER_EXPECT):
                m.d.comb += self.barriers.expect.valid.eq(self._guarded)
            with m.Case(Opcode.BARRIER_WAIT):
                passes = ~self._guarded | self.barriers.complete | settled
                if self.cfg.far_registers:      # in the first cycles the state is that of another barrier
                    passes = ~self._guarded | (self._known & (self.barriers.complete | settled))
                m.d.sync += [self._passes.eq(~self._passes & passes), never.eq(self._guarded & ~self.barriers.complete)]
                m.d.comb += [self._fail.eq(self._passes & never), self.barriers.passed.eq(self._passes & self._guarded & ~never)]
                with m.If(self.barriers.excess):
                    m.d.comb += self.o_error.payload.code.eq(ErrorCode.BARRIER_EXPECT)
                with m.Elif(self.barriers.overrun):
                    m.d.comb += self.o_error.payload.code.eq(ErrorCode.BARRIER_OVERRUN)
                m.d.comb += [self.events.barrier_stalls.eq(~self._passes), self.waiting.copy.eq(~self._passes)]

    def _operations(self, m, instruction):
        gate = self._gate
        connect(m, gate.o_thread, flipped(self.o_thread))
        connect(m, gate.o_matrix, flipped(self.o_matrix))
        for_gate = instruction.for_thread | instruction.for_matrix
        m.d.comb += [
            gate.i.payload.eq(instruction), gate.i.valid.eq(self._execute & for_gate), gate.clear.eq(self.start),
        ]
        m.d.comb += [
            gate.thread_done.eq(self.units.thread_done), gate.matrix_done.eq(self.units.matrix_done),
            self.events.token_stalls.eq(gate.event_token_stalls),
        ]
        connect_members(m, flipped(self), gate, ("masks",))
        if self.cfg.issue_ahead:
            m.d.comb += self.matrix_hold.eq(gate.matrix_hold)
        with m.If(gate.waiting_thread):
            m.d.comb += self.waiting.thread.eq(1)

    def _copy(self, m, instruction, word):
        """Copies of blocks and rows, whose guards are uniform and whose registers were read at decode: no scoreboard is needed.

        Copies do not pass a pending operation, nor an ``mm`` that awaits loads of its factors. So a program may conclude from an issued
        store that earlier reads of memory are over, and from an issued ``mm`` that the loads of its factors are.
        """
        operation, first, fields = self.o_copy.payload, self.o_copy.payload.first, word.modifiers.copy
        offered = self._execute & instruction.for_copy & self._guarded_before & self._copy_turn & ~self._refused(instruction)
        refused = offered & ~self.o_copy.ready
        m.d.comb += [self.o_copy.valid.eq(offered), self.events.queue_stalls.eq(self._gate.event_queue_stalls | refused)]
        with m.If(refused):
            m.d.comb += self.waiting.copy.eq(1)
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
        """Reports a dispatched copy that moves data to its barrier.

        A multicast instead reports to the barriers of the cores that it goes to.
        """
        alone = ~self.i.payload.multicast if self.cfg.multicast else 1
        with m.If(port.valid & port.ready & request.has_barrier & moves & alone):
            m.d.comb += self.barriers.opened.valid.eq(1)

    def _refused(self, instruction):
        """Whether the instruction is a multicast without a legal mask."""
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
        return instruction.for_tensor & (~self._guarded | (self.o_tensor.ready & self._copy_turn))

    def _tensor(self, m, instruction, word):
        """Copies of tensors. Their uniform registers are in the fields of a copy of rows and in ``coordinates`` and ``offsets``."""
        request, fields = self.o_tensor.payload.request, word.modifiers.copy
        offered = self._execute & instruction.for_tensor & self._guarded & self._copy_turn & ~self._refused(instruction)
        m.d.comb += self.o_tensor.valid.eq(offered)
        with m.If(offered & ~self.o_tensor.ready):
            m.d.comb += [self.events.queue_stalls.eq(1), self.waiting.copy.eq(1)]
        coordinates = (instruction.b_value, instruction.rows, instruction.source_pitch, *instruction.coordinates)
        offsets = (instruction.destination_pitch, *instruction.offsets)
        m.d.comb += [
            self.o_tensor.payload.address.eq(instruction.a_value), request.shared_address.eq(instruction.destination),
            *(place.eq(value) for place, value in zip(request.coordinates, coordinates, strict=True)),
            *(place.eq(value) for place, value in zip(request.offsets, offsets, strict=True)),
            request.mode.eq(fields.mode), request.rank_minus_one.eq(fields.rank_minus_one),
            request.store.eq(fields.destination == Space.GLOBAL), request.reduction.eq(fields.reduction),
            request.barrier.eq(fields.barrier), request.has_barrier.eq(fields.has_barrier), request.pc.eq(instruction.pc),
            self.o_invalidate.valid.eq(self._execute & instruction.invalidates & self._guarded),
            self.o_invalidate.payload.eq(instruction.a_value),
        ]
        if self.cfg.prefetches:     # its only modifiers are mode and rank
            with m.If(word.opcode == Opcode.PREFETCH_TENSOR):
                m.d.comb += [request.prefetch.eq(1), request.store.eq(0), request.reduction.eq(Reduction.NONE), request.has_barrier.eq(0)]
        self._opens(m, self.o_tensor, request, 1)


def issue_members(cfg):
    """Ports of ``Issue``, from which ``FrontEnd`` takes those that it has too."""
    optional = {"matrix_hold": Out(1)} if cfg.issue_ahead else {}
    optional |= {"o_tensor": Out(stream.Signature(tensor_operation_layout())),
                 "o_invalidate": Out(stream.Signature(32, always_ready=True)), "groups": Out(StoreGroupPort())} if cfg.tensors else {}
    optional |= {"wait_timeout": In(32)} if cfg.wait_timeout else {}
    optional |= {"recurrent": Out(RecurrentPort())} if cfg.rnn else {}
    optional |= {"settled": Out(1), "peers_settled": In(1)} if cfg.multicast else {}
    return optional | {
        "i": In(stream.Signature(decoded_layout(cfg))), "start": In(1), "stop": In(1),
        "branch": Out(BranchPort(cfg)), "flush": Out(1), "hold": Out(1),
        "active": Out(1), "ended": Out(1), "pc": Out(PC_BITS), "o_error": Out(ErrorStream()),
        "o_thread": Out(stream.Signature(thread_operation_layout)),
        "o_matrix": Out(stream.Signature(matrix_operation_layout(cfg))),
        "o_copy": Out(stream.Signature(row_operation_layout)),
        "masks": In(ThreadMaskPort(cfg.threads)), "units": In(UnitStatusPort()), "tokens_empty": Out(1),
        "o_uniform": Out(UniformStream()), "o_segment": Out(SegmentStream()), "barriers": Out(BarrierPort()),
        "events": Out(EventPort(ISSUE_EVENTS)), "waiting": Out(WaitPort()),
    }
