"""Decode stage: reads the operands of an instruction, computes addresses and register groups, and makes the checks."""

from typing import NamedTuple

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import FIRST_FACTOR_REGISTER, TOKEN_GRANULES
from ..interfaces.control import UniformStream
from ..interfaces.front_end import SegmentReadPort, UniformReadPort, segment_layout
from ..interfaces.layouts import PC_BITS, ThreadKind
from ..isa.encoding import AluFunction, Opcode, OperandSource, Special, instruction_layout
from ..isa.error_codes import ErrorCode
from ..isa.tensor_descriptor import MAX_RANK
from ..lib.onehot import select_one_hot
from ..parameters.front_end import FrontEndParameters
from ..thread.alu import AluDecode, alu_control_layout
from .instruction_checks import FailedField, InstructionChecks
from .instruction_fetch import fetched_layout
from .scoreboard import token_layout

__all__ = ["THREAD_KINDS", "Decode", "decoded_layout"]

THREAD_KINDS = {
    Opcode.THREAD_ALU: ThreadKind.ALU, Opcode.THREAD_COMPARE: ThreadKind.COMPARE, Opcode.LANE_MASK: ThreadKind.LANE_MASK,
    Opcode.LOAD: ThreadKind.LOAD, Opcode.STORE: ThreadKind.STORE, Opcode.THREAD_SPECIAL: ThreadKind.TID,
}
MASK_CYCLE = MAX_RANK      # number of the decode cycle in which a multicast reads its mask
_WAITS = (Opcode.WAIT, Opcode.BARRIER_WAIT, Opcode.COMMIT_GROUP, Opcode.WAIT_GROUP)
_STAY = (*_WAITS, Opcode.RECURRENT)
_UNIFORM_WRITERS = (Opcode.UNIFORM_ALU, Opcode.UNIFORM_SPECIAL, Opcode.SEGMENT)

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
    "token": token_layout,
    "code": ErrorCode,          # the error of the failed check, else the error that issue may raise
    "field": FailedField,       # field of ``word`` that is the operand of the error
}


def decoded_layout(cfg):
    """Decoded instruction; with ``tensors``, ``wait_timeout`` and ``multicast`` with further fields.

    ``for_tensor``: a copy or prefetch of a tensor. ``invalidates``: the instruction invalidates a tensor descriptor. ``coordinates`` and
    ``offsets`` are the members 3 and 4 of the coordinates, and 1 and 2 of the offsets. ``waits``: ``wait``, ``barrier.wait``,
    ``commit_group`` or ``wait_group``. ``bad_mask``: ``mask`` is empty or names a core that does not exist.
    """
    return data.StructLayout(_DECODED | {"segment": segment_layout(cfg)} | ({
        "for_tensor": 1,
        "invalidates": 1,
        "coordinates": data.ArrayLayout(32, 2),     # uniform registers b + 3, b + 4
        "offsets": data.ArrayLayout(16, 2),         # c + 1, c + 2
    } if cfg.tensors else {}) | ({"waits": 1} if cfg.wait_timeout else {}) | ({
        "multicast": 1,
        "mask": 32,             # a uniform register
        "bad_mask": 1,
    } if cfg.multicast else {}))


def _one_of(opcode, members):
    return Cat(opcode == member for member in members).any()


def _granules(first, last):
    """Mask of the register groups ``first`` to ``last``."""
    return Cat((first <= index) & (index <= last) for index in range(TOKEN_GRANULES))


class _Read(NamedTuple):
    """What a decode cycle reads."""

    a: Value            # uniform register a
    b: Value            # uniform register b
    segment: Value
    code: Value         # error of the first check that failed
    field: Value        # field of the instruction that failed it


