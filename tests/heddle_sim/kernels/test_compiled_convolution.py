"""Convolutions by compiled offsets: every layout, random geometries, bands, and refusals [S2.1-S2.6]."""

from dataclasses import replace

import numpy as np
import pytest
from heddle import load_config
from heddle.constants import ROW_BYTES
from heddle_sim.compiled import LAYOUTS, Geometry, ImageLayout, compile_convolution
from heddle_sim.device import Device
from heddle_sim.golden.convolution import convolution
from heddle_sim.kernels.compiled_convolution import CompiledConvolutionKernel, CompiledConvolutionProblem
from heddle_sim.kernels.planner import plan
from heddle_verif.stimulus.convolutions import MORE_CHANNELS, random_geometry, random_layers, wide_geometry
from heddle_verif.variants.shared_devices import OWN_PORTS, TWO_CORES

ELEMENTS = 60           # of a filter, for which the memories of ``tiny`` have room
MORE_ELEMENTS = 400
MOST_BYTES = 3000       # of an image


def expected(x, w, shape):
    """The golden model; x channels last."""
    return convolution(x, np.moveaxis(w, 1, -1), shape.padding, shape.stride, shape.dilation, shape.group)


def compare(device, rng, layout, shape, kinds=(np.int8, np.uint8)):
    x, w = (rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, size, kind) for kind, size in zip(
        rng.choice(kinds, 2), ((shape.images, *shape.size, shape.channels), (shape.outputs, shape.group_channels, *shape.filter))))
    y, stats = device.conv(layout.from_channels_last(x), w, strides=shape.stride, pads=shape.padding, dilations=shape.dilation,
                           group=shape.group, layout=layout.name, method="compiled")
    assert y.dtype == np.int32 and y.shape == layout.shape(shape.images, shape.outputs, shape.result)
    assert np.array_equal(layout.to_channels_last(y, shape.outputs), expected(x, w, shape)), (layout.name, shape)
    assert stats.macs == shape.macs and device.memory.allocator.used == 0
    return stats


@pytest.fixture(scope="module")
def hardware():
    with Device(load_config("tiny"), memory_bytes=1 << 20, latency=30, jitter=60, seed=3, timeout_cycles=2_000_000) as device:
        yield device


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_on_the_hardware(name, hardware):
    rng, layout = np.random.default_rng([7, LAYOUTS.index(name)]), ImageLayout(name)
    for _ in range(2):
        assert compare(hardware, rng, layout, random_geometry(rng, layout.spatial, ELEMENTS)).cycles > 0


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_random_geometries_on_the_hardware(seed, hardware):
    rng = np.random.default_rng([8, seed])
    for layout, shape in random_layers(rng, 30, MORE_ELEMENTS, MORE_CHANNELS, MOST_BYTES):
        compare(hardware, rng, layout, shape)
    for name in ("NHWC", "NCHW", "NCHWc8"):
        compare(hardware, rng, ImageLayout(name), wide_geometry(rng, 6000))


# -- saved representations ------------------------------------------------------------------

SAVED = Geometry(1, (5, 6), 4, 3, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1))
X, W = np.arange(120, dtype=np.int8).reshape(1, 5, 6, 4), np.arange(108, dtype=np.int8).reshape(3, 4, 3, 3)


@pytest.fixture
def golden():
    with Device(load_config("tiny"), "golden", memory_bytes=1 << 20) as device:
        yield device


def test_saved_representation(golden, tmp_path):
    made, path = compile_convolution(SAVED, "NHWC"), tmp_path / "layer.bin"
    made.save(path)
    for given in (made, path, str(path)):
        y, stats = golden.conv(X, W, pads=1, layout="NHWC", representation=given)
        assert np.array_equal(y, expected(X, W, SAVED)) and stats.macs == SAVED.macs


