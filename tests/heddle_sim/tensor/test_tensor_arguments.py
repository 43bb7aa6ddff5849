"""Arguments of copies of tensors: what is borderline works, what is wrong is said in words, all at once."""

import numpy as np
import pytest
from heddle import load_config
from heddle_sim import Device, TensorMap, TensorMapError

A = np.arange(64 * 64, dtype=np.int32).reshape(64, 64)
PIXELS = np.arange(2 * 4 * 4 * 16).astype(np.int8).reshape(2, 4, 4, 16)
COLUMN = {"mode": "im2col", "lower_corner": (-1, -1), "upper_corner": (-1, -1), "pixels_per_column": 9, "channels_per_pixel": 16}


@pytest.fixture(scope="module")
def device():
    with Device(load_config("tiny"), "golden", memory_bytes=1 << 20) as device:
        yield device


@pytest.mark.parametrize("array", [A.T, A[::2, ::3], A[::-1, ::-1], A.astype(">i4"), np.broadcast_to(np.int32(7), (8, 16)),
                                   A.view(np.float32), A.astype(np.float64), A[:3]],
                         ids=["transposed", "strided", "backwards", "big endian", "broadcast", "float32", "float64", "small"])
def test_any_array(array, device):
    """Whatever strides and order of bytes: the box has the values that numpy shows, and a store puts them there."""
    box = min(4, len(array)), 16
    image, _ = device.copy_tensor(array, box=box, coords=(0, 16 * (array.shape[1] > 32)))
    got = image.view(array.dtype.newbyteorder("=")).reshape(box)
    assert np.array_equal(got, array[:box[0]][:, 16 * (array.shape[1] > 32):][:, :16], equal_nan=array.dtype.kind == "f")
    new, _ = device.store_tensor(image, np.zeros_like(array), box=box, coords=(0, 0))
    assert np.array_equal(new[:box[0], :16], got, equal_nan=array.dtype.kind == "f") and not new[box[0]:].any()


def test_any_integers(device):
    """Integers of numpy and arrays of them as tuples; coordinates as far as 32 bits go."""
    image, _ = device.copy_tensor(A, box=np.array((4, 16), np.uint8), coords=(np.int8(-1), np.uint64(4)), smem_address=np.int16(128))
    assert np.array_equal(image.view(np.int32).reshape(4, 16)[1:], A[:3, 4:20])
    for coords in ((2**31 - 1, -2**31), (-2**31, 2**31 - 4)):
        assert not device.copy_tensor(A, box=(4, 16), coords=coords)[0].any()
    assert device.store_tensor(np.ones(256, np.uint8), A, box=(4, 16), coords=(2**31 - 1, 0))[0].tolist() == A.tolist()
    device.prefetch_tensor(A, box=(4, 16), coords=(-2**31, -2**31))


@pytest.mark.parametrize("array, error, says", [
    (None, TypeError, "array must be a numpy array, not NoneType"),
    ([[1]], TypeError, "array must be a numpy array, not list"),
    (np.ma.masked_array(A, A > 3), TypeError, "array must be an array without mask, not a masked array"),
    (np.array(3), ValueError, "array must have 1 to 5 axes, not 0"),
    (A > 3, TypeError, "dtype must be one of uint8, .*, bfloat16, not bool"),
    (A.astype(complex), TypeError, "dtype must be one of uint8, .*, bfloat16, not complex128"),
    (A.astype(object), TypeError, "array must have elements that are bytes in memory, not dtype object"),
    (A[:0], TensorMapError, r"SIZE: size of dimension 1 \(axis 0\) must be 1 to 2\*\*32 elements, not 0"),
    (A[:, :0], TensorMapError, r"SIZE: size of dimension 0 \(axis 1\) must be 1 to 2\*\*32 elements, not 0"),
])
def test_wrong_arrays(array, error, says, device):
    for call in (device.copy_tensor, device.prefetch_tensor, lambda *given, **options: device.store_tensor(np.zeros(256, np.uint8), *given,
                                                                                                          **options)):
        with pytest.raises(error, match=f"^{says}$"):
            call(array, box=(4, 16), coords=(0, 0))


