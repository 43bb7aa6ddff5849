"""Issue and dispatch: every instruction leaves once, in order, and none is lost at a stop."""

import warnings
from unittest import mock

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal, UnusedElaboratable
from amaranth.lib.wiring import Component
from heddle import load_config
from heddle.front_end import issue_queue, unit
from heddle.front_end.opcode_class import WAITS, one_of, opcode_class
from heddle.isa.encoding import GUARD_ALWAYS, Opcode, WaitUnit

from .contract import data_of

__all__ = ["DispatchSpec"]

CALM_CYCLES = 4         # that an instruction stays at issue at most when nothing holds it


class _AnyDecode(unit.Decode):
    """Any instructions; one of them, or none, is marked by bit 0 of its program counter.

    Classes fit the opcode. An instruction stays until it is taken or flushed, and a flush leaves a gap. A copy of blocks or rows has a gap
    before it, in which its guard is there.
    """

    def elaborate(self, platform):
        m = Module()
        decoded, word, guard = self.o.payload, self.o.payload.word, Cat(self.o.payload.word.guard, self.o.payload.word.guard_negate)
        kind = opcode_class(self.cfg, word)
        m.d.comb += [self.o.valid.eq(AnySeq(1)), decoded.eq(AnySeq(len(decoded.as_value()))), self.i.ready.eq(1)]
        classes = {"for_thread": kind.for_thread, "for_matrix": kind.for_matrix, "for_copy": kind.single | kind.many,
                   "for_tensor": kind.tensor, "writes_uniform": kind.writes_uniform, "at_once": kind.at_once(word.opcode),
                   "waits": one_of(word.opcode, WAITS), "invalidates": word.opcode == Opcode.INVALIDATE_DESCRIPTOR}
        m.d.comb += [Assume(decoded[name] == value) for name, value in classes.items()]
        waits, gap, marked = Signal(), Signal(), Signal()       # ``marked``: the instruction that is marked came before this one
        before, guard_before = Signal(len(decoded.as_value()), reset_less=True), Signal(len(guard), reset_less=True)
        valid_before = Signal()
        m.d.sync += [
            waits.eq(self.o.valid & ~self.o.ready & ~self.flush), gap.eq(self.flush), valid_before.eq(self.o.valid),
            before.eq(decoded), guard_before.eq(guard),
        ]
        with m.If(self.o.valid & (self.o.ready | self.flush) & decoded.pc[0]):
            m.d.sync += marked.eq(1)
        with m.If(waits):
            m.d.comb += Assume(self.o.valid & (decoded.as_value() == before))
        with m.Else():
            m.d.comb += Assume(~(self.o.valid & decoded.for_copy) | (~valid_before & (guard == guard_before)))
        m.d.comb += [Assume(~(gap & self.o.valid)), Assume(~(marked & decoded.pc[0]))]
        return m


class _AnyScoreboard(issue_queue.Scoreboard):
    """What ``ScoreboardSpec`` proves of the scoreboard, and no more: an operation is free at some time, and stays so."""

    def elaborate(self, platform):
        m = Module()
        stays, holds = Signal(), Signal()
        m.d.comb += [self.matrix_hold.eq(AnySeq(1)), Assume(~self.matrix_hold | holds | self.add),
                     self.i.ready.eq(~self.waiting | self.add), self.free.eq(AnySeq(1)), Assume(self.free <= self.waiting),
                     Assume(~stays | self.free), self.thread_empty.eq(AnySeq(1)), self.matrix_empty.eq(AnySeq(1)),
                     self.thread_left.eq(AnySeq(len(self.thread_left))), Assume((self.thread_left == 0) == self.thread_empty),
                     Assume(~(self.waiting & self.thread_empty & self.matrix_empty))]
        m.d.sync += [stays.eq(self.free & ~self.add & ~self.clear), holds.eq(self.matrix_hold)]
        with m.If(self.i.ready):
            m.d.sync += self.waiting.eq(self.i.valid)
        with m.If(self.clear):
            m.d.sync += self.waiting.eq(0)
        return m


class _AnyQueue(issue_queue.IssueQueue):
    def elaborate(self, platform):
        with mock.patch.object(issue_queue, "Scoreboard", _AnyScoreboard):
            return super().elaborate(platform)


