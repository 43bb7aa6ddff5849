"""Front end of a core: instruction fetch, operand read, decode, issue, issue queue and uniform state in one component."""

from typing import NamedTuple

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.control import EventPort, ProgramPort, UniformStream
from ..interfaces.front_end import ThreadMaskPort, WaitPort
from ..interfaces.layouts import matrix_operation_layout, thread_operation_layout
from ..interfaces.program import program_write_layout
from ..isa.counter_table import ISSUE_EVENTS
from ..lib.members import connect_members
from ..lib.register_slice import RegisterSlice, SliceMode
from ..lib.stream import link
from ..parameters.front_end import FrontEndParameters
from .decode import Decode, decoded_layout
from .instruction_fetch import InstructionFetch
from .issue import Issue, issue_members
from .issue_queue import IssueQueue
from .operand_read import OperandRead, operand_layout
from .uniform_state import UniformState

__all__ = ["FrontEnd", "FrontEndTiming"]

# Ports of ``Issue`` that are also ports of the front end, where the configuration has them.
_OF_ISSUE = ("start", "stop", "active", "ended", "pc", "wait_timeout", "settled", "peers_settled", "units", "barriers", "groups",
             "recurrent", "sparse", "tiles", "o_copy", "o_tensor", "o_invalidate", "o_error")
# Ports of ``IssueQueue`` that are also ports of the front end.
_OF_QUEUE = ("masks", "matrix_hold", "o_thread", "o_matrix")


class FrontEndTiming(NamedTuple):
    """Cycles of the front end while nothing waits."""

    start: int              # from ``start`` to the first instruction at issue
    branch: int             # from a taken branch at issue to the next instruction
    instruction: int        # from an instruction at issue to the next one
    writer: int             # the same from one that writes a uniform register or a segment
    dependent: int          # the same to one that reads the uniform register
    barrier_wait: int       # from a ``barrier.wait`` to the next instruction, when ``barriers.answered`` follows ``asks`` at once


