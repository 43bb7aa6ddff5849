"""Issue stage: executes control and uniform instructions and dispatches the others to their units, in program order."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, Signature, connect, flipped

from ..constants import UNIFORM_PREDICATES
from ..interfaces.control import EventPort
from ..interfaces.front_end import (
    TILE_BITS,
    BarrierPort,
    BarrierQueryPort,
    RecurrentPort,
    SparsePort,
    StoreGroupPort,
    TilePort,
    UniformWritePort,
    UnitStatusPort,
    WaitPort,
)
from ..interfaces.layouts import PC_BITS, ErrorStream, row_operation_layout
from ..interfaces.swizzle import swizzle_field
from ..interfaces.tensor_operation import tensor_operation_layout
from ..isa.encoding import Opcode
from ..isa.error_codes import ErrorCode
from ..lib.alu import AluDatapath
from ..lib.members import connect_members
from ..parameters.front_end import FrontEndParameters
from .copy_dispatch import CopyDispatch
from .decode import decoded_layout
from .instruction_checks import failed_operand
from .issue_queue import IssueQueueStatus
from .wait_control import WaitControl

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

    One decoded instruction is at issue at a time. A thread or matrix operation goes to the issue queue, which holds one operation until
    its hazards are resolved. Control and uniform instructions behind a pending operation execute; operations and copies do not pass it.
    ``WaitControl`` decides about instructions that wait, ``CopyDispatch`` about copies.

    Parameters
    ----------
    cfg : FrontEndParameters

    *Ports*:
    i : In(stream.Signature(decoded_layout(cfg)))
        Decoded instructions.
    start : In(1)
        Begins a run: clears uniform predicates. Wins over ``stop`` in the same cycle.
    stop : In(1)
        Ends a run. A copy at issue stays there until it is taken; any other instruction at issue is dropped.
    branch : Out(BranchPort(cfg))
        Taken branch.
    flush : Out(1)
        Instructions behind the one at issue are void: a branch is taken, or the program has ended.
    active : Out(1)
        A program runs.
    ended : Out(1)
        The program has ended, by ``halt``, by an error of its own or by ``stop``.
    pc : Out(PC_BITS)
        Number of the instruction at issue, one cycle later; between instructions the number of the last. Void before the first of a run.
    o_error : Out(ErrorStream())
        Error of the instruction at issue, which ends the program.
    o_operation : Out(stream.Signature(decoded_layout(cfg)))
        Operations of the thread and the matrix unit, for the issue queue.
    queue : In(IssueQueueStatus())
        Operations in the issue queue and in flight. An operation counts from the cycle after its transfer on.
    o_copy : Out(stream.Signature(row_operation_layout))
        Copies of blocks and of rows.
    o_tensor : Out(stream.Signature(tensor_operation_layout()))
        Copies of tensors; only with ``tensors``.
    o_invalidate : Out(stream.Signature(32, always_ready=True))
        With ``tensors``: addresses of tensor descriptors to be invalidated.
    units : In(UnitStatusPort())
        Work in flight of the units.
    written : Out(UniformWritePort(cfg))
        Writes of uniform registers and segments.
    barriers : Out(BarrierPort())
        Barriers.
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
    sparse : Out(SparsePort())
        With ``sparse``: jobs of the sparse engine. Operations of the thread and the matrix unit wait while one is not done.
    tiles : Out(TilePort())
        With several cores: numbers of tiles.
    events : Out(EventPort(("instructions", "queue_stalls", "barrier_stalls")))
        A legal instruction leaves issue; the copy at issue waits for its unit; a ``barrier.wait`` waits.
    waiting : Out(WaitPort())
        What the instruction at issue waits for.

    *Latency*: control and uniform instructions execute in their first cycle at issue, operations and copies are offered in theirs. Uniform
    predicates are read and written at issue: an instruction sees those of all older ones.

    *Throughput*: one instruction a cycle; instructions that wait take longer, as described for ``WaitControl``.

    *Back-pressure*: ``i.ready`` is combinational from ``i.payload``, ``o_operation.ready``, ``o_copy.ready`` and ``o_tensor.ready``, not
    from ``i.valid``. ``valid`` of these three is combinational from ``i``.

    *Reset*: no program runs, uniform predicates are false.

    *Errors*: combinational from ``i``, in the cycle in which the instruction would leave; nothing behind it executes. Codes:
    failed checks of the stages before, TRAP, PROGRAM_COUNTER (operand: target), MULTICAST_MASK (operand: mask), and those of
    ``WaitControl``.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        super().__init__(issue_members(cfg))

    def elaborate(self, platform):
        m = Module()
        m.submodules.wait_control = self._waits = WaitControl(self.cfg)
        m.submodules.copies = self._copies = CopyDispatch(self.cfg)
        m.submodules.alu = self._alu = AluDatapath(registered=True)
        self._uniform_predicates = Signal(UNIFORM_PREDICATES)
        self._leave = Signal()              # the instruction leaves issue
        self._execute = Signal()            # the instruction is valid and legal, and a program runs
        self._guarded = Signal()            # its uniform guard holds now
        self._fail = Signal()               # the instruction raises an error
        instruction, word = self.i.payload, self.i.payload.word

        always = Cat(self._uniform_predicates, 1)
        for_queue = instruction.for_thread | instruction.for_matrix
        if self.cfg.sparse:
            held = Signal()                 # a job of the sparse engine is not done
            m.d.sync += held.eq(self.sparse.left != 0)
            for_queue &= ~held
        m.d.comb += [
            self._guarded.eq(always.bit_select(word.guard, 1) ^ word.guard_negate),
            self._execute.eq(self.i.valid & self.active & instruction.legal),
            self.i.ready.eq(self._leave),
            self.o_operation.valid.eq(self._execute & for_queue), self.o_operation.payload.eq(instruction),
            self.written.retires.eq(self.i.valid & self.i.ready & instruction.writes_uniform),
            self.events.instructions.eq(self._leave & self._execute),
            # Not qualified by ``i.valid``, because ``leave`` is on the longest paths.
            self._leave.eq(instruction.at_once | ~instruction.legal | ~self.active | self._waits.passes
                           | (for_queue & self.o_operation.ready) | self._copies.leaves),
        ]
        with m.If(~instruction.legal):
            m.d.comb += self._fail.eq(self.i.valid)
        self._values(m, instruction, word)
        with m.If(self._execute):
            self._control(m, word)
        self._wait(m)
        self._copy(m)
        self._errors(m, instruction, word)
        self._state(m)
        return m

    def _values(self, m, instruction, word):
        """Data of the writes of control and uniform instructions, in every cycle; the strobes beside them are qualified.

        The data of uniform registers come a cycle later.
        """
        alu = self._alu
        uniform, segment = self.written.register, self.written.segment.payload
        index = Signal.like(uniform.payload.index, name="uniform_index")
        m.d.sync += [index.eq(word.dst), uniform.valid.eq(0)]
        m.d.comb += [
            alu.control.eq(instruction.control), alu.a.eq(instruction.a_value), alu.b.eq(instruction.b_value),
            uniform.payload.index.eq(index), uniform.payload.value.eq(alu.result),
            segment.index.eq(word.dst),
            segment.segment.base.eq(instruction.b_value),
            segment.segment.space.eq(word.modifiers.segment.space),
            segment.segment.element_shift.eq(word.modifiers.segment.element_shift),
            segment.segment.swizzle.eq(swizzle_field(self.cfg, word.modifiers.segment.swizzle)),
            self.barriers.expect.barrier.eq(word.a), self.barriers.expect.bytes.eq(instruction.b_value),
            self.branch.target.eq(word.imm),
        ]
        if self.cfg.tile_scheduler:
            of_tile, tile = Signal(), Signal(TILE_BITS, reset_less=True)       # of the register that is written
            m.d.sync += of_tile.eq(word.opcode == Opcode.TAKE_TILE)
            with m.If(self.tiles.number.valid):
                m.d.sync += tile.eq(self.tiles.number.payload)
            with m.If(of_tile):
                m.d.comb += uniform.payload.value.eq(tile)

    def _control(self, m, word):
        with m.Switch(word.opcode):
            with m.Case(Opcode.TRAP):
                m.d.comb += self._fail.eq(self._guarded)
            with m.Case(Opcode.BRANCH):
                exists = self.i.payload.target_exists
                m.d.comb += [self.branch.taken.eq(self._guarded & exists), self._fail.eq(self._guarded & ~exists)]
            with m.Case(Opcode.SEGMENT):
                m.d.comb += self.written.segment.valid.eq(self._guarded)
            with m.Case(Opcode.UNIFORM_ALU, Opcode.UNIFORM_SPECIAL):
                m.d.sync += self.written.register.valid.eq(self._guarded)
            if self.cfg.tile_scheduler:
                with m.Case(Opcode.TAKE_TILE):
                    m.d.sync += self.written.register.valid.eq(self._guarded & self._waits.passes)
            with m.Case(Opcode.UNIFORM_COMPARE):
                with m.If(self._guarded):
                    m.d.sync += self._uniform_predicates.bit_select(word.dst, 1).eq(self._alu.compare_result)
            with m.Case(Opcode.BARRIER_EXPECT):
                m.d.comb += self.barriers.expect.valid.eq(self._guarded)

    def _wait(self, m):
        waits, cfg = self._waits, self.cfg
        connect(m, flipped(self.queue), waits.queue)
        connect(m, flipped(self.units), waits.units)
        connect_members(m, waits.barriers, flipped(self.barriers), BarrierQueryPort().members)
        connect_members(m, waits, flipped(self), (
            *["groups"] * cfg.tensors, *["recurrent"] * cfg.rnn, *["sparse"] * cfg.sparse, *["tiles"] * cfg.tile_scheduler,
            *["wait_timeout"] * cfg.wait_timeout, *["settled", "peers_settled"] * cfg.multicast))
        m.d.comb += [
            waits.instruction.eq(self.i.payload), waits.execute.eq(self._execute), waits.guarded.eq(self._guarded),
            waits.active.eq(self.active), self.events.barrier_stalls.eq(waits.barrier_stalls),
            self.waiting.thread.eq(waits.waiting.thread), self.waiting.copy.eq(waits.waiting.copy | self._copies.stalls),
        ]

    def _copy(self, m):
        copies, guarded_before = self._copies, Signal(name="guarded_before")
        connect_members(m, copies, flipped(self), ("o_copy", *["o_tensor", "o_invalidate"] * self.cfg.tensors))
        connect(m, copies.opened, flipped(self.barriers.opened))
        m.d.sync += guarded_before.eq(self._guarded)
        m.d.comb += [
            copies.instruction.eq(self.i.payload), copies.execute.eq(self._execute), copies.guarded.eq(self._guarded),
            copies.guarded_before.eq(guarded_before), copies.blocked.eq(self.queue.waiting | self.queue.mm_awaits),
            self.events.queue_stalls.eq(copies.stalls),
        ]

    def _errors(self, m, instruction, word):
        error, of_wait = self.o_error.payload, self._waits.error
        m.d.comb += [
            self.o_error.valid.eq(self._fail & self.active),
            error.pc.eq(instruction.pc), error.code.eq(instruction.code),
            error.operand.eq(failed_operand(self.cfg, instruction.pc, word, instruction.field)),
        ]
        with m.If(of_wait.failed):
            m.d.comb += [self._fail.eq(1), error.code.eq(of_wait.code)]
            with m.If(of_wait.has_operand):
                m.d.comb += error.operand.eq(of_wait.operand)
        if self.cfg.multicast:
            with m.If(self._copies.bad_mask):
                m.d.comb += [self._fail.eq(1), error.code.eq(ErrorCode.MULTICAST_MASK), error.operand.eq(instruction.mask)]

    def _state(self, m):
        halted = Signal()
        m.d.comb += [
            halted.eq(self._execute & (self.i.payload.word.opcode == Opcode.HALT) & self._guarded),
            self.flush.eq(self.branch.taken | self._fail | halted | ~self.active),
        ]
        # An offered copy stays offered; anything else ends with the program.
        for_copies = self.i.payload.for_copy | self.i.payload.for_tensor if self.cfg.tensors else self.i.payload.for_copy
        offering = for_copies & self.i.valid
        with m.If(halted | self._fail | (self.stop & ~offering)):
            m.d.sync += [self.active.eq(0), self.ended.eq(1)]
        with m.If(self.i.valid & self.active):
            m.d.sync += self.pc.eq(self.i.payload.pc)
        with m.If(self.start):
            m.d.sync += [self.active.eq(1), self.ended.eq(0), self._uniform_predicates.eq(0)]


def issue_members(cfg):
    """Ports of ``Issue``, from which ``FrontEnd`` takes those that it has too."""
    optional = {"o_tensor": Out(stream.Signature(tensor_operation_layout())),
                 "o_invalidate": Out(stream.Signature(32, always_ready=True)), "groups": Out(StoreGroupPort())} if cfg.tensors else {}
    optional |= {"wait_timeout": In(32)} if cfg.wait_timeout else {}
    optional |= {"recurrent": Out(RecurrentPort())} if cfg.rnn else {}
    optional |= {"sparse": Out(SparsePort())} if cfg.sparse else {}
    optional |= {"tiles": Out(TilePort())} if cfg.tile_scheduler else {}
    optional |= {"settled": Out(1), "peers_settled": In(1)} if cfg.multicast else {}
    return optional | {
        "i": In(stream.Signature(decoded_layout(cfg))), "start": In(1), "stop": In(1),
        "branch": Out(BranchPort(cfg)), "flush": Out(1), "active": Out(1), "ended": Out(1), "pc": Out(PC_BITS),
        "o_error": Out(ErrorStream()),
        "o_operation": Out(stream.Signature(decoded_layout(cfg))), "queue": In(IssueQueueStatus()),
        "o_copy": Out(stream.Signature(row_operation_layout)),
        "units": In(UnitStatusPort()), "written": Out(UniformWritePort(cfg)), "barriers": Out(BarrierPort()),
        "events": Out(EventPort(("instructions", "queue_stalls", "barrier_stalls"))), "waiting": Out(WaitPort()),
    }
