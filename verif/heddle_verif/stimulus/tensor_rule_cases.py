"""A case for every rule of tensor copies, which breaks this rule and no other [S1.4]."""

from dataclasses import replace

from heddle.isa.encoding import Reduction, Swizzle
from heddle.isa.tensor_descriptor import Fill, Interleave, TensorFormat, TensorMode, descriptor_layout
from heddle_sim.golden.tensor_checks import TensorRequest
from heddle_sim.golden.tensor_fields import TensorFields

__all__ = ["DESCRIPTORS", "IM2COL", "INSIDE", "IN_IM2COL", "IN_TILE", "REQUESTS", "SHARED_BYTES", "TILE", "bytes_of"]

SHARED_BYTES = 1 << 16
TILE = TensorFields(format=TensorFormat.U16, address=256, sizes=(64, 8, 4), strides=(128, 1024), box=(16, 4, 2), element_strides=(1, 1, 1))
IM2COL = TensorFields(mode=TensorMode.IM2COL, sizes=(64, 9, 14, 4), strides=(64, 576, 8064), element_strides=(1, 1, 1, 1),
                      lower_corner=(-1, -1), upper_corner=(-1, -1), pixels_per_column=32, channels_per_pixel=16)
INSIDE = replace(IM2COL, lower_corner=(0, 0), upper_corner=(0, 0))
IN_TILE, IN_IM2COL = TensorRequest(coordinates=(0, 0, 0)), TensorRequest(coordinates=(0, 0, 0, 0), offsets=(0, 0), mode=TensorMode.IM2COL)
NARROW = replace(IM2COL, channels_per_pixel=8)

# Rule: descriptor with one value changed, the value that the error names, its dimension.
DESCRIPTORS = {
    "MODE": (replace(TILE, mode=7), 7, None),
    "RANK": (replace(TILE, sizes=(64,) + (1,) * 5, strides=(128,) * 5, box=(16,) + (1,) * 5, element_strides=(1,) * 6), 6, None),
    "FORMAT": (replace(TILE, format=15), 15, None),
    "INTERLEAVE": (replace(TILE, interleave=3), 3, None),
    "SWIZZLE": (replace(TILE, interleave=Interleave.B32, swizzle=Swizzle.B64), Swizzle.B64, None),
    "FILL": (replace(TILE, fill=Fill.NAN), Fill.NAN, None),
    "ADDRESS": (replace(TILE, address=264), 264, None),
    "SIZE": (replace(TILE, sizes=(64, 0, 4)), 0, 1),
    "STRIDE_ALIGNMENT": (replace(TILE, interleave=Interleave.B32, swizzle=Swizzle.B32, strides=(128, 1040)), 1040, 2),
    "STRIDE_RANGE": (replace(TILE, strides=(1 << 40, 1024)), 1 << 40, 1),
    "BOX": (replace(TILE, box=(16, 257, 2)), 257, 1),
    "BOX_ROW": (replace(TILE, box=(12, 4, 2)), 24, 0),
    "BOX_SPAN": (replace(TILE, box=(24, 4, 2), swizzle=Swizzle.B32), 48, 0),
    "ELEMENT_STRIDE": (replace(TILE, element_strides=(1, 1, 9)), 9, 2),
    "LOWER_CORNER": (replace(IM2COL, lower_corner=(-1, -129)), -129, 2),
    "UPPER_CORNER": (replace(IM2COL, upper_corner=(128, -1)), 128, 1),
    "PIXEL_BOX": (replace(IM2COL, lower_corner=(4, -1), upper_corner=(-5, -1)), 0, 1),
    "PIXELS_PER_COLUMN": (replace(IM2COL, pixels_per_column=1025), 1025, None),
    "CHANNELS_PER_PIXEL": (replace(IM2COL, channels_per_pixel=272), 272, None),
    "CHANNEL_ROW": (replace(IM2COL, channels_per_pixel=24), 24, None),
    "CHANNEL_SPAN": (replace(IM2COL, channels_per_pixel=48, swizzle=Swizzle.B32), 48, None),
    "EXTENT": (replace(TILE, sizes=(64, 1 << 32, 4), strides=((1 << 40) - 128, 1024)), (1 << 32) - 1, 1),
    "BYTES": (replace(TILE, box=(256, 256, 8)), 1 << 20, None),
}
# Rule: descriptor without fault, request with one value changed, value, dimension.
REQUESTS = {
    "DESCRIPTOR_ADDRESS": (TILE, replace(IN_TILE, descriptor=96), 96, None),
    "REQUEST_MODE": (IM2COL, replace(IN_IM2COL, mode=TensorMode.TILE), TensorMode.TILE, None),
    "REQUEST_RANK": (TILE, replace(IN_TILE, coordinates=(0, 0)), 2, None),
    "COORDINATE_ALIGNMENT": (TILE, replace(IN_TILE, coordinates=(4, 0, 0)), 4, 0),
    "COORDINATE_NEGATIVE": (TILE, replace(IN_TILE, coordinates=(0, -1, 0), store=True), -1, 1),
    "COORDINATE_BOX": (IM2COL, replace(IN_IM2COL, coordinates=(0, 0, 13, 0)), 13, 2),
    "OFFSET": (IM2COL, replace(IN_IM2COL, offsets=(256, 0)), 256, 1),
    "STORE_CORNER": (replace(INSIDE, lower_corner=(0, -1)), replace(IN_IM2COL, store=True), -1, 2),
    "REDUCTION": (TILE, replace(IN_TILE, store=True, reduction=Reduction.ADD), Reduction.ADD, None),
    "SHARED_ADDRESS": (TILE, replace(IN_TILE, shared_address=64), 64, None),
    "SHARED_RANGE": (TILE, replace(IN_TILE, shared_address=SHARED_BYTES - 128), SHARED_BYTES - 128, None),
}


def bytes_of(fields):
    """The 128 bytes of a descriptor, also of one with a format that has no size."""
    if isinstance(fields.format, TensorFormat):
        return fields.encode()
    word = int.from_bytes(replace(fields, format=TensorFormat.U8).encode(), "little")
    return (word | fields.format << descriptor_layout["format"].offset).to_bytes(128, "little")