@pytest.mark.parametrize("changes, layout, options, error, says", [
    ({"padding": ((0, 1),) * 2}, "NHWC", {}, ValueError,
     "representation must be made for padding ((1, 1), (1, 1)) as the convolution has, not ((0, 1), (0, 1))"),
    ({"outputs": 4}, "NHWC", {}, ValueError, "representation must be made for outputs 3 as the convolution has, not 4"),
    ({}, "NCHW", {}, ValueError, "representation must be made for layout NHWC as the convolution has, not NCHW"),
    ({}, "NHWC", {"method": "im2col"}, ValueError, "method must be \"compiled\" or \"auto\" with a representation, not 'im2col'"),
    ({}, "NHWC", {"representation": 3}, TypeError, "representation must be a Representation or the path of one, not int"),
    ({}, "NHWC", {"representation": "missing.bin"}, ValueError, "representation must be a file that can be read: "),
])
def test_foreign_representations_are_refused(changes, layout, options, error, says, golden, tmp_path):
    """Nothing runs, nothing stays in memory."""
    compile_convolution(replace(SAVED, **changes), layout).save(tmp_path / "layer.bin")
    with pytest.raises(error) as found:
        golden.conv(X, W, pads=1, layout="NHWC", **{"representation": tmp_path / "layer.bin"} | options)
    assert str(found.value).startswith(says) and golden.runs == 0 and golden.memory.allocator.used == 0


def test_damaged_and_wider_representations_are_refused(golden, tmp_path):
    path = tmp_path / "layer.bin"
    compile_convolution(SAVED, "NHWC", np.int16).save(path)
    with pytest.raises(ValueError, match="x must have elements of 2 bytes as the representation was made for, not int8"):
        golden.conv(X, W, pads=1, layout="NHWC", representation=path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="must have the checksum of its content"):
        golden.conv(X, W, pads=1, layout="NHWC", representation=path)
    assert golden.runs == 0


MUCH_PADDING = [
    ("NHWC", Geometry(2, (12, 12), 4, 5, (9, 9), ((4, 4),) * 2, (1, 1), (1, 1))),
    ("NCHWc8", Geometry(1, (8, 9), 8, 9, (5, 9), ((2, 2), (8, 7)), (1, 2), (1, 1))),
    ("NCHW", Geometry(1, (10, 13), 1, 8, (5, 20), ((8, 8), (8, 8)), (2, 8), (1, 1))),
    ("CNDHW", Geometry(1, (3, 4, 5), 2, 3, (3, 5, 5), ((2, 2), (4, 4), (4, 4)), (1, 1, 1), (1, 1, 1))),
]


@pytest.mark.parametrize("name, shape", MUCH_PADDING, ids=[name for name, _ in MUCH_PADDING])
def test_more_positions_in_the_padding_than_mask_bits(name, shape, hardware):
    """The host pads the image along some axes, with the zero point of x."""
    rng, layout = np.random.default_rng(42), ImageLayout(name)
    assert shape.masked_positions > 12
    compare(hardware, rng, layout, shape)
    x, w = (rng.integers(-128, 128, size, np.int8) for size in (
        (shape.images, *shape.size, shape.channels), (shape.outputs, shape.group_channels, *shape.filter)))
    y, _ = hardware.conv(layout.from_channels_last(x), w, strides=shape.stride, pads=shape.padding, dilations=shape.dilation,
                         layout=name, method="compiled", x_zero_point=-77)
    assert np.array_equal(layout.to_channels_last(y, shape.outputs), expected(x.astype(np.int64) + 77, w, shape))


BANDS = [
    ("NHWC", Geometry(2, (40, 40), 8, 20, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1))),
    ("NCHW", Geometry(1, (48, 32), 4, 9, (3, 3), ((1, 2),) * 2, (1, 1), (1, 1))),
    ("NCHWc4", Geometry(1, (50, 48), 8, 17, (2, 2), ((1, 0),) * 2, (2, 1), (1, 2))),
    ("NCW", Geometry(2, (600,), 8, 9, (5,), ((2, 2),), (1,), (1,))),
]


