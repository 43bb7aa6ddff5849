"""Pooling and sums of quantised tensors on a device, against the golden models."""

from types import SimpleNamespace

import numpy as np
import pytest
from heddle import load_config
from heddle_sim import Device, Requantise
from heddle_sim.compiled import ImageLayout
from heddle_sim.device.observers import executed_kernels
from heddle_sim.device.pooling import pool_problem
from heddle_sim.golden.pooling import add, add_factors, average_pool, max_pool
from heddle_sim.kernels.compiled_convolution import CompiledConvolutionKernel
from heddle_sim.kernels.depthwise import DepthwiseKernel
from heddle_sim.kernels.elementwise import SumKernel
from heddle_sim.kernels.panel_sum import PanelSumKernel
from heddle_sim.kernels.planner import plan
from heddle_sim.kernels.pooling import PoolKernel
from heddle_verif.stimulus.integers import random_integers

MEMORY_BYTES = 1 << 21
LAYOUTS = ("NHWC", "NCHW", "CNHW", "NCHWc4", "NCHWc8", "NCHWc16", "NCHWc32")
TYPES = (np.int8, np.uint8)
HALF = Requantise(1 << 30, 31)


@pytest.fixture(scope="module")
def golden():
    with Device("tiny", "golden", memory_bytes=MEMORY_BYTES) as device:
        yield device


@pytest.fixture(scope="module", params=["tiny", "base"])
def hardware(request):
    with Device(request.param, memory_bytes=MEMORY_BYTES, latency=30, jitter=60, seed=3, timeout_cycles=1_000_000) as device:
        yield device


def random_pool(rng, average):
    """Images, size, kernel, padding, stride, dilation of a small pool."""
    while True:
        size, kernel, stride, dilation = (tuple(map(int, rng.integers(1, most, 2))) for most in (14, 5, 4, 3))
        dilation = (1, 1) if average else dilation
        reach = [(count - 1) * gap for count, gap in zip(kernel, dilation)]
        padding = tuple((int(rng.integers(0, length + 1)), int(rng.integers(0, length + 1))) for length in reach)
        if all(length < count + sum(pair) for length, count, pair in zip(reach, size, padding)):
            return SimpleNamespace(images=int(rng.integers(1, 3)), size=size, kernel=kernel, padding=padding, stride=stride,
                                   dilation=dilation)


def random_bounds(rng, dtype):
    """Least and greatest result; each is left out in half of all cases."""
    values = sorted(int(value) for value in random_integers(rng, dtype, (2,)))
    return tuple(value if rng.integers(2) else None for value in values)


def compare(device, rng, layout, shape, channels, kind, spatial=2):
    """A pool of random integers, clamped or not; ``kind``: "max", "average", or "requantise"."""
    dtype = rng.choice(TYPES)
    size, kernel, padding, stride, dilation = (
        values[:spatial] for values in (shape.size, shape.kernel, shape.padding, shape.stride, shape.dilation))
    x = random_integers(rng, dtype, (shape.images, *size, channels))
    stored, options = layout.from_channels_last(x), {"strides": stride, "pads": padding, "layout": layout.name}
    bounds = random_bounds(rng, dtype)
    limits = dict(zip(("minimum", "maximum"), bounds))
    if kind == "max":
        y, _ = device.max_pool(stored, kernel, dilations=dilation, **limits, **options)
        expected = max_pool(x, kernel, padding, stride, dilation, bounds)
    else:
        include, zero = bool(rng.integers(2)), int(random_integers(rng, dtype))
        spec = None
        if kind == "requantise":
            kept = rng.choice(TYPES)
            spec = Requantise(int(rng.integers(1 << 29, 1 << 31)), int(rng.integers(29, 33)), int(random_integers(rng, kept)),
                              relu=bool(rng.integers(2)), dtype=kept)
            bounds, limits = (None, None), {}
        y, _ = device.average_pool(stored, kernel, count_include_pad=include, x_zero_point=zero, requantise=spec, **limits, **options)
        expected = average_pool(x, kernel, padding, stride, include, zero, spec, bounds)
    result = expected.shape[1:-1]
    assert y.dtype == expected.dtype and y.shape == layout.shape(shape.images, channels, result)
    assert np.array_equal(layout.to_channels_last(y, channels), expected), (layout.name, kind, channels, shape)
    assert device.memory.allocator.used == 0


