"""The checks of an instruction at issue, in hardware, from the list in ``heddle.isa.checks``."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..config import BARRIERS, FIRST_FACTOR_REGISTER, PREDICATES, SEGMENTS, UNIFORM_REGISTERS
from ..errors import ErrorCode
from ..isa.checks import CHECKS
from ..isa.layout import Access, AluFunction, CompareFunction, ElementType, LoopOrder, OperandSource, Space, Special, instruction_layout

__all__ = ["InstructionChecks"]


def _defined(value, enumeration, without=()):
    """``value`` is one of the members of the enumeration."""
    return Cat(value == member for member in enumeration if member not in without).any()


class InstructionChecks(Component):
    """Finds the first check that an instruction fails; combinational.

    Members
    -------
    word, segment_space
        The instruction, and the space of the segment-table entry that its field b names.
    code, operand
        ``ErrorCode.NONE``, or the error of the first failing check with its operand.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({"word": In(instruction_layout), "segment_space": In(Space), "code": Out(ErrorCode), "operand": Out(32)})

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
                        value = getattr(word, check.field)
                        value = value.bits if check.field == "modifiers" else value
                        with m.If(fails[check.field, check.rule]):
                            m.d.comb += [self.code.eq(check.code), self.operand.eq(Value.cast(value))]
            with m.Default():
                m.d.comb += [self.code.eq(ErrorCode.ILLEGAL_INSTRUCTION), self.operand.eq(word.opcode.as_value())]
        return m

    def _holds(self, rule, field):
        return getattr(self, f"_rule_{rule}")(field)

    # One method per rule of ``heddle.isa.checks.RULES``.

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

    def _rule_alu_function(self, field):
        return _defined(field.alu.function, AluFunction)

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

    def _rule_element_shift(self, field):
        return field.segment.element_shift <= 4

    def _rule_rank(self, field):
        return field.segment.rank == 0

    def _rule_element(self, field):
        elements = [ElementType.INT8] + [ElementType.INT16] * self.cfg.mm16
        return Cat(field.matrix.element == element for element in elements).any()

    def _rule_transpose(self, field):
        fields = field.matrix
        if not self.cfg.transpose:
            return ~fields.transpose
        return ~(fields.transpose & Cat(fields.ka, fields.kb, fields.lane_sum, fields.order != LoopOrder.SLICES_OUTER).any())

    def _rule_merges(self, field):
        fields = field.matrix
        # Only groups of 16 lanes, from factors of three and four, can be too large.
        fits = Const(1) if self.cfg.threads >= 16 else ~(fields.ka[1] & fields.kb[1])
        merged = Cat(fields.ka, fields.ka_interleaved, fields.kb, fields.kb_destination).any()
        return (fields.kb_destination <= fields.kb) & fits & ~(fields.lane_sum & merged)

    def _rule_plain_copy(self, field):
        return ~Cat(field.copy.swizzle.as_value(), field.copy.reduction.as_value()).any()

    def _rule_shared_segment(self, field):
        return self.segment_space == Space.SHARED
