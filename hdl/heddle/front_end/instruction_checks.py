"""Legality checks of an instruction, generated from the list in ``heddle.isa.issue_rules``."""

from amaranth import *
from amaranth.lib import enum
from amaranth.lib.wiring import Component, In, Out

from ..constants import BARRIERS, FIRST_FACTOR_REGISTER, PREDICATES, SEGMENTS, UNIFORM_REGISTERS
from ..interfaces.swizzle import swizzles
from ..isa.compiled_offsets import GATHERED_BYTES, OffsetEntry
from ..isa.encoding import (
    ACCESS_BYTES,
    UNIFORM_FUNCTIONS,
    Access,
    AluFunction,
    CompareFunction,
    ElementType,
    OperandSource,
    OutputUse,
    Reduction,
    Space,
    Special,
    Swizzle,
    instruction_layout,
)
from ..isa.error_codes import ErrorCode
from ..isa.issue_rules import CHECKS
from ..isa.tensor_descriptor import MAX_RANK, TensorMode
from ..lib.onehot import any_of
from ..parameters.front_end import FrontEndParameters

__all__ = ["FailedField", "InstructionChecks", "failed_operand"]


class FailedField(enum.Enum, shape=4):
    """Field of an instruction that is the operand of its error."""

    opcode = 0
    b_source = 1
    dst = 2
    a = 3
    b = 4
    c = 5
    modifiers = 6
    imm = 7
    pc = 8              # number of an instruction that does not exist
    past_memory = 9     # number of the first instruction behind the memory


def failed_operand(cfg, pc, word, field):
    """The 32-bit operand of an error: field ``field`` (a ``FailedField``) of instruction ``word`` at ``pc``; combinational."""
    values = {name: Value.cast(getattr(word, name)) for name in ("opcode", "b_source", "dst", "a", "b", "c", "imm")}
    values |= {"modifiers": word.modifiers.bits, "pc": pc, "past_memory": Const(cfg.instruction_words, 32)}
    return any_of(Mux(field == FailedField[name], value[:32], 0) for name, value in values.items())


def _defined(value, enumeration, without=()):
    """Whether ``value`` is a member of the enumeration, those in ``without`` excepted."""
    return Cat(value == member for member in enumeration if member not in without).any()


def _loads(fields):
    """Whether a copy is one from global to shared memory."""
    return (fields.destination == Space.SHARED) & (fields.source == Space.GLOBAL)


