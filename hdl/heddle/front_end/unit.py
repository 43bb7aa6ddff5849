"""Front end of a core: instruction fetch, decode, issue and uniform state in one component."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, connect, flipped

from ..lib.members import connect_members
from ..lib.stream import link
from ..parameters.front_end import FrontEndParameters
from .decode import Decode
from .instruction_fetch import InstructionFetch, program_write_layout
from .issue import Issue, issue_members
from .uniform_state import UniformState

__all__ = ["FrontEnd"]

# Ports of ``Issue`` that are also ports of the front end.
_ISSUE_INPUTS = ("start", "stop", "lane_mask", "thread_done", "matrix_done", "thread_busy", "matrix_busy", "copy_busy",
                 "writes_pending", "barrier_complete", "barrier_overrun", "barrier_excess")
_ISSUE_OUTPUTS = ("active", "ended", "pc", "tokens_empty", "expect", "barrier", "expect_bytes", "opens", "opens_barrier",
                  "barrier_passed", "event_instructions",
                  "event_token_stalls", "event_queue_stalls", "event_barrier_stalls", "waiting_copy", "waiting_thread")


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
    program_end : In(program_counter_bits + 1)
        Number of the first instruction behind the program, 0 to ``instruction_words``. Constant from two cycles before ``start``.
    entry : In(program_counter_bits)
        Number of the first instruction of a run; read in the cycle with ``start``.
    core : In(core_bits)
        Number of the core, the value of ``%core``.
    start, stop : In(1)
        Begin and end a run. ``start`` also clears the uniform predicates, the scoreboard and ``%cycle``.
    host_write : In(1)
        The host writes uniform register ``host_index``; only while no program runs.
    host_index : In(6)
        Number of the uniform register.
    host_data : In(32)
        Its new value.
    predicates : In(threads).array(7)
        Thread predicates: bit t of ``predicates[p]`` is predicate p of thread t.
    o_thread : Out(stream.Signature(thread_operation_layout))
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
        tensor_outputs = ("invalidate", "invalidate_address", "commit") if cfg.tensors else ()
        tensor_outputs += ("recurrent_start", "recurrent_address") if cfg.rnn else ()
        tensor_outputs += ("settled",) if cfg.multicast else ()
        self._inputs = (*_ISSUE_INPUTS, *(("rows_busy", "groups_pending", "groups_unread") if cfg.tensors else ()),
                        *(("wait_timeout",) if cfg.wait_timeout else ()), *(("peers_settled",) if cfg.multicast else ()),
                        *(("recurrent_busy", "recurrent_error") if cfg.rnn else ()))
        self._outputs = (*_ISSUE_OUTPUTS, *(("matrix_hold",) if cfg.issue_ahead else ()), *tensor_outputs)
        self._streams = ("o_thread", "o_matrix", "o_copy", *(("o_tensor",) if cfg.tensors else ()))
        super().__init__({
            "i_program": In(stream.Signature(program_write_layout(cfg), always_ready=True)),
            "program_end": In(cfg.program_counter_bits + 1), "entry": In(cfg.program_counter_bits), "core": In(cfg.core_bits),
            "host_write": In(1), "host_index": In(6), "host_data": In(32),
            "predicates": In(cfg.threads).array(7),
        } | {name: issue[name] for name in (*self._inputs, *self._outputs, *self._streams, "o_error")})

    def elaborate(self, platform):
        m = Module()
        m.submodules.fetch = fetch = InstructionFetch(self.cfg)
        m.submodules.decode = decode = Decode(self.cfg)
        m.submodules.issue = issue = Issue(self.cfg)
        m.submodules.uniform = uniform = UniformState(self.cfg)

        connect(m, flipped(self.i_program), fetch.i_program)
        link(m, fetch.o, decode.i)
        link(m, decode.o, issue.i)
        for name in (*self._streams, "o_error"):
            connect(m, getattr(issue, name), flipped(getattr(self, name)))
        connect_members(m, flipped(self), issue, (*self._inputs, *self._outputs, "predicates"))
        m.d.comb += [
            fetch.program_end.eq(self.program_end), decode.program_end.eq(self.program_end), fetch.enable.eq(issue.active),
            fetch.redirect.eq(self.start | issue.redirect),
            fetch.target.eq(Mux(self.start, self.entry, issue.target)),
            decode.flush.eq(issue.flush), decode.core.eq(self.core), decode.start.eq(self.start),
            decode.hold.eq(issue.hold),
            uniform.a_index.eq(decode.a_index), decode.a.eq(uniform.a),
            uniform.b_index.eq(decode.b_index), decode.b.eq(uniform.b),
            *([uniform.c_index.eq(decode.c_index), decode.c.eq(uniform.c)] if self.cfg.tensors else []),
            uniform.segment_index.eq(decode.segment_index), decode.segment.eq(uniform.segment),
            uniform.write.eq(issue.uniform_write | self.host_write),
            uniform.write_index.eq(Mux(issue.uniform_write, issue.uniform_index, self.host_index)),
            uniform.write_data.eq(Mux(issue.uniform_write, issue.uniform_data, self.host_data)),
            decode.write.eq(issue.uniform_write), decode.write_index.eq(issue.uniform_index),
            uniform.segment_write.eq(issue.segment_write),
            uniform.segment_write_index.eq(issue.segment_index),
            uniform.segment_write_data.eq(issue.segment_data),
        ]
        return m
