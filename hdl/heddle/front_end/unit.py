"""Front end of a core: instruction fetch, decode, issue and uniform state in one component."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, connect, flipped

from ..interfaces.control import ProgramPort, UniformStream
from ..lib.members import connect_members
from ..lib.stream import link
from ..parameters.front_end import FrontEndParameters
from .decode import Decode
from .instruction_fetch import InstructionFetch, program_write_layout
from .issue import Issue, issue_members
from .uniform_state import UniformState

__all__ = ["FrontEnd"]

# Ports of ``Issue`` that are also ports of the front end, where the configuration has them.
_OF_ISSUE = ("start", "stop", "active", "ended", "pc", "tokens_empty", "wait_timeout", "matrix_hold", "settled", "peers_settled", "masks",
             "units", "barriers", "groups", "recurrent", "events", "waiting", "o_thread", "o_matrix", "o_copy", "o_tensor",
             "o_invalidate", "o_error")


class FrontEnd(Component):
    """Front end of a core: fetches, decodes and issues one instruction stream in program order [S0.1, S0.9, S0.10, S0.17].

    Joins ``InstructionFetch``, ``Decode``, ``UniformState`` and ``Issue``. Every port without an entry here is the port of the same name
    of ``Issue``; its docstring gives the meaning.

    Parameters
    ----------
    cfg : FrontEndParameters

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

    *Latency*: the first instruction of a run is at ``Issue`` four cycles after ``start``. The instruction behind a taken branch is there
    four cycles after the branch was. With ``far_registers`` both take five cycles.

    *Throughput*: one instruction a cycle; with ``far_registers`` one every other cycle. An instruction that writes uniform registers or
    segments holds its successor for one cycle more, or for longer when the successor reads the uniform register.

    *Back-pressure*: the ready of each output stream holds issue, as described for ``Issue``. ``i_program`` is always ready.

    *Reset*: no program runs; the fetch, decode and issue stages are empty. Instruction memory, uniform registers and segments have no
    reset.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        issue = issue_members(cfg)
        self._of_issue = [name for name in _OF_ISSUE if name in issue]
        super().__init__({
            "i_program": In(stream.Signature(program_write_layout(cfg), always_ready=True)),
            "program": In(ProgramPort(cfg)), "core": In(cfg.core_bits), "i_uniform": In(UniformStream()),
        } | {name: issue[name] for name in self._of_issue})

    def elaborate(self, platform):
        m = Module()
        m.submodules.fetch = fetch = InstructionFetch(self.cfg)
        m.submodules.decode = decode = Decode(self.cfg)
        m.submodules.issue = issue = Issue(self.cfg)
        m.submodules.uniform = uniform = UniformState(self.cfg)

        connect(m, flipped(self.i_program), fetch.i_program)
        link(m, fetch.o, decode.i)
        link(m, decode.o, issue.i)
        connect_members(m, flipped(self), issue, self._of_issue)
        for name in ("a", "b", "segment", *["c"] * self.cfg.tensors):
            connect(m, getattr(decode, name), getattr(uniform, name))
        connect(m, issue.o_segment, uniform.i_segment)
        written, host = issue.o_uniform, self.i_uniform
        m.d.comb += [
            fetch.program_end.eq(self.program.end), decode.program_end.eq(self.program.end), fetch.enable.eq(issue.active),
            fetch.redirect.eq(self.start | issue.branch.taken),
            fetch.target.eq(Mux(self.start, self.program.entry, issue.branch.target)),
            decode.flush.eq(issue.flush), decode.core.eq(self.core), decode.start.eq(self.start),
            decode.hold.eq(issue.hold),
            decode.i_uniform.valid.eq(written.valid), decode.i_uniform.payload.eq(written.payload),
            uniform.i_uniform.valid.eq(written.valid | host.valid),
            uniform.i_uniform.payload.eq(Mux(written.valid, written.payload, host.payload)),
        ]
        return m