@pytest.mark.parametrize("options, error, says", [
    ({"box": (4.0, 16)}, ValueError, "box must be integers, not 4.0"),
    ({"box": (True, 16)}, ValueError, "box must be integers, not True"),
    ({"box": 4}, TypeError, "box must be a tuple of 2 integers, not 4"),
    ({"box": (4,)}, ValueError, "box must have 2 values, one for each axis, not 1"),
    ({"coords": None}, TypeError, "coords must be a tuple of 2 integers, not None"),
    ({"coords": (2**31, 0)}, ValueError, "coords must be integers of 32 bits, not 2147483648"),
    ({"coords": (0.0, 0)}, ValueError, "coords must be integers of 32 bits, not 0.0"),
    ({"swizzle": ["none"]}, ValueError, "swizzle must be one of none, 32B, 64B, 128B, not ['none']"),
    ({"smem_address": "0"}, TypeError, "smem_address must be an integer, not '0'"),
    ({"element_strides": (0, 1)}, TensorMapError, "ELEMENT_STRIDE: element_stride of dimension 1 (axis 0) must be 1 to 8, not 0"),
    ({"mode": "im2col"}, TypeError, "lower_corner must be given in mode im2col; upper_corner must be given in mode im2col; "
     "pixels_per_column must be given in mode im2col; channels_per_pixel must be given in mode im2col; "
     "box must not be given in mode im2col"),
    ({"box": (4.5, 16), "coords": (0,), "swizzle": "x", "element_strides": (1,), "lower_corner": (0,), "smem_address": None}, ValueError,
     "swizzle must be one of none, 32B, 64B, 128B, not 'x'; lower_corner must not be given in mode tile; box must be integers, not 4.5; "
     "element_strides must have 2 values, one for each axis, not 1; coords must have 2 values, one for each axis, not 1; "
     "smem_address must be an integer, not None"),
    ({"box": (300, 15), "coords": (0, 1), "fill": "nan", "smem_address": 64}, TensorMapError,
     "FILL: fill must be zero, or nan for floating-point formats, not NAN; BOX: box of dimension 1 (axis 0) must be 1 to 256 elements, "
     "not 300; BOX_ROW: box of dimension 0 (axis 1) must make rows of a multiple of 16 bytes, not 60; COORDINATE_ALIGNMENT: coordinate of "
     "dimension 0 (axis 1) must begin at a multiple of 16 bytes, not 1; SHARED_ADDRESS: shared_address must be a multiple of 128, not 64"),
    ({"box": (256, 64)}, TensorMapError, "SHARED_RANGE: shared_address must leave room for the box in shared memory, not 0 "
     "(the box takes 65536 bytes, shared memory has 16384)"),
])
def test_wrong_options(options, error, says, device):
    """Each names parameter, rule and value; all that are wrong are named."""
    with pytest.raises(error) as found:
        device.copy_tensor(A, **({"box": (4, 16), "coords": (0, 0)} | options))
    assert str(found.value) == says


@pytest.mark.parametrize("options, error, says", [
    ({"coords": (0, 3, -1, 0)}, TensorMapError, "COORDINATE_BOX: coordinate of dimension 2 (axis 1) must lie between the corners of the "
     "pixel box, not 3 (it goes from -1 to 2)"),
    ({"offsets": (1,)}, ValueError, "offsets must have 2 values, one for each spatial axis, not 1"),
    ({"lower_corner": (0,)}, ValueError, "lower_corner must have 2 values, one for each spatial axis, not 1"),
    ({"pixels_per_column": 0}, TensorMapError, "PIXELS_PER_COLUMN: pixels_per_column must be 1 to 1024, not 0"),
    ({"pixels_per_column": 9.0}, TypeError, "pixels_per_column must be an integer, not 9.0"),
])
def test_wrong_columns(options, error, says, device):
    with pytest.raises(error) as found:
        device.copy_tensor(PIXELS, **({"coords": (0, -1, -1, 0)} | COLUMN | options))
    assert str(found.value) == says


def test_reductions_and_blocks(device):
    with pytest.raises(TensorMapError) as found:
        device.store_tensor(np.zeros(256, np.uint8), A, box=(4, 16), coords=(0, 0), reduce="inc")
    assert str(found.value) == "REDUCTION: reduction must be defined for the format, not INC (of U32, not of S32)"
    with pytest.raises(ValueError, match="^reduce must be None or one of add, "):
        device.store_tensor(np.zeros(256, np.uint8), A, box=(4, 16), coords=(0, 0), reduce=["add"])
    assert np.array_equal(device.copy_block(A[:2, ::-1])[0].view(np.int32), A[:2, ::-1].ravel())
    with pytest.raises(TypeError, match="^address must be an integer, not 0.0; nbytes must be an integer, not '16'$"):
        device.prefetch_block(0.0, "16")
    with pytest.raises(TypeError, match="^smem_address must be an integer, not None$"):
        device.copy_block(A[:2], smem_address=None)


@pytest.mark.parametrize("arguments, options, error, says", [
    ((4, np.int32), {}, TypeError, "shape must be a tuple of integers, not 4"),
    (((4, 16.0), np.int32), {}, ValueError, "shape must be integers, not 16.0"),
    (((4, 16), None), {}, TypeError, "dtype must be one of uint8, int8, uint16, int16, uint32, int32, uint64, int64, float16, float32, "
     "float64, bfloat16, not None"),
    (((4, 16), np.int32), {"strides": (64, 4)}, ValueError, "strides must have 1 value, one for each axis but the last, not 2"),
    (((4, 16), np.int32), {"strides": (-64,)}, TensorMapError,
     "STRIDE_RANGE: stride of dimension 1 (axis 0) must be at least 0 and below 2**40 bytes, not -64"),
    (((4, 16), np.int32), {"address": None}, TypeError, "address must be an integer, not None"),
    (((4, 16), np.int32), {"interleave": "16B"}, TensorMapError,
     "RANK: rank must be 1 to 5, and at least 3 for im2col and with interleave, not 2"),
])
def test_maps(arguments, options, error, says):
    assert TensorMap.build(np.array((4, 16)), "int32", box=np.array((4, 16))).bytes == 256
    with pytest.raises(error) as found:
        TensorMap.build(*arguments, box=(4, 16), **options)
    assert str(found.value) == says
    with pytest.raises(TypeError, match="^descriptor must be bytes, not NoneType$"):
        TensorMap.from_cutensormap(None)
