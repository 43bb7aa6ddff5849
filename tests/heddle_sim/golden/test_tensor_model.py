"""Golden model of tensor copies against worked examples, published vectors and an independent reading."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from heddle.isa.encoding import Reduction, Swizzle
from heddle.isa.tensor_descriptor import Fill, Interleave, TensorFormat, TensorMode
from heddle_sim.golden.reductions import reduce_elements
from heddle_sim.golden.tensor_copy import converted, load_tensor, store_tensor
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.golden.tensor_traversal import swizzled_addresses, traverse
from heddle_sim.tensor.tensor_map import TensorMap, TensorMapError

SWIZZLE_VECTORS = [
    (Swizzle.B32, 0x080, 0x090), (Swizzle.B32, 0x100, 0x100),
    (Swizzle.B64, 0x080, 0x090), (Swizzle.B64, 0x110, 0x130), (Swizzle.B64, 0x1B0, 0x180),
    (Swizzle.B128, 0x080, 0x090), (Swizzle.B128, 0x3F0, 0x380), (Swizzle.B128, 0x2A0, 0x2F0),
]


@pytest.mark.parametrize("swizzle, address, place", SWIZZLE_VECTORS)
def test_swizzle_vectors(swizzle, address, place):
    assert swizzled_addresses(np.array([address]), swizzle)[0] == place


def test_swizzle_table_of_figure_9():
    rows = ["".join(str((int(a) - 128 * row) // 16) for a in swizzled_addresses(128 * row + 16 * np.arange(8), Swizzle.B128))
            for row in range(8)]
    assert rows == ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"]


def _im2col(width, height, lower, upper, pixels, channels, steps=1, images=64, depth=64, format=TensorFormat.F16):
    nbytes = {TensorFormat.F16: 2, TensorFormat.F32: 4, TensorFormat.U8: 1}[format]
    row = depth * nbytes
    return TensorFields(
        mode=TensorMode.IM2COL, format=format, sizes=(depth, width, height, images), strides=(row, row * width, row * width * height),
        element_strides=(1, steps, steps, 1), lower_corner=(lower, lower), upper_corner=(upper, upper),
        pixels_per_column=pixels, channels_per_pixel=channels)


def _runs(fields, coordinates, offsets):
    """Pixels as ((n, h), w of the first, w of the last), and how many are filled."""
    walk = traverse(fields, coordinates, offsets)
    pixels = walk.positions[::fields.channels_per_pixel, 1:].tolist()
    in_image = walk.inside.reshape(-1, fields.channels_per_pixel)
    runs = [((n, h), [w for w, _, _ in group]) for (n, h), group in itertools.groupby(pixels, key=lambda pixel: (pixel[2], pixel[1]))]
    return [(place, columns[0], columns[-1]) for place, columns in runs], int((~in_image.any(axis=1)).sum())


def _rows(image, first, last, left, right):
    return [((image, h), left, right) for h in range(first, last + 1)]


# Figure: fields, coordinates (c, w, h, n), offsets, runs ((n, h), first w, last w), filled pixels.
_8B = _im2col(9, 14, -1, -1, 64, 8)
_8C = _im2col(9, 14, 0, -2, 64, 8)
_8F = _im2col(9, 14, -1, -1, 32, 16, steps=2)
_8G = _im2col(8, 13, -1, -1, 32, 16, steps=2)
_8J = _im2col(9, 14, -2, -2, 64, 16)
FIGURES = {
    "8b, offsets 0": (_8B, (0, 4, 7, 7), (0, 0), [((7, 7), 4, 7), *_rows(7, 8, 12, -1, 7), *_rows(8, -1, -1, -1, 7), ((8, 0), -1, 4)], 15),
    "8b, offsets 1": (_8B, (0, 4, 7, 7), (1, 1), [((7, 8), 5, 8), *_rows(7, 9, 13, 0, 8), *_rows(8, 0, 0, 0, 8), ((8, 1), 0, 5)], 0),
    "8b, offsets 2": (_8B, (0, 4, 7, 7), (2, 2), [((7, 9), 6, 9), *_rows(7, 10, 14, 1, 9), *_rows(8, 1, 1, 1, 9), ((8, 2), 1, 6)], 15),
    "8c, offsets 0": (_8C, (0, 4, 7, 7), (0, 0), [((7, 7), 4, 6), *_rows(7, 8, 11, 0, 6), *_rows(8, 0, 3, 0, 6), ((8, 4), 0, 4)], 0),
    "8c, offsets 1": (_8C, (0, 4, 7, 7), (1, 1), [((7, 8), 5, 7), *_rows(7, 9, 12, 1, 7), *_rows(8, 1, 4, 1, 7), ((8, 5), 1, 5)], 0),
    "8c, offsets 2": (_8C, (0, 4, 7, 7), (2, 2), [((7, 9), 6, 8), *_rows(7, 10, 13, 2, 8), *_rows(8, 2, 5, 2, 8), ((8, 6), 2, 6)], 0),
    "8f, offsets 0": (_8F, (0, 5, 7, 7), (0, 0), [((7, 7), 5, 7), ((7, 9), -1, 7), ((7, 11), -1, 7),
                                                  *[((8, h), -1, 7) for h in (-1, 1, 3, 5)]], 10),
    "8f, offsets 1": (_8F, (0, 5, 7, 7), (1, 1), [((7, 8), 6, 8), ((7, 10), 0, 8), ((7, 12), 0, 8),
                                                  *[((8, h), 0, 8) for h in (0, 2, 4, 6)]], 0),
    "8g, offsets 0": (_8G, (0, 5, 5, 7), (0, 0), [((7, 5), 5, 5), *[((7, h), -1, 5) for h in (7, 9, 11)],
                                                  *[((8, h), -1, 5) for h in (-1, 1, 3, 5)], ((8, 7), -1, 3)], 11),
    "8j, offsets 0": (_8J, (0, 3, 6, 7), (0, 0), [((7, 6), 3, 6), *_rows(7, 7, 11, -2, 6), *_rows(8, -2, -2, -2, 6), ((8, -1), -2, 3)], 25),
    "8j, offsets 2": (_8J, (0, 3, 6, 7), (2, 2), [((7, 8), 5, 8), *_rows(7, 9, 13, 0, 8), *_rows(8, 0, 0, 0, 8), ((8, 1), 0, 5)], 0),
    "8j, offsets 4": (_8J, (0, 3, 6, 7), (4, 4), [((7, 10), 7, 10), *_rows(7, 11, 15, 2, 10), *_rows(8, 2, 2, 2, 10), ((8, 3), 2, 7)], 28),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_im2col_figures(figure):
    fields, coordinates, offsets, runs, filled = FIGURES[figure]
    assert _runs(fields, coordinates, offsets) == (runs, filled)


def test_figure_8f_starts_in_the_last_column_with_offsets_2():
    runs, filled = _runs(_8F, (0, 5, 7, 7), (2, 2))
    assert runs[0] == ((7, 9), 7, 9) and filled == 7


def test_figure_8d_loads_a_halo():
    fields = TensorFields(format=TensorFormat.F16, sizes=(64, 8, 14, 64), strides=(128, 1024, 14336), box=(8, 10, 10, 1),
                          element_strides=(1,) * 4)
    walk = traverse(fields, (0, -1, -1, 0))
    assert len(walk.inside) == 8 * 100
    assert (~walk.inside).sum() == 8 * (100 - 8 * 9)


# Published vectors: pixel values are numbers from 1 on, 32 channels of 32 bits, 128-byte swizzle.
SILICON = {
    "V1": ((1, 4, 4), 0, 0, (0, 0, 0), (0, 0), [*range(1, 17)]),
    "V2": ((1, 4, 4), -1, -1, (0, -1, -1), (0, 0), [0, 0, 0, 0, 0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11]),
    "V3": ((1, 4, 4), -1, -1, (0, -1, -1), (1, 1), [*range(1, 17)]),
    "V4": ((2, 4, 4), 0, 0, (0, 1, 3), (0, 0), [*range(8, 24)]),
}


@pytest.mark.parametrize("vector", SILICON)
def test_silicon_vectors(vector):
    (images, height, width), lower, upper, (n, h, w), offsets, expected = SILICON[vector]
    pixels = np.arange(1, images * height * width + 1, dtype=np.float32)
    memory = np.repeat(pixels, 32).view(np.uint8).copy()
    fields = TensorMap.build((images, height, width, 32), np.float32, swizzle="128B", mode="im2col", lower_corner=(lower, lower),
                             upper_corner=(upper, upper), pixels_per_column=16, channels_per_pixel=32).fields
    shared = np.zeros(4096, np.uint8)
    assert load_tensor(memory, shared, fields, (0, w, h, n), 1024, offsets) == 16 * 128
    image = shared[swizzled_addresses(1024 + np.arange(16 * 128), Swizzle.B128)].view(np.float32).reshape(16, 32)
    assert (image == image[:, :1]).all() and image[:, 0].tolist() == expected


def test_cutensormap_layout():
    """Bytes of a descriptor, computed by hand from the published layout."""
    fields = TensorMap.build((7, 33, 40), np.float16, box=(3, 16, 32), address=0x1234_5678_9AB0, strides=(1 << 37, 128),
                             element_strides=(1, 2, 1), swizzle="64B", fill="nan").fields
    expected = bytearray(128)
    expected[0:8] = (0x1234_5678_9AB0).to_bytes(8, "little")
    expected[8:12] = (2 << 4 | 6 << 7 | 2 << 13 | 1 << 15 | 1 << 21).to_bytes(4, "little")
    expected[12:16] = (128 >> 4).to_bytes(4, "little")
    expected[16:20] = ((1 << 37 >> 4) & 0xFFFF_FFFF).to_bytes(4, "little")
    expected[28] = (1 << 37 >> 36) << 4
    for place, size in zip((32, 36, 40), (40, 33, 7)):
        expected[place:place + 4] = (size - 1).to_bytes(4, "little")
    expected[52] = 1 << 3
    expected[55:58] = bytes((31, 15, 2))
    expected[64:68] = (32 * 8 * 3 * 2).to_bytes(4, "little")
    expected[72:76] = (512).to_bytes(4, "little")
    assert fields.encode() == bytes(expected)
    assert TensorMap.from_cutensormap(bytes(expected)).fields == fields


def test_all_violations_are_reported_at_once():
    with pytest.raises(TensorMapError) as error:
        TensorMap.build((4, 4, 0), np.int32, box=(1, 300, 3), address=8, strides=(1 << 41, 24), element_strides=(9, 1, 1), fill="nan")
    assert str(error.value) == (
        "FILL: fill must be zero, or nan for floating-point formats, not NAN; "
        "ADDRESS: address must lie in global memory at a multiple of 16, of 32 with interleave 32B, not 8; "
        "SIZE: size of dimension 0 (axis 2) must be 1 to 2**32 elements, not 0; "
        "STRIDE_ALIGNMENT: stride of dimension 1 (axis 1) must be a multiple of 16 bytes, of 32 with interleave 32B, not 24; "
        "STRIDE_RANGE: stride of dimension 2 (axis 0) must be at least 0 and below 2**40 bytes, not 2199023255552; "
        "BOX: box of dimension 1 (axis 1) must be 1 to 256 elements, not 300; "
        "BOX_ROW: box of dimension 0 (axis 2) must make rows of a multiple of 16 bytes, not 12; "
        "ELEMENT_STRIDE: element_stride of dimension 2 (axis 0) must be 1 to 8, not 9")


def _slices(array, box, start, steps, fill):
    """A box in plain Python slices and loops, for arrays in numpy's order."""
    counts = [-(-b // s) for b, s in zip(box, steps)]
    result = np.full(counts, fill, array.dtype)
    for index in np.ndindex(*counts):
        place = tuple(c + i * s for c, i, s in zip(start, index, steps))
        if all(0 <= p < n for p, n in zip(place, array.shape)):
            result[index] = array[place]
    return result


@pytest.mark.parametrize("seed", range(12))
def test_tiles_equal_slices(seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 6))
    dtype = rng.choice([np.uint8, np.int16, np.float16, ml_dtypes.bfloat16, np.float32, np.uint64])
    element = np.dtype(dtype).itemsize
    shape = (*(int(n) for n in rng.integers(1, 7, rank - 1)), int(rng.integers(1, 5)) * 16 // element)
    box = (*(int(n) for n in rng.integers(1, 9, rank - 1)), int(rng.integers(1, 4)) * 16 // element)
    steps = (*(int(n) for n in rng.integers(1, 4, rank - 1)), 1)
    start = (*(int(n) for n in rng.integers(-4, 5, rank - 1)), int(rng.integers(-2, 3)) * 16 // element)
    array = rng.integers(0, 256, (*shape[:-1], shape[-1] * element), np.uint8).view(dtype)
    memory = np.ascontiguousarray(array).view(np.uint8).reshape(-1).copy()
    tensor = TensorMap.build(shape, dtype, box=box, element_strides=steps)
    shared = np.full(tensor.bytes + 256, 0xA5, np.uint8)
    load_tensor(memory, shared, tensor.fields, tuple(reversed(start)), 128)
    expected = _slices(array, box, start, steps, 0)
    assert shared[128:128 + tensor.bytes].tobytes() == expected.tobytes()
    assert (shared[:128] == 0xA5).all() and (shared[128 + tensor.bytes:] == 0xA5).all()
    result = np.zeros_like(memory)
    store_tensor(result, shared, tensor.fields, tuple(reversed(start)), 128)
    back = result.view(dtype).reshape(shape)
    touched = _slices(np.ones(shape, np.uint8), box, start, steps, 0)
    assert np.array_equal(_slices(back, box, start, steps, 0).view(np.uint8), expected.view(np.uint8))
    assert np.count_nonzero(back.view(np.uint8)) <= touched.sum() * element


def test_nan_fill():
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
        tensor = TensorMap.build((2, 16), dtype, box=(3, 16), fill="nan")
        shared = np.zeros(tensor.bytes, np.uint8)
        load_tensor(np.zeros(32 * np.dtype(dtype).itemsize, np.uint8), shared, tensor.fields, (0, 0), 0)
        image = shared.view(dtype).reshape(3, 16)
        assert (image[:2] == 0).all() and np.isnan(image[2].astype(np.float64)).all()


def test_tf32_equals_scalar_arithmetic():
    rng = np.random.default_rng(1)
    bits = np.concatenate([rng.integers(0, 1 << 32, 4000, np.uint32), rng.integers(0, 1 << 23, 100, np.uint32),
                           np.uint32([0x7F800000, 0x7F7FFFFF])])
    values = bits.view(np.uint8)
    with np.errstate(all="ignore"):
        for kind in (TensorFormat.TF32, TensorFormat.TF32_FTZ):
            result = converted(kind, values).view(np.float32)
            for before, after in zip(bits.view(np.float32), result):
                if np.isnan(before):
                    assert after.view(np.uint32) == 0x7FFFE000
                    continue
                if np.isfinite(before):         # 11 significant bits: exact in 64-bit arithmetic
                    exponent = max(int(np.floor(np.log2(abs(float(before))))) if before else -126, -126)
                    before = np.float64(np.round(np.ldexp(np.float64(before), 10 - exponent))) * 2.0 ** (exponent - 10)
                assert np.float32(before) == after and np.signbit(before) == np.signbit(after)
    assert (converted(TensorFormat.F32_FTZ, values) == values).all()


@pytest.mark.parametrize("dtype, format", [(np.uint32, TensorFormat.U32), (np.int32, TensorFormat.S32), (np.uint64, TensorFormat.U64),
                                           (np.int64, TensorFormat.S64)])
def test_integer_reductions_equal_python(dtype, format):
    rng, bits = np.random.default_rng(2), 8 * np.dtype(dtype).itemsize
    old = rng.integers(0, 256, 64 * bits // 8, np.uint8)
    new = np.concatenate([rng.integers(0, 256, 60 * bits // 8, np.uint8), old[-4 * bits // 8:]])
    functions = {Reduction.ADD: lambda a, b: a + b, Reduction.MIN: min, Reduction.MAX: max, Reduction.AND: lambda a, b: a & b,
                 Reduction.OR: lambda a, b: a | b, Reduction.XOR: lambda a, b: a ^ b}
    if format == TensorFormat.U32:
        functions |= {Reduction.INC: lambda a, b: 0 if a >= b else a + 1, Reduction.DEC: lambda a, b: b if a == 0 or a > b else a - 1}
    for reduction, function in functions.items():
        result = reduce_elements(reduction, format, old, new).view(dtype)
        expected = [function(int(a), int(b)) % (1 << bits) for a, b in zip(old.view(dtype), new.view(dtype))]
        assert [int(value) % (1 << bits) for value in result] == expected


@pytest.mark.parametrize("dtype, format", [(np.float16, TensorFormat.F16), (ml_dtypes.bfloat16, TensorFormat.BF16),
                                           (np.float32, TensorFormat.F32), (np.float32, TensorFormat.F32_FTZ)])
def test_float_sums_equal_64_bit_sums(dtype, format):
    """A sum in 64 bits, rounded once to the format by its own library."""
    rng = np.random.default_rng(3)
    old, new = (rng.integers(0, 256, 4096, np.uint8) for _ in range(2))
    result = reduce_elements(Reduction.ADD, format, old, new).view(dtype)
    with np.errstate(all="ignore"):
        a, b = (values.view(dtype).astype(np.float64) for values in (old, new))
        if format == TensorFormat.F32_FTZ:
            a, b = (np.where(np.abs(x) < 2.0**-126, np.copysign(0, x), x) for x in (a, b))
        exact = (a + b).astype(dtype)
        finite = np.isfinite(a + b) & ((format != TensorFormat.F32_FTZ) | (np.abs(exact) >= 2.0**-126))
    assert finite.sum() > 200
    assert np.array_equal(result[finite], exact[finite])


def test_stores_to_one_address_are_all_counted():
    fields = TensorFields(format=TensorFormat.U32, sizes=(4, 5), strides=(0,), box=(4, 5), element_strides=(1, 1))
    memory, shared = np.zeros(16, np.uint8), np.ones(80, np.uint32).view(np.uint8)
    store_tensor(memory, shared, fields, (0, 0), 0, Reduction.ADD)
    assert memory.view(np.uint32).tolist() == [5, 5, 5, 5]


def test_interleaved_slices():
    """Slices of 16 bytes of all pixels lie together in memory; a box has all slices of a pixel together."""
    images, slices, height, width = 2, 3, 4, 5
    memory = np.random.default_rng(4).integers(0, 256, (images, slices, height, width, 16), np.uint8)
    tensor = TensorMap.build((images, height, width, slices), np.float16, box=(1, 2, 3, 2), interleave="16B")
    assert tensor.fields.byte_strides == (16 * width * height, 16, 16 * width, 16 * width * height * slices)
    shared = np.zeros(tensor.bytes, np.uint8)
    load_tensor(memory.reshape(-1), shared, tensor.fields, (1, 3, 2, 1), 0)
    box = shared.reshape(2, 3, 2, 16)
    assert np.array_equal(box[:, :2], memory[1, 1:3, 2:4, 3:5].transpose(1, 2, 0, 3))
    assert not box[:, 2].any()
    assert tensor.fields.interleave == Interleave.B16 and tensor.fields.fill == Fill.ZERO
