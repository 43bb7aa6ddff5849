"""Convolutions by gathered windows [S2.3]: against numpy, on the functional simulator and on the hardware, and when they are taken."""

import numpy as np
import pytest
from heddle import load_config
from heddle.config import ConfigError
from heddle_sim import Requantise
from heddle_sim.compiled.geometry import Geometry
from heddle_sim.compiled.layout import ImageLayout
from heddle_sim.device import Device
from heddle_sim.device.convolution_choice import expectations, fastest_method
from heddle_sim.device.convolution_method import ConvolutionLayer
from heddle_sim.golden.convolution import convolution
from heddle_sim.kernels.gathered_convolution import GatheredConvolutionKernel, GatheredConvolutionProblem

# Images, channels, size, filters, filter, pads, strides.
LAYERS = [(1, 3, (5, 5), 9, (3, 3), 1, 1), (2, 4, (6, 7), 3, (1, 1), 0, 1), (1, 5, (9, 4), 17, (2, 2), 1, 2),
          (1, 2, (8, 8), 5, (3, 3), 0, 1), (1, 1, (1, 1), 1, (1, 1), 0, 1), (1, 7, (19,), 33, (5,), 2, 1),
          (1, 2, (3, 4, 5), 8, (2, 2, 2), 1, 1)]


def operands(layer, types=("int8", "int8")):
    images, channels, size, filters, window, _, _ = layer
    rng = np.random.default_rng(sum(size))
    return [rng.integers(np.iinfo(name).min, np.iinfo(name).max + 1, shape, name)
            for name, shape in zip(types, ((images, channels, *size), (filters, channels, *window)))]


def expected(x, w, layer):
    _, _, size, _, _, pads, strides = layer
    spatial = len(size)
    y = convolution(np.moveaxis(x, 1, -1), np.moveaxis(w, 1, -1), ((pads, pads),) * spatial, (strides,) * spatial, (1,) * spatial)
    return np.moveaxis(y, -1, 1)


@pytest.fixture(scope="module", params=["verilator", "golden"])
def device(request):
    with Device(load_config("tiny"), request.param, memory_bytes=1 << 17, timeout_cycles=200_000) as device:
        yield device


@pytest.mark.parametrize("layer", LAYERS)
def test_layers(layer, device):
    x, w = operands(layer)
    assert np.array_equal(device.conv(x, w, pads=layer[5], strides=layer[6], method="gather").y, expected(x, w, layer))


@pytest.mark.parametrize("types", [("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8")])
def test_types(types, device):
    x, w = operands(LAYERS[0], types)
    assert np.array_equal(device.conv(x, w, pads=1, method="gather").y, expected(x, w, LAYERS[0]))


@pytest.mark.parametrize("name", ["base", "large"])
def test_presets(name):
    layer = (1, 40, (9, 9), 70, (3, 3), 1, 1)
    x, w = operands(layer)
    with Device(load_config(name), "golden", memory_bytes=1 << 20) as device:
        assert np.array_equal(device.conv(x, w, pads=1, method="gather").y, expected(x, w, layer))


def test_planes_of_many_pixels_are_gathered():
    """1 x 1 filters of planes: ``mm`` would gather each word from eight planes; the threads gather neighbouring bytes."""
    geometry = Geometry(1, (28, 28), 64, 256, (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1))
    cfg = load_config("base")
    layers = {layout: ConvolutionLayer(geometry, ImageLayout(layout)) for layout in ("NCHW", "NHWC")}
    found = expectations(cfg, layers["NCHW"])
    assert fastest_method(found) == "gather" and found["gather"].cycles < 0.8 * found["compiled"].cycles
    assert expectations(cfg, layers["NHWC"])["gather"].why_not
    assert expectations(cfg.replace(gather_offsets=False), layers["NCHW"])["gather"].why_not
    biased = ConvolutionLayer(geometry, ImageLayout("NCHW"), bias=True)      # which the host would add
    assert expectations(cfg, biased)["gather"].why_not.startswith("method \"gather\" must be asked for by name with bias or x_zero_point")


@pytest.mark.parametrize("zero_point", [0, 7])
def test_bias_zero_point_and_much_padding(zero_point):
    """The host pads the image and adds what padding and x have too much."""
    layer = (2, 3, (9, 8), 5, (7, 7), 4, 1)
    x, w = operands(layer)
    bias = np.arange(5, dtype=np.int32)
    shape = Geometry(2, (9, 8), 3, 5, (7, 7), ((4, 4),) * 2, (1, 1), (1, 1))
    with Device(load_config("base"), "golden", memory_bytes=1 << 20) as device:
        y, stats = device.conv(x, w, bias, pads=4, method="gather", x_zero_point=zero_point)
    wide = np.moveaxis(x.astype(np.int64), 1, -1) - zero_point
    sums = convolution(wide, np.moveaxis(w, 1, -1), shape.padding, shape.stride, shape.dilation)
    assert shape.masked_positions > 12 and stats.macs == shape.macs
    assert np.array_equal(np.moveaxis(y, 1, -1), sums + bias)


@pytest.mark.parametrize("changes, layer, options, message", [
    ({"gather_offsets": False}, LAYERS[0], {}, "configuration tiny must have gather_offsets for method \"gather\""),
    ({}, LAYERS[1], {"layout": "CNHW"}, "layout must be one of planes, as NCHW, not CNHW, for method \"gather\""),
    ({}, (1, 33, (5, 5), 2, (3, 3), 0, 1), {}, "compiled_offsets must be at least 297, not 64, for method \"gather\""),
    ({}, LAYERS[1], {"requantise": Requantise(1 << 30, 40)}, "\"im2col\" with requantise, not \"gather\""),
    ({"factor_words": 32}, (1, 60, (4, 4), 2, (1, 1), 0, 1), {}, "factor_words must be at least 34 for 60 elements of a filter"),
])
def test_refusals(changes, layer, options, message):
    x, w = operands(layer)
    if options.get("layout") == "CNHW":
        x = x.transpose(1, 0, 2, 3)
    with Device(load_config("tiny").replace(**changes), "golden", memory_bytes=1 << 16) as device, pytest.raises(ValueError, match=message):
        device.conv(x, w, method="gather", **options)


def test_an_image_that_does_not_fit_is_refused():
    x, w = operands((1, 9, (50, 50), 2, (1, 1), 0, 1))
    with Device(load_config("tiny"), "golden", memory_bytes=1 << 17) as device, pytest.raises(ConfigError, match="shared_memory_kib"):
        device.conv(x, w, method="gather")


def test_lanes_store_to_different_banks():
    """Of four groups of eight threads neighbouring lanes are four pixels apart."""
    problem = GatheredConvolutionProblem(Geometry(1, (8, 8), 4, 4, (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)), ImageLayout("NCHW"))
    assert [GatheredConvolutionKernel(load_config(name), problem).near for name in ("tiny", "base", "large")] == [1, 4, 4]