class Decode(Component):
    """Decode stage: converts a fetched word into operands, addresses, register groups and the result of the checks.

    A copy needs more uniform registers than the read ports deliver at once, so it reads two of them a cycle.

    Parameters
    ----------
    cfg : FrontEndParameters

    *Ports*:
    i : In(stream.Signature(fetched_layout))
        Fetched instructions.
    o : Out(stream.Signature(decoded_layout(cfg)))
        Decoded instructions, in the same order; registered.
    hold : In(1)
        The instruction at issue writes uniform registers or segments: ``i`` is not taken.
    flush : In(1)
        Drops ``o``, a copy that is being decoded, and what is taken in this cycle.
    i_uniform : In(UniformStream())
        Writes of uniform registers by issue; ``i`` is not taken if it reads the register now. The index is compared with the fields a and
        b, and for a unicast tensor copy of rank 1 with ``dst``.
    program_end : In(program_counter_bits + 1)
        Number of the first instruction behind the program. A branch target exists below it.
    a, b, c : Out(UniformReadPort())
        Reads of uniform registers; ``c`` only with ``tensors``.
    segment : Out(SegmentReadPort(cfg))
        Reads of the segment table.
    core : In(core_bits)
        Number of the core.
    start : In(1)
        A run begins: the counter ``%cycle`` is zero in the next cycle.

    *Latency*: one cycle from taking ``i`` to ``o.valid``. ``copy_block`` and ``prefetch_block`` take two cycles, ``copy_rows`` three. A
    copy or prefetch of a tensor takes as many cycles as its rank. A multicast takes at least two cycles, and one more for its mask.

    *Throughput*: one instruction in these cycles. With ``far_registers`` at most one every other cycle. ``i`` is then not taken in its
    first cycle, in which operands and checks are registered, nor in the cycle in which ``o`` is taken.

    *Back-pressure*: ``i.ready`` is combinational from ``o.ready``, ``hold``, ``i_uniform`` and ``i.payload``. With
    ``far_registers`` it comes from registers only.

    *Reset*: ``o`` is not valid.

    *Errors*: the stage raises none. ``legal`` is low when a check failed or the word is behind the program; ``code`` and ``field`` name the
    error. For a legal instruction they name the error that issue may raise.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(fetched_layout)), "o": Out(stream.Signature(decoded_layout(cfg))), "hold": In(1), "flush": In(1),
            "i_uniform": In(UniformStream()), "program_end": In(cfg.program_counter_bits + 1),
            "a": Out(UniformReadPort()), "b": Out(UniformReadPort()), **({"c": Out(UniformReadPort())} if cfg.tensors else {}),
            "segment": Out(SegmentReadPort(cfg)), "core": In(cfg.core_bits), "start": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.checks = checks = InstructionChecks(self.cfg)
        fetched, decoded = self.i.payload, self.o.payload
        word = fetched.word
        # Decode cycle of a copy, which reads two uniform registers in each.
        cycle = Signal(range(MASK_CYCLE + 1) if self.cfg.multicast else range(MAX_RANK) if self.cfg.tensors else 2)
        copies, many, tensor = self._single(word.opcode), word.opcode == Opcode.COPY_ROWS, self._of_tensor(word.opcode)
        alone = self._alone(word, tensor)
        goes_on = (copies | many | tensor) & ~alone
        take, load = Signal(), Signal()
        self._at_mask = Signal()        # the next cycle reads the mask
        m.d.comb += [
            checks.word.eq(word), checks.segment_space.eq(self.segment.value.space),
            self.a.index.eq(word.a), self.b.index.eq(word.b), self.segment.index.eq(word.b),
            # The data registers load the payload whether it is taken or not: this leaves fewer terms behind ``o.ready``, which comes late.
            # With far registers only ``o.valid`` depends on ``o.ready``.
            load.eq((cycle == 0) & (~self.o.valid | (0 if self.cfg.far_registers else self.o.ready))),
            self.i.ready.eq(load & self._known(m, word, alone)),
            take.eq(self.i.valid & self.i.ready),
        ]
        # Outside the condition below, which is only for the enable of the registers.
        token = self._token(m, word)
        read = _Read(self.a.value, self.b.value, self.segment.value, checks.code, checks.field)
        if self.cfg.far_registers:
            read = _Read(*(self._before(m, name, value) for name, value in read._asdict().items()))
        control, a_value, b_value = self._operands(m, word, many | tensor, read)
        code, field = self._error(m, fetched, read)
        program_end = Signal.like(self.program_end)
        m.d.sync += program_end.eq(self.program_end)
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(take):
            m.d.sync += [self.o.valid.eq(~goes_on), cycle.eq(goes_on)]
        with m.If(load):
            m.d.sync += [
                decoded.for_thread.eq(_one_of(word.opcode, THREAD_KINDS)),
                decoded.for_matrix.eq(word.opcode == Opcode.MATRIX),
                decoded.for_copy.eq(copies | many),
                decoded.writes_uniform.eq(_one_of(word.opcode, _UNIFORM_WRITERS)),
                decoded.at_once.eq(~_one_of(word.opcode, (*THREAD_KINDS, Opcode.MATRIX, Opcode.COPY_ROWS, *_STAY)) & ~copies & ~tensor),
                decoded.target_exists.eq(word.imm < program_end),
                decoded.legal.eq(~fetched.past_end & (read.code == ErrorCode.NONE)),
                decoded.pc.eq(fetched.pc),
                decoded.word.eq(word),
                decoded.rows.eq(1),
                decoded.segment.eq(read.segment),
                decoded.token.eq(token),
                decoded.code.eq(code), decoded.field.eq(field),
                decoded.control.eq(control), decoded.a_value.eq(a_value), decoded.b_value.eq(b_value),
            ]
        if self.cfg.wait_timeout:
            with m.If(load):
                m.d.sync += decoded.waits.eq(_one_of(word.opcode, _WAITS))
        if self.cfg.tensors:
            m.d.comb += self.c.index.eq(word.dst)
            with m.If(load):
                m.d.sync += [decoded.for_tensor.eq(tensor), decoded.invalidates.eq(word.opcode == Opcode.INVALIDATE_DESCRIPTOR),
                             decoded.destination.eq(self.c.value)]
                if self.cfg.multicast:
                    m.d.sync += [decoded.multicast.eq(0), decoded.mask.eq(0)]
        self._pairs(m, cycle, word, decoded)
        with m.If(self.flush):
            m.d.sync += [self.o.valid.eq(0), cycle.eq(0)]
        return m

    def _known(self, m, word, alone):
        """Whether ``i`` may be taken as far as its operands go: no register that it reads is written or about to be written.

        With far registers the answer, like the operands, is registered.
        """
        stale = Signal(name="stale")
        written = self.i_uniform.payload.index
        reads = (word.a[:6] == written) | (word.b[:6] == written) | (alone & (word.dst[:6] == written))
        m.d.comb += stale.eq(self.i_uniform.valid & reads)
        if not self.cfg.far_registers:
            return ~self.hold & ~stale
        # A uniform register is written a cycle after its instruction executed: ``stale`` is valid in the cycle in which ``hold`` falls.
        known = Signal(name="known")
        m.d.sync += known.eq(self.i.valid & ~self.i.ready & ~self.hold & ~stale)
        return known

    def _before(self, m, name, value):
        """``value`` of the cycle before."""
        register = Signal(value.shape(), name=f"read_{name}", reset_less=True)
        m.d.sync += register.eq(value)
        return register

    def _single(self, opcode):
        """Whether the opcode is a copy of one row of blocks, or such a prefetch where prefetches have an effect."""
        return _one_of(opcode, (Opcode.COPY_BLOCK, *[Opcode.PREFETCH_BLOCK] * self.cfg.prefetches))

    def _of_tensor(self, opcode):
        return _one_of(opcode, (Opcode.COPY_TENSOR, *[Opcode.PREFETCH_TENSOR] * self.cfg.prefetches)) if self.cfg.tensors else Const(0)

    def _alone(self, word, tensor):
        """Whether a copy reads all its registers in its first cycle: a tensor of rank 1, to one core."""
        if not self.cfg.tensors:
            return Const(0)
        alone = tensor & (word.modifiers.copy.rank_minus_one == 0)
        return alone & ~word.modifiers.copy.multicast if self.cfg.multicast else alone

    def _operands(self, m, word, from_uniform, read):
        """Controls of the uniform ALU, and the values of a and b.

        With ``from_uniform`` b is a uniform register whatever ``b_source`` says. A load, a store and ``mm`` have their address instead
        of b.
        """
        m.submodules.alu_decode = alu = AluDecode()
        uniform_special = word.opcode == Opcode.UNIFORM_SPECIAL
        special = uniform_special | (word.opcode == Opcode.THREAD_SPECIAL)
        addressed = _one_of(word.opcode, (Opcode.LOAD, Opcode.STORE, Opcode.MATRIX))
        uniform = ~special & ~addressed & (from_uniform | (word.b_source == OperandSource.UNIFORM))
        address = read.segment.base + (word.imm << read.segment.element_shift)[:32]
        m.d.comb += [
            alu.function.eq(Mux(uniform_special, AluFunction.MOV, word.modifiers.alu.function)),
            alu.compare.eq(word.modifiers.alu.compare), alu.unsigned.eq(word.modifiers.alu.unsigned),
            alu.comparing.eq(word.opcode == Opcode.UNIFORM_COMPARE),
        ]
        # With transpose the uniform register with the number of the segment holds the pitch of the rows of B.
        a_value = Mux(word.opcode == Opcode.MATRIX, read.b, read.a) if self.cfg.transpose else read.a
        without_a = (uniform_special | (word.opcode == Opcode.UNIFORM_ALU)) & ~alu.control.keep_a
        chosen = Cat(addressed, special, uniform, ~(addressed | special | uniform), without_a)
        if self.cfg.far_registers:
            chosen = self._before(m, "chosen", chosen)
        b_value = select_one_hot(chosen[:4], (address, self._special(m, word), read.b, word.imm))
        return alu.control, Mux(chosen[4], 0, a_value), b_value

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

    def _error(self, m, fetched, read):
        """Code and field of the error: of the failed check, else of the error that a legal instruction may raise in issue.

        Order: behind the program, failed check, TRAP, branch target, then BARRIER_UNDERRUN for every other instruction.
        """
        code, field = Signal(ErrorCode), Signal(FailedField)
        word = fetched.word
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

    def _pairs(self, m, cycle, fetched, decoded):
        """Second and later cycles of a copy: reads the remaining uniform registers, whose numbers are registered a cycle before."""
        word = decoded.word
        a_index, b_index = Signal(6, reset_less=True), Signal(6, reset_less=True)
        next_a, before_b, ends = word.dst + 1, word.a, self._single(word.opcode) | (cycle == 2)
        if self.cfg.tensors:        # the coordinates follow b, the offsets c
            tensor = self._of_tensor(word.opcode)
            next_a = Mux(cycle != 1, a_index + 1, Mux(tensor, word.c, word.dst + 1))
            before_b = Mux(tensor, b_index, word.a)
            ends = Mux(tensor, cycle >= word.modifiers.copy.rank_minus_one, ends)
            for index in range(2):
                with m.If(cycle == 3 + index):
                    m.d.sync += [decoded.offsets[index].eq(self.a.value), decoded.coordinates[index].eq(self.b.value)]
        if self.cfg.multicast:
            next_a, ends = self._mask(m, cycle, decoded, next_a, ends)
        m.d.sync += [a_index.eq(Mux(cycle == 0, fetched.dst, next_a)), b_index.eq(Mux(cycle == 0, fetched.b, before_b) + 1)]
        with m.If(cycle != 0):
            m.d.comb += [self.a.index.eq(a_index), self.b.index.eq(b_index)]
            m.d.sync += [self.o.valid.eq(ends), cycle.eq(Mux(ends, 0, Mux(self._at_mask, MASK_CYCLE, cycle + 1)))]
        with m.If(cycle == 1):
            m.d.sync += decoded.destination.eq(self.a.value)
            with m.If(~self._single(word.opcode)):
                m.d.sync += decoded.rows.eq(self.b.value)
        with m.If(cycle == 2):
            m.d.sync += [decoded.destination_pitch.eq(self.a.value), decoded.source_pitch.eq(self.b.value)]

    def _mask(self, m, cycle, decoded, next_a, ends):
        """Reads the mask of a multicast in a last cycle of its own."""
        word, reads = decoded.word, cycle == MASK_CYCLE
        multicast = word.modifiers.copy.multicast & ((word.opcode == Opcode.COPY_BLOCK) | (word.opcode == Opcode.COPY_TENSOR))
        m.d.comb += self._at_mask.eq(multicast & ends & ~reads)
        with m.If(cycle == 1):
            m.d.sync += decoded.multicast.eq(multicast)
        with m.If(reads):
            m.d.sync += [decoded.mask.eq(self.a.value), decoded.bad_mask.eq(~self.a.value.any() | self.a.value[self.cfg.cores:].any())]
        return Mux(self._at_mask, word.modifiers.copy.mask, next_a), Mux(multicast, reads, ends)

    def _token(self, m, word):
        """Register groups that the instruction uses.

        A factor register that a thread operation only reads is left out, because ``mm`` never writes factor registers.
        """
        token = Signal(token_layout)
        matrix, store = word.opcode == Opcode.MATRIX, word.opcode == Opcode.STORE
        computes = (word.opcode == Opcode.THREAD_ALU) | (word.opcode == Opcode.THREAD_COMPARE)
        writes = ((word.opcode == Opcode.THREAD_ALU) | (word.opcode == Opcode.THREAD_SPECIAL)
                  | (word.opcode == Opcode.LOAD))
        moves = (word.opcode == Opcode.THREAD_ALU) & (word.modifiers.alu.function == AluFunction.MOV)
        reads_a = (computes & ~moves) | (word.opcode == Opcode.LOAD) | store
        reads_b = computes & (word.b_source == OperandSource.REGISTER)

        product = Const(0, TOKEN_GRANULES)
        for used, field in ((writes, word.dst), (reads_a, word.a), (reads_b, word.b), (store, word.c)):
            granule = field[4:8]
            product = product | Mux(used & (field < FIRST_FACTOR_REGISTER), _granules(granule, granule), 0)
        steps = Signal(range(self.cfg.threads))         # product registers of a row of C in one PE, minus one
        with m.Switch(word.modifiers.matrix.ka):
            for ka in range(1, 5):
                with m.Case(ka - 1):
                    m.d.comb += steps.eq(-(-self.cfg.threads // ka) - 1)
        columns = word.dst[:8] + steps
        last = Mux(columns[8], TOKEN_GRANULES - 1, columns[4:8])
        m.d.comb += token.product.eq(Mux(matrix, _granules(word.dst[4:8], last), product))

        part_bits = self.cfg.numbers_per_word.bit_length() - 1
        drop = self.cfg.factor_address_bits + part_bits - 4

        def granule_of(field):
            return (field - FIRST_FACTOR_REGISTER)[drop:drop + 4]

        last_word = (word.c - FIRST_FACTOR_REGISTER)[part_bits:] + word.modifiers.matrix.k_length
        slices = _granules(granule_of(word.c), last_word[drop - part_bits:][:4])
        offset = _granules(granule_of(word.a), granule_of(word.a))
        target = Mux(writes & (word.dst >= FIRST_FACTOR_REGISTER), _granules(granule_of(word.dst), granule_of(word.dst)), 0)
        m.d.comb += token.factor.eq(Mux(matrix, slices | offset, target))
        return token
