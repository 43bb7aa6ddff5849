"""Tensor descriptor in memory: 128 bytes with the layout of a tensor and the box that a request moves [S1.2]."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, enum

__all__ = [
    "DESCRIPTOR_ALIGNMENT", "DESCRIPTOR_BYTES", "FILL_NAN", "FLOAT_FORMATS", "FORMAT_BYTES", "INTERLEAVE_BYTES", "MAX_RANK", "MAX_SPATIAL",
    "NAN_BITS", "SWIZZLE_BYTES", "TF32_NAN", "Fill", "Interleave", "TensorFormat", "TensorMode", "descriptor_layout", "no_descriptor",
]

DESCRIPTOR_BYTES = 128
DESCRIPTOR_ALIGNMENT = 64
MAX_RANK = 5
MAX_SPATIAL = MAX_RANK - 2      # dimensions of an im2col tensor between channels and images


class TensorMode(enum.Enum, shape=4):
    TILE = 0
    IM2COL = 1


class TensorFormat(enum.Enum, shape=4):
    """Element types of tensors, by the codes of the published layout; reductions of ``FTZ`` flush subnormal numbers to zero."""

    U8 = 0
    U16 = 1
    U32 = 2
    S32 = 3
    U64 = 4
    S64 = 5
    F16 = 6
    F32 = 7
    F32_FTZ = 8
    F64 = 9
    BF16 = 10
    TF32 = 11
    TF32_FTZ = 12


FORMAT_BYTES = {
    TensorFormat.U8: 1, TensorFormat.U16: 2, TensorFormat.U32: 4, TensorFormat.S32: 4, TensorFormat.U64: 8, TensorFormat.S64: 8,
    TensorFormat.F16: 2, TensorFormat.F32: 4, TensorFormat.F32_FTZ: 4, TensorFormat.F64: 8, TensorFormat.BF16: 2,
    TensorFormat.TF32: 4, TensorFormat.TF32_FTZ: 4,
}
# No document defines the bits of a NaN. These are what an H200 writes (docs/hopper.md).
FILL_NAN = 0x7FF7       # each 16 bits of an element outside the tensor with Fill.NAN
TF32_NAN = 0x7FFF_E000  # a NaN that is rounded to TF32
# Result of a reduction that is no number.
NAN_BITS = {
    TensorFormat.F16: 0x7FFF, TensorFormat.BF16: 0x7FFF, TensorFormat.F64: 0x7FFF_FFFF_FFFF_FFFF,
    **dict.fromkeys((TensorFormat.F32, TensorFormat.F32_FTZ, TensorFormat.TF32, TensorFormat.TF32_FTZ), 0x7FFF_FFFF),
}
FLOAT_FORMATS = frozenset(NAN_BITS)


class Interleave(enum.Enum, shape=2):
    """Interleaved channels: slices of 16 or 32 bytes, with all pixels of a slice contiguous. NONE: all channels of a pixel are
    contiguous.
    """

    NONE = 0
    B16 = 1
    B32 = 2


INTERLEAVE_BYTES = {Interleave.B16: 16, Interleave.B32: 32}
SWIZZLE_BYTES = (16, 32, 64, 128)       # bytes of the row that a swizzle permutes, by ``Swizzle``; NONE: one block


class Fill(enum.Enum, shape=1):
    """Value of elements outside the tensor, in shared memory."""

    ZERO = 0
    NAN = 1


def _field(shape, byte, bit=0):
    return data.Field(shape, 8 * byte + bit)


def no_descriptor(cfg, address):
    """Whether the 128 bytes at a 32-bit address are no descriptor: misaligned, or not completely in global memory."""
    low = (DESCRIPTOR_ALIGNMENT - 1).bit_length()
    # Of the multiples of 64 only the last address has no room for 128 bytes.
    return address[:low].any() | address[cfg.axi_address_bits:].any() | address[low:cfg.axi_address_bits].all()


# Up to byte 75 the layout of published tools for tiled descriptors; the fields of im2col are our choice.
descriptor_layout = data.FlexibleLayout(8 * DESCRIPTOR_BYTES, {
    "address": _field(64, 0),
    "mode": _field(TensorMode, 8),
    "rank_minus_one": _field(3, 8, 4),
    "format": _field(TensorFormat, 8, 7),
    "interleave": _field(Interleave, 8, 11),
    "swizzle": _field(2, 8, 13),
    "fill": _field(Fill, 8, 15),
    "promotion": _field(2, 8, 17),                                          # hint, without effect
    "large": _field(1, 8, 21),                                              # the tensor has 128 KiB or more; without effect
    "stride_low": _field(data.ArrayLayout(unsigned(32), MAX_RANK - 1), 12),     # bits 4 to 35 of the strides in bytes
    "stride_high": _field(data.ArrayLayout(unsigned(4), MAX_RANK - 1), 28),     # bits 36 to 39
    "size_minus_one": _field(data.ArrayLayout(unsigned(32), MAX_RANK), 32),
    "element_stride_minus_one": _field(data.ArrayLayout(unsigned(3), MAX_RANK), 52),
    "box_minus_one": _field(data.ArrayLayout(unsigned(8), MAX_RANK), 55),
    "box_bytes": _field(32, 64),                                            # of a tiled box; not read by the hardware
    "swizzle_period": _field(32, 72),                                       # 16, 256, 512 or 1024; not read by the hardware
    "lower_corner": _field(data.ArrayLayout(signed(16), MAX_SPATIAL), 80),  # of pixels; innermost dimension (W) first
    "upper_corner": _field(data.ArrayLayout(signed(16), MAX_SPATIAL), 86),
    "pixels_per_column_minus_one": _field(10, 92),
    "channels_per_pixel_minus_one": _field(8, 94),
})
