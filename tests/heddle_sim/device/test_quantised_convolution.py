"""``Device.conv`` with bias, zero points and requantisation: against numpy, and the published cases of ONNX [S2.3]."""

import numpy as np
import pytest
from heddle import load_config
from heddle_sim import Device
from heddle_sim.compiled import LAYOUTS, Geometry, ImageLayout
from heddle_sim.device.observers import executed_kernels
from heddle_sim.golden.convolution import convolution
from heddle_sim.golden.requantise import Requantise
from heddle_sim.kernels.compiled_convolution import CompiledConvolutionKernel, CompiledConvolutionProblem
from heddle_sim.kernels.compiled_groups import merged_groups
from heddle_sim.kernels.convolution import ConvolutionKernel
from heddle_sim.kernels.parts.output_tile import OutputTile
from heddle_sim.kernels.planner import plan
from heddle_sim.onnx.conformance import cases
from heddle_verif.stimulus.convolutions import MORE_CHANNELS, random_geometry, random_layers, wide_geometry
from heddle_verif.stimulus.integers import random_integers
from onnx import helper

MEMORY_BYTES = 1 << 21
ELEMENTS = 300      # of a filter
MORE_ELEMENTS = 1500
MOST_BYTES = 20_000        # of an image


@pytest.fixture(scope="module")
def golden():
    with Device("base", "golden", memory_bytes=MEMORY_BYTES) as device:
        yield device


@pytest.fixture(scope="module")
def hardware():
    with Device("base", memory_bytes=MEMORY_BYTES, latency=30, jitter=60, seed=3, timeout_cycles=2_000_000) as device:
        yield device


def sums(x, w, shape):
    """The golden model; x channels last, w (outputs, channels / group, positions…), integers of any range."""
    return convolution(x, np.moveaxis(w, 1, -1), shape.padding, shape.stride, shape.dilation, shape.group)


def random_requantise(rng, shape, large=False):
    """Multipliers, and in some cases shifts, for one or all filters; results spread over their type, or with ``large`` factors of 1/4 and
    more."""
    dtype = rng.choice([np.int8, np.uint8])
    multiplier = rng.integers(1 << 29, 1 << 31, shape.outputs) if rng.integers(2) else int(rng.integers(1 << 29, 1 << 31))
    shift = 30 if large else 37 + int(np.log2(shape.group_channels * shape.positions)) // 2
    if not large and np.ndim(multiplier) and rng.integers(2):
        shift = shift + rng.integers(-2, 3, shape.outputs)
    return Requantise(multiplier, shift, int(random_integers(rng, dtype)), relu=bool(rng.integers(2)), dtype=dtype,
                      double_rounding=not large and bool(rng.integers(2)))


def compare(device, rng, layout, shape, large=False, method="compiled"):
    kind = rng.choice([np.int8, np.uint8])
    x, w = random_integers(rng, kind, (shape.images, *shape.size, shape.channels)), random_integers(
        rng, np.int8, (shape.outputs, shape.group_channels, *shape.filter))
    zero = int(random_integers(rng, kind)) if rng.integers(3) else 0
    bias = rng.integers(-(1 << 14), 1 << 14, shape.outputs, np.int32) if rng.integers(3) else None
    spec = random_requantise(rng, shape, large) if large or method == "im2col" or rng.integers(4) else None
    y, stats = device.conv(layout.from_channels_last(x), w, bias, strides=shape.stride, pads=shape.padding, dilations=shape.dilation,
                           group=shape.group, layout=layout.name, method=method, x_zero_point=zero, requantise=spec)
    expected = sums(x.astype(np.int64) - zero, w, shape) + (np.int32(0) if bias is None else bias)
    expected = expected if spec is None else spec.apply(expected)
    assert y.dtype == expected.dtype and y.shape == layout.shape(shape.images, shape.outputs, shape.result)
    assert np.array_equal(layout.to_channels_last(y, shape.outputs), expected), (layout.name, shape, zero, spec)
    assert stats.macs == shape.macs and device.memory.allocator.used == 0


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout(name, golden):
    rng, layout = np.random.default_rng([11, LAYOUTS.index(name)]), ImageLayout(name)
    for _ in range(4):
        compare(golden, rng, layout, random_geometry(rng, layout.spatial, ELEMENTS))


