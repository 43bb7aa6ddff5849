"""The rules of tensor copies: one table for descriptor builder, golden model, hardware and documentation [S1.4]."""

from dataclasses import dataclass

from amaranth.lib import enum

from ..isa.layout import Reduction
from .descriptor import TensorFormat

__all__ = ["COORDINATE_OFFSET_BITS", "CORNER_LIMITS", "REDUCTION_FORMATS", "RULES", "SHARED_ALIGNMENT", "Rule", "TensorError"]


class TensorError(enum.Enum, shape=7):
    """A rule that a descriptor or a request breaks; above 31 the codes are those of ``ErrorCode``'s tensor errors."""

    DESCRIPTOR_ADDRESS = 32
    MODE = 33
    RANK = 34
    FORMAT = 35
    INTERLEAVE = 36
    SWIZZLE = 37
    FILL = 38
    ADDRESS = 39
    SIZE = 40
    STRIDE_ALIGNMENT = 41
    STRIDE_RANGE = 42
    BOX = 43
    BOX_ROW = 44
    BOX_SPAN = 45
    ELEMENT_STRIDE = 46
    LOWER_CORNER = 47
    UPPER_CORNER = 48
    PIXEL_BOX = 49
    PIXELS_PER_COLUMN = 50
    CHANNELS_PER_PIXEL = 51
    CHANNEL_ROW = 52
    CHANNEL_SPAN = 53
    REQUEST_MODE = 54
    REQUEST_RANK = 55
    COORDINATE_ALIGNMENT = 56
    COORDINATE_NEGATIVE = 57
    COORDINATE_BOX = 58
    OFFSET = 59
    STORE_CORNER = 60
    REDUCTION = 61
    SHARED_ADDRESS = 62
    SHARED_RANGE = 63
    BYTES = 64


# Of corners of pixels by the number of spatial dimensions: they share 32 bits in the published interface.
CORNER_LIMITS = {1: (-32768, 32767), 2: (-128, 127), 3: (-16, 15)}
COORDINATE_OFFSET_BITS = {1: 16, 2: 8, 3: 5}
SHARED_ALIGNMENT = 128

_WORDS = frozenset({TensorFormat.U32, TensorFormat.S32, TensorFormat.U64, TensorFormat.S64})
_HALVES = frozenset({TensorFormat.F16, TensorFormat.BF16})
# Where hardware of the documents has them; the sum of signed 64-bit integers is that of unsigned ones.
REDUCTION_FORMATS = {
    Reduction.ADD: _WORDS | _HALVES | {TensorFormat.F32, TensorFormat.F32_FTZ},
    Reduction.MIN: _WORDS | _HALVES,
    Reduction.MAX: _WORDS | _HALVES,
    Reduction.INC: frozenset({TensorFormat.U32}),
    Reduction.DEC: frozenset({TensorFormat.U32}),
    Reduction.AND: _WORDS,
    Reduction.OR: _WORDS,
    Reduction.XOR: _WORDS,
}


@dataclass(frozen=True)
class Rule:
    """What must hold.

    Attributes
    ----------
    field : str
        Of the descriptor or the request, as in ``TensorMap`` and ``TensorRequest``.
    text : str
        Completes "``field`` must …, not ``value``".
    dimension : bool
        The rule is for each dimension; the error says which, 0 is the innermost.
    encoded : bool
        A descriptor in memory can break it. The others concern values that its fields cannot hold.
    """

    field: str
    text: str
    dimension: bool = False
    encoded: bool = True


RULES = {
    TensorError.DESCRIPTOR_ADDRESS: Rule("descriptor", "lie in global memory at a multiple of 64"),
    TensorError.MODE: Rule("mode", "be tile or im2col"),
    TensorError.RANK: Rule("rank", "be 1 to 5, and at least 3 for im2col and with interleave"),
    TensorError.FORMAT: Rule("format", "be one of the element types"),
    TensorError.INTERLEAVE: Rule("interleave", "be none, 16B or 32B"),
    TensorError.SWIZZLE: Rule("swizzle", "be none, 32B, 64B or 128B, and 32B with interleave 32B"),
    TensorError.FILL: Rule("fill", "be zero, or nan for floating-point formats"),
    TensorError.ADDRESS: Rule("address", "lie in global memory at a multiple of 16, of 32 with interleave 32B"),
    TensorError.SIZE: Rule("size", "be 1 to 2**32 elements", dimension=True, encoded=False),
    TensorError.STRIDE_ALIGNMENT: Rule("stride", "be a multiple of 16 bytes, of 32 with interleave 32B", dimension=True),
    TensorError.STRIDE_RANGE: Rule("stride", "be at least 0 and below 2**40 bytes", dimension=True, encoded=False),
    TensorError.BOX: Rule("box", "be 1 to 256 elements", dimension=True, encoded=False),
    TensorError.BOX_ROW: Rule("box", "make rows of a multiple of 16 bytes", dimension=True),
    TensorError.BOX_SPAN: Rule("box", "make rows that fit the span of the swizzle", dimension=True),
    TensorError.ELEMENT_STRIDE: Rule("element_stride", "be 1 to 8", dimension=True, encoded=False),
    TensorError.LOWER_CORNER: Rule("lower_corner", "fit 16, 8 or 5 bits with sign, for 1, 2 or 3 spatial dimensions", dimension=True),
    TensorError.UPPER_CORNER: Rule("upper_corner", "fit 16, 8 or 5 bits with sign, for 1, 2 or 3 spatial dimensions", dimension=True),
    TensorError.PIXEL_BOX: Rule("size + upper_corner - lower_corner", "be at least 1", dimension=True),
    TensorError.PIXELS_PER_COLUMN: Rule("pixels_per_column", "be 1 to 1024", encoded=False),
    TensorError.CHANNELS_PER_PIXEL: Rule("channels_per_pixel", "be 1 to 256", encoded=False),
    TensorError.CHANNEL_ROW: Rule("channels_per_pixel", "make rows of a multiple of 16 bytes"),
    TensorError.CHANNEL_SPAN: Rule("channels_per_pixel", "make rows that fit the span of the swizzle"),
    TensorError.REQUEST_MODE: Rule("mode", "be that of the descriptor"),
    TensorError.REQUEST_RANK: Rule("rank", "be that of the descriptor"),
    TensorError.COORDINATE_ALIGNMENT: Rule("coordinate", "begin at a multiple of 16 bytes", dimension=True),
    TensorError.COORDINATE_NEGATIVE: Rule("coordinate", "be at least 0 in a store", dimension=True),
    TensorError.COORDINATE_BOX: Rule("coordinate", "lie between the corners of the pixel box", dimension=True),
    TensorError.OFFSET: Rule("offset", "fit 16, 8 or 5 bits, for 1, 2 or 3 spatial dimensions; and be 0 in a store", dimension=True),
    TensorError.STORE_CORNER: Rule("corner", "lie inside the tensor in a store", dimension=True),
    TensorError.REDUCTION: Rule("reduction", "be defined for the format"),
    TensorError.SHARED_ADDRESS: Rule("shared_address", "be a multiple of 128"),
    TensorError.SHARED_RANGE: Rule("shared_address", "leave room for the box in shared memory"),
    TensorError.BYTES: Rule("bytes", "be at most 1048575, what a barrier counts"),
}
assert set(RULES) == set(TensorError)
