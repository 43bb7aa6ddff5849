"""Error codes of the hardware: one enumeration for RTL, models, device and documentation."""

from amaranth.lib import enum

__all__ = ["ErrorCode", "STOPPING_ERRORS"]


class ErrorCode(enum.Enum, shape=7):
    """Error codes, reported with the program counter of the instruction and one 32-bit operand.

    Codes of the rules of tensor copies (``heddle.isa.tensor_rules``) also have a dimension. Messages are in
    ``heddle.isa.error_messages``.
    """

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
    WAIT_TIMEOUT = 14
    MULTICAST_MASK = 15
    RECURRENT_IMAGE = 16
    BARRIER_EXPECT = 17
    PANEL_RANGE = 18
    OFFSET_RANGE = 19
    SPARSE_JOB = 20
    SPARSE_POINTER = 21
    SPARSE_INDEX = 22

    # A descriptor or a request of a tensor copy violates a rule; in the order of the checks.
    TENSOR_DESCRIPTOR_ADDRESS = 32
    TENSOR_MODE = 33
    TENSOR_RANK = 34
    TENSOR_FORMAT = 35
    TENSOR_INTERLEAVE = 36
    TENSOR_SWIZZLE = 37
    TENSOR_FILL = 38
    TENSOR_ADDRESS = 39
    TENSOR_SIZE = 40
    TENSOR_STRIDE_ALIGNMENT = 41
    TENSOR_STRIDE_RANGE = 42
    TENSOR_BOX = 43
    TENSOR_BOX_ROW = 44
    TENSOR_BOX_SPAN = 45
    TENSOR_ELEMENT_STRIDE = 46
    TENSOR_LOWER_CORNER = 47
    TENSOR_UPPER_CORNER = 48
    TENSOR_PIXEL_BOX = 49
    TENSOR_PIXELS_PER_COLUMN = 50
    TENSOR_CHANNELS_PER_PIXEL = 51
    TENSOR_CHANNEL_ROW = 52
    TENSOR_CHANNEL_SPAN = 53
    TENSOR_REQUEST_MODE = 54
    TENSOR_REQUEST_RANK = 55
    TENSOR_COORDINATE_ALIGNMENT = 56
    TENSOR_COORDINATE_NEGATIVE = 57
    TENSOR_COORDINATE_BOX = 58
    TENSOR_OFFSET = 59
    TENSOR_STORE_CORNER = 60
    TENSOR_REDUCTION = 61
    TENSOR_SHARED_ADDRESS = 62
    TENSOR_SHARED_RANGE = 63
    TENSOR_BYTES = 64
    TENSOR_EXTENT = 65


# Errors that stop the program; the others are reported when it ends [S0.11].
STOPPING_ERRORS = frozenset(ErrorCode) - {ErrorCode.NONE, ErrorCode.PRODUCT_RANGE}
