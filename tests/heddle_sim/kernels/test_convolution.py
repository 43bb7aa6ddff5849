"""Convolutions: the golden model, the geometry, and the program on the functional simulator [S1.16]."""

import math

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.encoding import Swizzle
from heddle_sim.compiled import LAYOUTS, ImageLayout
from heddle_sim.device import Device
from heddle_sim.golden.bank_access import gather_cycles
from heddle_sim.golden.block_copy import swizzled
from heddle_sim.golden.convolution import convolution
from heddle_sim.kernels.convolution import ConvolutionKernel
from heddle_sim.kernels.parts.convolution_shape import ConvolutionShape
from heddle_sim.kernels.problem import ConvolutionProblem
from heddle_verif.stimulus.convolutions import MORE_CHANNELS, random_geometry
from scipy.signal import correlate

# Shapes of x and w, padding, stride, dilation.
CASES = {
    "3 x 3": ((2, 9, 7, 16), (5, 3, 3, 16), 1, 1, 1),
    "without padding": ((1, 14, 9, 64), (40, 3, 3, 64), 0, 1, 1),
    "three channels": ((2, 8, 8, 3), (7, 5, 5, 3), 2, 2, 1),
    "1 x 1, pieces of the channels": ((1, 6, 5, 260), (11, 1, 1, 260), 0, 1, 1),
    "uneven padding": ((1, 9, 9, 130), (9, 2, 3, 130), ((0, 1), (1, 0)), 1, 1),
    "dilation": ((2, 7, 7, 16), (4, 3, 3, 16), 2, 1, 2),
    "one axis": ((3, 20, 16), (12, 3, 16), 1, 2, 2),
    "three axes": ((1, 5, 4, 6, 8), (6, 2, 3, 2, 8), 1, 2, 1),
    "one of everything": ((1, 1, 1, 1), (1, 1, 1, 1), 0, 1, 1),
    "few pixels": ((1, 4, 3, 24), (40, 2, 2, 24), 0, 1, 1),
    "few pixels, pieces of the channels": ((3, 2, 1, 260), (70, 1, 1, 260), 0, 1, 1),
    "one pixel": ((1, 3, 3, 20), (33, 3, 3, 20), 0, 1, 1),
    "few pixels of one axis": ((1, 7, 129), (40, 3, 129), 1, 2, 1),
    "stride and dilation by axis": ((1, 12, 17, 32), (17, 3, 2, 32), (2, 0), (3, 2), (1, 4)),
}


def operands(case, x_dtype=np.int8, w_dtype=np.int8, seed=0):
    rng = np.random.default_rng(seed)
    x, w = (rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape, dtype)
            for shape, dtype in zip(CASES[case], (x_dtype, w_dtype)))
    return x, w, *CASES[case][2:]


def options(values, method="im2col"):
    return dict(zip(("pads", "strides", "dilations"), values)) | {"layout": "NHWC", "method": method}


def filters(w):
    """Filters with channels last as ``Device.conv`` takes them."""
    return np.moveaxis(w, -1, 1)


def tuples(spatial, padding, stride, dilation):
    """What ``Device.conv`` makes of its arguments."""
    pairs = padding if isinstance(padding, tuple) else (padding,) * spatial
    return (tuple(pair if isinstance(pair, tuple) else (pair, pair) for pair in pairs),
            *(value if isinstance(value, tuple) else (value,) * spatial for value in (stride, dilation)))


def test_golden_model_equals_scipy():
    rng = np.random.default_rng(1)
    x, w = rng.integers(-128, 128, (2, 9, 8, 5), np.int8), rng.integers(-128, 128, (3, 3, 2, 5), np.int8)
    y = convolution(x, w, ((1, 1), (1, 0)), (1, 1), (1, 1))
    padded = np.pad(x.astype(np.int64), ((0, 0), (1, 1), (1, 0), (0, 0)))
    for n, k in np.ndindex(2, 3):
        assert np.array_equal(y[n, ..., k], correlate(padded[n], w[k].astype(np.int64), "valid", "direct")[..., 0])
    assert np.array_equal(convolution(x, w, ((1, 1), (1, 0)), (2, 3), (1, 1)), y[:, ::2, ::3])
    spread = np.zeros((3, 5, 4, 5), np.int8)
    spread[:, ::2, ::3] = w
    assert np.array_equal(convolution(x, w, ((0, 0),) * 2, (1, 1), (2, 3)), convolution(x, spread, ((0, 0),) * 2, (1, 1), (1, 1)))