@pytest.mark.parametrize("name, shape", BANDS, ids=[name for name, _ in BANDS])
def test_bands_take_turns_in_shared_memory(name, shape, hardware):
    """Images that shared memory does not hold, with several tiles of filters, on the hardware."""
    problem = CompiledConvolutionProblem(shape, ImageLayout(name))
    assert plan(hardware.cfg, problem).bands > (1 if name != "NCW" else 0)
    compare(hardware, np.random.default_rng(9), ImageLayout(name), shape)


@pytest.mark.parametrize("name, channels, kind", [("NCHW", 16, "refill"), ("NHWC", 40, "refill and stream"), ("NHWC", 28, "stream"),
                                                  ("NCHW", 30, "refill and stream")])
def test_long_filters_on_the_hardware(name, channels, kind, hardware):
    """Lists that the compiled-offset memory does not hold, filters that the factor registers do not hold."""
    shape, layout = Geometry(1, (5, 7), channels, 19, (3, 3), ((1, 1), (1, 0)), (1, 1), (1, 1)), ImageLayout(name)
    kernel = plan(hardware.cfg, CompiledConvolutionProblem(shape, layout))
    assert bool(kernel.entries.window) == ("refill" in kind) and kernel.streamed == ("stream" in kind)
    compare(hardware, np.random.default_rng(16), layout, shape)


@pytest.mark.parametrize("name, size", [("NHWC", (7, 320)), ("NCHW", (5, 256))])
def test_wide_images_on_the_hardware(name, size, hardware):
    """Bands of which shared memory has room for one."""
    shape, layout = Geometry(1, size, 8, 5, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1)), ImageLayout(name)
    kernel = plan(hardware.cfg, CompiledConvolutionProblem(shape, layout))
    assert kernel.waits and kernel.bands > 2
    compare(hardware, np.random.default_rng(17), layout, shape)


def test_random_geometries_of_every_kind():
    """Golden simulator: small memories need refills, streams, fewer slots and one place of bands, alone and together."""
    rng, kinds = np.random.default_rng(18), set()
    with Device(load_config("tiny"), "golden", memory_bytes=1 << 21) as device:
        layers = [*random_layers(rng, 30, MORE_ELEMENTS, MORE_CHANNELS, MOST_BYTES),
                  *((ImageLayout(name), wide_geometry(rng, 6000)) for name in ("NHWC", "NCHW", "NCHWc8", "CNHW")),
                  (ImageLayout("NHWC"), Geometry(1, (4, 370), 16, 5, (2, 2), ((0, 0),) * 2, (1, 1), (1, 1))),
                  *((ImageLayout(name), Geometry(2, (4, 6), channels, 18, (3, 3), ((0, 1), (1, 1)), (1, 2), (1, 1)))
                    for name, channels in (("NHWC", 28), ("NCHW", 30), ("NHWC", 72)))]
        for layout, shape in layers:
            kernel = plan(device.cfg, CompiledConvolutionProblem(shape, layout))
            kinds |= {name for name, found in {
                "refill": kernel.entries.window and not kernel.streamed, "stream": kernel.streamed and not kernel.entries.window,
                "both": kernel.streamed and kernel.entries.window, "waits": kernel.waits, "slots": len(kernel.slots) < 4}.items() if found}
            compare(device, rng, layout, shape)
    assert kinds == {"refill", "stream", "both", "waits", "slots"}


@pytest.mark.parametrize("whole", range(8))
def test_every_cut(whole):
    """Golden simulator: each way to cut a problem, of which later ones have shorter programs."""
    rng = np.random.default_rng([19, whole])

    def cuts(cfg, problem):
        yield CompiledConvolutionKernel(cfg, problem, whole)

    with Device(load_config("tiny"), "golden", memory_bytes=1 << 20) as device, pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompiledConvolutionKernel, "cuts", cuts)
        for name in ("NHWC", "NCHW", "NCHWc8"):
            compare(device, rng, ImageLayout(name), Geometry(1, (6, 40), 16, 19, (3, 2), ((1, 1),) * 2, (1, 2), (1, 1)))


