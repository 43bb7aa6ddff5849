"""Decode stage: computes operands, addresses and register groups of an instruction."""

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import FIRST_FACTOR_REGISTER, REGISTER_GROUPS
from ..interfaces.front_end import segment_layout
from ..interfaces.layouts import PC_BITS
from ..isa.encoding import AluFunction, Opcode, OperandSource, OutputUse, Special, instruction_layout
from ..isa.error_codes import ErrorCode
from ..lib.alu import AluDecode, alu_control_layout
from ..lib.onehot import select_one_hot
from ..parameters.front_end import FrontEndParameters
from .instruction_checks import FailedField
from .opcode_class import WAITS, one_of, opcode_class
from .operand_read import MASK_BEAT, operand_layout
from .scoreboard import register_groups_layout

__all__ = ["Decode", "decoded_layout"]

_DECODED = {
    "pc": PC_BITS,
    "word": instruction_layout,
    # Class of the instruction, decoded before issue, so that no opcode is compared in front of the scoreboard and the queues.
    "for_thread": 1,
    "for_matrix": 1,
    "for_copy": 1,
    "writes_uniform": 1,        # writes a uniform register or a segment
    "at_once": 1,               # leaves issue in one cycle
    "target_exists": 1,         # ``imm`` is the number of an instruction of the program
    "legal": 1,                 # no check failed
    "control": alu_control_layout,      # of the uniform ALU
    "a_value": 32,              # uniform register a; zero for moves and special registers
    "b_value": 32,              # uniform register b, the immediate, the special register, or segment base + scaled immediate
    "destination": 32,          # destination address of a copy: uniform register dst
    "destination_pitch": 32,    # of copy_rows: uniform registers dst + 1, a + 1, b + 1; of copy_tensor: c, b + 2, b + 1
    "source_pitch": 32,
    "rows": 32,                 # 1 for copy_block
    "code": ErrorCode,          # the error of the failed check, else the error that issue may raise
    "field": FailedField,       # field of ``word`` that is the operand of the error
}


def decoded_layout(cfg):
    """Decoded instruction; with ``tensors``, ``wait_timeout`` and ``multicast`` with further fields.

    ``for_tensor``: a copy or prefetch of a tensor. ``invalidates``: the instruction invalidates a tensor descriptor. ``coordinates`` and
    ``offsets`` are the members 3 and 4 of the coordinates, and 1 and 2 of the offsets. ``waits``: ``wait``, ``barrier.wait``,
    ``commit_group`` or ``wait_group``. ``bad_mask``: ``mask`` is empty or names a core that does not exist.
    """
    return data.StructLayout(_DECODED | {"segment": segment_layout(cfg), "uses": register_groups_layout(cfg)} | ({
        "for_tensor": 1,
        "invalidates": 1,
        "coordinates": data.ArrayLayout(32, 2),     # uniform registers b + 3, b + 4
        "offsets": data.ArrayLayout(16, 2),         # c + 1, c + 2
    } if cfg.tensors else {}) | ({"waits": 1} if cfg.wait_timeout else {}) | ({
        "multicast": 1,
        "mask": 32,             # a uniform register
        "bad_mask": 1,
    } if cfg.multicast else {}))


def _groups(first, last):
    """Mask of the register groups ``first`` to ``last``."""
    return Cat((first <= index) & (index <= last) for index in range(REGISTER_GROUPS))


