"""Control words of the reduction unit, decoded once for all words of a beat."""

from amaranth.lib import data

from ..isa.encoding import Reduction
from ..isa.tensor_descriptor import FORMAT_BYTES, TensorFormat
from .reduction_formats import is_one_of

__all__ = ["WORD_BITS", "float_control_layout", "float_controls", "integer_control_layout", "integer_controls"]

WORD_BITS = 64          # width of the widest element

integer_control_layout = data.StructLayout({
    "wide": 1,          # elements of 64 bits, else of 32
    "signed": 1,        # signed comparison, else unsigned
    "add": 1, "min": 1, "max": 1, "inc": 1, "dec": 1,       # operation, one-hot or none
    "bit_and": 1, "bit_or": 1, "bit_xor": 1,
})

float_control_layout = data.StructLayout({
    "single": 1,        # f32
    "half": 1,          # f16; bf16 with neither
    "flushes": 1,       # f32: subnormal operands and results are zero
    "order": 1,         # min or max, else add
    "max": 1,
})


def integer_controls(reduction, format):
    """Control word of a reduction of integers: each field of ``integer_control_layout`` as an expression of its operands."""
    return {
        "wide": is_one_of(format, [kind for kind, size in FORMAT_BYTES.items() if 8 * size == WORD_BITS]),
        "signed": is_one_of(format, [TensorFormat.S32, TensorFormat.S64]),
        **{name: reduction == Reduction[name.removeprefix("bit_").upper()]
           for name, _ in integer_control_layout if name not in ("wide", "signed")},
    }


def float_controls(reduction, format):
    """Control word of a reduction of floating-point numbers: each field of ``float_control_layout`` as an expression."""
    return {
        "single": is_one_of(format, [TensorFormat.F32, TensorFormat.F32_FTZ]),
        "half": format == TensorFormat.F16,
        "flushes": format == TensorFormat.F32_FTZ,
        "order": reduction != Reduction.ADD,
        "max": reduction == Reduction.MAX,
    }