# -- several cores --------------------------------------------------------------------------

@pytest.mark.parametrize("cores", [pytest.param(2, marks=pytest.mark.nightly), 3, pytest.param(4, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("whole", range(8))
def test_every_cut_on_several_cores(whole, cores):
    """Golden simulator: bands and filters are shared out, evenly or not, whatever a kernel does with its memories."""
    rng, shared = np.random.default_rng([23, whole, cores]), set()

    def cuts(cfg, problem):
        yield CompiledConvolutionKernel(cfg, problem, whole)

    cfg = OWN_PORTS.replace(name="cores", multicast=False, cores=cores, instruction_words=1024)
    with Device(cfg, "golden", memory_bytes=1 << 20) as device, pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompiledConvolutionKernel, "cuts", cuts)
        for name in ("NHWC", "NCHW", "NCHWc32"):
            for outputs, channels in ((5, 8), (51, 16)):
                shape = Geometry(1, (6, 40), channels, outputs, (3, 2), ((1, 1),) * 2, (1, 2), (1, 1))
                shares = CompiledConvolutionKernel(device.cfg, CompiledConvolutionProblem(shape, ImageLayout(name)), whole).shares
                shared |= {(len({share.row for share in shares}) > 1, len({share.column for share in shares}) > 1)}
                compare(device, rng, ImageLayout(name), shape)
    assert (False, True) in shared


def test_random_geometries_on_several_cores():
    """Golden simulator: also fewer bands and filters than cores."""
    rng = np.random.default_rng(24)
    with Device(OWN_PORTS.replace(name="cores", multicast=False, cores=3), "golden", memory_bytes=1 << 21) as device:
        for layout, shape in random_layers(rng, 40, MORE_ELEMENTS, MORE_CHANNELS, MOST_BYTES):
            compare(device, rng, layout, shape)


@pytest.mark.parametrize("name, outputs, channels", [("NHWC", 35, 4), ("NCHW", 5, 3), ("NCHWc4", 19, 8)])
def test_two_cores_on_the_hardware(name, outputs, channels):
    """Both cores work at once, on memory that is slow at times."""
    shape = Geometry(2, (12, 16), channels, outputs, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1))
    with Device(TWO_CORES, memory_bytes=1 << 20, latency=30, jitter=60, seed=3, timeout_cycles=2_000_000) as device:
        assert len(plan(device.cfg, CompiledConvolutionProblem(shape, ImageLayout(name))).shares) == 2
        stats = compare(device, np.random.default_rng(25), ImageLayout(name), shape)
    assert stats.peak_macs_per_cycle == 64


@pytest.mark.nightly
def test_quad_on_the_hardware():
    """Four cores take less than a third of what one takes."""
    shape, rng = Geometry(1, (28, 28), 64, 128, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1)), np.random.default_rng(26)
    with Device("quad", memory_bytes=1 << 21) as quad, Device("base", memory_bytes=1 << 21) as base:
        four, one = (compare(device, rng, ImageLayout("NHWC"), shape).cycles for device in (quad, base))
        assert 3 * four < one
        for layout, other in random_layers(rng, 12, 400, MORE_CHANNELS, 20_000):
            compare(quad, rng, layout, other)


@pytest.mark.parametrize("factor_words", [32, 64, 256])
def test_few_factor_registers(factor_words):
    """Golden simulator: halves of these need not begin where four registers are loaded at once."""
    rng = np.random.default_rng(20)
    with Device(load_config("tiny").replace(factor_words=factor_words), "golden", memory_bytes=1 << 20) as device:
        for name, channels in (("NHWC", 4), ("NCHW", 6), ("NCHWc4", 9)):
            compare(device, rng, ImageLayout(name), Geometry(1, (6, 7), channels, 19, (3, 3), ((1, 1),) * 2, (1, 1), (1, 1)))