def test_groups_of_the_golden_model():
    """Output k is the sum over the channels of its group alone, by plain loops."""
    rng = np.random.default_rng(2)
    x, w = rng.integers(-128, 128, (1, 4, 5, 6), np.int8), rng.integers(-128, 128, (9, 2, 3, 2), np.int8)
    y = convolution(x, w, ((0, 0),) * 2, (1, 1), (1, 1), 3)
    for k, p, q in np.ndindex(9, *y.shape[1:3]):
        first = k // 3 * 2
        assert y[0, p, q, k] == np.sum(x[0, p:p + 2, q:q + 3, first:first + 2].astype(int) * w[k])


def test_neighbouring_rows_meet_different_banks():
    """They have an odd number of blocks, or a swizzle; no piece is larger than the limit, all channels have a place."""
    for channels in (1, 16, 17, 33, 64, 100, 240, 241, 256, 512, 1000):
        shape = ConvolutionShape(1, (4, 4), channels, 8, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1))
        for limit in (1, 2, 7, 15, 16):
            blocks, used = shape.row_blocks(limit)
            assert blocks % 2 == 1 or blocks in (2, 4, 8)
            assert used <= blocks <= limit
            swizzle = {2: Swizzle.B32, 4: Swizzle.B64, 8: Swizzle.B128}.get(blocks, Swizzle.NONE)
            for block in range(blocks):
                rows = np.arange(32)
                assert gather_cycles(swizzled(384 + 16 * (rows * blocks + block), swizzle), 8) == 4
            fewest = math.ceil(math.ceil(channels / 16) / (limit - 1 + limit % 2))
            assert math.ceil(channels / (16 * used)) == fewest


@pytest.mark.parametrize("change, says", [
    (dict(stride=(0, 1)), "strides must be at least 1, not "),
    (dict(filter=(7, 3)), "filters of w must fit the padded size (6, 6) of x, not have (7, 3)"),
    (dict(size=(400, 400), dilation=(129, 1)), "(filter - 1) * dilations must be at most 255 with 2 spatial axes, not 258"),
])
def test_wrong_shapes(change, says):
    good = dict(images=1, size=(4, 4), channels=16, outputs=8, filter=(3, 3), padding=((1, 1),) * 2, stride=(1, 1), dilation=(1, 1))
    assert ConvolutionShape(**good).result == (4, 4)
    with pytest.raises(ValueError) as error:
        ConvolutionShape(**good | change)
    assert str(error.value).startswith(says)


def test_needs_tensors():
    shape = ConvolutionShape(1, (4, 4), 16, 8, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1))
    with pytest.raises(ValueError, match="must have tensors"):
        ConvolutionKernel(load_config("tiny").replace(tensors=False), ConvolutionProblem(shape))


@pytest.mark.parametrize("size, outputs, lanes_are_filters", [
    ((1, 1), 1, False), ((1, 1), 2, True), ((7, 1), 7, False), ((7, 1), 8, True), ((7, 1), 100, True), ((8, 1), 100, False)])
def test_lanes_have_filters_where_pixels_are_fewer(size, outputs, lanes_are_filters):
    """Than threads (8) and outputs."""
    shape = ConvolutionShape(1, size, 16, outputs, (1, 1), ((0, 0),) * 2, (1, 1), (1, 1))
    kernel = ConvolutionKernel(load_config("tiny"), ConvolutionProblem(shape))
    assert kernel.lanes_are_filters == lanes_are_filters
    assert kernel.result == ((outputs, shape.pixels) if lanes_are_filters else (shape.pixels, outputs))
    assert kernel.lane_bound == (outputs / (8 * math.ceil(outputs / 8)) if lanes_are_filters else shape.pixels / 8)


@pytest.fixture(scope="module", params=["tiny", "base", "large"])
def device(request):
    with Device(load_config(request.param), "golden", memory_bytes=1 << 20) as device:
        yield device


@pytest.mark.parametrize("case", CASES)
def test_program_equals_numpy(case, device):
    for x_dtype, w_dtype in ((np.int8, np.int8), (np.uint8, np.int8)):
        x, w, *rest = operands(case, x_dtype, w_dtype)
        y, stats = device.conv(x, filters(w), **options(rest))
        expected = convolution(x, w, *tuples(x.ndim - 2, *rest))
        assert y.dtype == np.int32 and y.shape == expected.shape
        assert np.array_equal(y, expected)
        assert stats.macs == y.size * w[0].size
    assert device.memory.allocator.used == 0


WIDE_CASES = ("three channels", "few pixels of one axis", "1 x 1, pieces of the channels", "stride and dilation by axis")
WIDE_TYPES = [(np.int16, np.uint16), (np.uint8, np.int16)]


