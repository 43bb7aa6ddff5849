"""Instruction memory and instruction fetch stage."""

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import PC_BITS
from ..interfaces.program import program_write_layout
from ..isa.encoding import instruction_layout
from ..parameters.front_end import FrontEndParameters

__all__ = ["InstructionFetch", "fetched_layout"]

fetched_layout = data.StructLayout({
    "pc": PC_BITS,
    "past_end": 1,              # ``pc`` is not below ``program_end``; ``word`` is void
    "past_memory": 1,           # the number is ``instruction_words``; ``pc`` cannot hold it in the largest memory
    "word": instruction_layout,
})


class InstructionFetch(Component):
    """Instruction memory of ``instruction_words`` words of 128 bits, and prefetch of up to two instructions.

    Parameters
    ----------
    cfg : FrontEndParameters

    *Ports*:
    i_program : In(stream.Signature(program_write_layout(cfg), always_ready=True))
        Writes one instruction; only while no program runs.
    program_end : In(program_counter_bits + 1)
        Number of the first instruction behind the program, 0 to ``instruction_words``. Words from there on are reported as ``past_end``.
        Constant from a cycle before the first ``redirect`` of a run.
    redirect : In(1)
        Drops everything fetched; fetch continues at ``target``.
    target : In(program_counter_bits)
        Number of an instruction; read in the cycle with ``redirect``.
    enable : In(1)
        Fetch runs. While low, everything fetched is dropped and ``o`` is not valid from the next cycle on.
    o : Out(stream.Signature(fetched_layout))
        Instructions in order of their numbers; registered.

    *Latency*: three cycles from ``redirect`` to ``o.valid`` with instruction ``target``.

    *Throughput*: one instruction a cycle.

    *Back-pressure*: ``o.ready`` enables the two registers of the fetch stage; no output depends on it combinationally. The prefetch stops
    behind the last word of the memory: every further item has ``past_end`` and ``past_memory``.

    *Reset*: ``o`` is not valid; the memory has no reset.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        super().__init__({
            "i_program": In(stream.Signature(program_write_layout(cfg), always_ready=True)),
            "program_end": In(cfg.program_counter_bits + 1),
            "redirect": In(1),
            "target": In(cfg.program_counter_bits),
            "enable": In(1),
            "o": Out(stream.Signature(fetched_layout)),
        })

    def elaborate(self, platform):
        m = Module()
        bits = self.cfg.program_counter_bits
        # Written only while no program runs. The register behind the asynchronous read becomes the output register of the block RAM.
        m.submodules.instructions = memory = Memory(shape=128, depth=self.cfg.instruction_words, init=[], attrs={"no_rw_check": 1})
        write, read = memory.write_port(), memory.read_port(domain="comb")
        read_word = Signal(128, reset_less=True)
        m.d.comb += [
            write.en.eq(self.i_program.valid),
            write.addr.eq(self.i_program.payload.address),
            write.data.eq(self.i_program.payload.word),
        ]

        next_pc = Signal(bits + 1)              # the top bit marks a number past the memory
        read_pc = Signal(bits + 1)
        program_end = Signal(bits + 1)          # so that the comparison lies between two registers
        past_end = Signal(reset_less=True)      # ``read_pc`` is behind the program
        read_valid = Signal()
        m.d.sync += program_end.eq(self.program_end)
        advance_output, advance_read = Signal(), Signal()
        m.d.comb += [
            advance_output.eq(~self.o.valid | self.o.ready),
            advance_read.eq(~read_valid | advance_output),
            read.addr.eq(next_pc[:bits]),
        ]
        with m.If(advance_output):
            m.d.sync += [
                self.o.valid.eq(read_valid),
                self.o.payload.pc.eq(read_pc),
                self.o.payload.past_end.eq(past_end),
                self.o.payload.past_memory.eq(read_pc[bits]),
                self.o.payload.word.eq(read_word),
            ]
        with m.If(advance_read):
            m.d.sync += [read_valid.eq(1), read_pc.eq(next_pc), past_end.eq(next_pc >= program_end), read_word.eq(read.data)]
            with m.If(~next_pc[bits]):
                m.d.sync += next_pc.eq(next_pc + 1)
        with m.If(self.redirect | ~self.enable):
            m.d.sync += [self.o.valid.eq(0), read_valid.eq(0)]
        with m.If(self.redirect):
            m.d.sync += next_pc.eq(self.target)
        return m