class InstructionChecks(Component):
    """Checker of one instruction: finds the first check of ``CHECKS`` that fails.

    Parameters
    ----------
    cfg : FrontEndParameters
        Checks of absent features always fail.

    *Ports*:
    word : In(instruction_layout)
        The instruction.
    segment_space : In(Space)
        Space of the segment that field b names.
    code : Out(ErrorCode)
        Error of the first failing check, in the order of the list; NONE when all hold. An unknown opcode is ILLEGAL_INSTRUCTION.
    field : Out(FailedField)
        Field that is the operand of this error. The 32-bit operand is selected only where errors are reported (``failed_operand``).

    *Latency*: combinational.

    *Reset*: no state.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        super().__init__({"word": In(instruction_layout), "segment_space": In(Space), "code": Out(ErrorCode), "field": Out(FailedField)})

    def elaborate(self, platform):
        m = Module()
        word = self.word
        fails = {}
        for checks in CHECKS.values():
            for check in checks:
                key = (check.field, check.rule)
                if key not in fails:
                    fails[key] = Signal(name=f"fails_{check.field}_{check.rule}")
                    m.d.comb += fails[key].eq(~self._holds(check.rule, getattr(word, check.field)))
        with m.Switch(word.opcode):
            for opcode, checks in CHECKS.items():
                with m.Case(opcode):
                    for check in reversed(checks):
                        with m.If(fails[check.field, check.rule]):
                            m.d.comb += [self.code.eq(check.code), self.field.eq(FailedField[check.field])]
            with m.Default():
                m.d.comb += [self.code.eq(ErrorCode.ILLEGAL_INSTRUCTION), self.field.eq(FailedField.opcode)]
        return m

    def _holds(self, rule, field):
        return getattr(self, f"_rule_{rule}")(field)

    # One method per rule of ``heddle.isa.issue_rules.RULES``.

    def _rule_register(self, field):
        return field < self.cfg.registers

    def _aligned(self, field):
        access = self.word.modifiers.memory.access
        return ~(((access == Access.V2) & field[0]) | ((access == Access.V4) & field[:2].any()))

    def _rule_vector(self, field):
        return (field < self.cfg.registers) & self._aligned(field)

    def _rule_product(self, field):
        return field < FIRST_FACTOR_REGISTER

    def _rule_product_vector(self, field):
        return (field < FIRST_FACTOR_REGISTER) & self._aligned(field)

    def _rule_offset(self, field):
        return (field >= FIRST_FACTOR_REGISTER) & (field < self.cfg.registers)

    def _rule_factors(self, field):
        part_bits = self.cfg.numbers_per_word.bit_length() - 1
        index = (field - FIRST_FACTOR_REGISTER)[:len(field)]
        last = index[part_bits:] + self.word.modifiers.matrix.k_length
        return (field >= FIRST_FACTOR_REGISTER) & (index[:part_bits] == 0) & (last < self.cfg.factor_words)

    def _rule_uniform(self, field):
        return field < UNIFORM_REGISTERS

    def _rule_uniform_pair(self, field):
        return field < UNIFORM_REGISTERS - 1

    def _rule_predicate(self, field):
        return field < PREDICATES

    def _rule_segment(self, field):
        return field < SEGMENTS

    def _rule_barrier(self, field):
        return field < BARRIERS

    def _rule_thread_source(self, field):
        return _defined(field, OperandSource)

    def _rule_uniform_source(self, field):
        return _defined(field, OperandSource, (OperandSource.REGISTER,))

    def _rule_source_number(self, field):
        source = self.word.b_source
        return Mux(source == OperandSource.REGISTER, field < self.cfg.registers,
                   (source == OperandSource.IMMEDIATE) | (field < UNIFORM_REGISTERS))

    def _vector(self):
        fields = self.word.modifiers.alu
        narrows = (fields.function == AluFunction.NARROW) | (fields.function == AluFunction.SCALE)
        return fields.vector | narrows, narrows

    def _rule_alu_target(self, field):
        vector, narrows = self._vector()
        return (field < self.cfg.registers) & ~(vector & ~narrows & field[:2].any())

    def _rule_alu_operand(self, field):
        return Mux(self._vector()[0], (field < FIRST_FACTOR_REGISTER) & ~field[:2].any(), field < self.cfg.registers)

    def _rule_alu_source(self, field):
        return _defined(field, OperandSource) & ~((field == OperandSource.REGISTER) & self._vector()[0])

    def _rule_output(self, field):
        fields = field.alu
        legal = Mux(fields.output == OutputUse.CHANNEL, fields.function == AluFunction.ADD, fields.function == AluFunction.SCALE)
        uses = [use for use in OutputUse if use not in (OutputUse.NONE, *[OutputUse.GROUPS] * (not self.cfg.packs_groups))]
        listed = Cat(fields.output == use for use in uses).any()
        return (fields.output == OutputUse.NONE) | (legal & listed & ~fields.vector if self.cfg.output_stage else 0)

    def _rule_uniform_function(self, field):
        return Cat(field.alu.function == function for function in UNIFORM_FUNCTIONS).any()

    def _rule_compare_function(self, field):
        return _defined(field.alu.compare, CompareFunction)

    def _rule_thread_special(self, field):
        return _defined(field.alu.special, Special)

    def _rule_uniform_special(self, field):
        return _defined(field.alu.special, Special, (Special.TID,))

    def _rule_load_access(self, field):
        return _defined(field.memory.access, Access)

    def _rule_store_access(self, field):
        return _defined(field.memory.access, Access, (Access.S8, Access.S16))

    def _rule_gather(self, field):
        return Const(int(self.cfg.gather_offsets))

    def _rule_gather_access(self, field):
        fields = field.memory
        return Cat((fields.access == access) & (fields.entries < GATHERED_BYTES // ACCESS_BYTES[access])
                   for access in (Access.U8, Access.B32, Access.V2, Access.V4)).any()

    def _rule_four_registers(self, field):
        return (field < self.cfg.registers) & ~field[:2].any()

    def _rule_element_shift(self, field):
        return field.segment.element_shift <= 4

    def _rule_rank(self, field):
        return field.segment.rank == 0

    def _swizzle(self, mode):
        """Whether the configuration has a mode."""
        modes = (Swizzle.NONE, *swizzles(self.cfg))
        return Const(1) if len(modes) == len(Swizzle) else Cat(mode == other for other in modes).any()

    def _rule_swizzle(self, field):
        fields = field.segment
        return (fields.swizzle == Swizzle.NONE) | ((fields.space == Space.SHARED) & self._swizzle(fields.swizzle))

    def _rule_element(self, field):
        elements = [ElementType.INT8] + [ElementType.INT16] * self.cfg.mm16
        return Cat(field.matrix.element == element for element in elements).any()

    def _rule_transpose(self, field):
        return Const(1) if self.cfg.transpose else ~field.matrix.transpose

    def _rule_merges(self, field):
        fields = field.matrix
        # Only groups of 16 PEs, from factors of three and four, can be too large.
        fits = Const(1) if self.cfg.threads >= 16 else ~(fields.ka[1] & fields.kb[1])
        merged = Cat(fields.ka, fields.ka_interleaved, fields.kb, fields.kb_destination).any()
        return (fields.kb_destination <= fields.kb) & fits & ~(fields.lane_sum & merged)

    def _rule_compiled(self, field):
        fields = field.matrix
        others = Cat(fields.kb, fields.lane_sum, fields.transpose).any()
        by_word = (fields.compiled == OffsetEntry.WORD) & ~others if self.cfg.compiled_offsets else Const(0)
        by_byte = (fields.compiled == OffsetEntry.BYTE) & ~others & (fields.ka == 0) if self.cfg.byte_entries else Const(0)
        return (fields.compiled == OffsetEntry.NONE) | by_word | by_byte

    def _rule_offset_memory(self, field):
        return Const(int(self.cfg.compiled_offsets > 0))

    def _rule_offset_words(self, field):
        return field + self.word.modifiers.matrix.k_length < self.cfg.offset_words

    def _rule_plain_copy(self, field):
        fields = field.copy
        reduces = ~_loads(fields) & _defined(fields.reduction, Reduction) if self.cfg.reductions else Const(0)
        return self._swizzle(fields.swizzle) & ((fields.reduction == Reduction.NONE) | reduces)

    def _rule_multicast(self, field):
        fields = field.copy
        return ~fields.multicast | (_loads(fields) if self.cfg.multicast else Const(0))

    def _rule_recurrent(self, field):
        return Const(int(self.cfg.rnn))

    def _rule_sparse(self, field):
        return Const(int(self.cfg.sparse))

    def _rule_tiles(self, field):
        return Const(int(self.cfg.tile_scheduler))

    def _rule_tensors(self, field):
        return Const(int(self.cfg.tensors))

    def _rule_tensor_rank(self, field):
        fields = field.copy
        exists = fields.rank_minus_one < MAX_RANK
        return exists & ((fields.mode == TensorMode.TILE) | ((fields.mode == TensorMode.IM2COL) & (fields.rank_minus_one >= 2)))

    def _rule_tensor_copy(self, field):
        fields = field.copy
        reduces = (fields.destination == Space.GLOBAL) & _defined(fields.reduction, Reduction)
        return (fields.destination != fields.source) & ((fields.reduction == Reduction.NONE) | reduces)

    def _rule_coordinates(self, field):
        return field + self.word.modifiers.copy.rank_minus_one < UNIFORM_REGISTERS

    def _rule_offsets(self, field):
        fields = self.word.modifiers.copy
        return (fields.mode != TensorMode.IM2COL) | (field + fields.rank_minus_one < UNIFORM_REGISTERS + 2)

    def _rule_shared_segment(self, field):
        return self.segment_space == Space.SHARED
