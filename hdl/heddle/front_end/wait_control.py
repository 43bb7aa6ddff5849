"""Wait control: the instructions that stay at issue until something has happened, and their errors."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..constants import STORE_GROUPS
from ..interfaces.front_end import BarrierQueryPort, RecurrentPort, SparsePort, StoreGroupPort, TilePort, UnitStatusPort, WaitPort
from ..isa.encoding import Opcode, WaitUnit
from ..isa.error_codes import ErrorCode
from ..parameters.front_end import FrontEndParameters
from .decode import decoded_layout
from .issue_queue import IssueQueueStatus
from .recurrent_control import RecurrentControl
from .wait_limit import QuietCounter, WaitLimit

__all__ = ["WaitControl", "wait_error_layout"]

# Error of a wait. Without ``has_operand`` the operand is the field that the instruction names.
wait_error_layout = data.StructLayout({"failed": 1, "code": ErrorCode, "has_operand": 1, "operand": 32})


class WaitControl(Component):
    """Wait control: decides when ``wait``, ``wait_thread``, ``barrier.wait``, ``commit_group``, ``wait_group``, ``rnn``, ``sparse``,
    ``wait_sparse`` and ``take_tile`` leave issue.

    Parameters
    ----------
    cfg : FrontEndParameters

    *Ports*:
    instruction : In(decoded_layout(cfg))
        Instruction at issue.
    execute : In(1)
        The instruction is valid and legal, and a program runs.
    guarded : In(1)
        Its uniform guard holds.
    active : In(1)
        A program runs.
    queue : In(IssueQueueStatus())
        Operations in the issue queue and in flight.
    units : In(UnitStatusPort())
        Work in flight of the units.
    barriers : Out(BarrierQueryPort())
        State of the barrier in field a.
    groups : Out(StoreGroupPort())
        With ``tensors``: groups of stores.
    recurrent : Out(RecurrentPort())
        With ``rnn``: runs of the recurrent engine.
    sparse : Out(SparsePort())
        With ``sparse``: jobs of the sparse engine. ``sparse.job.valid`` is combinational from ``instruction``.
    tiles : Out(TilePort())
        With several cores: numbers of tiles. ``number`` is that of the instruction that leaves in the next cycle.
    wait_timeout : In(32)
        With ``wait_timeout``: cycles that an instruction may wait; 0 is no limit.
    settled : Out(1)
        With ``multicast``: no copy of this core can still come, because its program waits at a barrier or has ended.
    peers_settled : In(1)
        With ``multicast``: ``settled`` of every other core.
    passes : Out(1)
        What the instruction waits for has happened: the instruction leaves in this cycle. Low for every other instruction.
    error : Out(wait_error_layout)
        The wait fails in this cycle. Otherwise ``code`` and ``operand`` are void.
    waiting : Out(WaitPort())
        What the instruction waits for.
    barrier_stalls : Out(1)
        A ``barrier.wait`` waits.

    *Latency*: ``passes`` comes from a register and is high for one cycle: the condition holds in the cycle before. A wait therefore
    stays two cycles at least, a ``barrier.wait`` two cycles and the latency of ``barriers.answered``.

    *Reset*: nothing passes.

    *Errors*: BARRIER_EXPECT, BARRIER_OVERRUN, BARRIER_UNDERRUN, WAIT_TIMEOUT and those of the engine. A barrier cannot complete when
    no copy was in flight for 8 cycles, with ``multicast`` in no core. The operand of WAIT_TIMEOUT is the barrier, the mask of units,
    or the number of groups. Cycles of a ``barrier.wait`` without ``barriers.answered`` do not count for WAIT_TIMEOUT.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        super().__init__({
            "instruction": In(decoded_layout(cfg)), "execute": In(1), "guarded": In(1), "active": In(1),
            "queue": In(IssueQueueStatus()), "units": In(UnitStatusPort()), "barriers": Out(BarrierQueryPort()),
            **({"groups": Out(StoreGroupPort())} if cfg.tensors else {}), **({"recurrent": Out(RecurrentPort())} if cfg.rnn else {}),
            **({"sparse": Out(SparsePort())} if cfg.sparse else {}), **({"tiles": Out(TilePort())} if cfg.tile_scheduler else {}),
            **({"wait_timeout": In(32)} if cfg.wait_timeout else {}),
            **({"settled": Out(1), "peers_settled": In(1)} if cfg.multicast else {}),
            "passes": Out(1), "error": Out(wait_error_layout), "waiting": Out(WaitPort()), "barrier_stalls": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        word = self.instruction.word
        self._thread_busy, self._matrix_busy = Signal(), Signal()
        m.d.comb += [
            self._thread_busy.eq(~self.queue.thread_empty | self.units.thread_busy | self.units.writes_pending),
            self._matrix_busy.eq(~self.queue.matrix_empty | self.units.matrix_busy),
            self.barriers.index.eq(word.a), self.error.code.eq(self.instruction.code),
        ]
        m.d.sync += self.passes.eq(0)
        self._settle(m, word)
        with m.If(self.execute):
            with m.Switch(word.opcode):
                with m.Case(Opcode.WAIT):
                    self._wait(m, word)
                with m.Case(Opcode.BARRIER_WAIT):
                    self._barrier(m)
                if self.cfg.tensors:
                    with m.Case(Opcode.COMMIT_GROUP):
                        self._await(m, ~self.groups.rows_busy & (self.groups.pending != STORE_GROUPS))
                        m.d.comb += self.groups.commit.eq(self.passes & self.guarded)
                    with m.Case(Opcode.WAIT_GROUP):
                        self._await(m, Mux(word.modifiers.wait.read, self.groups.unread, self.groups.pending) <= word.imm)
                if self.cfg.sparse:
                    with m.Case(Opcode.WAIT_SPARSE):
                        m.d.sync += self.passes.eq(~self.passes & (~self.guarded | (self.sparse.left <= word.imm)))
        if self.cfg.wait_timeout:
            self._limit(m, word)
        if self.cfg.rnn:
            self._recurrent(m, word)
        if self.cfg.sparse:
            self._sparse(m, word)
        if self.cfg.tile_scheduler:
            self._tile(m, word)
        return m

    def _await(self, m, happened):
        """A ``commit_group`` or ``wait_group`` waits until ``happened``."""
        m.d.sync += self.passes.eq(~self.passes & (~self.guarded | happened))
        m.d.comb += self.waiting.copy.eq(~self.passes & self.guarded & ~happened)

    def _wait(self, m, word):
        units, unfinished = word.modifiers.wait.units, word.modifiers.wait.unfinished
        busy = Signal(3)
        m.d.comb += [
            busy[WaitUnit.THREAD.value].eq(Mux(unfinished.any(), self.queue.thread_left > unfinished, self._thread_busy)),
            busy[WaitUnit.MATRIX.value].eq(self._matrix_busy),
            busy[WaitUnit.COPY.value].eq(self.units.copy_busy),
            self.waiting.thread.eq(~self.passes & self.guarded & (busy & units)[WaitUnit.THREAD.value]),
            self.waiting.copy.eq(~self.passes & self.guarded & (busy & units)[WaitUnit.COPY.value]),
        ]
        m.d.sync += self.passes.eq(~self.passes & ~(self.guarded & (busy & units).any()))

    def _settle(self, m, word):
        """Whether no copy can still come: counted while a ``barrier.wait`` waits.

        With multicast also after the end of the program, for the other cores.
        """
        m.submodules.quiet_counter = quiet = QuietCounter()
        self._settled, waits = quiet.reached, self.barriers.asks
        m.d.comb += [waits.eq(self.execute & (word.opcode == Opcode.BARRIER_WAIT) & ~self.passes),
                     quiet.quiet.eq(waits & ~self.units.copy_busy)]
        if self.cfg.multicast:          # a core whose barrier is complete goes on and may send again
            m.d.comb += [self.settled.eq(quiet.reached & ~(waits & self.barriers.answered & self.barriers.complete)),
                         quiet.quiet.eq((waits | ~self.active) & ~self.units.copy_busy)]
            self._settled = self.settled & self.peers_settled

    def _barrier(self, m):
        never = Signal()                # the barrier cannot complete: an error when the instruction passes
        barriers = self.barriers
        passes = ~self.guarded | (barriers.answered & (barriers.complete | self._settled))
        m.d.sync += [self.passes.eq(~self.passes & passes), never.eq(self.guarded & ~barriers.complete)]
        m.d.comb += [
            self.error.failed.eq(self.passes & never), barriers.passed.eq(self.passes & self.guarded & ~never),
            self.barrier_stalls.eq(~self.passes), self.waiting.copy.eq(~self.passes),
        ]
        with m.If(barriers.excess):
            m.d.comb += self.error.code.eq(ErrorCode.BARRIER_EXPECT)
        with m.Elif(barriers.overrun):
            m.d.comb += self.error.code.eq(ErrorCode.BARRIER_OVERRUN)

    def _limit(self, m, word):
        """Raises WAIT_TIMEOUT after more than ``wait_timeout`` cycles of a wait."""
        m.submodules.wait_limit = limit = WaitLimit()
        is_barrier = word.opcode == Opcode.BARRIER_WAIT
        waits = self.execute & self.instruction.waits & self.guarded & ~self.passes & (~is_barrier | self.barriers.answered)
        m.d.comb += [limit.waits.eq(waits), limit.limit.eq(self.wait_timeout)]
        with m.If(limit.over):
            m.d.comb += [
                self.error.failed.eq(1), self.error.code.eq(ErrorCode.WAIT_TIMEOUT), self.error.has_operand.eq(1),
                self.error.operand.eq(Mux(word.opcode == Opcode.WAIT, word.modifiers.wait.units, Mux(is_barrier, word.a, word.imm))),
            ]

    def _recurrent(self, m, word):
        m.submodules.recurrent = control = RecurrentControl()
        error = self.recurrent.error
        m.d.comb += [
            control.execute.eq(self.execute & (word.opcode == Opcode.RECURRENT)), control.guarded.eq(self.guarded),
            control.quiet.eq(~(self._thread_busy | self._matrix_busy | (self.sparse.left != 0 if self.cfg.sparse else 0))),
            control.busy.eq(self.recurrent.busy),
            self.recurrent.start.eq(control.start), self.recurrent.address.eq(self.instruction.a_value),
        ]
        with m.If(control.execute):
            m.d.sync += self.passes.eq(control.ended)
        with m.If(control.execute & error.failed):
            m.d.comb += [self.error.failed.eq(1), self.error.code.eq(error.code), self.error.has_operand.eq(1),
                         self.error.operand.eq(Mux(error.of_image, self.instruction.a_value, error.operand))]

    def _sparse(self, m, word):
        """A job goes to the engine when no thread or matrix operation is in flight; the instruction leaves in the next cycle."""
        job, starts, offered = self.sparse.job, self.execute & (word.opcode == Opcode.SPARSE), Signal()
        quiet = ~(self._thread_busy | self._matrix_busy)
        m.d.sync += offered.eq(job.valid & ~job.ready)
        m.d.comb += [
            job.valid.eq(starts & self.guarded & ~self.passes & (quiet | offered)),
            job.payload.address.eq(self.instruction.a_value), job.payload.pc.eq(self.instruction.pc),
        ]
        with m.If(starts):
            m.d.sync += self.passes.eq(~self.passes & (~self.guarded | (job.valid & job.ready)))

    def _tile(self, m, word):
        """The instruction asks once, and leaves in the cycle after the answer."""
        takes, asked = self.execute & (word.opcode == Opcode.TAKE_TILE), Signal(name="asked_for_tile")
        m.d.comb += self.tiles.asks.eq(takes & self.guarded & ~asked & ~self.passes)
        m.d.sync += asked.eq(takes & self.guarded & ~self.passes)
        with m.If(takes):
            m.d.sync += self.passes.eq(~self.passes & (~self.guarded | (asked & self.tiles.number.valid)))
