"""Instruction encoding: enumerations and the layout of 128 bits that all instructions share."""

from amaranth.hdl import signed
from amaranth.lib import data, enum

from ..constants import REGISTER_BITS
from .compiled_offsets import OffsetEntry
from .tensor_descriptor import TensorFormat, TensorMode

__all__ = [
    "Opcode", "OperandSource", "AluFunction", "UNIFORM_FUNCTIONS", "OutputUse", "PACKING", "CHANNEL_SETS", "CompareFunction",
    "Special", "Access", "Space",
    "ElementType", "LoopOrder", "Swizzle", "Reduction", "WaitUnit", "GUARD_ALWAYS",
    "alu_fields", "memory_fields", "matrix_fields", "copy_fields", "segment_fields", "wait_fields",
    "channel_bias_layout", "instruction_layout", "output_bounds_layout", "INSTRUCTION_BITS", "ACCESS_BYTES",
]

INSTRUCTION_BITS = 128
MODIFIER_BITS = 34
GUARD_ALWAYS = 7        # predicate number that is always true


class Opcode(enum.Enum, shape=8):
    """Opcodes; zero is never legal, so that empty instruction memory stops the program."""

    NOP = 0x01
    HALT = 0x02
    TRAP = 0x03
    BRANCH = 0x04
    WAIT = 0x05
    SEGMENT = 0x07
    BARRIER_EXPECT = 0x08
    BARRIER_WAIT = 0x09
    COMMIT_GROUP = 0x0A
    WAIT_GROUP = 0x0B
    WAIT_SPARSE = 0x0C
    TAKE_TILE = 0x0D
    UNIFORM_ALU = 0x10
    UNIFORM_COMPARE = 0x11
    UNIFORM_SPECIAL = 0x12
    THREAD_ALU = 0x20
    THREAD_COMPARE = 0x21
    THREAD_SPECIAL = 0x22
    LANE_MASK = 0x23
    LOAD = 0x28
    STORE = 0x29
    GATHER = 0x2A
    MATRIX = 0x30
    RECURRENT = 0x31
    OFFSETS = 0x32
    SPARSE = 0x33
    COPY_BLOCK = 0x40
    COPY_ROWS = 0x41
    COPY_TENSOR = 0x42
    PREFETCH_BLOCK = 0x43
    PREFETCH_TENSOR = 0x44
    INVALIDATE_DESCRIPTOR = 0x45


class OperandSource(enum.Enum, shape=2):
    """Source of operand ``b``."""

    REGISTER = 0        # thread instructions: register b of each thread
    UNIFORM = 1         # uniform register b
    IMMEDIATE = 2       # field imm


class AluFunction(enum.Enum, shape=4):
    """32-bit integer functions of ``a`` and ``b``; shifts take the low five bits of ``b``."""

    ADD = 0
    SUB = 1
    AND = 2
    OR = 3
    XOR = 4
    SHL = 5
    SHR = 6             # logical
    SAR = 7             # arithmetic
    MIN = 8             # signed
    MAX = 9             # signed
    MOV = 10            # b
    SEL = 11            # a where the guard holds, else b; executed by all threads
    MUL = 12            # low word of the product
    MULH = 13           # high word of the product, signed or unsigned
    NARROW = 14         # four registers from a, shifted right by b with rounding and saturated, as the four bytes of one register
    SCALE = 15          # NARROW of high words of products with b, shifted right by field c


# Functions of uniform instructions.
UNIFORM_FUNCTIONS = tuple(function for function in AluFunction if function.value <= AluFunction.MOV.value)


class OutputUse(enum.Enum, shape=3):
    """What an ALU instruction does with the output stage; NONE: nothing."""

    NONE = 0
    CHANNEL = 1         # ADD sets bias and multiplier of each thread, and writes no register
    PACK = 2            # SCALE adds the bias, takes the multiplier of the thread, and adds zero point and bounds
    TRANSPOSE = 3       # PACK with rows and columns of the bytes of a group of threads exchanged
    GROUPS = 4          # PACK with the four registers and the four groups of threads exchanged


PACKING = (OutputUse.PACK, OutputUse.TRANSPOSE, OutputUse.GROUPS)


class CompareFunction(enum.Enum, shape=3):
    EQ = 0
    NE = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5


class Special(enum.Enum, shape=4):
    """Special registers; ``TID`` exists for threads only."""

    TID = 0
    THREADS = 1
    DOT = 2
    CORE = 3
    CORES = 4
    CYCLE = 5


class Access(enum.Enum, shape=3):
    """Width and sign extension of a load or store; stores of 8 and 16 bits use the unsigned forms."""

    U8 = 0
    S8 = 1
    U16 = 2
    S16 = 3
    B32 = 4
    V2 = 5              # 8 bytes, two consecutive registers
    V4 = 6              # 16 bytes, four consecutive registers