class FrontEnd(Component):
    """Front end of a core: fetches, decodes and issues one instruction stream in program order [S0.1, S0.9, S0.10, S0.17].

    Joins ``InstructionFetch``, ``OperandRead``, ``Decode``, ``Issue``, ``IssueQueue`` and ``UniformState``. Every port without an entry
    here is the port of the same name of ``Issue`` or ``IssueQueue``; its docstring gives the meaning.

    Parameters
    ----------
    cfg : FrontEndParameters
        ``front_end_slices`` places the register slices.

    *Ports*:
    i_program : In(stream.Signature(program_write_layout(cfg), always_ready=True))
        Writes one 128-bit instruction to the instruction memory; only while no program runs.
    program : In(ProgramPort(cfg))
        First instruction of a run, read in the cycle with ``start``, and end of the program, constant from two cycles before ``start``.
    core : In(core_bits)
        Number of the core, the value of ``%core``.
    start, stop : In(1)
        Begin and end a run. ``start`` also clears the uniform predicates, the scoreboard and ``%cycle``.
    i_uniform : In(UniformStream())
        Writes of uniform registers by the host; only while no program runs.
    masks : In(ThreadMaskPort(threads))
        Thread predicates and lane mask.
    o_thread : Out(stream.Signature(thread_operation_layout(cfg)))
        Operations for the thread unit.
    o_matrix : Out(stream.Signature(matrix_operation_layout(cfg)))
        Operations for the matrix unit.
    o_copy : Out(stream.Signature(row_operation_layout))
        Copies of blocks and of rows for the TMAU.
    o_tensor : Out(stream.Signature(tensor_operation_layout()))
        Copies of tensors for the TMAU; only with ``tensors``.
    o_error : Out(ErrorStream())
        Errors of the program, at most one a run.
    scoreboard_empty : Out(1)
        No thread or matrix operation is pending or in flight.
    events : Out(EventPort(ISSUE_EVENTS))
        A legal instruction leaves issue; the pending operation has a hazard or no scoreboard entry; the pending operation or the copy
        at issue waits for its unit; a ``barrier.wait`` waits.
    waiting : Out(WaitPort())
        What the program waits for.

    *Latency*: property ``timing``. An operation is valid at ``o_thread`` or ``o_matrix`` one cycle after it was at issue.

    *Throughput*: property ``timing``.

    *Back-pressure*: the ready of each output stream holds issue, as described for ``Issue`` and ``IssueQueue``. ``i_program`` is always
    ready.

    *Reset*: no program runs; all stages are empty. Instruction memory, uniform registers and segments have no reset.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        sliced = bool(cfg.front_end_slices)
        # Of what operand read gives to decode: addresses and errors are then computed from registers.
        self._operand_slice = SliceMode.FORWARD if sliced else SliceMode.NONE
        # Of what decode gives to issue: what lets an instruction go then ends in one register, not at the enables of ``Decode``.
        self._decoded_slice = SliceMode.REVERSE if sliced else SliceMode.NONE
        issue = issue_members(cfg)
        self._of_issue = [name for name in _OF_ISSUE if name in issue]
        super().__init__({
            "i_program": In(stream.Signature(program_write_layout(cfg), always_ready=True)),
            "program": In(ProgramPort(cfg)), "core": In(cfg.core_bits), "i_uniform": In(UniformStream()),
            "masks": In(ThreadMaskPort(cfg.threads)), "matrix_hold": Out(1), "scoreboard_empty": Out(1),
            "o_thread": Out(stream.Signature(thread_operation_layout(cfg))),
            "o_matrix": Out(stream.Signature(matrix_operation_layout(cfg))), "events": Out(EventPort(ISSUE_EVENTS)),
            "waiting": Out(WaitPort()),
        } | {name: issue[name] for name in self._of_issue})

    @property
    def timing(self):
        """``FrontEndTiming`` of this configuration."""
        latency, interval = self._operand_slice.latency + self._decoded_slice.latency, self._decoded_slice.interval
        return FrontEndTiming(start=4 + latency, branch=4 + latency, instruction=interval, writer=2 + latency, dependent=3 + latency,
                              barrier_wait=1 + interval)

    def elaborate(self, platform):
        m = Module()
        m.submodules.fetch = fetch = InstructionFetch(self.cfg)
        m.submodules.operand_read = read = OperandRead(self.cfg)
        m.submodules.operands = operands = RegisterSlice(operand_layout(self.cfg), self._operand_slice, clears=True)
        m.submodules.decode = decode = Decode(self.cfg)
        m.submodules.decoded = decoded = RegisterSlice(decoded_layout(self.cfg), self._decoded_slice, clears=True)
        m.submodules.issue = issue = Issue(self.cfg)
        m.submodules.queue = queue = IssueQueue(self.cfg)
        m.submodules.uniform = uniform = UniformState(self.cfg)

        connect(m, flipped(self.i_program), fetch.i_program)
        for source, sink in ((fetch.o, read.i), (read.o, operands.i), (operands.o, decode.i), (decode.o, decoded.i), (decoded.o, issue.i)):
            link(m, source, sink)
        connect_members(m, flipped(self), issue, self._of_issue)
        for name in ("a", "b", "segment", *["c"] * self.cfg.tensors):
            connect(m, getattr(read, name), getattr(uniform, name))
        m.d.comb += [
            fetch.program_end.eq(self.program.end), decode.program_end.eq(self.program.end), fetch.enable.eq(issue.active),
            fetch.redirect.eq(self.start | issue.branch.taken),
            fetch.target.eq(Mux(self.start, self.program.entry, issue.branch.target)),
            *(stage.eq(issue.flush) for stage in (read.flush, operands.clear, decode.flush, decoded.clear)),
            decode.core.eq(self.core), decode.start.eq(self.start),
        ]
        self._dispatch(m, issue, queue)
        self._write(m, issue, (read, uniform))
        return m

    def _dispatch(self, m, issue, queue):
        """Operations go from issue to the queue; what both count and wait for."""
        operation = issue.o_operation
        takes = ~queue.status.waiting if self.cfg.front_end_slices else queue.i.ready
        # With slices an operation enters an empty queue only, so that ``ready`` of the units ends in the queue.
        m.d.comb += [queue.i.payload.eq(operation.payload), queue.i.valid.eq(operation.valid & takes), operation.ready.eq(takes)]
        connect(m, queue.status, issue.queue)
        connect_members(m, flipped(self), queue, _OF_QUEUE)
        m.d.comb += [
            queue.thread_done.eq(self.units.thread_done), queue.matrix_done.eq(self.units.matrix_done), queue.clear.eq(self.start),
            self.scoreboard_empty.eq(queue.status.thread_empty & queue.status.matrix_empty),
            self.events.instructions.eq(issue.events.instructions), self.events.barrier_stalls.eq(issue.events.barrier_stalls),
            self.events.scoreboard_stalls.eq(queue.events.scoreboard_stalls),
            self.events.queue_stalls.eq(issue.events.queue_stalls | queue.events.queue_stalls),
            self.waiting.copy.eq(issue.waiting.copy), self.waiting.thread.eq(issue.waiting.thread | queue.waiting_thread),
        ]

    def _write(self, m, issue, readers):
        """Writes of issue and of the host go to the uniform state; the interlock of operand read sees those of issue."""
        read, uniform = readers
        connect(m, issue.written.segment, uniform.i_segment)
        written, host = issue.written.register, self.i_uniform
        m.d.comb += [
            read.written.retires.eq(issue.written.retires),
            read.written.register.valid.eq(written.valid), read.written.register.payload.eq(written.payload),
            uniform.i_uniform.valid.eq(written.valid | host.valid),
            uniform.i_uniform.payload.eq(Mux(written.valid, written.payload, host.payload)),
        ]