@pytest.mark.parametrize("kind", ["max", "average", "requantise"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_random_pools(name, kind, golden):
    rng = np.random.default_rng([21, LAYOUTS.index(name), len(kind)])
    for _ in range(6):
        compare(golden, rng, ImageLayout(name), random_pool(rng, kind != "max"), int(rng.choice([1, 3, 16, 17, 32, 33])), kind)


@pytest.mark.parametrize("name", ["NCW", "NWC", "NCWc16"])
def test_one_axis(name, golden):
    rng = np.random.default_rng(22)
    for kind in ("max", "average", "requantise"):
        compare(golden, rng, ImageLayout(name), random_pool(rng, kind != "max"), 19, kind, 1)


@pytest.mark.parametrize("channels", [15, 16, 17, 31, 37])
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (7, 1), (8, 8), (9, 7), (13, 11)])
def test_corner_sizes(size, channels, golden):
    """3 x 3 at stride 2 and 1, padding 1: sizes around those of a pass of the threads."""
    rng = np.random.default_rng(23)
    for stride in (1, 2):
        shape = SimpleNamespace(images=1, size=size, kernel=(3, 3), padding=((1, 1),) * 2, stride=(stride, stride), dilation=(1, 1))
        for kind in ("max", "average"):
            compare(golden, rng, ImageLayout("NHWC"), shape, channels, kind)


@pytest.mark.parametrize(("size", "channels", "kernel"), [
    ((40, 30), 48, (2, 2)),         # bands of rows
    ((7, 7), 640, (7, 7)),          # slices of channels, and no other
    ((13, 14), 96, (9, 9)),         # both; windows in a loop
    ((9, 70), 16, (3, 40))])        # rows of windows in pieces
def test_more_than_shared_memory(size, channels, kernel, golden):
    rng = np.random.default_rng(24)
    padding = ((1, 1), (1, 0)) if kernel == (9, 9) else ((0, 0),) * 2
    shape = SimpleNamespace(images=2, size=size, kernel=kernel, padding=padding, stride=(2, 3), dilation=(1, 1))
    assert 2 * np.prod(size) * channels > golden.cfg.shared_bytes
    for kind in ("max", "average"):
        compare(golden, rng, ImageLayout("NHWC"), shape, channels, kind)


@pytest.mark.parametrize("dtype", TYPES)
def test_averages_of_every_sum(dtype, golden):
    """Windows of 1 to 3 elements with all sums: the multiplier rounds as the division."""
    values = np.arange(256).astype(dtype)
    for kernel in ((1, 1), (1, 2), (3, 1)):
        x = np.stack(np.meshgrid(values[::5], values[::3][:48]), 0).reshape(1, 2, 52, 48).repeat(2, 1)[:, :3]
        y, _ = golden.average_pool(np.moveaxis(x, 1, 2).copy(), kernel, layout="NHWC")
        assert np.array_equal(y, average_pool(np.moveaxis(x, 1, 2), kernel, ((0, 0),) * 2, (1, 1)))


def test_global_average(golden):
    rng = np.random.default_rng(25)
    x = random_integers(rng, np.uint8, (2, 7, 5, 20))
    for spec in (None, Requantise(3 << 28, 30, -7)):
        y, _ = golden.global_average_pool(np.moveaxis(x, -1, 1), x_zero_point=9, requantise=spec)
        expected = average_pool(x, (7, 5), ((0, 0),) * 2, (1, 1), False, 9, spec)
        assert y.shape == (2, 20, 1, 1) and np.array_equal(np.moveaxis(y, 1, -1), expected)


def compare_uniform(device, rng, kernel, stride, layout="NHWC", size=(9, 8), channels=32, pad=0, images=1, spec=None, dtype=np.int8):
    """An average whose windows count the same number of elements; returns the class of its kernel, and cycles."""
    named, zero = ImageLayout(layout), int(random_integers(rng, dtype))
    x = random_integers(rng, dtype, (images, *size, channels))
    x.reshape(-1)[::3] = np.iinfo(dtype).min        # and sums at the limits
    with executed_kernels() as kernels:
        y, stats = device.average_pool(named.from_channels_last(x), kernel, strides=stride, pads=pad, layout=layout,
                                       count_include_pad=True, x_zero_point=zero, requantise=spec)
    expected = average_pool(x, kernel, ((pad, pad),) * len(size), (stride,) * len(size), True, zero, spec)
    assert y.dtype == expected.dtype and np.array_equal(named.to_channels_last(y, channels), expected), (kernel, stride, layout, spec)
    assert device.memory.allocator.used == 0
    return type(kernels[0]), stats.cycles