@pytest.mark.parametrize("case", CASES)
def test_sixteen_bits(case, device):
    """Exact modulo 2**32; where only one operand has 16 bits the other is widened."""
    for x_dtype, w_dtype in WIDE_TYPES:
        x, w, *rest = operands(case, x_dtype, w_dtype)
        y, stats = device.conv(x, filters(w), **options(rest))
        assert np.array_equal(y, convolution(x, w, *tuples(x.ndim - 2, *rest))), (x_dtype, w_dtype)
        assert stats.macs == y.size * w[0].size and stats.peak_macs_per_cycle == device.cfg.peak_macs(2)
    assert device.memory.allocator.used == 0


def test_sixteen_bits_of_several_cores_and_groups():
    with Device(load_config("tiny").without_level2(cores=3), "golden", memory_bytes=1 << 20) as device:
        rng = np.random.default_rng(7)
        x, w = rng.integers(-1 << 15, 1 << 15, (2, 6, 7, 5), np.int16), rng.integers(-1 << 15, 1 << 15, (4, 3, 3, 2), np.int16)
        y, _ = device.conv(x, w, pads=(1, 0, 1, 2), group=2, strides=(2, 1))
        assert np.array_equal(y, by_groups(x, w, 2, (1, 0, 1, 2), (2, 1)))


def test_several_cores_share_the_pixels():
    cfg = load_config("tiny").without_level2(cores=3)
    with Device(cfg, "golden", memory_bytes=1 << 20) as device:
        for case in ("3 x 3", "without padding", "one of everything", "few pixels", "one pixel"):
            x, w, *rest = operands(case)
            assert np.array_equal(device.conv(x, filters(w), **options(rest))[0], convolution(x, w, *tuples(x.ndim - 2, *rest)))


def by_groups(x, w, group=1, pads=(0, 0, 0, 0), strides=(1, 1), dilations=(1, 1)):
    """Channels first, by the golden model."""
    y = convolution(np.moveaxis(x, 1, -1), np.moveaxis(w, 1, -1), tuple(zip(pads[:2], pads[2:])), strides, dilations, group)
    return np.moveaxis(y, -1, 1)


