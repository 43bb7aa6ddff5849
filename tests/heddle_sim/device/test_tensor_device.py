"""Copies of tensors through ``Device``: every mode against plain numpy, published vectors, illegal requests."""

import ml_dtypes
import numpy as np
import pytest
from heddle import load_config
from heddle.isa.error_codes import ErrorCode
from heddle_sim.device import Device, DeviceError
from heddle_sim.tensor.tensor_map import TensorMapError

CFG = load_config("tiny")
TYPES = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64, np.float16, np.float32, np.float64,
         ml_dtypes.bfloat16]


@pytest.fixture
def device():
    with Device(CFG, simulator="golden", memory_bytes=1 << 20) as opened:
        yield opened
        assert opened.memory.allocator.used == 0


def of_type(rng, shape, dtype):
    """Small numbers that every type has, none zero."""
    return rng.integers(1, 100, shape).astype(dtype)


def unswizzled(image, start, swizzle):
    """The bytes of an image in the order of their addresses before the swizzle, 16-byte blocks exchanged by hand."""
    bits = {"none": 0, "32B": 1, "64B": 3, "128B": 7}[swizzle]
    blocks = image.reshape(-1, 16) if swizzle != "none" else image[None]
    return np.concatenate([blocks[block ^ ((start // 16 + block) // 8 & bits)] for block in range(len(blocks))])


def box_of(array, box, coords, steps, fill):
    """The box by picking its elements one by one."""
    result = np.full([len(range(0, size, step)) for size, step in zip(box, steps)], fill, array.dtype)
    for place in np.ndindex(*result.shape):
        index = tuple(first + number * step for first, number, step in zip(coords, place, steps))
        if all(0 <= i < size for i, size in zip(index, array.shape)):
            result[place] = array[index]
    return result


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("rank", range(1, 6))
def test_tiles(device, rank, dtype):
    rng = np.random.default_rng(rank)
    size = np.dtype(dtype).itemsize
    array = of_type(rng, (*rng.integers(1, 6, rank - 1), int(rng.integers(1, 70))), dtype)
    for swizzle in ("none", "32B", "64B", "128B"):
        row = int(rng.choice([16, 32])) // size
        box = (*(int(n) for n in rng.integers(1, 6, rank - 1)), row)
        steps = (*(int(n) for n in rng.integers(1, 4, rank - 1)), 1)
        coords = (*(int(n) for n in rng.integers(-3, 5, rank - 1)), int(rng.integers(-2, 6)) * 16 // size)
        floating = np.dtype(dtype).kind not in "iu"
        image, stats = device.copy_tensor(array, box=box, coords=coords, element_strides=steps, swizzle=swizzle,
                                          fill="nan" if floating else "zero", smem_address=384)
        expected = box_of(array, box, coords, steps, 0)
        if floating:        # a published type has no published NaN: what an H200 writes
            outside = box_of(np.zeros(array.shape, bool), box, coords, steps, True)
            expected = expected.copy()
            expected.view(f"u{size}")[outside] = int.from_bytes(b"\xf7\x7f" * (size // 2), "little")
        assert image.dtype == np.uint8 and stats.counters["instructions"] > 0
        rows = expected.view(np.uint8).reshape(-1, row * size)
        pitch = row * size if swizzle == "none" else int(swizzle[:-1])
        found = unswizzled(image, 384, swizzle)[:len(rows) * pitch].reshape(len(rows), pitch)
        assert (found[:, :row * size] == rows).all() and not found[:, row * size:].any(), (box, coords, steps, swizzle)


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.int8, ml_dtypes.bfloat16, np.float32], ids=lambda dtype: np.dtype(dtype).name)
def test_columns_of_pixels(device, dtype, spatial):
    rng = np.random.default_rng(spatial)
    channels = 32 // np.dtype(dtype).itemsize
    for _ in range(5):
        array = of_type(rng, (3, *(int(n) for n in rng.integers(4, 7, spatial)), 2 * channels), dtype)
        lower = [int(n) for n in rng.integers(-2, 2, spatial)]
        upper = [int(n) for n in rng.integers(-2, 2, spatial)]
        steps = [int(n) for n in rng.integers(1, 3, spatial)]
        offsets = [int(n) for n in rng.integers(0, 3, spatial)]
        start = [low + step * int(rng.integers(2)) for low, step in zip(lower, steps)]
        start = [min(s, size + up - 1) for s, size, up in zip(start, array.shape[1:], upper)]
        image, _ = device.copy_tensor(array, coords=(0, *start, channels), mode="im2col", lower_corner=lower, upper_corner=upper,
                                      offsets=offsets, pixels_per_column=11, channels_per_pixel=channels, element_strides=(1, *steps, 1))
        # All pixels of the box in all images, from the first one that is asked for.
        pixel, image_number, expected = list(start), 0, []
        for _ in range(11):
            place = (image_number, *(p + o for p, o in zip(pixel, offsets)))
            inside = all(0 <= p < size for p, size in zip(place, array.shape))
            expected.append(array[place][channels:2 * channels] if inside else np.zeros(channels, dtype))
            axis = spatial - 1
            while axis >= 0:
                pixel[axis] += steps[axis]
                if pixel[axis] < array.shape[1 + axis] + upper[axis]:
                    break
                pixel[axis] = lower[axis]
                axis -= 1
            image_number += axis < 0
        assert image.tobytes() == np.stack(expected).tobytes()


# Published vectors: pixel values are numbers from 1 on, 32 channels of 32 bits, 128-byte swizzle; offsets by rows and columns.
SILICON = {
    "V1": ((1, 4, 4), 0, (0, 0, 0), (0, 0), [*range(1, 17)]),
    "V2": ((1, 4, 4), -1, (0, -1, -1), (0, 0), [0, 0, 0, 0, 0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11]),
    "V3": ((1, 4, 4), -1, (0, -1, -1), (1, 1), [*range(1, 17)]),
    "V4": ((2, 4, 4), 0, (0, 1, 3), (0, 0), [*range(8, 24)]),
}


@pytest.mark.parametrize("vector", SILICON)
def test_silicon_vectors(device, vector):
    (images, height, width), corner, place, offsets, expected = SILICON[vector]
    pixels = np.arange(1, images * height * width + 1, dtype=np.float32).reshape(images, height, width, 1)
    image, _ = device.copy_tensor(np.repeat(pixels, 32, axis=3), coords=(*place, 0), mode="im2col", swizzle="128B", smem_address=1024,
                                  lower_corner=(corner, corner), upper_corner=(corner, corner), offsets=offsets, pixels_per_column=16,
                                  channels_per_pixel=32)
    rows = unswizzled(image, 1024, "128B").view(np.float32).reshape(16, 32)
    assert (rows == np.array(expected, np.float32)[:, None]).all()


@pytest.mark.parametrize("swizzle, address, place", [
    ("32B", 0x080, 0x090), ("32B", 0x100, 0x100), ("64B", 0x080, 0x090), ("64B", 0x110, 0x130), ("64B", 0x1B0, 0x180),
    ("128B", 0x080, 0x090), ("128B", 0x3F0, 0x380), ("128B", 0x2A0, 0x2F0),
])
def test_swizzle_vectors(device, swizzle, address, place):
    """The block at ``address`` of a dense box at the begin of shared memory lies at ``place``."""
    row = int(swizzle[:-1])
    blocks = np.arange(64, dtype=np.uint8).repeat(16).reshape(-1, row)
    image, _ = device.copy_tensor(blocks, box=blocks.shape, coords=(0, 0), swizzle=swizzle)
    assert (image[place:place + 16] == address // 16).all()
    assert (device.copy_block(blocks, swizzle=swizzle)[0] == image).all()


@pytest.mark.parametrize("interleave", ["16B", "32B"])
def test_interleave(device, interleave):
    """Slices along the last axis; the array is that of channels-last pixels."""
    rng = np.random.default_rng(3)
    nbytes = int(interleave[:-1])
    array = of_type(rng, (3, 4, 5, 96), np.int8)
    options = {"interleave": interleave, "swizzle": "32B" if nbytes == 32 else "none"}
    image, _ = device.copy_tensor(array, box=(1, 2, 3, 2), coords=(1, 3, -1, 1), **options)
    expected = np.zeros((1, 2, 3, 2 * nbytes), np.int8)
    expected[0, 0, 1:] = array[1, 3, :2, nbytes:3 * nbytes]
    assert unswizzled(image, 0, options["swizzle"])[:expected.nbytes].tobytes() == expected.tobytes()
    new, _ = device.store_tensor(image, np.zeros_like(array), box=(1, 2, 3, 2), coords=(0, 0, 2, 0), **options)
    wanted = np.zeros_like(array)
    wanted[0, :2, 2:5, :2 * nbytes] = expected[0]
    assert (new == wanted).all()
    with pytest.raises(ValueError, match="slices of"):
        device.copy_tensor(array[..., :-1], box=(1, 1, 1, 1), coords=(0,) * 4, **options)


@pytest.mark.parametrize("swizzle", ["none", "64B"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, ml_dtypes.bfloat16, np.float64], ids=lambda dtype: np.dtype(dtype).name)
def test_stores(device, dtype, swizzle):
    """What reaches beyond the array is left out, the rest of it stays; a store brings back what a load took."""
    rng = np.random.default_rng(4)
    array = of_type(rng, (7, 5, 61), dtype)
    columns = 48 // np.dtype(dtype).itemsize
    options = {"box": (3, 2, columns), "element_strides": (2, 1, 1), "swizzle": swizzle, "smem_address": 128}
    image, _ = device.copy_tensor(array, coords=(1, 1, 0), **options)
    before = of_type(rng, array.shape, dtype)
    new, _ = device.store_tensor(image, before, coords=(4, 4, 64 // np.dtype(dtype).itemsize), **options)
    wanted, source = before.copy(), array[1:4:2, 1:3, :columns]
    place = wanted[4:7:2, 4:, 64 // np.dtype(dtype).itemsize:][..., :columns]
    place[...] = source[:, :1, :place.shape[-1]]
    assert new.dtype == array.dtype and new.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype, reduce, function", [
    (np.int32, "add", np.add), (np.int64, "min", np.minimum), (np.uint64, "max", np.maximum), (np.uint32, "and", np.bitwise_and),
    (np.int32, "or", np.bitwise_or), (np.uint64, "xor", np.bitwise_xor), (np.float32, "add", np.add), (np.float16, "max", np.maximum),
    (ml_dtypes.bfloat16, "add", np.add), (np.uint32, "inc", lambda old, new: np.where(old >= new, 0, old + 1)),
    (np.uint32, "dec", lambda old, new: np.where((old == 0) | (old > new), new, old - 1)),
])
def test_reductions(device, dtype, reduce, function):
    rng = np.random.default_rng(5)
    array, values = of_type(rng, (6, 40), dtype), of_type(rng, (4, 16), dtype)
    new, _ = device.store_tensor(values.view(np.uint8).reshape(-1), array, coords=(3, 8), box=(4, 16), reduce=reduce)
    wanted = array.copy()
    wanted[3:, 8:24] = function(array[3:, 8:24], values[:3]).astype(dtype)
    assert new.tobytes() == wanted.tobytes()


def test_all_violations_are_reported_before_anything_runs(device):
    device.run = None       # would fail
    with pytest.raises(TensorMapError) as error:
        device.copy_tensor(np.zeros((9, 40), np.uint16), box=(300, 3), coords=(0, 1), fill="nan", smem_address=3)
    assert isinstance(error.value, ValueError)
    assert [violation.error for violation in error.value.violations] == [
        ErrorCode.TENSOR_FILL, ErrorCode.TENSOR_BOX, ErrorCode.TENSOR_BOX_ROW, ErrorCode.TENSOR_COORDINATE_ALIGNMENT,
        ErrorCode.TENSOR_SHARED_ADDRESS]
    with pytest.raises(TensorMapError) as error:
        device.store_tensor(np.zeros(16, np.uint8), np.zeros((2, 4, 16), np.uint8), coords=(-1, 9, 0), mode="im2col", lower_corner=(-1,),
                            upper_corner=(0,), pixels_per_column=1, channels_per_pixel=16, smem_address=1 << 20, reduce="add")
    assert [(violation.error.name, violation.dimension) for violation in error.value.violations] == [
        ("TENSOR_COORDINATE_NEGATIVE", 2), ("TENSOR_COORDINATE_BOX", 1), ("TENSOR_STORE_CORNER", 1), ("TENSOR_REDUCTION", None),
        ("TENSOR_SHARED_RANGE", None)]


@pytest.mark.parametrize("arguments, code, operand, dimension", [
    ({"coords": (0, 0, 3)}, ErrorCode.TENSOR_COORDINATE_ALIGNMENT, 3, 0),
    ({"box": (1, 2, 5)}, ErrorCode.TENSOR_BOX_ROW, 10, 0),
    ({"smem_address": 64}, ErrorCode.TENSOR_SHARED_ADDRESS, 64, 0),
    ({"smem_address": CFG.shared_bytes - 128}, ErrorCode.TENSOR_SHARED_RANGE, CFG.shared_bytes - 128, 0),
    ({"fill": "nan"}, ErrorCode.TENSOR_FILL, 1, 0),
    ({"box": None, "mode": "im2col", "lower_corner": (0,), "upper_corner": (0,), "pixels_per_column": 2, "channels_per_pixel": 8,
      "coords": (0, -2, 0)}, ErrorCode.TENSOR_COORDINATE_BOX, 0xFFFFFFFE, 1),
])
def test_the_device_finds_what_is_not_checked(device, arguments, code, operand, dimension):
    array = np.zeros((3, 4, 40), np.uint16)
    with pytest.raises(DeviceError) as error:
        device.copy_tensor(array, **{"box": (3, 4, 16), "coords": (0, 0, 0), "check": False} | arguments)
    assert (error.value.code, error.value.operand, error.value.dimension) == (code, operand, dimension)
    assert "copy_tensor" in error.value.source
    with pytest.raises(TensorMapError) as found:
        device.copy_tensor(array, **{"box": (3, 4, 16), "coords": (0, 0, 0)} | arguments)
    assert str(found.value.violations[0]).removeprefix(code.name.removeprefix("TENSOR_") + ": ") == error.value.message or code.name in (
        "TENSOR_SHARED_ADDRESS", "TENSOR_SHARED_RANGE", "TENSOR_FILL")      # addresses in hexadecimal, names


def test_arguments():
    array, options = np.zeros((4, 16), np.uint8), {"box": (1, 16), "coords": (0, 0)}
    with Device(CFG.replace(name="plain", tensors=False), simulator="golden", memory_bytes=1 << 16) as plain:
        for call in (lambda: plain.copy_tensor(array, **options), lambda: plain.prefetch_block(0, 16)):
            with pytest.raises(ValueError, match="plain must have tensors"):
                call()
        assert (plain.copy_block(array, smem_address=16)[0] == 0).all()
    with Device(CFG.replace(reductions=False, reduction_floats=False), simulator="golden", memory_bytes=1 << 16) as plain:
        words, image = array.view(np.uint32), np.zeros(16, np.uint8)
        with pytest.raises(ValueError, match=r"reduce must be None .* \(reductions is false; true in base, .*\), not 'add'"):
            plain.store_tensor(image, words, box=(1, 4), coords=(0, 0), reduce="add")
        with pytest.raises(DeviceError) as error:
            plain.store_tensor(image, words, box=(1, 4), coords=(0, 0), reduce="add", check=False)
        assert (error.value.code, error.value.operand) == (ErrorCode.UNSUPPORTED, 1)
        with pytest.raises(ValueError, match="coords must have 2 values, one for each axis, not 3"):
            plain.copy_tensor(array, box=(1, 16), coords=(0, 0, 0))
        with pytest.raises(TypeError, match="box must be given in mode tile"):
            plain.copy_tensor(array, coords=(0, 0))
        with pytest.raises(TypeError, match="offsets must not be given in mode tile"):
            plain.copy_tensor(array, **options, offsets=())
        with pytest.raises(ValueError, match="reduce must be None or one of add, "):
            plain.store_tensor(image, array, **options, reduce="mul")
        with pytest.raises(ValueError, match="image must be a uint8 array of 16 bytes"):
            plain.store_tensor(image[1:], array, **options)
        with pytest.raises(ValueError, match="array must have a multiple of 16 bytes"):
            plain.copy_block(array[:, :3])
        with pytest.raises(ValueError, match="smem_address must be"):
            plain.copy_block(array, smem_address=8)


@pytest.mark.parametrize("parameter, name, value", [
    ("tensor_im2col", "mode", "im2col"), ("tensor_interleave", "interleave", "16B"), ("tensor_strides", "element_strides", (1, 2, 1)),
    ("tensor_nan", "fill", "nan"), ("copy_swizzles", "swizzle", "128B")])
def test_parameters(parameter, name, value):
    """What a configuration lacks is refused by the device, and by the functional simulator where it was not checked before."""
    array = np.ones((4, 4, 16), np.float16)
    options = {"coords": (0, 0, 0), name: value}
    options |= {"lower_corner": (0,), "upper_corner": (0,), "pixels_per_column": 4, "channels_per_pixel": 8} if name == "mode" else {
        "box": (2, 2, 1 if name == "interleave" else 8)}
    with Device(CFG, simulator="golden", memory_bytes=1 << 17) as device:
        device.copy_tensor(array, **options)
    with Device(CFG.replace(**{parameter: False}), simulator="golden", memory_bytes=1 << 17) as device:
        rule = rf"{name} must be the default in configuration tiny \({parameter} is false; true in base, [a-z0-9_, ]+\)$"
        with pytest.raises(ValueError, match=rule):
            device.copy_tensor(array, **options)
        with pytest.raises(DeviceError) as error:
            device.copy_tensor(array, check=False, **options)
    code = {"mode": ErrorCode.TENSOR_MODE, "interleave": ErrorCode.TENSOR_INTERLEAVE}.get(name, ErrorCode.UNSUPPORTED)
    assert error.value.code == code and error.value.operand == {"fill": 1, "swizzle": 3, "element_strides": 2}.get(name, 1)


def test_prefetches_have_no_effect(device):
    array = np.ones((4, 32), np.float16)
    device.prefetch_tensor(array, box=(4, 8), coords=(2, -8))
    device.prefetch_block(0, 4096)
    assert (device.copy_tensor(array, box=(4, 8), coords=(0, 0))[0].view(np.float16) == 1).all()


def test_several_cores_copy_once():
    with Device(CFG.replace(cores=2), simulator="golden", memory_bytes=1 << 18) as device:
        array = np.arange(64, dtype=np.uint32).reshape(4, 16)
        image, _ = device.copy_tensor(array, box=(4, 16), coords=(0, 0))
        assert (image.view(np.uint32).reshape(4, 16) == array).all()
        new, _ = device.store_tensor(image, array, box=(4, 16), coords=(0, 0), reduce="add")
        assert (new == 2 * array).all()
