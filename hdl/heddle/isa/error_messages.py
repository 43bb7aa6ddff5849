"""Error messages: one table for device, tools and documentation."""

from ..constants import MOST_EXPECTED
from .error_codes import ErrorCode
from .tensor_rules import RULES

__all__ = ["ERROR_MESSAGES", "error_message"]

_MESSAGES = {
    ErrorCode.NONE: "no error",
    ErrorCode.ILLEGAL_INSTRUCTION: "opcode must be a defined instruction, not {operand:#04x}",
    ErrorCode.ILLEGAL_OPERAND: "a register, segment, predicate or size operand must exist and be aligned, not {operand:#x}",
    ErrorCode.UNSUPPORTED: "the instruction uses a feature this configuration does not have (field value {operand:#x})",
    ErrorCode.PROGRAM_COUNTER: "the next instruction must be one of the program, not {operand:#x} (no `halt`, or a branch too far)",
    ErrorCode.MISALIGNED: "address must be a multiple of the access size, not {operand:#x}",
    ErrorCode.OUT_OF_RANGE: "address must lie in its memory, not {operand:#x}",
    ErrorCode.PRODUCT_RANGE: "product registers must end at r255; r{operand} and above were ignored",
    ErrorCode.PANEL_RANGE: "a column of B in a swizzled tile must end in its 128 bytes of shared memory, not go on at {operand:#x}",
    ErrorCode.OFFSET_RANGE: "the entries of compiled offsets must lie in their memory of {operand} entries, with .ob from a multiple of "
                            "%dot on",
    ErrorCode.AXI_READ: "the memory answered a read of {operand:#x} with an error",
    ErrorCode.AXI_WRITE: "the memory answered a write to {operand:#x} with an error",
    ErrorCode.BARRIER_UNDERRUN: "barrier waits for bytes that no copy in flight will bring (barrier b{operand})",
    ErrorCode.BARRIER_OVERRUN: "more bytes arrived at a barrier than it was told to expect (barrier b{operand})",
    ErrorCode.BARRIER_EXPECT: f"the bytes that a barrier expects up to its wait must be at most {MOST_EXPECTED}, not more "
                              "(barrier b{operand})",
    ErrorCode.TRAP: "trap {operand}",
    ErrorCode.TIMEOUT: "the program did not end within the {operand} cycles of its time limit",
    ErrorCode.WAIT_TIMEOUT: "a wait took longer than the limit of waits (barrier, number of groups or mask of units: {operand})",
    ErrorCode.RECURRENT_IMAGE: "an image of recurrent layers must have tasks, sweeps and contexts, no more than the engine, vectors "
                               "that fit its memory and sums that fit its lanes (address of the image: {operand:#x})",
    ErrorCode.SPARSE_JOB: "a job of the sparse engine must have at least 1 row, rows of B that its panel holds, and aligned addresses "
                          "(address of the job: {operand:#x})",
    ErrorCode.SPARSE_POINTER: "row pointers of a sparse matrix must not fall, and must not lie before the first element of their job "
                              "(row of the job: {operand})",
    ErrorCode.SPARSE_INDEX: "column indices of a sparse matrix must be below the rows of the panel (row of the job, and index: "
                            "{operand:#x})",
    ErrorCode.MULTICAST_MASK: "mask of a multicast must name at least one core, and cores that exist, not {operand:#x}",
}
_ADDRESSES = {"descriptor", "address", "shared_address"}
_SIGNED = {"coordinate", "corner", "lower_corner", "upper_corner", "size + upper_corner - lower_corner"}


def _of_rule(rule):
    place = " of dimension {dimension}" if rule.dimension else ""
    return f"{rule.field}{place} must {rule.text}, not {{operand{':#x' if rule.field in _ADDRESSES else ''}}}"


# Templates: {operand} is the reported operand, {dimension} the dimension of the tensor, 0 the innermost.
ERROR_MESSAGES = _MESSAGES | {code: _of_rule(rule) for code, rule in RULES.items()}
assert set(ERROR_MESSAGES) == set(ErrorCode)


def error_message(code, operand, dimension=0):
    """Message of a reported error; ``operand`` is the 32 bits of the register ``error_operand``."""
    if code in RULES and RULES[code].field in _SIGNED:
        operand = (operand & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)
    return ERROR_MESSAGES[code].format(operand=operand, dimension=dimension)
