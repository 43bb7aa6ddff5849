"""Instruction memory and fetch."""

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import PC_BITS
from ..isa.encoding import instruction_layout

__all__ = ["InstructionFetch", "fetched_layout", "program_write_layout"]

fetched_layout = data.StructLayout({
    "pc": PC_BITS,
    "past_end": 1,              # the program has no such instruction; ``word`` is void
    "past_memory": 1,           # nor has the memory: ``pc`` lacks a bit in the largest memory
    "word": instruction_layout,
})


def program_write_layout(cfg):
    """One instruction for the instruction memory."""
    return data.StructLayout({"address": cfg.program_counter_bits, "word": 128})


class InstructionFetch(Component):
    """Instruction memory of ``cfg.instruction_words`` instructions and a fetcher that runs ahead by two.

    Members
    -------
    i_program : stream of ``program_write_layout``, always ready
        Writes one instruction; meant for times when no program runs.
    program_end
        Number of the first instruction behind the program, 0 to ``cfg.instruction_words``: what the memory holds from there on is void
        (``past_end``). Constant from a cycle before the first ``redirect`` of a run.
    redirect, target
        Continue at instruction ``target``: everything fetched before is dropped. The first instruction stands at
        ``o`` three cycles later.
    enable
        Fetch; while low nothing is valid at ``o`` and everything fetched is dropped.
    o : stream of ``fetched_layout``
        Instructions in order, one a cycle; registered.
    """

    def __init__(self, cfg):
        self.cfg = cfg
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
        # Written while nothing is fetched. An asynchronous read with a register behind it: synthesis makes the register the block RAM's.
        m.submodules.instructions = memory = Memory(shape=128, depth=self.cfg.instruction_words, init=[], attrs={"no_rw_check": 1})
        write, read = memory.write_port(), memory.read_port(domain="comb")
        read_word = Signal(128, reset_less=True)
        m.d.comb += [
            write.en.eq(self.i_program.valid),
            write.addr.eq(self.i_program.payload.address),
            write.data.eq(self.i_program.payload.word),
        ]

        next_pc = Signal(bits + 1)              # the top bit says: past the memory
        read_pc = Signal(bits + 1)
        program_end = Signal(bits + 1)          # beside the comparison, which ends at a register too
        past_end = Signal(reset_less=True)      # of ``read_pc``
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
