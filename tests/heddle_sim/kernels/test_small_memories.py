"""Kernels in small memories: another cut is taken, or the parameter that is too small is named before anything runs."""

import re

import numpy as np
import pytest
from heddle import Config, load_config
from heddle.config import ConfigError
from heddle.isa.error_codes import ErrorCode
from heddle_sim import Device, Requantise
from heddle_sim.device.errors import DeviceError
from heddle_sim.golden.convolution import convolution
from heddle_sim.isa.features import NUMBERS
from heddle_sim.kernels.gather import GatherProblem
from heddle_sim.kernels.parts.convolution_shape import ConvolutionShape
from heddle_sim.kernels.parts.fitting import Region, check_factors, check_regions
from heddle_sim.kernels.parts.merges import Merge
from heddle_sim.kernels.parts.tiling import Tiling
from heddle_sim.kernels.planner import plan
from heddle_sim.kernels.problem import ConvolutionProblem

PLAIN = Config(name="plain")
FEATURES = {"tensors": True, "name": "with_tensors"}


def multiply(cfg, m, n, k, kinds=(np.int8, np.int8), **options):
    rng = np.random.default_rng([m, n, k])
    a, b = (rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
            for kind, shape in zip(kinds, ((m, k), (k, n))))
    with Device(cfg, "golden", memory_bytes=1 << 20) as device:
        c, _ = device.matmul(a, b, **options)
    assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("values, shape, options", [
    (dict(threads=32, dot=4, shared_memory_kib=4, factor_words=256), (18, 26, 36), {"ka": 4, "kb": 4}),
    (dict(threads=64, dot=8, shared_memory_kib=32), (8, 8, 8), {}),
    (dict(threads=64, dot=8, shared_memory_kib=32), (8, 8, 8), {"ka": 1, "kb": 1}),
    (dict(threads=64, dot=8, shared_memory_kib=4), (70, 130, 100), {}),
    (dict(threads=64, dot=4, shared_memory_kib=4), (70, 130, 100), {"b_layout": "kn"}),
])
def test_products_in_small_shared_memories_are_right(values, shape, options):
    """306 of 468 elements of the first were wrong; the others ended with ZeroDivisionError."""
    multiply(PLAIN.replace(**values), *shape, (np.uint8, np.int8), **options)


@pytest.mark.parametrize("threads", [8, 16, 32, 64])
def test_chunks_as_long_as_the_pitch_of_a_column(threads):
    """Chunks of 32 bytes of columns of 48 have the pitch of whole columns, and are no copies of whole columns."""
    cfg = PLAIN.replace(threads=threads, dot=16, shared_memory_kib=4, factor_words=32)
    found = [Tiling.choose(cfg.replace(shared_memory_kib=kib), 40) for kib in (4, 8, 16) if threads < 64 or kib > 8]
    assert threads != 32 or any(tiling.chunks > 1 and tiling.ab_pitch == tiling.pitch for tiling in found)
    for kib in (4, 8, 16) if threads < 64 else (8, 16):
        multiply(cfg.replace(shared_memory_kib=kib), threads + 8, 9, 40, ka=1, kb=1)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("spec", [None, Requantise(1 << 20, 30)])
def test_linear_in_small_shared_memories(bias, spec):
    rng = np.random.default_rng(0)
    x, w, offsets = rng.integers(-128, 128, (37, 40), np.int8), rng.integers(-128, 128, (40, 45), np.int8), np.arange(45, dtype=np.int32)
    for threads, kib in ((32, 4), (32, 8), (64, 8), (64, 16), (64, 32)):
        with Device(PLAIN.replace(threads=threads, shared_memory_kib=kib), "golden", memory_bytes=1 << 20) as device:
            sums = x.astype(np.int32) @ w.astype(np.int32) + (offsets if bias else 0)
            y, _ = device.linear(x, w, offsets if bias else None, spec)
            assert np.array_equal(y, spec.apply(sums) if spec else sums), (threads, kib)


