"""Rules of tensor copies: one table for descriptor builder, golden model, hardware and documentation [S1.4]."""

from dataclasses import dataclass

from .encoding import Reduction
from .error_codes import ErrorCode
from .tensor_descriptor import TensorFormat

__all__ = ["COORDINATE_OFFSET_BITS", "CORNER_LIMITS", "REDUCTION_FORMATS", "RULES", "SHARED_ALIGNMENT", "Rule"]


# Limits of pixel corners by the number of spatial dimensions: all corners share 32 bits in the published interface.
CORNER_LIMITS = {1: (-32768, 32767), 2: (-128, 127), 3: (-16, 15)}
COORDINATE_OFFSET_BITS = {1: 16, 2: 8, 3: 5}
SHARED_ALIGNMENT = 128

_WORDS = frozenset({TensorFormat.U32, TensorFormat.S32, TensorFormat.U64, TensorFormat.S64})
_HALVES = frozenset({TensorFormat.F16, TensorFormat.BF16})
# Formats of each reduction in the published hardware; sums of signed and unsigned 64-bit integers are equal.
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
    """Rule of a descriptor or a request of a tensor copy.

    Attributes
    ----------
    field : str
        Field of the descriptor or the request, as in ``TensorMap`` and ``TensorRequest``.
    text : str
        Completes "``field`` must …, not ``value``".
    dimension : bool
        The rule applies to each dimension; the error reports the dimension, 0 is the innermost.
    encoded : bool
        A descriptor in memory can violate the rule. Rules without ``encoded`` concern values that its fields cannot hold.
    """

    field: str
    text: str
    dimension: bool = False
    encoded: bool = True


RULES = {
    ErrorCode.TENSOR_DESCRIPTOR_ADDRESS: Rule("descriptor", "lie in global memory, all 128 bytes of it, at a multiple of 64"),
    ErrorCode.TENSOR_MODE: Rule("mode", "be tile or im2col"),
    ErrorCode.TENSOR_RANK: Rule("rank", "be 1 to 5, and at least 3 for im2col and with interleave"),
    ErrorCode.TENSOR_FORMAT: Rule("format", "be one of the element types"),
    ErrorCode.TENSOR_INTERLEAVE: Rule("interleave", "be none, 16B or 32B"),
    ErrorCode.TENSOR_SWIZZLE: Rule("swizzle", "be none, 32B, 64B or 128B, and 32B with interleave 32B"),
    ErrorCode.TENSOR_FILL: Rule("fill", "be zero, or nan for floating-point formats"),
    ErrorCode.TENSOR_ADDRESS: Rule("address", "lie in global memory at a multiple of 16, of 32 with interleave 32B"),
    ErrorCode.TENSOR_SIZE: Rule("size", "be 1 to 2**32 elements", dimension=True, encoded=False),
    ErrorCode.TENSOR_STRIDE_ALIGNMENT: Rule("stride", "be a multiple of 16 bytes, of 32 with interleave 32B", dimension=True),
    ErrorCode.TENSOR_STRIDE_RANGE: Rule("stride", "be at least 0 and below 2**40 bytes", dimension=True, encoded=False),
    ErrorCode.TENSOR_BOX: Rule("box", "be 1 to 256 elements", dimension=True, encoded=False),
    ErrorCode.TENSOR_BOX_ROW: Rule("box", "make rows of a multiple of 16 bytes", dimension=True),
    ErrorCode.TENSOR_BOX_SPAN: Rule("box", "make rows that fit the span of the swizzle", dimension=True),
    ErrorCode.TENSOR_ELEMENT_STRIDE: Rule("element_stride", "be 1 to 8", dimension=True, encoded=False),
    ErrorCode.TENSOR_LOWER_CORNER: Rule("lower_corner", "fit 16, 8 or 5 bits with sign, for 1, 2 or 3 spatial dimensions", dimension=True),
    ErrorCode.TENSOR_UPPER_CORNER: Rule("upper_corner", "fit 16, 8 or 5 bits with sign, for 1, 2 or 3 spatial dimensions", dimension=True),
    ErrorCode.TENSOR_PIXEL_BOX: Rule("size + upper_corner - lower_corner", "be at least 1", dimension=True),
    ErrorCode.TENSOR_PIXELS_PER_COLUMN: Rule("pixels_per_column", "be 1 to 1024", encoded=False),
    ErrorCode.TENSOR_CHANNELS_PER_PIXEL: Rule("channels_per_pixel", "be 1 to 256", encoded=False),
    ErrorCode.TENSOR_CHANNEL_ROW: Rule("channels_per_pixel", "make rows of a multiple of 16 bytes"),
    ErrorCode.TENSOR_CHANNEL_SPAN: Rule("channels_per_pixel", "make rows that fit the span of the swizzle"),
    ErrorCode.TENSOR_REQUEST_MODE: Rule("mode", "be that of the descriptor"),
    ErrorCode.TENSOR_REQUEST_RANK: Rule("rank", "be that of the descriptor"),
    ErrorCode.TENSOR_COORDINATE_ALIGNMENT: Rule("coordinate", "begin at a multiple of 16 bytes", dimension=True),
    ErrorCode.TENSOR_COORDINATE_NEGATIVE: Rule("coordinate", "be at least 0 in a store", dimension=True),
    ErrorCode.TENSOR_COORDINATE_BOX: Rule("coordinate", "lie between the corners of the pixel box", dimension=True),
    ErrorCode.TENSOR_OFFSET: Rule("offset", "fit 16, 8 or 5 bits, for 1, 2 or 3 spatial dimensions; and be 0 in a store", dimension=True),
    ErrorCode.TENSOR_STORE_CORNER: Rule("corner", "lie inside the tensor in a store", dimension=True),
    ErrorCode.TENSOR_REDUCTION: Rule("reduction", "be defined for the format"),
    ErrorCode.TENSOR_SHARED_ADDRESS: Rule("shared_address", "be a multiple of 128"),
    ErrorCode.TENSOR_SHARED_RANGE: Rule("shared_address", "leave room for the box in shared memory"),
    ErrorCode.TENSOR_BYTES: Rule("bytes", "be at most 1048575, what a barrier counts"),
    ErrorCode.TENSOR_EXTENT: Rule("last element", "lie in global memory, behind those of the lower dimensions", dimension=True),
}
assert set(RULES) == {code for code in ErrorCode if code.name.startswith("TENSOR_")}
