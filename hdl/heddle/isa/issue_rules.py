"""Checks of an instruction at issue, as data for RTL, functional simulator and documentation."""

from dataclasses import dataclass

from .encoding import Opcode
from .error_codes import ErrorCode

__all__ = ["Check", "CHECKS", "RULES"]

# Requirement of each rule for its field.
RULES = {
    "register": "a register number below the number of registers",
    "vector": "a register number below the number of registers; a multiple of 2 for V2 and of 4 for V4",
    "product": "at most 255",
    "product_vector": "at most 255; a multiple of 2 for V2 and of 4 for V4",
    "offset": "at least 256 and below the number of registers",
    "factors": "at least 256, the first register of a factor word, and the words of all k-slices exist",
    "uniform": "at most 63",
    "uniform_pair": "at most 62",
    "predicate": "at most 6",
    "segment": "at most 15",
    "barrier": "at most 15",
    "thread_source": "REGISTER, UNIFORM or IMMEDIATE",
    "uniform_source": "UNIFORM or IMMEDIATE",
    "source_number": "below the number of registers (REGISTER), at most 63 (UNIFORM), anything (IMMEDIATE)",
    "uniform_function": "alu.function is not SEL, MUL, MULH, NARROW or SCALE",
    "alu_target": "a register number below the number of registers; with alu.vector and without NARROW or SCALE a multiple of 4",
    "alu_operand": "a register number below the number of registers; with alu.vector, NARROW or SCALE a multiple of 4 and at most 255",
    "alu_source": "REGISTER, UNIFORM or IMMEDIATE; with alu.vector, NARROW or SCALE not REGISTER",
    "output": "output is NONE, or it is defined, the configuration has output_stage (with GROUPS four groups of threads), alu.vector is 0, "
              "and the function is ADD with CHANNEL, else SCALE",
    "compare_function": "alu.compare is defined",
    "thread_special": "alu.special is defined",
    "uniform_special": "alu.special is defined and not TID",
    "load_access": "memory.access is defined",
    "store_access": "memory.access is U8, U16, B32, V2 or V4",
    "gather": "of a configuration that has gather_offsets",
    "gather_access": "memory.access is U8, B32, V2 or V4, and the entries, memory.entries plus one, have 16 bytes together at most",
    "four_registers": "a register number below the number of registers; a multiple of 4",
    "element_shift": "segment.element_shift is at most 4",
    "rank": "segment.rank is 0",
    "swizzle": "segment.swizzle is NONE, or segment.space is SHARED, the configuration has copy_swizzles and it is B128, any with tensors",
    "element": "element is INT8, or INT16 where the configuration has mm16",
    "transpose": "transpose is 0, or the configuration has it",
    "merges": "kb_destination is at most kb, and a group (four lanes for a factor of three) has at most all threads; with "
              "lane_sum, ka, ka_interleaved, kb and kb_destination are 0",
    "compiled": "compiled is NONE, or the configuration has compiled_offsets, compiled is WORD, or BYTE where fetch_words is at least dot, "
                "and kb, lane_sum and transpose are 0, with BYTE also ka",
    "offset_memory": "of a configuration that has compiled_offsets",
    "offset_words": "the words of all k-slices exist in the compiled-offset memory",
    "plain_copy": "copy.swizzle is NONE, or the configuration has copy_swizzles and it is B128, any with tensors; copy.reduction is NONE, "
                  "or the configuration has reductions, it is defined, and copy.destination is GLOBAL or copy.source SHARED",
    "multicast": "copy.multicast is 0, or the configuration has multicast and the copy is one from global to shared memory",
    "recurrent": "of a configuration that has rnn",
    "sparse": "of a configuration that has sparse",
    "tiles": "of a configuration that has several cores",
    "tensors": "of a configuration that has tensors",
    "tensor_rank": "copy.mode is TILE and the rank 1 to 5, or copy.mode is IM2COL and the rank 3 to 5",
    "tensor_copy": "copy.destination and copy.source differ; copy.reduction is NONE, or is defined and copy.destination GLOBAL",
    "coordinates": "at most 64 minus the rank",
    "offsets": "at most 66 minus the rank where copy.mode is IM2COL",
    "shared_segment": "the segment-table entry lies in shared memory",
}


@dataclass(frozen=True)
class Check:
    """Check of an instruction at issue: ``field`` must satisfy ``rule`` (a key of ``RULES``), or ``code`` is raised.

    The operand of the error is the value of the field, zero-extended; for ``modifiers`` the low 32 bits.
    """

    field: str
    rule: str
    code: ErrorCode = ErrorCode.ILLEGAL_OPERAND


_UNIFORM_SOURCE = (Check("b_source", "uniform_source"), Check("b", "source_number"))
_THREAD_SOURCE = (Check("b_source", "thread_source"), Check("b", "source_number"))
_ADDRESS = (Check("a", "register"), Check("b", "segment"))
_TENSORS = Check("modifiers", "tensors", ErrorCode.UNSUPPORTED)
_MULTICAST = Check("modifiers", "multicast", ErrorCode.UNSUPPORTED)
_TENSOR = (_TENSORS, Check("modifiers", "tensor_rank"))
_TENSOR_REGISTERS = (Check("a", "uniform"), Check("b", "coordinates"), Check("c", "offsets"))