class Decode(Component):
    """Decode stage: converts an instruction and what it read into operands, addresses, register groups and the outcome of the checks.

    Parameters
    ----------
    cfg : FrontEndParameters

    *Ports*:
    i : In(stream.Signature(operand_layout(cfg)))
        Beats of instructions.
    o : Out(stream.Signature(decoded_layout(cfg)))
        Decoded instructions, in the same order; registered.
    flush : In(1)
        Drops ``o``, the beats taken before, and what is taken in this cycle.
    program_end : In(program_counter_bits + 1)
        Number of the first instruction behind the program. A branch target exists below it.
    core : In(core_bits)
        Number of the core.
    start : In(1)
        A run begins: the counter ``%cycle`` is zero in the next cycle.

    *Latency*: one cycle from the last beat to ``o.valid``.

    *Throughput*: one beat a cycle.

    *Back-pressure*: ``i.ready`` is combinational from ``o.ready``; the signal is high for the second and later beats.

    *Reset*: ``o`` is not valid.

    *Errors*: the stage raises none. ``legal`` is low when a check failed or the word is behind the program; ``code`` and ``field`` name the
    error. For a legal instruction they name the error that issue may raise.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(operand_layout(cfg))), "o": Out(stream.Signature(decoded_layout(cfg))), "flush": In(1),
            "program_end": In(cfg.program_counter_bits + 1), "core": In(cfg.core_bits), "start": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        read, fetched, decoded = self.i.payload, self.i.payload.fetched, self.o.payload
        word = fetched.word
        kind = opcode_class(self.cfg, word)
        load = Signal()
        m.d.comb += [
            self.i.ready.eq(~self.o.valid | self.o.ready),      # ``o`` is not valid between two beats of an instruction
            # The data registers load the payload whether it is valid or not: this leaves fewer terms behind ``o.ready``, which comes late.
            load.eq(self.i.ready & (read.beat == 0)),
        ]
        # Outside the condition below, which is only for the enable of the registers.
        uses = self._register_groups(m, word)
        control, a_value, b_value = self._operands(m, read, kind)
        code, field = self._error(m, read)
        program_end = Signal.like(self.program_end)
        m.d.sync += program_end.eq(self.program_end)
        with m.If(self.i.ready):
            m.d.sync += self.o.valid.eq(self.i.valid & read.last)
        with m.If(load):
            m.d.sync += [
                decoded.for_thread.eq(kind.for_thread),
                decoded.for_matrix.eq(kind.for_matrix),
                decoded.for_copy.eq(kind.single | kind.many),
                decoded.writes_uniform.eq(kind.writes_uniform),
                decoded.at_once.eq(kind.at_once(word.opcode)),
                decoded.target_exists.eq(word.imm < program_end),
                decoded.legal.eq(~fetched.past_end & (read.code == ErrorCode.NONE)),
                decoded.pc.eq(fetched.pc),
                decoded.word.eq(word),
                decoded.rows.eq(1),
                decoded.segment.eq(read.segment),
                decoded.uses.eq(uses),
                decoded.code.eq(code), decoded.field.eq(field),
                decoded.control.eq(control), decoded.a_value.eq(a_value), decoded.b_value.eq(b_value),
            ]
            if self.cfg.wait_timeout:
                m.d.sync += decoded.waits.eq(one_of(word.opcode, WAITS))
            if self.cfg.tensors:
                m.d.sync += [decoded.for_tensor.eq(kind.tensor), decoded.invalidates.eq(word.opcode == Opcode.INVALIDATE_DESCRIPTOR),
                             decoded.destination.eq(read.c)]
            if self.cfg.multicast:
                m.d.sync += [decoded.multicast.eq(0), decoded.mask.eq(0)]
        self._later_beats(m, read, kind, decoded)
        with m.If(self.flush):
            m.d.sync += self.o.valid.eq(0)
        return m

    def _later_beats(self, m, read, kind, decoded):
        """What the second and later beats of a copy read."""
        beat = Mux(self.i.valid, read.beat, 0)
        with m.If(beat == 1):
            m.d.sync += decoded.destination.eq(read.a)
            with m.If(~kind.single):
                m.d.sync += decoded.rows.eq(read.b)
            if self.cfg.multicast:
                m.d.sync += decoded.multicast.eq(kind.multicast)
        with m.If(beat == 2):
            m.d.sync += [decoded.destination_pitch.eq(read.a), decoded.source_pitch.eq(read.b)]
        if self.cfg.tensors:
            for index in range(2):
                with m.If(beat == 3 + index):
                    m.d.sync += [decoded.offsets[index].eq(read.a), decoded.coordinates[index].eq(read.b)]
        if self.cfg.multicast:
            with m.If(beat == MASK_BEAT):
                m.d.sync += [decoded.mask.eq(read.a), decoded.bad_mask.eq(~read.a.any() | read.a[self.cfg.cores:].any())]

    def _operands(self, m, read, kind):
        """Controls of the uniform ALU, and the values of a and b.

        For copies of many rows and of tensors b is a uniform register whatever ``b_source`` says. A load, a store and ``mm`` have their
        address instead of b.
        """
        m.submodules.alu_decode = alu = AluDecode()
        word = read.fetched.word
        uniform_special = word.opcode == Opcode.UNIFORM_SPECIAL
        special = uniform_special | (word.opcode == Opcode.THREAD_SPECIAL)
        gathers = [Opcode.GATHER] * self.cfg.gather_offsets
        addressed = one_of(word.opcode, (Opcode.LOAD, Opcode.STORE, *gathers, Opcode.MATRIX, Opcode.OFFSETS))
        uniform = ~special & ~addressed & (kind.many | kind.tensor | (word.b_source == OperandSource.UNIFORM))
        address = read.segment.base + (word.imm << read.segment.element_shift)[:32]
        m.d.comb += [
            alu.function.eq(Mux(uniform_special, AluFunction.MOV, word.modifiers.alu.function)),
            alu.compare.eq(word.modifiers.alu.compare), alu.unsigned.eq(word.modifiers.alu.unsigned),
            alu.comparing.eq(word.opcode == Opcode.UNIFORM_COMPARE),
        ]
        # The uniform register with the number of the segment holds the pitch of the rows of transposed B, or padding and first entry.
        of_segment = kind.for_matrix if self.cfg.transpose or self.cfg.compiled_offsets else Const(0)
        if self.cfg.gather_offsets:
            of_segment = of_segment | (word.opcode == Opcode.GATHER)
        a_value = Mux(of_segment, read.b, read.a)
        without_a = (uniform_special | (word.opcode == Opcode.UNIFORM_ALU)) & ~alu.control.keep_a
        chosen = Cat(addressed, special, uniform, ~(addressed | special | uniform))
        b_value = select_one_hot(chosen, (address, self._special(m, word), read.b, word.imm))
        return alu.control, Mux(without_a, 0, a_value), b_value

    def _special(self, m, word):
        """Value of the special register; ``%tid`` is added in the thread unit."""
        cycle, value = Signal(32), Signal(32)
        m.d.sync += cycle.eq(Mux(self.start, 0, cycle + 1))
        values = {Special.THREADS: self.cfg.threads, Special.DOT: self.cfg.dot, Special.CORE: self.core,
                  Special.CORES: self.cfg.cores, Special.CYCLE: cycle}
        with m.Switch(word.modifiers.alu.special):
            for special, number in values.items():
                with m.Case(special):
                    m.d.comb += value.eq(number)
        return value

    def _error(self, m, read):
        """Code and field of the error: of the failed check, else of the error that a legal instruction may raise in issue.

        Order: behind the program, failed check, TRAP, branch target, then BARRIER_UNDERRUN for every other instruction.
        """
        code, field = Signal(ErrorCode), Signal(FailedField)
        fetched, word = read.fetched, read.fetched.word
        with m.If(fetched.past_end):
            m.d.comb += [code.eq(ErrorCode.PROGRAM_COUNTER), field.eq(Mux(fetched.past_memory, FailedField.past_memory, FailedField.pc))]
        with m.Elif(read.code != ErrorCode.NONE):
            m.d.comb += [code.eq(read.code), field.eq(read.field)]
        with m.Elif(word.opcode == Opcode.TRAP):
            m.d.comb += [code.eq(ErrorCode.TRAP), field.eq(FailedField.imm)]
        with m.Elif(word.opcode == Opcode.BRANCH):
            m.d.comb += [code.eq(ErrorCode.PROGRAM_COUNTER), field.eq(FailedField.imm)]
        with m.Else():
            m.d.comb += [code.eq(ErrorCode.BARRIER_UNDERRUN), field.eq(FailedField.a)]
        return code, field

    def _register_groups(self, m, word):
        """Register groups that the instruction uses.

        A factor register that a thread operation only reads is left out, because ``mm`` never writes factor registers.
        """
        uses = Signal(register_groups_layout(self.cfg))
        matrix, store = word.opcode == Opcode.MATRIX, word.opcode == Opcode.STORE
        computes = (word.opcode == Opcode.THREAD_ALU) | (word.opcode == Opcode.THREAD_COMPARE)
        gathers = (word.opcode == Opcode.GATHER) if self.cfg.gather_offsets else Const(0)
        loads = (word.opcode == Opcode.LOAD) | gathers
        writes = ((word.opcode == Opcode.THREAD_ALU) | (word.opcode == Opcode.THREAD_SPECIAL)
                  | loads)
        if self.cfg.output_stage:
            writes = writes & ~((word.opcode == Opcode.THREAD_ALU) & (word.modifiers.alu.output == OutputUse.CHANNEL))
        moves = (word.opcode == Opcode.THREAD_ALU) & (word.modifiers.alu.function == AluFunction.MOV)
        reads_a = (computes & ~moves) | loads | store
        reads_b = computes & (word.b_source == OperandSource.REGISTER)

        product = Const(0, REGISTER_GROUPS)
        for used, field in ((writes, word.dst), (reads_a, word.a), (reads_b, word.b), (store, word.c)):
            group = field[4:8]
            product = product | Mux(used & (field < FIRST_FACTOR_REGISTER), _groups(group, group), 0)
        steps = Signal(range(self.cfg.threads))         # product registers of a row of C in one PE, minus one
        with m.Switch(word.modifiers.matrix.ka):
            for ka in range(1, 5):
                with m.Case(ka - 1):
                    m.d.comb += steps.eq(-(-self.cfg.threads // ka) - 1)
        columns = word.dst[:8] + steps
        last = Mux(columns[8], REGISTER_GROUPS - 1, columns[4:8])
        fills = (word.opcode == Opcode.OFFSETS) if self.cfg.compiled_offsets else Const(0)
        # With ``gather_offsets`` the bit of the compiled-offset memory lies above the register groups.
        m.d.comb += uses.product.eq(Cat(Mux(matrix, _groups(word.dst[4:8], last), product), gathers | fills))

        part_bits = self.cfg.numbers_per_word.bit_length() - 1
        drop = self.cfg.factor_address_bits + part_bits - 4

        def group_of(field):
            return (field - FIRST_FACTOR_REGISTER)[drop:drop + 4]

        last_word = (word.c - FIRST_FACTOR_REGISTER)[part_bits:] + word.modifiers.matrix.k_length
        slices = _groups(group_of(word.c), last_word[drop - part_bits:][:4])
        offset = _groups(group_of(word.a), group_of(word.a))
        target = Mux(writes & (word.dst >= FIRST_FACTOR_REGISTER), _groups(group_of(word.dst), group_of(word.dst)), 0)
        m.d.comb += uses.factor.eq(Mux(matrix | fills, Mux(matrix, slices, 0) | offset, target))
        return uses