# With factors of 1/4 and more, which weights above one avoid, and beyond what weights can.
SPECS = (None, HALF, Requantise(5, 1, relu=True, dtype=np.uint8), Requantise((1 << 31) - 1, 36, -9, -100, 77), Requantise(1, 0, 3),
         Requantise((1 << 31) - 1, 18), Requantise(77, 62))


PLAIN = load_config("base").replace(name="plain", sparse=False)


@pytest.mark.parametrize("cfg, family", [(load_config("base"), DepthwiseKernel), (PLAIN, CompiledConvolutionKernel)], ids=["base", "plain"])
@pytest.mark.parametrize("spec", SPECS, ids=[spec and f"{spec.multiplier}-{spec.shift}" for spec in SPECS])
@pytest.mark.parametrize("dtype", TYPES)
def test_averages_as_convolutions(dtype, spec, cfg, family):
    """The same bytes as of the golden model, which divides: odd and even counts, padding that counts, every layout."""
    rng, taken = np.random.default_rng(30), []
    with Device(cfg, "golden", memory_bytes=MEMORY_BYTES) as device:
        for kernel, stride, pad in (((2, 2), 2, 0), ((3, 3), 1, 1), ((1, 2), 1, 0), ((1, 1), 2, 0), ((4, 3), 2, 1), ((9, 8), 1, 0)):
            taken += [compare_uniform(device, rng, kernel, stride, pad=pad, spec=spec, dtype=dtype)[0]]
        for layout in LAYOUTS:
            taken += [compare_uniform(device, rng, (2, 2), 2, layout, channels=19, images=2, spec=spec, dtype=dtype)[0]]
        taken += [compare_uniform(device, rng, (3,), 2, "NWC", (17,), spec=spec, dtype=dtype)[0]]
    assert family in taken or spec in SPECS[5:], taken


def test_the_faster_way_is_taken():
    """By the cycle models; windows of different counts, and configurations with neither sparse engine nor output stage, leave no choice."""
    rng = np.random.default_rng(31)
    for cfg, family in ((load_config("base"), DepthwiseKernel), (PLAIN, CompiledConvolutionKernel)):
        with Device(cfg, "golden", memory_bytes=MEMORY_BYTES) as device:
            assert compare_uniform(device, rng, (3, 3), 1)[0] is family
            # Only the sparse engine has windows of any size: their weights are all the same.
            wanted = DepthwiseKernel if family is DepthwiseKernel else PoolKernel
            for kernel, channels in (((8, 8), 64), ((25, 5), 48), ((7, 7), 256)):
                assert compare_uniform(device, rng, kernel, 1, size=kernel, channels=channels, images=2)[0] is wanted
            for include, wanted in ((False, PoolKernel), (True, family)):
                with executed_kernels() as kernels:
                    device.average_pool(np.zeros((1, 9, 9, 32), np.int8), 3, pads=1, layout="NHWC", count_include_pad=include)
                assert type(kernels[0]) is wanted
    with Device(load_config("tiny").replace(sparse=False), "golden", memory_bytes=MEMORY_BYTES) as device:
        assert compare_uniform(device, rng, (3, 3), 1)[0] is PoolKernel


def compare_sums(device, rng, shape, types=None):
    """A sum of random integers; ``types`` of a, b and the result. Returns the class of its kernel."""
    a_type, b_type, dtype = rng.choice(TYPES, 3) if types is None else types
    a, b = random_integers(rng, a_type, shape), random_integers(rng, b_type, shape)
    a_zero, b_zero, zero = (int(random_integers(rng, kind)) for kind in (a_type, b_type, dtype))
    multipliers, shift = add_factors(*rng.uniform(0.2, 1.5, 2), 1.0)
    bounds = sorted(int(value) for value in random_integers(rng, dtype, (2,)))
    limits = {"minimum": bounds[0], "maximum": bounds[1]} if rng.integers(2) else {"relu": bool(rng.integers(2))}
    with executed_kernels() as kernels:
        y, _ = device.add(a, b, multipliers, shift, a_zero_point=a_zero, b_zero_point=b_zero, zero_point=zero, dtype=dtype, **limits)
    expected = add(a, b, multipliers, (a_zero, b_zero), Requantise(1, shift, zero, dtype=dtype, **limits))
    assert y.dtype == expected.dtype and np.array_equal(y, expected), (shape, multipliers, shift, limits)
    assert device.memory.allocator.used == 0
    return type(kernels[0])


