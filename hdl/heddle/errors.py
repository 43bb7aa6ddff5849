"""Error codes of the hardware: one table for RTL, models, device and documentation."""

from amaranth.lib import enum

__all__ = ["ErrorCode", "ERROR_MESSAGES", "STOPPING_ERRORS"]


class ErrorCode(enum.Enum, shape=5):
    """Reported with the program counter of the instruction and one 32-bit operand."""

    NONE = 0
    ILLEGAL_INSTRUCTION = 1
    ILLEGAL_OPERAND = 2
    UNSUPPORTED = 3
    PROGRAM_COUNTER = 4
    MISALIGNED = 5
    OUT_OF_RANGE = 6
    PRODUCT_RANGE = 7
    AXI_READ = 8
    AXI_WRITE = 9
    BARRIER_UNDERRUN = 10
    BARRIER_OVERRUN = 11
    TRAP = 12
    TIMEOUT = 13


# What the error says to a user; {operand} is the reported operand.
ERROR_MESSAGES = {
    ErrorCode.NONE: "no error",
    ErrorCode.ILLEGAL_INSTRUCTION: "opcode must be a defined instruction, not {operand:#04x}",
    ErrorCode.ILLEGAL_OPERAND: "a register, segment, predicate or size operand must exist and be aligned, not {operand:#x}",
    ErrorCode.UNSUPPORTED: "the instruction uses a feature this configuration does not have (field value {operand:#x})",
    ErrorCode.PROGRAM_COUNTER: "branch target must lie in the instruction memory, not {operand:#x}",
    ErrorCode.MISALIGNED: "address must be a multiple of the access size, not {operand:#x}",
    ErrorCode.OUT_OF_RANGE: "address must lie in its memory, not {operand:#x}",
    ErrorCode.PRODUCT_RANGE: "product registers must end at r255; r{operand} and above were ignored",
    ErrorCode.AXI_READ: "the memory answered a read of {operand:#x} with an error",
    ErrorCode.AXI_WRITE: "the memory answered a write to {operand:#x} with an error",
    ErrorCode.BARRIER_UNDERRUN: "barrier waits for bytes that no copy in flight will bring (barrier b{operand})",
    ErrorCode.BARRIER_OVERRUN: "more bytes arrived at a barrier than it was told to expect (barrier b{operand})",
    ErrorCode.TRAP: "trap {operand}",
    ErrorCode.TIMEOUT: "the program did not end within the {operand} cycles of its time limit",
}

# Errors that stop the program; the others are reported when it ends [S0.11].
STOPPING_ERRORS = frozenset(ErrorCode) - {ErrorCode.NONE, ErrorCode.PRODUCT_RANGE}
