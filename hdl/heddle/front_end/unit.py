"""The front end of a core: fetch, decode and issue around the uniform state."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, connect, flipped

from ..lib.members import connect_members
from ..lib.stream import link
from .decode import Decode
from .instruction_fetch import InstructionFetch, program_write_layout
from .issue import Issue, issue_members
from .uniform_state import UniformState

__all__ = ["FrontEnd"]

# Signals of ``Issue`` that are signals of the front end too.
_ISSUE_INPUTS = ("start", "stop", "lane_mask", "thread_done", "matrix_done", "thread_busy", "matrix_busy", "copy_busy",
                 "writes_pending", "barrier_complete", "barrier_overrun", "barrier_excess")
_ISSUE_OUTPUTS = ("active", "ended", "pc", "tokens_empty", "expect", "barrier", "expect_bytes", "opens", "opens_barrier",
                  "barrier_passed", "event_instructions",
                  "event_token_stalls", "event_queue_stalls", "event_barrier_stalls", "waiting_copy", "waiting_thread")


class FrontEnd(Component):
    """Runs the program: up to one instruction a cycle, with ``cfg.far_registers`` one every other cycle, three cycles more after a taken
    branch, one after an instruction that writes uniform registers or segments.

    Members
    -------
    i_program, program_end, entry, start, stop
        Program memory writes; first instruction behind the program, constant from two cycles before ``start``; first instruction of the
        run; begin and end of a run (see ``Issue``).
    core
        Number of the core.
    host_write, host_index, host_data
        The host sets a uniform register while no program runs.
    o_thread, o_matrix, o_copy, o_tensor, o_error
        Operations for the units (``o_tensor`` with ``cfg.tensors``), and errors.

    The other members are those of ``Issue``.
    """

    def __init__(self, cfg):
        self.cfg = cfg
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
