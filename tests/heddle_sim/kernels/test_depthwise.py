"""Depthwise convolutions on the sparse engine [S2.3]: against numpy, on the functional simulator and on the hardware, and when they are
taken."""

import numpy as np
import pytest
from heddle import load_config
from heddle.config import ConfigError
from heddle_sim import Device, Requantise
from heddle_sim.compiled.geometry import Geometry
from heddle_sim.compiled.layout import ImageLayout
from heddle_sim.device.convolution_choice import expectations, fastest_method
from heddle_sim.device.convolution_method import ConvolutionLayer
from heddle_sim.device.observers import executed_kernels
from heddle_sim.golden.convolution import convolution
from heddle_sim.kernels.compiled_convolution import CompiledConvolutionKernel
from heddle_sim.kernels.depthwise import DepthwiseKernel
from heddle_verif.variants.unit_variants import PRESETS

# Images, size, channels, filter, pads, strides, dilations.
LAYERS = [
    (1, (5, 6), 16, (3, 3), 1, 1, 1), (2, (9, 7), 32, (3, 3), 1, 2, 1), (1, (7, 5), 48, (3, 3), 0, 1, 2), (1, (1, 1), 16, (1, 1), 0, 1, 1),
    (1, (3, 3), 64, (2, 2), 1, 1, 1), (1, (12, 4), 32, (3, 1), 2, 3, 1), (1, (19,), 16, (5,), 2, 1, 1),
    (1, (2, 3, 4), 16, (2, 2, 2), 1, 1, 1), (1, (6, 6), 80, (1, 3), 1, 1, 1), (1, (4, 3), 16, (1, 1), 2, 1, 1),
    (2, (5, 4), 1, (3, 3), 1, 1, 1), (1, (7, 6), 24, (2, 3), 1, 2, 1), (1, (9,), 37, (3,), 1, 1, 1),
]


def geometry(layer):
    images, size, channels, window, pads, strides, dilations = layer
    each = len(size)
    return Geometry(images, size, channels, channels, window, ((pads, pads),) * each, (strides,) * each, (dilations,) * each, channels)


def operands(rng, layer, types=("int8", "int8")):
    images, size, channels, window, *_ = layer
    return [rng.integers(np.iinfo(name).min, np.iinfo(name).max + 1, shape, name)
            for name, shape in zip(types, ((images, *size, channels), (channels, 1, *window)))]


def expected(x, w, layer, zero_point=0):
    shape = geometry(layer)
    padded = np.pad(x.astype(np.int32) - zero_point, ((0, 0), *shape.padding, (0, 0)))
    return convolution(padded, np.moveaxis(w, 1, -1), ((0, 0),) * shape.spatial, shape.stride, shape.dilation, shape.group)


def check(device, layer, rng, types=("int8", "int8"), quantised=True, method="depthwise"):
    """One layer on a device equals numpy's; returns its statistics."""
    x, w = operands(rng, layer, types)
    channels, limits = layer[2], np.iinfo(types[0])
    options = dict(pads=layer[4], strides=layer[5], dilations=layer[6], group=channels, layout=f"N{'DHW'[-len(layer[1]):]}C", method=method)
    if not quantised:
        y, stats = device.conv(x, w, **options)
        np.testing.assert_array_equal(y, expected(x, w, layer))
        return stats
    zero_point, bias = int(rng.integers(limits.min, limits.max + 1)), rng.integers(-9999, 9999, channels).astype(np.int32)
    shift = rng.integers(36, 46, channels) if rng.integers(2) else int(rng.integers(36, 46))
    spec = Requantise(rng.integers(1 << 28, 1 << 31, channels), shift, zero_point=int(rng.integers(-20, 20)), relu=bool(rng.integers(2)),
                      double_rounding=bool(rng.integers(2)))
    y, stats = device.conv(x, w, bias, x_zero_point=zero_point, requantise=spec, **options)
    sums = (expected(x, w, layer, zero_point) + bias).astype(np.int32)
    np.testing.assert_array_equal(y, spec.apply(sums))
    return stats