@pytest.mark.parametrize("shape", [(), (1,), (15,), (16,), (17,), (63,), (64,), (65,), (127,), (2, 3, 5, 7), (2731,), (100, 101)])
def test_add(shape, golden):
    rng = np.random.default_rng([26, *shape])
    for _ in range(3):
        compare_sums(golden, rng, shape)


def test_least_and_greatest_sums(golden):
    """Multipliers up to the limit of 32 bits."""
    a = np.array([-128, -128, 127, 127], np.int8)
    b = np.array([-128, 127, -128, 127], np.int8)
    for shift in (0, 1, 20, 23):
        factors = ((1 << 31) - (127 << shift) - 1) // 510
        y, _ = golden.add(a, b, (factors, factors), shift, a_zero_point=-128, b_zero_point=-128, zero_point=127)
        assert np.array_equal(y, add(a, b, (factors, factors), (-128, -128), Requantise(1, shift, 127)))


def test_on_the_hardware(hardware):
    rng = np.random.default_rng(27)
    for name, kind, channels in (("NHWC", "max", 48), ("NCHW", "average", 19), ("NCHWc16", "requantise", 32), ("NHWC", "average", 64),
                                 ("NCHWc32", "max", 64)):
        for _ in range(2):
            compare(hardware, rng, ImageLayout(name), random_pool(rng, kind != "max"), channels, kind)
    large = SimpleNamespace(images=1, size=(13, 14), kernel=(9, 9), padding=((1, 1), (1, 0)), stride=(2, 3), dilation=(1, 1))
    compare(hardware, rng, ImageLayout("NHWC"), large, 96, "average")
    for shape in ((1,), (129,), (3, 1000)):
        compare_sums(hardware, rng, shape)


def test_the_faster_way_on_the_hardware(hardware):
    """The convolution takes a part of the cycles that the thread unit would need at least."""
    rng = np.random.default_rng(32)
    for size, window, channels, part in (((16, 16), {"kernel": (2, 2), "strides": 2}, 32, 0.6),
                                         ((9, 7), {"kernel": (9, 7), "strides": 1}, 64, 0.8)):
        for spec in (None, Requantise(3 << 28, 30, -7)):
            kernel, cycles = compare_uniform(hardware, rng, window["kernel"], window["strides"], size=size, channels=channels, spec=spec)
            assert kernel is DepthwiseKernel
            x = np.zeros((1, *size, channels), np.int8)
            alone = PoolKernel(hardware.cfg, pool_problem("average", x, ImageLayout("NHWC"), requantise=spec, **window))
            assert cycles < part * alone.bound()


def test_bound_is_below_the_cycles(hardware):
    x = random_integers(np.random.default_rng(28), np.int8, (1, 16, 16, 32))
    for kind, window in (("max", {"kernel": 3, "strides": 2, "pads": 1}), ("average", {"kernel": 3, "strides": 2, "pads": 1})):
        kernel = plan(hardware.cfg, pool_problem(kind, x, ImageLayout("NHWC"), **window))
        run = hardware.max_pool if kind == "max" else hardware.average_pool
        _, stats = run(x, layout="NHWC", **window)
        assert 0.5 * stats.cycles < kernel.bound() < stats.cycles


def test_sums_on_the_hardware(hardware):
    """By both units: the sparse engine takes most sums whose addends have one type."""
    rng, taken = np.random.default_rng(33), []
    for number, size in enumerate((500, 4095, 4096, 4113, 9001, 12288, 20000)):
        dtype = TYPES[number % 2]
        taken.append(compare_sums(hardware, rng, (size,), (dtype, dtype, rng.choice(TYPES))))
    taken.append(compare_sums(hardware, rng, (3000,), (np.int8, np.uint8, np.int8)))
    assert taken.count(PanelSumKernel) >= 5 and SumKernel in taken


def test_on_several_cores():
    """Core 0 does it."""
    with Device("quad", "golden", memory_bytes=MEMORY_BYTES) as device:
        rng = np.random.default_rng(29)
        compare(device, rng, ImageLayout("NHWC"), random_pool(rng, True), 24, "average")
        compare_sums(device, rng, (77,))


def test_programs_of_few_instructions(golden):
    """Where a window does not fit the instruction memory element by element, it is a loop."""
    x = np.zeros((1, 20, 20, 16), np.int8)
    kernels = [plan(golden.cfg, pool_problem("average", x, ImageLayout("NHWC"), kernel=kernel, strides=1 if kernel == 3 else kernel))
               for kernel in (3, 5, 8)]
    assert all(isinstance(kernel, PoolKernel) for kernel in kernels)
    assert [kernel.unrolled for kernel in kernels] == [0, 64, 32]