def test_some_layouts_on_the_hardware(hardware):
    rng = np.random.default_rng(12)
    for name in ("NHWC", "NCHW", "NCHWc4", "NCHWc32", "NDHWC"):
        layout = ImageLayout(name)
        for _ in range(3):
            compare(hardware, rng, layout, random_geometry(rng, layout.spatial, ELEMENTS))


def test_several_cores():
    """Each core has the biases and multipliers of its own filters."""
    rng = np.random.default_rng(27)
    with Device("quad", "golden", memory_bytes=MEMORY_BYTES) as quad:
        for name, channels, outputs in (("NHWC", 8, 100), ("NHWC", 3, 20), ("NCHW", 5, 70), ("NCHWc32", 32, 140), ("NCHWc8", 8, 40)):
            compare(quad, rng, ImageLayout(name), Geometry(2, (9, 16), channels, outputs, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1)))
        compare(quad, rng, ImageLayout("NHWC"), Geometry(1, (12, 12), 160, 160, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1), 160))


@pytest.mark.parametrize("name", ["NHWC", "NWC", "NDHWC", "NCHWc16", "NCHW"])
def test_im2col(name, golden):
    """The TMAU makes the rows of pixels; lanes have filters: several tiles of both, groups, more pixels and fewer than lanes."""
    rng, layout = np.random.default_rng([31, len(name)]), ImageLayout(name)
    for large in (False, False, False, True):
        compare(golden, rng, layout, random_geometry(rng, layout.spatial, ELEMENTS), large, method="im2col")
    for outputs, size in ((70, 7), (32, 2)):
        spatial = layout.spatial
        shape = Geometry(2, (size,) * spatial, 40, outputs, (2,) * spatial, ((1, 0),) * spatial, (1,) * spatial, (1,) * spatial)
        compare(golden, rng, layout, shape, method="im2col")


def test_im2col_on_the_hardware(hardware):
    rng = np.random.default_rng(32)
    for outputs, size in ((70, (7, 9)), (5, (12, 3)), (40, (2, 2))):
        shape = Geometry(2, size, 48, outputs, (3, 2), ((1, 0), (1, 1)), (1, 2), (1, 1))
        compare(hardware, rng, ImageLayout("NHWC"), shape, method="im2col")


def test_rows_that_shared_memory_does_not_hold():
    """By compiled offsets they are refused; "auto" takes im2col. One or two staging areas, one or several cores."""
    rng, shape = np.random.default_rng(33), Geometry(1, (4, 300), 32, 20, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1))
    for cfg in (load_config("base"), load_config("quad")):
        with Device(cfg.replace(shared_memory_kib=32, factor_words=512, sparse=False), "golden", memory_bytes=MEMORY_BYTES) as device:
            with pytest.raises(ValueError, match="shared_memory_kib must be at least 64 for a compiled convolution"):
                compare(device, rng, ImageLayout("NHWC"), shape)
            with executed_kernels() as kernels:
                compare(device, rng, ImageLayout("NHWC"), shape, large=True, method="auto")
            assert isinstance(kernels[0], ConvolutionKernel) and kernels[0].output is not None


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(5))
def test_random_geometries_on_the_hardware(seed, hardware):
    rng = np.random.default_rng([13, seed])
    for layout, shape in random_layers(rng, 30, MORE_ELEMENTS, MORE_CHANNELS, MOST_BYTES):
        compare(hardware, rng, layout, shape, bool(rng.integers(4) == 0))
        if layout.channels_last:
            compare(hardware, rng, layout, shape, bool(rng.integers(4) == 0), method="im2col")


