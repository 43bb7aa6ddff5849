"""Operand read stage: reads uniform registers and segments, checks the instruction, and waits for writes in flight."""

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.front_end import SegmentReadPort, UniformReadPort, UniformWritePort, segment_layout
from ..isa.error_codes import ErrorCode
from ..isa.tensor_descriptor import MAX_RANK
from ..parameters.front_end import FrontEndParameters
from .instruction_checks import FailedField, InstructionChecks
from .instruction_fetch import fetched_layout
from .opcode_class import opcode_class

__all__ = ["MASK_BEAT", "OperandRead", "operand_layout"]

MASK_BEAT = MAX_RANK        # beat of a multicast that reads its mask


def operand_layout(cfg):
    """A beat of an instruction: the instruction and what it reads in this cycle; with ``tensors`` also register c."""
    beats = MASK_BEAT + 1 if cfg.multicast else MAX_RANK if cfg.tensors else 3
    return data.StructLayout({
        "fetched": fetched_layout,
        "beat": range(beats),
        "last": 1,
        "a": 32,
        "b": 32,
    } | ({"c": 32} if cfg.tensors else {}) | {
        "segment": segment_layout(cfg),
        "code": ErrorCode,      # error of the first check that fails
        "field": FailedField,   # field of the instruction that fails it
    })


class OperandRead(Component):
    """Operand read stage: reads the uniform registers and the segment of an instruction, and makes its checks.

    A copy needs more uniform registers than the read ports deliver at once. It takes several beats, each with two registers.

    | beat | a | b | c |
    |---|---|---|---|
    | 0 | field a | field b | field dst |
    | 1 | dst | b + 1 | |
    | 2, ``copy_rows`` | dst + 1 | a + 1 | |
    | 2, 3, 4 of a tensor | c, c + 1, c + 2 | b + 2, b + 3, b + 4 | |
    | ``MASK_BEAT`` of a multicast | mask | | |

    Interlock: the first beat waits while an instruction that writes uniform registers or segments is between this stage and issue. It also
    waits in the cycle in which a register is written whose number is in field a or b. For a unicast tensor copy of rank 1 ``dst`` counts
    too.

    Parameters
    ----------
    cfg : FrontEndParameters

    *Ports*:
    i : In(stream.Signature(fetched_layout))
        Fetched instructions. An instruction is taken with its last beat.
    o : Out(stream.Signature(operand_layout(cfg)))
        Beats, in order.
    flush : In(1)
        Drops the beats of the instruction at ``i`` that have passed, and forgets the writers in flight. ``o`` is void in this cycle.
    written : In(UniformWritePort(cfg))
        Write-back of uniform registers and segments.
    a, b, c : Out(UniformReadPort())
        Reads of uniform registers; ``c`` only with ``tensors``.
    segment : Out(SegmentReadPort(cfg))
        Reads of the segment table.

    *Latency*: combinational from ``i`` to ``o``.

    *Throughput*: one beat a cycle. ``copy_block`` and ``prefetch_block`` have two beats, ``copy_rows`` three, a tensor copy or prefetch as
    many as its rank. A multicast has at least two, and one more for its mask. All other instructions have one.

    *Back-pressure*: ``i.ready`` is combinational from ``o.ready``, ``written`` and ``i.payload``.

    *Reset*: no beat has passed, no writer is in flight.

    *Errors*: none are raised; ``code`` and ``field`` name the failed check.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(fetched_layout)), "o": Out(stream.Signature(operand_layout(cfg))), "flush": In(1),
            "written": In(UniformWritePort(cfg)),
            "a": Out(UniformReadPort()), "b": Out(UniformReadPort()), **({"c": Out(UniformReadPort())} if cfg.tensors else {}),
            "segment": Out(SegmentReadPort(cfg)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.checks = checks = InstructionChecks(self.cfg)
        beat = Signal.like(self.o.payload.beat)
        word, payload = self.i.payload.word, self.o.payload
        kind = opcode_class(self.cfg, word)
        first, valid = beat == 0, self._values_valid(m, word, kind)
        m.d.comb += [
            checks.word.eq(word), checks.segment_space.eq(self.segment.value.space),
            self.segment.index.eq(word.b),
            payload.fetched.eq(self.i.payload), payload.beat.eq(beat),
            payload.a.eq(self.a.value), payload.b.eq(self.b.value), payload.segment.eq(self.segment.value),
            payload.code.eq(checks.code), payload.field.eq(checks.field),
            self.o.valid.eq(self.i.valid & (~first | valid)),
            self.i.ready.eq(self.o.ready & payload.last & (~first | valid)),
        ]
        if self.cfg.tensors:
            m.d.comb += [self.c.index.eq(word.dst), payload.c.eq(self.c.value)]
        self._beats(m, beat, word, kind)
        return m

    def _values_valid(self, m, word, kind):
        """Whether the first beat may pass: what it reads is written, and is not being written in this cycle."""
        in_flight, stale = Signal(), Signal()       # ``in_flight``: a writer has passed and has not retired; there is one at most
        written = self.written.register
        index = written.payload.index
        m.d.comb += stale.eq(written.valid & ((word.a[:6] == index) | (word.b[:6] == index) | (kind.alone & (word.dst[:6] == index))))
        with m.If(self.written.retires):
            m.d.sync += in_flight.eq(0)
        with m.If(self.i.valid & self.i.ready & kind.writes_uniform):
            m.d.sync += in_flight.eq(1)
        with m.If(self.flush):
            m.d.sync += in_flight.eq(0)
        return ~in_flight & ~stale

    def _beats(self, m, beat, word, kind):
        """Number of the beat, and the registers that it reads: those of later beats are numbered a beat before."""
        a_index, b_index = Signal(6, reset_less=True), Signal(6, reset_less=True)
        at_mask = Signal()              # the next beat reads the mask
        next_a, before_b, ends = word.dst + 1, word.a, kind.single | (beat == 2)
        if self.cfg.tensors:            # the coordinates follow b, the offsets c
            next_a = Mux(beat != 1, a_index + 1, Mux(kind.tensor, word.c, word.dst + 1))
            before_b = Mux(kind.tensor, b_index, word.a)
            ends = Mux(kind.tensor, beat >= word.modifiers.copy.rank_minus_one, ends)
        if self.cfg.multicast:
            reads_mask = beat == MASK_BEAT
            m.d.comb += at_mask.eq(kind.multicast & ends & ~reads_mask)
            next_a, ends = Mux(at_mask, word.modifiers.copy.mask, next_a), Mux(kind.multicast, reads_mask, ends)
        first = beat == 0
        m.d.comb += [
            self.a.index.eq(Mux(first, word.a, a_index)), self.b.index.eq(Mux(first, word.b, b_index)),
            self.o.payload.last.eq(Mux(first, kind.single_beat, ends)),
        ]
        with m.If(self.o.ready):
            m.d.sync += [a_index.eq(Mux(first, word.dst, next_a)), b_index.eq(Mux(first, word.b, before_b) + 1)]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += beat.eq(Mux(self.o.payload.last, 0, Mux(~first & at_mask, MASK_BEAT, beat + 1)))
        with m.If(self.flush):
            m.d.sync += beat.eq(0)