class DispatchSpec(Component):
    """Issue, issue queue and what joins them, in the front end, with any instructions and any units.

    An instruction counts as issued exactly when it leaves, and only then it has an effect. An operation that has left issue is pending
    until its unit takes it, whatever ``stop`` does; it reaches its unit once, and nothing younger reaches a unit before. A copy
    reaches its unit once, when it leaves, behind all operations before it and while no ``mm`` awaits loads of its factors; without a
    guard it does not leave otherwise. What is offered stays offered. An error ends the program. ``wait`` leaves when its units had
    nothing to do in the cycle before. An instruction leaves within ``CALM_CYCLES`` (4) cycles in which nothing holds it.

    Environment: a run starts when the one before has ended and nothing is pending.

    Parameters
    ----------
    slices : int
        ``front_end_slices``.
    """

    def __init__(self, slices=0):
        self._cfg = load_config("tiny").replace(front_end_slices=slices)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        warnings.filterwarnings("ignore", category=UnusedElaboratable)       # it is taken apart
        dut = unit.FrontEnd(self._cfg)
        with mock.patch.multiple(unit, Decode=_AnyDecode, IssueQueue=_AnyQueue):
            m.submodules.dut = module = dut.elaborate(platform)
        self._issue, self._queue = module.submodules.issue, module.submodules.queue
        self._environment(m, dut)
        issue, instruction = self._issue, self._issue.i.payload
        self._execute, self._leave, self._awaits = Signal(), Signal(), Signal()
        m.d.sync += self._awaits.eq(dut.matrix_hold)
        m.d.comb += [self._execute.eq(issue.i.valid & issue.active & instruction.legal), self._leave.eq(self._execute & issue.i.ready)]
        self._marked(m, dut, instruction)
        self._offers(m, dut)
        self._effects(m, dut)
        self._waits(m, dut, instruction)
        self._calm(m, dut, instruction)
        return m

    def _environment(self, m, dut):
        inputs = [dut.stop, dut.start, dut.units, dut.barriers.answered, dut.barriers.complete, dut.barriers.overrun, dut.barriers.excess,
                  dut.groups.rows_busy, dut.groups.pending, dut.groups.unread, dut.recurrent.busy, dut.recurrent.error, dut.wait_timeout,
                  dut.sparse.job.ready, dut.sparse.left,
                  dut.o_thread.ready, dut.o_matrix.ready, dut.o_copy.ready, dut.o_tensor.ready]
        for port in inputs:
            for signal in ([getattr(port, name) for name in port.signature.members] if hasattr(port, "signature") else [port]):
                value = signal if isinstance(signal, Signal) else signal.as_value()
                m.d.comb += value.eq(AnySeq(len(value)))
        m.d.comb += Assume(~dut.start | (~dut.active & dut.scoreboard_empty))

    def _marked(self, m, dut, instruction):
        """The marked instruction, and what the units get of it."""
        pending, done = Signal(), Signal()
        leaves = self._leave & instruction.pc[0]
        operation, copy = instruction.for_thread | instruction.for_matrix, instruction.for_copy | instruction.for_tensor
        places = {dut.o_thread: dut.o_thread.payload.pc, dut.o_matrix: dut.o_matrix.payload.pc,
                  dut.o_copy: dut.o_copy.payload.first.pc, dut.o_tensor: dut.o_tensor.payload.request.pc}
        passes = {port: port.valid & port.ready for port in places}
        mine = {port: passes[port] & place[0] for port, place in places.items()}
        to_unit, to_tmau = mine[dut.o_thread] | mine[dut.o_matrix], mine[dut.o_copy] | mine[dut.o_tensor]
        others = Cat(passes[port] & ~place[0] for port, place in places.items()).any()
        with m.If(to_unit):
            m.d.sync += pending.eq(0)
        with m.If(leaves & operation):
            m.d.sync += pending.eq(1)
        with m.If(to_unit | to_tmau):
            m.d.sync += done.eq(1)
        always, never = ((instruction.word.guard == GUARD_ALWAYS) & (instruction.word.guard_negate == negate) for negate in (0, 1))
        m.d.comb += [
            Assert(~to_unit | (pending & ~done)), Assert(~pending | self._queue.status.waiting), Assert(~(pending & (others | to_tmau))),
            Assert(~to_tmau | (leaves & copy & ~done)), Assert(~to_tmau | ~(self._queue.status.waiting | self._awaits)),
            Assert(~(leaves & copy & always) | to_tmau), Assert(~(copy & never & to_tmau)),
            Cover(pending & dut.stop), Cover(done & ~dut.active), Cover(to_unit & leaves == 0), Cover(to_tmau & dut.stop),
            Cover(mine[dut.o_matrix]), Cover(mine[dut.o_tensor]),
        ]

    def _offers(self, m, dut):
        """Once on offer, an operation and a copy stay the same until they are taken; masks of threads may change meanwhile."""
        for name in ("o_thread", "o_matrix", "o_copy", "o_tensor"):
            port, bits = getattr(dut, name), data_of(getattr(dut, name))
            waits, before = Signal(name=f"{name}_waits"), Signal(len(bits), name=f"{name}_before", reset_less=True)
            m.d.sync += [waits.eq(port.valid & ~port.ready), before.eq(bits)]
            with m.If(waits):
                stopped = dut.stop if name in ("o_copy", "o_tensor") else ~dut.active       # a program stays active with its copy
                m.d.comb += [Assert(port.valid), Cover(port.ready & stopped)]
                if name != "o_matrix":
                    m.d.comb += Assert(bits == before)

    def _effects(self, m, dut):
        issue, started, failed = self._issue, Signal(), Signal()
        effects = Cat(issue.branch.taken, issue.written.segment.valid, dut.barriers.expect.valid, dut.barriers.passed, dut.groups.commit,
                      dut.o_invalidate.valid)
        m.d.comb += [
            Assert(dut.events.instructions == self._leave), Assert(~effects.any() | self._leave),
            Assert(~dut.o_error.valid | (issue.i.valid & issue.active)), Assert(~failed | ~issue.active),
            Assert(~(dut.recurrent.start & started)), Assert(~dut.recurrent.start | self._execute), Cover(started & self._leave),
        ]
        m.d.sync += failed.eq(dut.o_error.valid)
        with m.If(~self._execute | self._leave):
            m.d.sync += started.eq(0)
        with m.Elif(dut.recurrent.start):
            m.d.sync += started.eq(1)

    def _waits(self, m, dut, instruction):
        """What ``wait`` waits for: operations in the queue and in flight, and what the units say; without a guard."""
        units, status, word, busy = dut.units, self._queue.status, instruction.word, Signal(len(WaitUnit))
        unfinished = word.modifiers.wait.unfinished
        m.d.sync += [
            busy[WaitUnit.THREAD.value].eq(Mux(unfinished == 0, ~status.thread_empty | units.thread_busy | units.writes_pending,
                                               status.thread_left > unfinished)),
            busy[WaitUnit.COPY.value].eq(units.copy_busy), busy[WaitUnit.MATRIX.value].eq(~status.matrix_empty | units.matrix_busy),
        ]
        leaves = self._leave & (word.opcode == Opcode.WAIT) & (word.guard == GUARD_ALWAYS) & ~word.guard_negate
        m.d.comb += [Assert(~leaves | ~(busy & word.modifiers.wait.units).any()), Cover(leaves & busy.any())]

    def _calm(self, m, dut, instruction):
        """Cycles in which the same instruction is at issue and nothing holds it."""
        calm, units, groups, waiting = Signal(range(CALM_CYCLES + 2)), dut.units, dut.groups, self._queue.status.waiting
        in_queue = Mux(waiting, ~dut.o_thread.valid & ~dut.o_matrix.valid, ~dut.scoreboard_empty)   # an operation is not free, or in flight
        holds = (units.thread_busy | units.matrix_busy | units.copy_busy | units.writes_pending | dut.recurrent.busy | groups.rows_busy
                 | (dut.sparse.left != 0) | ~dut.sparse.job.ready
                 | (groups.pending != 0) | (groups.unread != 0) | in_queue | self._awaits)
        ready = (dut.o_thread.ready & dut.o_matrix.ready & dut.o_copy.ready & dut.o_tensor.ready & dut.barriers.answered
                 & dut.barriers.complete)
        with m.If(self._execute & ~self._leave & ready & ~holds):
            m.d.sync += calm.eq(calm + 1)
        with m.Else():
            m.d.sync += calm.eq(0)
        m.d.comb += [Assert(calm < CALM_CYCLES), Cover(calm == 2)]