@pytest.mark.parametrize("dot", [4, 8, 16])
def test_resident_products_with_few_factor_words(dot):
    """With dot = 4 and 32 words a vector load writes two groups of registers of the scoreboard."""
    cfg = PLAIN.replace(dot=dot, factor_words=32, shared_memory_kib=64, instruction_words=4096)
    for threads in (8, 32):
        for ka, kb in ((1, 1), (2, 1), (1, 2), (3, 1)):
            for layout in ("nk", "kn"):
                multiply(cfg.replace(threads=threads), 9, 17, 100, ka=ka, kb=kb, resident=True, b_layout=layout)


def test_resident_rows_that_do_not_exist_are_not_loaded_from_beyond_shared_memory():
    multiply(PLAIN.replace(threads=64, shared_memory_kib=4), 1, 2, 300, ka=1, kb=1, resident=True)


@pytest.mark.parametrize("values, options, message", [
    ({"threads": 64, "shared_memory_kib": 4}, {"ka": 1, "kb": 1},
     "shared_memory_kib must be at least 8 for matmul with threads = 64, dot = 8, ka = 1, kb = 1, not 4"),
    ({"instruction_words": 128}, {}, "instruction_words must be at least 256 for matmul with threads = 32, dot = 8, not 128"),
    ({"instruction_words": 128, "cores": 4}, {"ka": 1, "kb": 1},
     "instruction_words must be at least 256 for matmul with threads = 32, dot = 8, ka = 1, kb = 1, not 128"),
    ({"shared_memory_kib": 4}, {"ka": 1, "kb": 1, "resident": True}, "shared_memory_kib must be at least 32 for a resident product with "
     "threads = 32, dot = 8, m = 70, n = 30, k = 20, ka = 1, kb = 1, not 4"),
    ({"instruction_words": 64, "threads": 8}, {"ka": 1, "kb": 1, "resident": True}, "instruction_words must be at least 256 for a resident "
     "product with threads = 8, dot = 8, m = 70, n = 30, k = 20, ka = 1, kb = 1, not 64"),
])
def test_what_does_not_fit_is_refused_by_name(values, options, message):
    cfg = PLAIN.replace(**values)
    with Device(cfg, "golden", memory_bytes=1 << 20) as device:
        with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
            device.matmul(np.ones((70, 20), np.int8), np.ones((20, 30), np.int8), **options)
        assert device.memory.allocator.used == 0
    parameter, least = message.split()[0], int(re.search(r"at least (\d+)", message)[1])
    multiply(cfg.replace(**{parameter: least}), 70, 30, 20, **options)


def test_a_layer_and_a_convolution_are_refused_by_name():
    cfg = PLAIN.replace(threads=64, shared_memory_kib=4, **FEATURES)
    with Device(cfg, "golden", memory_bytes=1 << 20) as device:
        for least, what, call in (
                (8, "linear", lambda: device.linear(np.ones((70, 20), np.int8), np.ones((20, 30), np.int8))),
                (32, "a convolution", lambda: device.conv(np.ones((1, 16, 8, 8), np.int8), np.ones((3, 16, 3, 3), np.int8))),
                (8, "gather", lambda: plan(cfg, GatherProblem()))):
            rule = f"^shared_memory_kib must be at least {least} for {what} with threads = 64, dot = 8, not 4$"
            with pytest.raises(ConfigError, match=rule):
                call()


@pytest.mark.parametrize("threads, kib, stages", [(64, 32, 1), (64, 64, 2), (32, 16, 2)])
def test_convolutions_with_one_staging_area(threads, kib, stages):
    cfg = PLAIN.replace(threads=threads, shared_memory_kib=kib, **FEATURES)
    shape = ConvolutionShape(1, (9, 9), 16, 70, (3, 3), ((1, 1), (1, 1)), (1, 1), (1, 1))
    assert plan(cfg, ConvolutionProblem(shape)).stage_count == stages
    x, w = np.random.default_rng(threads).integers(-128, 128, (1, 9, 9, 16), np.int8), np.ones((70, 3, 3, 16), np.int8)
    with Device(cfg, "golden", memory_bytes=1 << 20) as device:
        y, _ = device.conv(x, np.moveaxis(w, -1, 1), pads=1, layout="NHWC")
    assert np.array_equal(y, convolution(x, w, shape.padding, shape.stride, shape.dilation))