@pytest.mark.parametrize("config", ["base", "large"])
def test_other_lanes(config):
    """More threads, words of 8 and 16 bytes, blocks of channels that are smaller and larger than a tile."""
    rng = np.random.default_rng(10)
    with Device(load_config(config), "golden", memory_bytes=1 << 21) as device:
        for name, channels in (("NHWC", 64), ("NCHWc32", 32), ("NCHWc16", 48), ("NCHWc8", 16), ("NCHW", 3), ("CNHW", 5)):
            shape = Geometry(2, (9, 11), channels, 70, (3, 3), ((1, 1),) * 2, (1, 2), (1, 1))
            compare(device, rng, ImageLayout(name), shape)


@pytest.mark.parametrize("size, stride, channels", [((11, 8), (2, 2), 8), ((9, 6), (3, 1), 16), ((40, 20), (2, 3), 16)])
def test_rows_that_no_filter_meets_are_left_out(size, stride, channels, hardware):
    """Filters of one row with strides copy the rows that they meet, in one band and in several."""
    shape, layout = Geometry(2, size, channels, 19, (1, 2), ((0, 0), (1, 0)), stride, (1, 1)), ImageLayout("NHWC")
    assert plan(hardware.cfg, CompiledConvolutionProblem(shape, layout)).row_step == stride[0]
    compare(hardware, np.random.default_rng(12), layout, shape)


@pytest.mark.parametrize("channels, halves", [(8, True), (40, False)])
def test_weights_have_two_places_or_one(channels, halves, hardware):
    """Those of the next filters come beside the first tile, or when the last tile has left their registers."""
    shape, layout = Geometry(1, (5, 5), channels, 37, (1, 3), ((0, 0), (1, 1)), (1, 1), (1, 1)), ImageLayout("NHWC")
    assert plan(hardware.cfg, CompiledConvolutionProblem(shape, layout)).halves is halves
    compare(hardware, np.random.default_rng(13), layout, shape)


@pytest.mark.parametrize("name, zero_point", [("NHWC", -128), ("NCHW", 77), ("NCHWc8", 5)])
def test_padding_reads_as_the_zero_point(name, zero_point, hardware):
    """By words and by bytes, on the hardware."""
    rng, layout = np.random.default_rng(15), ImageLayout(name)
    shape = Geometry(2, (5, 6), 8, 9, (2, 3), ((1, 1), (2, 1)), (1, 2), (1, 1))
    x, w = rng.integers(-128, 128, (2, 5, 6, 8), np.int8), rng.integers(-128, 128, (9, 8, 2, 3), np.int8)
    y, _ = hardware.conv(layout.from_channels_last(x), w, pads=shape.padding, strides=shape.stride, layout=layout.name, method="compiled",
                         x_zero_point=zero_point)
    padded = np.pad(x, ((0, 0), *shape.padding, (0, 0)), constant_values=zero_point)
    wanted = convolution(padded, np.moveaxis(w, 1, -1), ((0, 0),) * 2, shape.stride, shape.dilation)
    assert np.array_equal(layout.to_channels_last(y, 9), wanted - zero_point * w.astype(np.int32).sum(axis=(1, 2, 3)))


def test_auto_takes_what_is_expected_to_be_faster():
    rng = np.random.default_rng(11)
    x, w = rng.integers(-128, 128, (1, 56, 56, 3), np.int8), rng.integers(-128, 128, (32, 3, 7, 7), np.int8)
    with Device(load_config("base"), "golden", memory_bytes=1 << 21) as device:
        results = [device.conv(x, w, strides=2, pads=3, layout="NHWC", method=method) for method in ("auto", "compiled", "im2col")]
    assert all(np.array_equal(y, results[0].y) for y, _ in results)
    first, second, third = (stats.counters["instructions"] for _, stats in results)
    assert first == second != third