# -- refusals -------------------------------------------------------------------------------

X = np.zeros((1, 8, 6, 5), np.int8)
REFUSED = [
    (lambda device: device.max_pool(X.astype(np.int16), 2), "x must be an array of int8 or uint8, not int16"),
    (lambda device: device.max_pool(X, 0), r"kernel must be at least 1, not \(0, 0\)"),
    (lambda device: device.max_pool(X, (2, 2, 2)), r"kernel must be an integer, or 2 of them, not \(2, 2, 2\)"),
    (lambda device: device.max_pool(X, 7), r"kernel must fit the padded size \(6, 5\) of x, not be \(7, 7\)"),
    (lambda device: device.max_pool(X, 2, strides=0), r"strides must be at least 1, not \(0, 0\)"),
    (lambda device: device.max_pool(X, 2, dilations=-1), r"dilations must be at least 1, not \(-1, -1\)"),
    (lambda device: device.max_pool(X, 2, pads=2), r"pads must be smaller than the window \(2, 2\), not \(\(2, 2\), \(2, 2\)\)"),
    (lambda device: device.max_pool(X, 2, layout="HWNC"), "layout must be one of .*, not 'HWNC'"),
    (lambda device: device.max_pool(X[..., None], 2), "x must have one or two spatial axes for max_pool with layout NCHW, not 3"),
    (lambda device: device.max_pool(X[:0], 2), r"x must have no empty axis, not shape \(0, 8, 6, 5\)"),
    (lambda device: device.average_pool(X, 2, x_zero_point=128), "x_zero_point must be from -128 to 127 as int8, not 128"),
    (lambda device: device.average_pool(X, 2, count_include_pad=1), "count_include_pad must be True or False, not 1"),
    (lambda device: device.average_pool(X, 2, requantise=3), "requantise must be a Requantise, not int"),
    (lambda device: device.average_pool(X, 2, minimum=3, requantise=HALF), "minimum and maximum must be those of requantise"),
    (lambda device: device.average_pool(X, 2, minimum=-129), "minimum must be from -128 to 127, not -129"),
    (lambda device: device.max_pool(X, 2, minimum=3, maximum=2), "maximum must be at least the lower bound 3, not 2"),
    (lambda device: device.max_pool(X, 2, maximum=1.5), "maximum must be an integer, not 1.5"),
    (lambda device: device.average_pool(X, 2, requantise=Requantise(np.ones(8, np.int64), 3)),
     r"multiplier must be an integer for average_pool, not an array of shape \(8,\)"),
    (lambda device: device.add(X, X[0], (1, 1), 0), r"b must have the shape \(1, 8, 6, 5\) of a, not \(8, 6, 5\)"),
    (lambda device: device.add(X, X.astype(np.int32), (1, 1), 0), "b must be an array of int8 or uint8, not int32"),
    (lambda device: device.add(X[:0], X[:0], (1, 1), 0), r"a must have no empty axis, not shape \(0, 8, 6, 5\)"),
    (lambda device: device.add(X, X, (1, 1, 1), 0), "multipliers must be two, of a and of b, not 3"),
    (lambda device: device.add(X, X, (0, 1), 0), "multipliers must be from 1 to 2147483647, not 0"),
    (lambda device: device.add(X, X, (1, 1), 24), "shift must be from 0 to 23 for add, not 24"),
    (lambda device: device.add(X, X, (1, 1), 3, b_zero_point=200), "b_zero_point must be from -128 to 127 as int8, not 200"),
    (lambda device: device.add(X, X, (1 << 23, (1 << 23) + 1), 20),
     r"multipliers must leave all sums, with zero_point \* 2\*\*shift, within 32 bits, not \(8388608, 8388609\) \(sums from -2147483776"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message[:30] for _, message in REFUSED])
def test_refused(call, message, golden):
    with pytest.raises((ValueError, TypeError), match=message):
        call(golden)


def test_configurations_that_cannot(golden):
    with Device("small", "golden", memory_bytes=1 << 20) as device:
        for call in (lambda: device.max_pool(X, 2), lambda: device.add(X, X, (1, 1), 0)):
            with pytest.raises(ValueError, match=r"configuration small must have tensors for (max_pool|add) \(groups of stores\)"):
                call()
    with pytest.raises(ValueError, match="shared_memory_kib must be at least 64 for max_pool with threads = 8, dot = 4, not 16"):
        golden.max_pool(np.zeros((1, 3, 600, 1), np.int8), 3, layout="NHWC")
