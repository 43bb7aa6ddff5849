"""Tables, formulas and ranges of the documents about tensor copies, each by name: written out by hand, not computed by the model.

Vectors, figures and the published binary layout of one map are in ``test_tensor_model.py``; every broken rule in ``test_tensor_errors.py``.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.encoding import Reduction, Swizzle
from heddle.isa.tensor_descriptor import FORMAT_BYTES, Interleave, TensorFormat, TensorMode
from heddle.isa.tensor_rules import COORDINATE_OFFSET_BITS, CORNER_LIMITS, REDUCTION_FORMATS
from heddle_sim.golden.tensor_checks import TensorRequest, descriptor_violations, request_violations
from heddle_sim.golden.tensor_copy import load_array, load_tensor, store_tensor
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.golden.tensor_traversal import swizzled_addresses, traverse
from heddle_sim.tensor.tensor_map import TensorMap, TensorMapError
from heddle_verif.stimulus.tensor_requests import random_fields

TABLES = {
    Swizzle.B32: ["01234567", "10325476"],
    Swizzle.B64: ["01234567", "10325476", "23016745", "32107654"],
    Swizzle.B128: ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"],
}


@pytest.mark.parametrize("swizzle", TABLES)
def test_swizzle_tables(swizzle):
    """Bank of each block by row of 128 bytes; the table begins again after its last row."""
    table = TABLES[swizzle]
    for row in range(64):
        places = swizzled_addresses(128 * row + 16 * np.arange(8), swizzle)
        assert "".join(str(int(place) // 16 % 8) for place in places) == table[row % len(table)]
        assert (places // 128 == row).all()         # a block never leaves its row of 128 bytes


@pytest.mark.parametrize("swizzle, bits", [(Swizzle.NONE, 0), (Swizzle.B32, 1), (Swizzle.B64, 2), (Swizzle.B128, 3)])
def test_swizzle_is_the_functor_of_the_library(swizzle, bits):
    """Swizzle<bits, 4, 3>: ``bits`` bits from 4 on are XORed with those 3 above."""
    addresses = np.arange(1 << 13)
    expected = [a ^ (a & ((1 << bits) - 1) << 7) >> 3 for a in range(1 << 13)]
    assert np.array_equal(swizzled_addresses(addresses, swizzle), expected)


@pytest.mark.parametrize("swizzle, period", [(Swizzle.B32, 2), (Swizzle.B64, 4), (Swizzle.B128, 8)])
def test_phase_of_a_box_comes_from_its_address(swizzle, period):
    """Slot of chunk c in row r of a buffer at ``destination``: c XOR ((r + phase) mod period), phase = destination / 128 mod period."""
    for destination in range(0, 2048, 128):
        phase = destination // 128 % period
        for row in range(8):
            for chunk in range(8):
                place = int(swizzled_addresses(np.array([destination + 128 * row + 16 * chunk]), swizzle)[0])
                assert place == destination + 128 * row + 16 * (chunk ^ (row + phase) % period)


def test_format_codes():
    """Codes that hardware reads, of the table of ``tensormap.replace``."""
    names = ["U8", "U16", "U32", "S32", "U64", "S64", "F16", "F32", "F32_FTZ", "F64", "BF16", "TF32", "TF32_FTZ"]
    assert [kind.name for kind in sorted(TensorFormat, key=lambda kind: kind.value)] == names
    assert [FORMAT_BYTES[kind] for kind in TensorFormat] == [1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4]


def test_reductions_of_the_documents():
    """Which types each reduction from shared to global memory has; of tensors without f64."""
    table = {
        "ADD": "U32 S32 U64 S64 F32 F32_FTZ F16 BF16", "MIN": "U32 S32 U64 S64 F16 BF16", "MAX": "U32 S32 U64 S64 F16 BF16", "INC": "U32",
        "DEC": "U32", "AND": "U32 S32 U64 S64", "OR": "U32 S32 U64 S64", "XOR": "U32 S32 U64 S64",
    }
    assert {kind.name: {f.name for f in formats} for kind, formats in REDUCTION_FORMATS.items()} == {
        name: set(formats.split()) for name, formats in table.items()}
    assert set(table) | {"NONE"} == {kind.name for kind in Reduction}


def test_ranges_of_corners_and_offsets():
    assert CORNER_LIMITS == {1: (-32768, 32767), 2: (-128, 127), 3: (-16, 15)}
    assert {spatial: (1 << bits) - 1 for spatial, bits in COORDINATE_OFFSET_BITS.items()} == {1: 65535, 2: 255, 3: 31}


TILE = TensorFields(address=32, sizes=(256, 8, 4), strides=(256, 2048), box=(16, 4, 2), element_strides=(1, 1, 1))
PIXELS = {spatial: TensorFields(mode=TensorMode.IM2COL, sizes=(64, *[40000] * spatial, 4), strides=(64,) * (spatial + 1),
                                element_strides=(1,) * (spatial + 2), lower_corner=(0,) * spatial, upper_corner=(0,) * spatial,
                                channels_per_pixel=16) for spatial in (1, 2, 3)}
# Field: descriptor, its smallest and largest value, whether the values below and above must break a rule.
LIMITS = {
    "size": (TILE, "sizes", 1, 1 << 32),
    "stride": (TILE, "strides", 0, (1 << 40) - 16),
    "box": (TILE, "box", 1, 256),
    "element stride": (TILE, "element_strides", 1, 8),
    "pixels": (PIXELS[2], "pixels_per_column", 1, 1024),
    "channels": (PIXELS[2], "channels_per_pixel", 16, 256),
    **{f"lower corner, {d}": (PIXELS[d], "lower_corner", low, high) for d, (low, high) in CORNER_LIMITS.items()},
    **{f"upper corner, {d}": (PIXELS[d], "upper_corner", low, high) for d, (low, high) in CORNER_LIMITS.items()},
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name):
    """The first and the last value of a range are taken, those beyond are not."""
    fields, field, low, high = LIMITS[name]
    step = 16 if field in ("strides", "channels_per_pixel") else 1

    def with_value(value):
        old = getattr(fields, field)
        return TensorMap(replace(fields, **{field: (*old[:-1], value) if isinstance(old, tuple) else value}))

    for value in (low, high):
        assert with_value(value)
    for value in (low - step, high + step):
        with pytest.raises(TensorMapError) as error:
            with_value(value)
        assert all(violation.value == value for violation in error.value.violations)


@pytest.mark.parametrize("spatial", PIXELS)
def test_limits_of_offsets(spatial):
    last = {1: 65535, 2: 255, 3: 31}[spatial]
    for offset, legal in ((0, True), (last, True), (last + 1, False), (-1, False)):
        request = TensorRequest(coordinates=(0,) * (spatial + 2), offsets=(offset,) * spatial, mode=TensorMode.IM2COL)
        assert (not request_violations(PIXELS[spatial], request, 1 << 16)) == legal


@pytest.mark.parametrize("interleave, allowed", [("none", "none 32B 64B 128B"), ("16B", "none 32B 64B 128B"), ("32B", "32B")])
def test_swizzles_of_interleaves(interleave, allowed):
    for swizzle in ("none", "32B", "64B", "128B"):
        def build(swizzle=swizzle):
            box = (1, 1, 32) if interleave == "none" else (1, 1, 1)
            return TensorMap.build((2, 4, 64), np.uint8, box=box, interleave=interleave, swizzle=swizzle)
        if swizzle in allowed.split():
            assert build()
        else:
            with pytest.raises(TensorMapError, match="^SWIZZLE: "):
                build()


# Section on im2col: figure, sizes (W, H), corners, traversal stride, columns and rows of the pixel box.
PIXEL_BOXES = {
    "8b": ((9, 14), -1, -1, 1, range(-1, 8), range(-1, 13)),
    "8c": ((9, 14), 0, -2, 1, range(7), range(12)),
    "8f": ((9, 14), -1, -1, 2, range(-1, 8, 2), range(-1, 12, 2)),
    "8g": ((8, 13), -1, -1, 2, range(-1, 6, 2), range(-1, 12, 2)),
    "8j": ((9, 14), -2, -2, 1, range(-2, 7), range(-2, 12)),
}
PIXELS_OF_AN_IMAGE = {"8b": 126, "8c": 84, "8f": 35, "8g": 28, "8j": 126}


@pytest.mark.parametrize("figure", PIXEL_BOXES)
def test_pixel_boxes(figure):
    """A column from the first pixel on walks through exactly the pixel box of an image, then goes on with the next."""
    (width, height), lower, upper, step, columns, rows = PIXEL_BOXES[figure]
    count = PIXELS_OF_AN_IMAGE[figure]
    fields = TensorFields(mode=TensorMode.IM2COL, sizes=(16, width, height, 4), strides=(16, 16 * width, 16 * width * height),
                          element_strides=(1, step, step, 1), lower_corner=(lower,) * 2, upper_corner=(upper,) * 2,
                          pixels_per_column=2 * count, channels_per_pixel=16)
    for offset in (0, 1, 2):
        pixels = traverse(fields, (0, lower, lower, 1), (offset, offset)).positions[::16, 1:].tolist()
        assert pixels == [[w + offset, h + offset, n] for n in (1, 2) for h in rows for w in columns]
    extent = (width + upper - lower, height + upper - lower)
    assert count == -(-extent[0] // step) * -(-extent[1] // step)


def test_figure_8b_takes_49_pixels_of_one_image_and_15_of_the_next():
    fields = TensorFields(mode=TensorMode.IM2COL, sizes=(64, 9, 14, 64), strides=(64, 576, 8064), element_strides=(1,) * 4,
                          lower_corner=(-1, -1), upper_corner=(-1, -1), pixels_per_column=64, channels_per_pixel=16)
    images = traverse(fields, (0, 4, 7, 7), (0, 0)).positions[::16, 3]
    assert ((images == 7).sum(), (images == 8).sum()) == (49, 15)


@pytest.mark.parametrize("filter_size, padding, dilation, corners", [(3, 1, 1, (-1, -1)), (3, 0, 1, (0, -2)), (3, 2, 2, (-2, -2))])
def test_corners_of_convolutions_are_those_of_the_figures(filter_size, padding, dilation, corners):
    """Figures 8b, 8c, 8j: lower = -padding, upper = padding - (filter - 1) * dilation."""
    assert (-padding, padding - (filter_size - 1) * dilation) == corners


@pytest.mark.parametrize("seed", range(6))
def test_columns_of_all_filter_positions_make_a_convolution(seed):
    """Products of columns with the weights of each filter position, added up, are the convolution, across images."""
    rng = np.random.default_rng(seed)
    images, height, width, channels = 2, int(rng.integers(5, 9)), int(rng.integers(5, 9)), 16
    (filter_h, filter_w), padding, stride, dilation = (rng.integers(1, 4, 2), *(int(n) for n in rng.integers((0, 1, 1), (3, 3, 3))))
    lower = (-padding, -padding)
    upper = (padding - (int(filter_h) - 1) * dilation, padding - (int(filter_w) - 1) * dilation)
    rows, columns = (-(-(size + u - lo) // stride) for size, u, lo in zip((height, width), upper, lower))
    image = rng.integers(-8, 8, (images, height, width, channels), np.int8)
    weights = rng.integers(-8, 8, (int(filter_h), int(filter_w), channels), np.int8)
    tensor = TensorMap.build(image.shape, np.int8, mode="im2col", lower_corner=lower, upper_corner=upper, swizzle="none",
                             element_strides=(1, stride, stride, 1), pixels_per_column=images * rows * columns, channels_per_pixel=channels)
    result = np.zeros(images * rows * columns, np.int64)
    for r, s in np.ndindex(*weights.shape[:2]):
        column = load_array(image, tensor.fields, (0, *lower, 0), (r * dilation, s * dilation)).view(np.int8).reshape(-1, channels)
        result += column.astype(np.int64) @ weights[r, s]
    padded = np.pad(image.astype(np.int64), ((0, 0), (padding,) * 2, (padding,) * 2, (0, 0)))
    expected = [(padded[n, y * stride:, x * stride:][:(int(filter_h) - 1) * dilation + 1:dilation,
                                                     :(int(filter_w) - 1) * dilation + 1:dilation] * weights).sum()
                for n, y, x in np.ndindex(images, rows, columns)]
    assert result.tolist() == expected


@pytest.mark.parametrize("start", [(0, 0, 0), (-4, -4, -64), (9, 9, 128)])
def test_bytes_do_not_depend_on_what_lies_outside(start):
    """Product of ceil(box / traversal stride), times the bytes of an element: also when all of it is outside."""
    tensor = TensorMap.build((6, 5, 32), np.float16, box=(4, 5, 64), element_strides=(3, 2, 1))
    array = np.ones((6, 5, 32), np.float16)
    assert tensor.bytes == 2 * 3 * 64 * 2 == len(load_array(array, tensor.fields, start))
    pixels = TensorMap.build((2, 9, 16), np.float32, mode="im2col", lower_corner=(0,), upper_corner=(0,), element_strides=(1, 3, 1),
                             pixels_per_column=77, channels_per_pixel=8)
    assert pixels.bytes == 77 * 8 * 4


@pytest.mark.parametrize("swizzle, row", [
    (Swizzle.NONE, 128), (Swizzle.B32, 32), (Swizzle.B64, 64), (Swizzle.B128, 128), (Swizzle.B128, 48),
])
def test_a_store_brings_back_what_a_load_with_the_same_swizzle_took(swizzle, row):
    rng = np.random.default_rng(5)
    fields = TensorFields(sizes=(128, 9), strides=(128,), box=(row, 7), element_strides=(1, 2), swizzle=swizzle)
    memory, result, shared = rng.integers(1, 256, (9, 128), np.uint8), np.zeros((9, 128), np.uint8), np.zeros(2048, np.uint8)
    load_tensor(memory.reshape(-1), shared, fields, (0, 1), 384)
    store_tensor(result.reshape(-1), shared, fields, (0, 1), 384)
    assert np.array_equal(result[1::2, :row], memory[1::2, :row])
    result[1::2, :row] = 0
    assert not result.any()


# What users of closed descriptors ran into without being told a reason.
REASONS = {
    "STRIDE_ALIGNMENT: stride of dimension 1 must be a multiple of 16 bytes, of 32 with interleave 32B, not 6932": dict(strides=(6932,)),
    "STRIDE_ALIGNMENT: stride of dimension 1 must be a multiple of 16 bytes, of 32 with interleave 32B, not 1022": dict(strides=(1022,)),
    "BOX_SPAN: box of dimension 0 must make rows that fit the span of the swizzle, not 512": dict(box=(8, 256), swizzle="128B"),
}


@pytest.mark.parametrize("message", REASONS)
def test_reported_problems_have_a_reason(message):
    with pytest.raises(TensorMapError) as error:
        TensorMap.build((64, 512), np.float16, **dict(box=(8, 64)) | REASONS[message])
    assert [str(violation) for violation in error.value.violations] == [message]


def _published(descriptor):
    """Values of a tiled descriptor by the published byte positions."""
    def number(first, count):
        return int.from_bytes(descriptor[first:first + count], "little")

    control, high, steps = number(8, 4), number(28, 2), number(52, 2)
    rank = (control >> 4 & 7) + 1
    return {
        "mode": control & 15, "rank": rank, "format": control >> 7 & 15, "interleave": control >> 11 & 3, "swizzle": control >> 13 & 3,
        "fill": control >> 15 & 1, "promotion": control >> 17 & 3, "large": control >> 21 & 1, "address": number(0, 8),
        "strides": tuple((number(12 + 4 * i, 4) << 4) + ((high >> 4 * i & 15) << 36) for i in range(rank - 1)),
        "sizes": tuple(number(32 + 4 * i, 4) + 1 for i in range(rank)),
        "element_strides": tuple((steps >> 3 * i & 7) + 1 for i in range(rank)),
        "box": tuple(descriptor[55 + i] + 1 for i in range(rank)),
        "bytes": number(64, 4), "period": number(72, 4), "rest": descriptor[30:32] + descriptor[60:64] + descriptor[76:],
    }


@pytest.mark.parametrize("seed", range(8))
def test_cutensormap_round_trip(seed):
    """40 random maps of every mode, format and rank: to bytes and back; tiled ones lie where the published layout has them."""
    rng, cfg = np.random.default_rng(seed), load_config("base")
    legal = (fields for fields in (random_fields(rng, cfg) for _ in range(400)) if not descriptor_violations(fields))
    for fields in itertools.islice(legal, 40):
        tensor = TensorMap(fields)
        descriptor = tensor.to_cutensormap()
        assert len(descriptor) == 128 and TensorMap.from_cutensormap(descriptor) == tensor
        assert TensorMap.from_cutensormap(bytearray(descriptor)).to_cutensormap() == descriptor
        if fields.mode == TensorMode.TILE:
            found = _published(descriptor)
            for name in ("rank", "address", "strides", "sizes", "element_strides", "box", "bytes", "promotion"):
                assert found[name] == getattr(fields, name), name
            for name in ("mode", "format", "interleave", "swizzle", "fill"):
                assert found[name] == getattr(fields, name).value, name
            assert found["period"] == (16, 256, 512, 1024)[fields.swizzle.value] and not any(found["rest"])
            assert found["large"] == (fields.tensor_bytes >= 128 << 10 if fields.interleave == Interleave.NONE else found["large"])


@pytest.mark.parametrize("length", [0, 64, 127, 129])
def test_from_cutensormap_takes_128_bytes(length):
    with pytest.raises(ValueError, match=f"^descriptor must have 128 bytes, not {length}$"):
        TensorMap.from_cutensormap(bytes(length))