@pytest.mark.parametrize("channels, count, pads, size", [(4, 9, 8, 12), (200, 3, 1, 12)])
def test_auto_takes_im2col_where_offsets_cannot(channels, count, pads, size):
    """Filters with too many positions in the padding, and images of which shared memory does not hold the rows."""
    rng, shape = np.random.default_rng(14), ((pads, pads),) * 2
    x, w = rng.integers(-128, 128, (1, size, size, channels), np.int8), rng.integers(-128, 128, (5, channels, count, count), np.int8)
    with Device(load_config("tiny"), "golden", memory_bytes=1 << 21) as device:
        y, _ = device.conv(np.moveaxis(x, -1, 1), w, pads=pads)
    assert np.array_equal(np.moveaxis(y, 1, -1), convolution(x, np.moveaxis(w, 1, -1), shape, (1, 1), (1, 1)))


@pytest.mark.parametrize("config, changes, channels, options, says", [
    ("small", {}, 8, {}, "configuration small must have compiled_offsets for method \"compiled\" (compiled_offsets is 0; above 0 in "),
    ("tiny", {"fetch_words": 1}, 3, {}, "channels of a group must be a multiple of 4 with layout NCHW on tiny (fetch_words and threads"),
    ("tiny", {"factor_words": 32}, 33, {}, "factor_words must be at least 36 for 297 elements of a filter with layout NCHW, not 32"),
])
def test_what_cannot_run_is_refused_by_name(config, changes, channels, options, says):
    options = dict(options)
    count = options.pop("filters", 3)
    with Device(load_config(config).replace(**changes), "golden", memory_bytes=1 << 21) as device, pytest.raises(ValueError) as error:
        device.conv(np.ones((1, channels, 12, 12), np.int8), np.ones((2, channels, count, count), np.int8), method="compiled", **options)
    assert str(error.value).startswith(says)


def test_what_fits_with_whole_tiles_runs():
    """Tiles of fewer pixels need more bases: they are not taken where shared memory has no room for these."""
    rng = np.random.default_rng(15)
    with Device("base", "golden", memory_bytes=1 << 21) as device:
        compare(device, rng, ImageLayout("NHWC"), Geometry(1, (2, 10), 5072, 64, (1, 1), ((0, 0),) * 2, (1, 1), (1, 1)))


def test_rows_that_shared_memory_does_not_hold_are_refused_by_name():
    x, w = np.ones((1, 20, 900, 64), np.int8), np.ones((2, 64, 3, 3), np.int8)
    with Device("base", "golden", memory_bytes=1 << 22) as device, pytest.raises(ValueError) as error:
        device.conv(x, w, pads=1, layout="NHWC", method="compiled")
    assert str(error.value) == "shared_memory_kib must be at least 256 for a compiled convolution with threads = 32, dot = 8, not 128"


def test_elements_out_of_memory_are_an_error_of_the_hardware(hardware):
    """A table that leads out of shared memory stops with the address; nothing hangs, the device works afterwards."""
    shape, layout = Geometry(1, (4, 4), 4, 4, (1, 1), ((0, 0),) * 2, (1, 1), (1, 1)), ImageLayout("NHWC")
    made = CompiledConvolutionKernel.table_data

    def broken(kernel):
        table = made(kernel)
        table[ROW_BYTES + 2] |= 0x08        # bit 19 of the offset of the first entry
        return table

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompiledConvolutionKernel, "table_data", broken)
        with pytest.raises(RuntimeError, match="OUT_OF_RANGE at instruction"):
            compare(hardware, np.random.default_rng(1), layout, shape)
    compare(hardware, np.random.default_rng(1), layout, shape)