# In the order of the checks; the first check that fails is the error of the instruction.
CHECKS = {
    Opcode.NOP: (),
    Opcode.HALT: (),
    Opcode.TRAP: (),
    Opcode.BRANCH: (),
    Opcode.WAIT: (),
    Opcode.SEGMENT: (Check("dst", "segment"), *_UNIFORM_SOURCE, Check("modifiers", "element_shift"),
                     Check("modifiers", "rank", ErrorCode.UNSUPPORTED), Check("modifiers", "swizzle", ErrorCode.UNSUPPORTED)),
    Opcode.BARRIER_EXPECT: (Check("a", "barrier"), *_UNIFORM_SOURCE),
    Opcode.BARRIER_WAIT: (Check("a", "barrier"),),
    Opcode.COMMIT_GROUP: (_TENSORS,),
    Opcode.WAIT_GROUP: (_TENSORS,),
    Opcode.UNIFORM_ALU: (Check("dst", "uniform"), Check("a", "uniform"), *_UNIFORM_SOURCE,
                         Check("modifiers", "uniform_function")),
    Opcode.UNIFORM_COMPARE: (Check("dst", "predicate"), Check("a", "uniform"), *_UNIFORM_SOURCE,
                             Check("modifiers", "compare_function")),
    Opcode.UNIFORM_SPECIAL: (Check("dst", "uniform"), Check("modifiers", "uniform_special")),
    Opcode.THREAD_ALU: (Check("dst", "alu_target"), Check("a", "alu_operand"), Check("b_source", "alu_source"),
                        Check("b", "source_number"), Check("modifiers", "output", ErrorCode.UNSUPPORTED)),
    Opcode.THREAD_COMPARE: (Check("dst", "predicate"), Check("a", "register"), *_THREAD_SOURCE,
                            Check("modifiers", "compare_function")),
    Opcode.THREAD_SPECIAL: (Check("dst", "register"), Check("modifiers", "thread_special")),
    Opcode.LANE_MASK: (),
    Opcode.LOAD: (Check("dst", "vector"), *_ADDRESS, Check("modifiers", "load_access")),
    Opcode.STORE: (*_ADDRESS, Check("c", "product_vector"), Check("modifiers", "store_access")),
    Opcode.MATRIX: (Check("dst", "product"), Check("a", "offset"), Check("b", "segment"), Check("c", "factors"),
                    Check("modifiers", "element", ErrorCode.UNSUPPORTED),
                    Check("modifiers", "transpose", ErrorCode.UNSUPPORTED),
                    Check("modifiers", "merges", ErrorCode.UNSUPPORTED),
                    Check("modifiers", "compiled", ErrorCode.UNSUPPORTED),
                    Check("b", "shared_segment", ErrorCode.UNSUPPORTED)),
    Opcode.GATHER: (Check("modifiers", "gather", ErrorCode.UNSUPPORTED), Check("dst", "four_registers"), *_ADDRESS,
                    Check("modifiers", "gather_access"), Check("b", "shared_segment", ErrorCode.UNSUPPORTED)),
    Opcode.RECURRENT: (Check("modifiers", "recurrent", ErrorCode.UNSUPPORTED), Check("a", "uniform")),
    Opcode.SPARSE: (Check("modifiers", "sparse", ErrorCode.UNSUPPORTED), Check("a", "uniform")),
    Opcode.WAIT_SPARSE: (Check("modifiers", "sparse", ErrorCode.UNSUPPORTED),),
    Opcode.TAKE_TILE: (Check("modifiers", "tiles", ErrorCode.UNSUPPORTED), Check("dst", "uniform")),
    Opcode.OFFSETS: (Check("modifiers", "offset_memory", ErrorCode.UNSUPPORTED), Check("a", "offset"), Check("b", "segment"),
                     Check("c", "offset_words"), Check("b", "shared_segment", ErrorCode.UNSUPPORTED)),
    Opcode.COPY_BLOCK: (Check("dst", "uniform"), Check("a", "uniform"), *_UNIFORM_SOURCE,
                        Check("modifiers", "plain_copy", ErrorCode.UNSUPPORTED), _MULTICAST),
    Opcode.COPY_ROWS: (Check("dst", "uniform_pair"), Check("a", "uniform_pair"), Check("b", "uniform_pair"),
                       Check("modifiers", "plain_copy", ErrorCode.UNSUPPORTED)),
    Opcode.COPY_TENSOR: (*_TENSOR, Check("modifiers", "tensor_copy", ErrorCode.UNSUPPORTED), _MULTICAST, Check("dst", "uniform"),
                         *_TENSOR_REGISTERS),
    Opcode.PREFETCH_BLOCK: (_TENSORS, Check("a", "uniform"), *_UNIFORM_SOURCE),
    Opcode.PREFETCH_TENSOR: (*_TENSOR, *_TENSOR_REGISTERS),
    Opcode.INVALIDATE_DESCRIPTOR: (_TENSORS, Check("a", "uniform")),
}
assert set(CHECKS) == set(Opcode)