def test_convolutions_of_stride_one_need_no_traversal_strides():
    cfg = PLAIN.replace(threads=8, tensor_strides=False, **FEATURES)
    x, w = np.arange(-50, 78, dtype=np.int8).reshape(1, 4, 4, 8), np.ones((3, 2, 2, 8), np.int8)
    with Device(cfg, "golden", memory_bytes=1 << 20) as device:
        filters = np.moveaxis(w, -1, 1)
        assert np.array_equal(device.conv(x, filters, layout="NHWC")[0], convolution(x, w, ((0, 0),) * 2, (1, 1), (1, 1)))
        with pytest.raises(ValueError, match="must have tensor_strides for a convolution .tensor_strides is false; true in base"):
            device.conv(x, filters, strides=2, layout="NHWC")


def test_tiles_are_as_wide_as_shared_memory_has_room():
    found = [Tiling.choose(PLAIN.replace(threads=64, shared_memory_kib=kib), 16, Merge(64, 8)) for kib in (64, 32, 16, 8)]
    assert [(tiling.columns, tiling.stages) for tiling in found] == [(64, 2), (64, 1), (32, 1), (16, 1)]


def test_overlapping_areas_and_missing_registers_are_seen():
    check_regions(PLAIN, [Region("A", 0, 16), Region("B", 16, 16)])
    for regions in ([Region("A", 0, 17), Region("B", 16, 16)], [Region("A", 0, 0)], [Region("A", PLAIN.shared_bytes - 8, 16)],
                    [Region("A", -16, 16)]):
        with pytest.raises(AssertionError):
            check_regions(PLAIN, regions)
    check_factors(PLAIN, 7 * 64)
    for words in (0, 7 * 64 + 1):
        with pytest.raises(AssertionError):
            check_factors(PLAIN, words)


# -- features --------------------------------------------------------------------------------


@pytest.mark.parametrize("lacks, text, message", [
    ("mm16", "mm16.sa.sb r0, ur0:rf256:0, r256", r"mm16 must be true for this instruction \(mm16 is false; true in .*base.*\)"),
    ("transpose", "mm8.t1.sa.sb r0, ur0:rf256:0, r256", r"transpose must be true .*base"),
    ("tensors", "prefetch_block ur0, 0", r"tensors must be true .*base"),
    ("rnn", "rnn ur0", r"rnn must be true .*base"),
    ("sparse", "sparse ur0", r"sparse must be true .*base"),
    ("copy_within", "copy_block.shared.shared ur0, ur1, 1", r"copy_within must be true .*base"),
    ("copy_swizzles", "copy_block.shared.global.128B ur0, ur1, 1", r"copy_swizzles must be true .*base"),
    ("copy_swizzles", "segment.shared.b8.d1.128B ur1, 0", r"copy_swizzles must be true .*base"),
    ("tensors", "segment.shared.b8.d1.32B ur1, 0", r"tensors must be true .*base"),
    ("compiled_offsets", "mm8.ow.sa.sb r0, ur0:rf256:0, r256", r"must be above 0 .*compiled_offsets is 0; above 0 in .*base"),
    ("compiled_offsets", "offsets.k1 0, ur0:rf256:0", r"compiled_offsets must be above 0 .*base"),
    ("multicast", "copy_block.shared.global.multicast ur0, ur1, 1, ur2, b0", r"multicast must be true"),
])
def test_a_feature_that_is_missing_is_named_with_the_presets_that_have_it(lacks, text, message):
    cfg = load_config("base").replace(name="lacking", **{
        "sparse": False, "gather_offsets": False, lacks: 0 if lacks in NUMBERS else False})
    with Device(cfg, "golden", memory_bytes=1 << 16) as device, pytest.raises(DeviceError, match=message) as raised:
        device.run(f"segment.shared.b8.d1 ur0, 0\n{text}\nhalt")
    assert raised.value.code is ErrorCode.UNSUPPORTED


def test_a_rule_of_all_configurations_is_no_missing_feature():
    with Device("tiny", "golden", memory_bytes=1 << 16) as device, pytest.raises(
            DeviceError, match=r"b must be a segment in shared memory$"):
        device.run("segment.global.b8.d1 ur3, 0\nmm8.sa.sb r0, ur3:rf257:0, r256\nhalt")