@pytest.mark.parametrize("channels, outputs, filters, options", [
    (8, 6, (3, 3), dict(pads=(1, 0, 2, 1), strides=(2, 1), group=2)),
    (5, 3, (2, 3), dict(pads=(0, 0, 1, 1), dilations=(2, 1))),
    (4, 4, (3, 1), dict(group=4)),
])
def test_channels_first_and_groups(channels, outputs, filters, options, device):
    rng = np.random.default_rng(channels)
    x = rng.integers(0, 256, (2, channels, 7, 6), np.uint8)
    w = rng.integers(0, 256, (outputs, channels // options.get("group", 1), *filters), np.uint8)
    y, stats = device.conv(x, w, layout="NCHW", method="im2col", **options)
    assert np.array_equal(y, by_groups(x, w, **options))
    assert stats.macs == y.size * w[0].size
    assert device.memory.allocator.used == 0


X, W = np.zeros((1, 2, 4, 4), np.int8), np.zeros((1, 2, 3, 3), np.int8)


@pytest.mark.parametrize("arguments, error, says", [
    ((X.astype(np.int32), W), TypeError, "x must be an array of int8, uint8, int16 or uint16, not int32"),
    ((X.astype(np.int16), W, dict(method="compiled")), ValueError,
     "method must be \"im2col\" or \"auto\" with 16-bit elements, not 'compiled'"),
    ((X, W.astype(np.int16), dict(bias=np.zeros(1, np.int32))), ValueError,
     "bias, x_zero_point, w_zero_point and requantise must be left out with 16-bit elements"),
    ((X.astype(np.int16), W, dict(x_zero_point=3)), ValueError,
     "bias, x_zero_point, w_zero_point and requantise must be left out with 16-bit elements"),
    ((np.zeros((4, 4), np.int8), np.zeros((3, 3), np.int8)), ValueError, "w must have 3 to 5 dimensions, not 2"),
    ((X[0], W), ValueError, "an array of layout NCHW must have shape (N, C, H, W), not (2, 4, 4)"),
    ((X, np.zeros((1, 3, 3, 3), np.int8)), ValueError, "w must have 2 channels as x, not 3"),
    ((X, W, dict(pads=-1)), ValueError, "pads must be at least 0, not -1"),
    ((X, W, dict(pads=(1, 1, 1))), ValueError,
     "pads must be an integer, 2 of them (one for each axis) or 4 (begins, then ends), not (1, 1, 1)"),
    ((X, W, dict(pads=((1, 1), (1, 1), (1, 1)))), ValueError, "pads must have 2 pairs, not ((1, 1), (1, 1), (1, 1))"),
    ((X, W, dict(strides=(1, 1, 1))), ValueError, "strides must be an integer, or 2 of them, not (1, 1, 1)"),
    ((X, W, dict(group=2)), ValueError, "w must have 2 channels as x, divided by 2 groups, not 2"),
    ((X, W[:, :1], dict(group=2)), ValueError, "w must have a multiple of 2 outputs (group), not 1"),
    ((X, W, dict(group=0)), ValueError, "group must be an integer of at least 1, not 0"),
    ((X, W, dict(layout="CHWN")), ValueError, f"layout must be one of {', '.join(LAYOUTS)}, not 'CHWN'"),
    ((X, W, dict(method="fft")), ValueError, "method must be one of auto, compiled, depthwise, gather, im2col, not 'fft'"),
])
def test_wrong_arguments(arguments, error, says, device):
    x, w, *options = arguments
    with pytest.raises(error) as found:
        device.conv(x, w, **(options[0] if options else {}))
    assert str(found.value) == says


@pytest.mark.parametrize("latency, jitter", [(20, 0), pytest.param(100, 150, marks=pytest.mark.nightly)])
def test_hardware_equals_numpy(latency, jitter):
    """Cycle by cycle: nothing is overwritten before it was read, whenever memory answers."""
    cfg = load_config("tiny")
    with Device(cfg, memory_bytes=1 << 20, latency=latency, jitter=jitter, seed=1, timeout_cycles=1_000_000) as device:
        for case, *types in [*((case, np.uint8, np.int8) for case in CASES), *((case, np.uint16, np.int16) for case in WIDE_CASES)]:
            x, w, *rest = operands(case, *types)
            y, stats = device.conv(x, filters(w), **options(rest))
            assert np.array_equal(y, convolution(x, w, *tuples(x.ndim - 2, *rest))), case
            assert stats.cycles > 0 and 0 < stats.utilization <= 1


# -- random geometries ----------------------------------------------------------------------

IMAGES = ("NHWC", "NCHWc16", "NCHWc32")         # layouts whose pixels lie at multiples of 16 bytes, or are made so


def random_layers(device, seed, count, most, channels):
    """Geometries of one to three spatial axes in every layout of ``IMAGES``, half of them with a zero point, some with a bias, compared
    with numpy."""
    rng = np.random.default_rng([41, seed])
    for number in range(count):
        spatial = (2, 2, 1, 3)[number % 4]
        layout, shape = ImageLayout.of(IMAGES[number % 3], spatial), random_geometry(rng, spatial, most, channels)
        x_kind, w_kind = rng.choice([np.int8, np.uint8], 2)
        x, w = (rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, size, kind) for kind, size in (
            (x_kind, (shape.images, *shape.size, shape.channels)), (w_kind, (shape.outputs, shape.group_channels, *shape.filter))))
        zero_point = int(rng.integers(np.iinfo(x_kind).min, np.iinfo(x_kind).max + 1)) if number % 2 else 0
        bias = rng.integers(-1 << 31, 1 << 31, shape.outputs, np.int32) if number % 5 == 1 else None
        y, stats = device.conv(layout.from_channels_last(x), w, bias, pads=shape.padding, strides=shape.stride, dilations=shape.dilation,
                               group=shape.group, layout=layout.name, method="im2col", x_zero_point=zero_point)
        expected = convolution(x.astype(np.int64) - zero_point, np.moveaxis(w, 1, -1), shape.padding, shape.stride, shape.dilation,
                               shape.group)
        expected = expected if bias is None else (expected + bias.astype(np.int64)).astype(np.int32)
        assert np.array_equal(layout.to_channels_last(y, shape.outputs), expected), (layout.name, shape)
        assert stats.macs == shape.macs and device.memory.allocator.used == 0


@pytest.fixture(scope="module")
def hardware():
    with Device(load_config("tiny"), memory_bytes=1 << 20, latency=30, jitter=60, seed=3, timeout_cycles=2_000_000) as device:
        yield device


def test_random_geometries_on_the_hardware(hardware):
    random_layers(hardware, 1, 40, 40, (1, 4, 16))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_more_random_geometries_on_the_hardware(seed, hardware):
    random_layers(hardware, 2 + seed, 30, 120, MORE_CHANNELS)