def test_small_memories():
    """Refills, streamed filters and one place of bands with bias, zero points and bytes, in every layout."""
    rng, kinds = np.random.default_rng(22), set()
    cfg = load_config("base").replace(compiled_offsets=64, factor_words=256, shared_memory_kib=32)
    with Device(cfg, "golden", memory_bytes=MEMORY_BYTES) as device:
        layers = [(layout, random_geometry(rng, layout.spatial, MORE_ELEMENTS // 2, MORE_CHANNELS[:-1]))
                  for layout in map(ImageLayout, LAYOUTS)]
        layers += [(ImageLayout(name), Geometry(1, (4, 5), channels, 40, (3, 3), ((1, 1), (0, 1)), (1, 1), (1, 1)))
                   for name, channels in (("NCHW", 96), ("NHWC", 240), ("NCHWc8", 240))]
        layers += [(ImageLayout(name), wide_geometry(rng, 14000)) for name in ("NHWC", "NCHW", "NCHWc8")]
        for layout, shape in layers:
            kernel = plan(cfg, merged_groups(cfg, CompiledConvolutionProblem(shape, layout, requantise=Requantise(1 << 30, 40))))
            found = {"refill": kernel.entries.window, "stream": kernel.streamed, "waits": kernel.waits}
            kinds |= {name for name, present in found.items() if present}
            compare(device, rng, layout, shape)
    assert kinds == {"refill", "stream", "waits"}


def test_bands_in_one_place_wait(hardware, monkeypatch):
    """A band is a row of one tile, which the copy of the next one would overwrite while many products wait: it waits for these."""
    monkeypatch.setattr(OutputTile, "tile_step", 32)
    shape, layout = Geometry(1, (3, 32), 1904, 20, (1, 1), ((0, 0),) * 2, (1, 1), (1, 1)), ImageLayout("NHWC")
    kernel = plan(hardware.cfg, CompiledConvolutionProblem(shape, layout, requantise=Requantise(1 << 30, 40)))
    assert kernel.waits and kernel.bands == 3 and kernel.band_tiles == 1 and not kernel.streamed
    compare(hardware, np.random.default_rng(24), layout, shape)


@pytest.mark.parametrize("name", ["NHWC", "NCHW"])
def test_large_factors(name, golden):
    """Those of 1/4 and more: sums are brought into range first."""
    rng = np.random.default_rng(14)
    for channels in (8, 16):
        compare(golden, rng, ImageLayout(name), Geometry(1, (5, 6), channels, 20, (1, 1), ((0, 0),) * 2, (1, 1), (1, 1)), large=True)


@pytest.mark.parametrize("channels, outputs, window, ka, parts", [
    (8, 8, 1, 4, 1), (8, 9, 1, 4, 2), (24, 12, 1, 4, 2), (5, 16, 1, 4, 2), (16, 16, 3, 2, 1), (8, 17, 1, 1, 1)])
def test_lanes_of_few_filters(channels, outputs, window, ka, parts, golden, hardware):
    """Up to eight have four lanes each; up to sixteen too, in two parts, where stores decide, else two."""
    shape, layout = Geometry(1, (20, 19), channels, outputs, (window,) * 2, ((window // 2,) * 2,) * 2, (1, 1), (1, 1)), ImageLayout("NHWC")
    problem = merged_groups(golden.cfg, CompiledConvolutionProblem(shape, layout, bias=True, requantise=Requantise(1 << 30, 40)))
    assert (problem.ka, problem.parts) == (ka, parts)
    for device in (golden, hardware):
        compare(device, np.random.default_rng([31, outputs]), layout, shape)


# Channels, outputs, groups: as many groups as lanes hold are made one, and share a run.
GROUPS = [(64, 64, 64), (64, 128, 64), (24, 24, 24), (32, 64, 4), (64, 64, 16), (96, 96, 3), (16, 16, 8), (8, 8, 8)]
FEW_FILTERS = [(8, 8, 1), (16, 16, 1), (24, 5, 1), (64, 3, 1)]        # several lanes for each


@pytest.mark.parametrize("name", ["NHWC", "NCHW", "NCHWc8", "NCHWc32"])
def test_groups(name, golden):
    rng = np.random.default_rng(15)
    for channels, outputs, group in GROUPS + FEW_FILTERS:
        compare(golden, rng, ImageLayout(name), Geometry(1, (7, 9), channels, outputs, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1), group))


def test_lanes_that_share_filters():
    """Two or four, in one run; not where a tile of filters would be a part of a block of channels."""
    cfg = load_config("base")
    cases = [("NHWC", 64, 64, 64, 4), ("NHWC", 64, 128, 64, 2), ("NHWC", 16, 8, 1, 4), ("NHWC", 16, 16, 1, 2), ("NHWC", 16, 17, 1, 1),
             ("NHWC", 3, 8, 1, 4), ("NCHWc32", 64, 64, 64, 4), ("NCHWc32", 64, 128, 64, 1), ("NCHW", 64, 64, 64, 1)]
    for name, channels, outputs, group, ka in cases:
        shape = Geometry(1, (7, 9), channels, outputs, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1), group)
        problem = merged_groups(cfg, CompiledConvolutionProblem(shape, ImageLayout(name)))
        assert problem.ka == ka, (name, channels, outputs, group)
        assert ka == 1 or problem.group is None


@pytest.mark.parametrize(("channels", "outputs", "group"), [(64, 64, 64), (40, 80, 40), (16, 8, 1)])
def test_lanes_that_share_filters_on_the_hardware(channels, outputs, group, hardware):
    """Depthwise, two filters a channel, few filters: one run, bytes and words."""
    rng = np.random.default_rng(16)
    for name in ("NHWC", "NHWC", "NCHWc32"):
        shape = Geometry(1, (9, 14), channels, outputs, (3, 3), ((1, 1),) * 2, (2, 1), (1, 1), group)
        compare(hardware, rng, ImageLayout(name), shape)


@pytest.mark.parametrize(("channels", "outputs", "filled"), [(3, 8, 5), (1, 16, 7), (12, 5, 4), (3, 32, 0), (16, 8, 0)])
def test_filled_channels_on_the_hardware(channels, outputs, filled, hardware):
    """Few filters of few channels: zeros make a word of the channels, and several lanes share a filter."""
    rng, layout = np.random.default_rng([20, channels, outputs]), ImageLayout("NHWC")
    shape = Geometry(2, (9, 10), channels, outputs, (3, 3), ((1, 1),) * 2, (1, 2), (1, 1))
    problem = merged_groups(hardware.cfg, CompiledConvolutionProblem(shape, layout))
    assert (problem.filled, problem.macs, problem.geometry.channels) == (filled, shape.macs // 2, channels + filled)
    compare(hardware, rng, layout, shape)


@pytest.mark.parametrize("name", ["NHWC", "NCHW", "NCHWc32"])
def test_small_images_on_the_hardware(name, hardware):
    """Tiles of fewer pixels than threads, of which each thread still loads a base; several tiles of filters."""
    rng, layout = np.random.default_rng([21, len(name)]), ImageLayout(name)
    tiles = set()
    for size, channels, outputs, group in (((6, 6), 64, 96, 1), ((3, 3), 96, 96, 96), ((5, 7), 64, 64, 64), ((1, 1), 32, 70, 1)):
        shape = Geometry(1, size, channels, outputs, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1), group)
        problem = merged_groups(hardware.cfg, CompiledConvolutionProblem(shape, layout, requantise=Requantise(1 << 30, 40)))
        tiles.add(CompiledConvolutionKernel(hardware.cfg, problem).tile)
        compare(hardware, rng, layout, shape)
    assert min(tiles) < hardware.cfg.threads


@pytest.mark.parametrize("name", ["NHWC", "NCHW"])
def test_zero_points_of_filters(name, golden):
    """``w`` minus its zero point has nine bits: each element is multiplied twice."""
    rng, layout = np.random.default_rng(17), ImageLayout(name)
    shape = Geometry(1, (6, 7), 16, 9, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1))
    x, w = random_integers(rng, np.uint8, (1, 6, 7, 16)), random_integers(rng, np.uint8, (9, 16, 3, 3))
    w[0], w[1] = 0, 254
    points = [255, 0, 128, 200, 7, 255, 254, 3, 9]
    y, _ = golden.conv(layout.from_channels_last(x), w, pads=1, layout=name, x_zero_point=77, w_zero_point=points)
    expected = sums(x.astype(np.int64) - 77, w.astype(np.int64) - np.array(points).reshape(-1, 1, 1, 1), shape)
    assert np.array_equal(layout.to_channels_last(y, 9), expected)


@pytest.mark.parametrize(("rows", "k", "n"), [(1, 40, 10), (33, 64, 37), (70, 200, 64)])
def test_fully_connected_layers(rows, k, n, hardware):
    """Rows are pixels, elements channels: the same as ``Device.linear`` [S2.6]."""
    rng = np.random.default_rng([18, rows])
    x, w = random_integers(rng, np.int8, (rows, k)), random_integers(rng, np.int8, (k, n))
    bias, spec = rng.integers(-9999, 9999, n, np.int32), Requantise(rng.integers(1 << 29, 1 << 30, n), 40, 5, relu=True)
    y, _ = hardware.conv(x.reshape(1, 1, rows, k), w.T.reshape(n, k, 1, 1), bias, layout="NHWC", requantise=spec)
    expected, _ = hardware.linear(x, w, bias, spec)
    assert np.array_equal(y.reshape(rows, n), expected)


# -- published cases ------------------------------------------------------------------------

def onnx_cases(operator):
    """(attributes, inputs by name, output) of the cases of an operator."""
    return [({item.name: helper.get_attribute_value(item) for item in case.model.graph.node[0].attribute},
             dict(zip(case.model.graph.node[0].input, case.data_sets[0][0], strict=True)), case.data_sets[0][1][0])
            for case in cases((operator,))]


def points_of(array):
    return array.tolist() if np.ndim(array) else int(array)


def test_conv_integer_of_onnx(hardware):
    cases = onnx_cases("ConvInteger")
    for attributes, inputs, expected in cases:
        y, _ = hardware.conv(inputs["x"], inputs["w"], x_zero_point=int(inputs["x_zero_point"]),
                             w_zero_point=points_of(inputs.get("w_zero_points", np.uint8(0))), **attributes)
        assert np.array_equal(y, expected)
    assert len(cases) == 2


def test_qlinear_conv_of_onnx(hardware):
    """The factor has 31 bits."""
    cases = onnx_cases("QLinearConv")
    for attributes, inputs, expected in cases:
        factor = np.float64(inputs["x_scale"]) * np.float64(inputs["w_scale"]) / np.float64(inputs["y_scale"])
        shift = 30 - int(np.floor(np.log2(factor.max())))
        spec = Requantise(np.rint(factor * 2 ** shift).astype(np.int64), shift, int(inputs["y_zero_point"]), dtype=expected.dtype)
        y, _ = hardware.conv(inputs["x"], inputs["w"], x_zero_point=int(inputs["x_zero_point"]),
                             w_zero_point=points_of(inputs["w_zero_point"]), requantise=spec, **attributes)
        assert np.array_equal(y, expected)
    assert len(cases) == 1


# -- refusals -------------------------------------------------------------------------------

X, W = np.zeros((1, 8, 5, 5), np.int8), np.zeros((4, 8, 3, 3), np.int8)
HALF, TWICE = Requantise(1 << 30, 40), Requantise(1 << 30, 40, double_rounding=True)
REFUSED = [
    ({"requantise": Requantise(1 << 30, 40), "method": "gather"}, '"compiled" or "depthwise" or "im2col" with requantise, not'),
    ({"bias": np.zeros(3, np.int32)}, r"bias must have shape \(4,\), not \(3,\)"),
    ({"bias": np.zeros(4)}, "bias must have integers of 32 bits, not float64"),
    ({"x_zero_point": 128}, "x_zero_point must be from -128 to 127 as int8, not 128"),
    ({"x_zero_point": 1.5}, "x_zero_point must be an integer, not 1.5"),
    ({"w_zero_point": [1, 2]}, r"w_zero_point must be an integer, or 4 of them, not \[1, 2\]"),
    ({"w_zero_point": -129}, "w_zero_point must be from -128 to 127 as int8, not -129"),
    ({"requantise": 3}, "requantise must be a Requantise, not int"),
    ({"requantise": Requantise(np.ones(3, np.int64), 40)}, r"multiplier must be an integer or have shape \(4,\), not \(3,\)"),
    ({"requantise": TWICE, "bias": np.full(4, 1 << 26, np.int32)}, "bias minus x_zero_point times the sum of the filter must be from "
                                                                   "-67108864 to 67108863 with a shift for each column or double_rounding"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=lambda value: value[:30] if isinstance(value, str) else "")
def test_refused(options, message, golden):
    with pytest.raises((ValueError, TypeError), match=message):
        golden.conv(X, W, options.pop("bias", None), **options)


def test_configurations_that_cannot():
    base = load_config("base")
    cases = [(base.replace(output_stage=False), HALF, "configuration base must have output_stage for requantise"),
             (base.replace(threads=8, tensors=True), HALF, "threads must be at least 16 for requantise, not 8"),
             (load_config("small"), None, "configuration small must have compiled_offsets")]
    for cfg, spec, message in cases:
        with Device(cfg, "golden", memory_bytes=1 << 20) as device, pytest.raises(ValueError, match=message):
            device.conv(X, W, np.zeros(4, np.int32), requantise=spec)
    with pytest.raises(ValueError, match="output_stage must be false with thread_slots = 2 and thread_multipliers = 8"):
        base.replace(sparse=False, thread_slots=2)