ACCESS_BYTES = {Access.U8: 1, Access.S8: 1, Access.U16: 2, Access.S16: 2, Access.B32: 4, Access.V2: 8, Access.V4: 16}


class Space(enum.Enum, shape=1):
    SHARED = 0
    GLOBAL = 1


class ElementType(enum.Enum, shape=4):
    """Element types of ``mm`` [S0.15]; each operand has a signedness of its own."""

    INT8 = 0
    INT16 = 1
    INT32 = 2
    BF16 = 3
    F16 = 4
    F32 = 5


class LoopOrder(enum.Enum, shape=1):
    """Order of the steps of one ``mm`` [S0.4]."""

    SLICES_OUTER = 0    # Fig. 6: all columns, one k-slice at a time
    COLUMNS_OUTER = 1   # Fig. 7: one column finished over all k-slices first


class Swizzle(enum.Enum, shape=2):
    NONE = 0
    B32 = 1
    B64 = 2
    B128 = 3


class Reduction(enum.Enum, shape=4):
    NONE = 0
    ADD = 1
    MIN = 2
    MAX = 3
    INC = 4
    DEC = 5
    AND = 6
    OR = 7
    XOR = 8


class WaitUnit(enum.Enum, shape=2):
    """Bit numbers in the unit mask of ``wait``."""

    THREAD = 0
    COPY = 1
    MATRIX = 2


alu_fields = data.StructLayout({
    "function": AluFunction,
    "compare": CompareFunction,
    "unsigned": 1,              # compare or multiply as unsigned, narrow to unsigned bytes
    "special": Special,
    "vector": 1,                # four registers from dst become the function of four registers from a
    "output": OutputUse,
})

# Operand b of those that pack: zero point of the bytes and their bounds, each of the type of the bytes. ``set``: number of the set of
# biases and multipliers, which CHANNEL has in field c. ``own_shifts``: the biases are words of ``channel_bias_layout``.
# ``double_rounding``: the product is rounded to a multiple of 2^31 first.
output_bounds_layout = data.StructLayout({
    "zero_point": 8, "minimum": 8, "maximum": 8, "set": 2, "own_shifts": 1, "double_rounding": 1})
# Bias of a channel with a shift of its own: that of the upper half of the product.
channel_bias_layout = data.StructLayout({"bias": signed(27), "shift": 5})
CHANNEL_SETS = 4

memory_fields = data.StructLayout({
    "access": Access,
    "entries": 4,               # of ``gather``, minus one
})

matrix_fields = data.StructLayout({
    "element": ElementType,
    "ka": 2,                    # threads that share a row, minus one [S0.5]
    "ka_interleaved": 1,
    "kb": 2,                    # threads that share a dot product, minus one [S0.6]
    "kb_destination": 2,
    "transpose": 1,             # [S0.8]
    "a_signed": 1,
    "b_signed": 1,
    "k_length": 4,              # factor words, minus one
    "order": LoopOrder,
    "zero": 1,                  # the first k-slice replaces the product registers instead of adding to them
    "lane_sum": 1,              # all threads share every dot product; it lands in thread 0
    "compiled": OffsetEntry,    # addresses of B by the compiled-offset memory [S2.3]
})

copy_fields = data.StructLayout({
    "destination": Space,
    "source": Space,
    "swizzle": Swizzle,
    "reduction": Reduction,
    "barrier": 4,
    "has_barrier": 1,
    "mode": TensorMode,         # of tensors
    "rank_minus_one": 3,
    "format": TensorFormat,     # of the elements that a reduction of blocks combines
    "multicast": 1,             # of a load: to the cores in the uniform register ``mask``
    "mask": 6,
})

segment_fields = data.StructLayout({
    "space": Space,
    "element_shift": 3,         # log2 of the element size in bytes (0 to 4)
    "rank": 3,                  # dimensions, minus one
    "swizzle": Swizzle,         # of a tile in shared memory
})

wait_fields = data.StructLayout({
    "units": 3,                 # bits by WaitUnit
    "read": 1,                  # wait_group: until the stores have read shared memory
    "unfinished": 5,            # wait_thread: thread instructions that may be unfinished
})

instruction_layout = data.StructLayout({
    "opcode": Opcode,
    "guard": 3,                 # thread predicate of thread instructions and mm, else uniform predicate
    "guard_negate": 1,
    "b_source": OperandSource,
    "dst": REGISTER_BITS,
    "a": REGISTER_BITS,
    "b": REGISTER_BITS,
    "c": REGISTER_BITS,
    "modifiers": data.UnionLayout({
        "alu": alu_fields,
        "memory": memory_fields,
        "matrix": matrix_fields,
        "copy": copy_fields,
        "segment": segment_fields,
        "wait": wait_fields,
        "bits": MODIFIER_BITS,
    }),
    "imm": 32,
})
assert instruction_layout.size == INSTRUCTION_BITS, instruction_layout.size