@pytest.fixture(scope="module")
def tiny():
    with Device("tiny", memory_bytes=1 << 17, timeout_cycles=200_000) as device:
        yield device


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_layers(layer, tiny, seed):
    rng = np.random.default_rng(seed)
    for quantised in (True, False):
        check(tiny, layer, rng, quantised=quantised)


@pytest.mark.parametrize("types", [("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8")])
def test_types(types, tiny, seed):
    rng = np.random.default_rng(seed)
    for quantised in (True, False):
        check(tiny, LAYERS[0], rng, types, quantised)


def random_layer(rng):
    spatial = int(rng.integers(1, 4))
    window = tuple(int(count) for count in rng.integers(1, 4, spatial))
    size = tuple(int(count) for count in rng.integers(1, 4 + 12 // spatial, spatial))
    pads, strides, dilations = int(rng.integers(0, 3)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    channels = int(rng.choice([16 * rng.integers(1, 13), rng.integers(1, 200)]))
    return int(rng.integers(1, 3)), size, channels, window, pads, strides, dilations


def check_random(device, rng, count):
    """So many random layers that the method can do."""
    done = 0
    while done < count:
        layer = random_layer(rng)
        try:
            problem = ConvolutionLayer(geometry(layer), ImageLayout("NHWC"))
        except ValueError:          # the filter does not fit the padded image
            continue
        if refusal := expectations(device.cfg, problem)["depthwise"].why_not:
            assert "positions" in refusal or "factor_words" in refusal, refusal
            continue
        check(device, layer, rng, [("int8", "int8"), ("uint8", "int8")][int(rng.integers(2))], bool(rng.integers(2)))
        done += 1


@pytest.mark.parametrize("name", ["tiny", "base", "large", "quad"])
def test_random_layers(name, seed):
    with Device(name, "golden", memory_bytes=1 << 20) as device:
        check_random(device, np.random.default_rng(seed), 12)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["tiny", "base", pytest.param("quad", marks=pytest.mark.soak)])
def test_many_layers(name, seed):
    """On the generated hardware, as the presets ship; the panel of ``tiny`` does not hold the rows of large images."""
    rng = np.random.default_rng(seed)
    with Device(name, memory_bytes=1 << 20, timeout_cycles=500_000) as device:
        check_random(device, rng, 100 if name == "tiny" else 40)
        if name == "tiny":
            return
        for layer in ((1, (28, 28), 64, (3, 3), 1, 1, 1), (1, (14, 14), 128, (3, 3), 1, 1, 1), (1, (7, 7), 256, (3, 3), 1, 1, 1)):
            check(device, layer, rng)


def test_several_rounds():
    """Images of which the panel holds a part, and programs that the instruction memory does not hold at once."""
    rng = np.random.default_rng(3)
    layer = (1, (40, 11), 16, (3, 3), 1, 1, 1)
    for changes, rounds in (({}, 7), ({"factor_words": 128}, 3), ({"factor_words": 256}, 1),
                            ({"factor_words": 256, "instruction_words": 128}, 10)):
        with Device(load_config("tiny").replace(**changes), "golden", memory_bytes=1 << 17) as device, executed_kernels() as kernels:
            check(device, layer, rng)
        assert len(kernels[0].rounds) == rounds, f"{len(kernels[0].rounds)} rounds with {changes}"


def test_when_it_is_taken():
    """Where a filter has one channel and channels lie together; it does not take all else."""
    cfg, rng = load_config("base"), np.random.default_rng(1)
    shape = geometry((1, (14, 14), 128, (3, 3), 1, 1, 1))
    spec = Requantise(1 << 30, 40)
    found = expectations(cfg, ConvolutionLayer(shape, ImageLayout("NHWC"), bias=True, requantise=spec))
    assert fastest_method(found) == "depthwise" and 3 * found["depthwise"].cycles < 2 * found["compiled"].cycles
    with Device("base", "golden", memory_bytes=1 << 18) as device, executed_kernels() as kernels:
        check(device, (1, (6, 6), 32, (3, 3), 1, 1, 1), rng, method="auto")
        x, w = rng.integers(-9, 9, (1, 6, 6, 16)).astype(np.int8), rng.integers(-9, 9, (8, 2, 3, 3)).astype(np.int8)
        device.conv(x, w, group=8, layout="NHWC")
    assert isinstance(kernels[0], DepthwiseKernel) and not isinstance(kernels[1], DepthwiseKernel)


def test_channels_are_filled_up():
    """Where that is expected to be faster than compiled offsets, which meet them as they are."""
    rng = np.random.default_rng(5)
    with Device("base", "golden", memory_bytes=1 << 20) as device, executed_kernels() as kernels:
        for channels in (24, 8):
            stats = check(device, (1, (20, 20), channels, (3, 3), 1, 1, 1), rng, method="auto")
            assert stats.macs == 20 * 20 * 9 * channels
    assert isinstance(kernels[0], DepthwiseKernel) and isinstance(kernels[-1], CompiledConvolutionKernel)


@pytest.mark.parametrize("changes, channels, options, message", [
    ({"sparse": False}, 16, {}, "must have sparse"),
    ({}, 16, {"layout": "NCHW"}, "layout must have channels last, not NCHW, for method \"depthwise\""),
    ({}, 16, {"group": 8}, "group must be the 16 channels and 16 outputs, not 8, for method \"depthwise\""),
    ({}, 16, {"bias": np.zeros(16, np.int32)}, "bias must be None without requantise for method \"depthwise\""),
    ({}, 16, {"x_zero_point": 3}, "x_zero_point must be 0 without requantise, not 3, for method \"depthwise\""),
    ({}, 16, {"window": (5, 4)}, "filters must have at most 16 positions, or the same weight at all of them, not 20, for method"),
    ({}, 16, {"w_zero_point": 1}, "w minus w_zero_point must fit int8 or uint8 for method \"depthwise\""),
    ({}, 16, {"requantise": Requantise(1, 1)}, "multiplier / 2**shift must be below 1/4 for method \"depthwise\", not"),
])
def test_refusals(changes, channels, options, message):
    """What the method cannot do is refused by name."""
    group, window = options.pop("group", channels), options.pop("window", (3, 3))
    layout = options.pop("layout", "NHWC")
    x = np.ones((1, 6, 6, channels) if layout == "NHWC" else (1, channels, 6, 6), np.int8)
    w = np.ones((channels, channels // group, *window), np.int8)
    w[:, :, 0] = -128
    with Device(load_config("tiny").replace(**changes), "golden", memory_bytes=1 << 16) as device, \
            pytest.raises(ValueError) as refusal:
        device.conv(x, w, group=group, layout=layout, method="depthwise", **options)
    assert message in str(refusal.value)


def test_wide_images():
    """An image whose rows the panel does not hold names the parameter that is too small."""
    x, w = np.ones((1, 4, 40, 16), np.int8), np.ones((16, 1, 3, 3), np.int8)
    with Device("tiny", "golden", memory_bytes=1 << 16) as device, \
            pytest.raises((ValueError, ConfigError), match="factor_words must be at least"):
        device.conv(x, w, group=16, layout="NHWC", method="depthwise")


def test_every_preset_with_the_engine_takes_it():
    """And the others say what they lack."""
    problem = ConvolutionLayer(geometry(LAYERS[0]), ImageLayout("NHWC"))
    for name, cfg in PRESETS.items():
        if not cfg.tensors:
            continue
        found = expectations(cfg, problem)["depthwise"]
        assert (found.problem is not None) == cfg.sparse and (cfg.sparse or "must have sparse" in found.why_not), name
