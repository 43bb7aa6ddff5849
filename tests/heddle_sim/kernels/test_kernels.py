"""Kernels of matrix products: merges, loop orders, products in shared memory, folding; by function and on the hardware."""

import math
import re

import numpy as np
import pytest
from heddle import load_config
from heddle.config import ConfigError
from heddle_sim import Device
from heddle_sim.kernels import split, swapped
from heddle_sim.kernels.parts.cost import bus_cycles
from heddle_sim.kernels.parts.merges import MERGES, Merge
from heddle_sim.kernels.parts.stream_tiling import StreamTiling
from heddle_sim.kernels.parts.tiling import Tiling
from heddle_sim.kernels.planner import candidates, plan, preferred
from heddle_sim.kernels.problem import Layout, MatmulProblem, Schedule
from heddle_sim.kernels.split import SplitKernel
from heddle_sim.kernels.streaming import StreamingKernel
from heddle_sim.kernels.swapped import SwappedKernel
from heddle_sim.kernels.tiled import TiledKernel

TINY = load_config("tiny")
PAIRS = [(ka, kb) for ka in MERGES for kb in MERGES if (ka > 1) + (ka > 2) + (kb > 1) + (kb > 2) <= 3]     # groups of at most 8 lanes
WORDS = (np.int16, np.uint16)
SHAPES = [(1, 1, 1), (3, 9, 17), (9, 17, 33), (5, 8, 64), (4, 10, 150)]
RESIDENT_SHAPES = [(1, 1, 1), (3, 9, 17), (9, 17, 33), (5, 8, 64), (4, 10, 300)]


def operands(m, n, k, a_type=np.int8, b_type=np.int8):
    rng = np.random.default_rng([m, n, k])
    return (rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
            for kind, shape in ((a_type, (m, k)), (b_type, (k, n))))


def check(device, m, n, k, kinds=None, **options):
    a, b = operands(m, n, k, *kinds or (np.uint8 if n % 2 else np.int8,))
    c, stats = device.matmul(a, b, **options)
    assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32)), (m, n, k, options)
    assert device.memory.allocator.used == 0
    return stats


@pytest.fixture(scope="module", params=["golden", "verilator"])
def device(request):
    with Device(TINY, request.param, memory_bytes=1 << 20) as device:
        yield device


@pytest.mark.parametrize("ka, kb", PAIRS)
def test_merges(device, ka, kb):
    """Ragged rows, columns and k with every merge, in both loop orders [S0.4-S0.7]."""
    for index, shape in enumerate(SHAPES):
        check(device, *shape, ka=ka, kb=kb, order=("k-outer", "column-outer")[index % 2])
    check(device, 9, 17, 33, WORDS, ka=ka, kb=kb)


@pytest.mark.parametrize("ka, kb", PAIRS)
def test_merges_of_rows(device, ka, kb):
    """The same with B in rows, from global memory and inside shared memory [S0.8]."""
    for index, shape in enumerate(SHAPES[1:4]):
        order = ("k-outer", "column-outer")[index % 2]
        check(device, *shape, ka=ka, kb=kb, order=order, b_layout="kn")
        stats = check(device, *shape, (WORDS if index == 1 else None), ka=ka, kb=kb, order=order, b_layout="kn", resident=True)
        if stats.cycles is not None:
            assert stats.counters["read_beats"] == stats.counters["write_beats"] == 0


@pytest.mark.parametrize("ka, kb", PAIRS)
def test_few_rows(device, ka, kb):
    """All rows in one tile: A stays in the factor registers. Columns for less than one, one, and more tiles than there are slots."""
    merge = Merge(TINY.threads, TINY.dot, ka, kb)
    shapes = [(merge.rows, 8, 64), (1, 16, 5), (merge.rows, 25, 100), (max(1, merge.rows - 1), 47, 130), (1, 64, 33)]
    for index, (m, n, k) in enumerate(shapes):
        assert StreamTiling.choose(TINY, m, n, k, merge)
        check(device, m, n, k, ka=ka, kb=kb, order=("k-outer", "column-outer")[index % 2])
    check(device, merge.rows, 19, 51, WORDS, ka=ka, kb=kb)


def test_rows_that_fill_no_tile(device, monkeypatch):
    """A product of their own for the rows behind the last full block: one row, all but one, behind one block and behind several."""
    monkeypatch.setattr(split, "_GAIN", math.inf)
    for index, (m, n, k) in enumerate([(9, 17, 33), (15, 8, 64), (25, 40, 100), (18, 1, 1), (23, 47, 130)]):
        schedule = Schedule(1, 1, ("k-outer", "column-outer")[index % 2])
        assert type(plan(TINY, MatmulProblem(m, n, k, schedule=schedule))) is SplitKernel
        check(device, m, n, k, ka=1, kb=1, order=schedule.order)
    check(device, 18, 19, 51, WORDS, ka=1, kb=1)


@pytest.mark.parametrize("ka, kb", PAIRS)
def test_few_columns(device, ka, kb, monkeypatch):
    """All columns in one tile: the product of the transposes. Rows for less than one, one, and more tiles than there are slots."""
    monkeypatch.setattr(swapped, "_GAIN", math.inf)
    columns = Merge(TINY.threads, TINY.dot, ka, kb).rows
    shapes = [(9, columns, 64), (16, 1, 5), (25, columns, 100), (47, max(1, columns - 1), 130), (191, 1, 33)]
    for index, (m, n, k) in enumerate(shapes):
        schedule = Schedule(ka, kb, ("k-outer", "column-outer")[index % 2])
        assert type(plan(TINY, MatmulProblem(m, n, k, schedule=schedule))) is SwappedKernel
        check(device, m, n, k, ka=ka, kb=kb, order=schedule.order)
    check(device, 51, columns, 19, WORDS, ka=ka, kb=kb)


def test_what_takes_few_columns():
    """On ``base`` 8 columns and one, with the merges that the cost model chooses; not 256 columns, and not B in rows."""
    cfg = load_config("base")
    for m, n, k in ((512, 8, 512), (1024, 1, 256)):
        assert type(plan(cfg, MatmulProblem(m, n, k))) is SwappedKernel
        assert type(plan(cfg, MatmulProblem(m, n, k, layout=Layout("kn")))) is TiledKernel
    assert type(plan(cfg, MatmulProblem(512, 256, 512))) is TiledKernel


def test_few_rows_of_all_cores():
    with Device(TINY.without_level2(name="three", cores=3), "golden", memory_bytes=1 << 20) as device:
        for shape in ((2, 40, 60), (5, 17, 33), (6, 3, 9), (1, 100, 20)):
            check(device, *shape, ka=4)
            check(device, *shape, ka=2, kb=2)


def test_what_takes_few_rows():
    """Rows beyond a tile, or an A that its registers do not hold, are the business of the other kernel."""
    cfg = load_config("base")
    assert StreamTiling.choose(cfg, 8, 256, 512, Merge(32, 8, 4)).columns == 8
    assert StreamTiling.choose(cfg, 32, 256, 512, Merge(32, 8)) and not StreamTiling.choose(cfg, 33, 256, 512, Merge(32, 8))
    assert not StreamTiling.choose(cfg, 8, 256, 8000, Merge(32, 8))
    for ka in MERGES:
        for kb in MERGES:
            for k in (1, 16, 100, 1000, 3000):
                merge = Merge(32, 8, ka, kb)
                tiling = StreamTiling.choose(cfg, 1, 200, k, merge)
                if tiling:
                    problem = MatmulProblem(1, 200, k, schedule=Schedule(ka, kb, "k-outer"))
                    assert StreamingKernel.fits(cfg, problem)
                    assert len(StreamingKernel(cfg, problem, tiling).programs[0]) <= cfg.instruction_words
                    assert tiling.c_stages[1] + merge.rows * tiling.c_pitch <= cfg.shared_bytes


@pytest.mark.parametrize("ka, kb", PAIRS)
def test_resident(device, ka, kb):
    """The same in shared memory; the counted run does not touch global memory."""
    for index, shape in enumerate(RESIDENT_SHAPES):
        stats = check(device, *shape, ka=ka, kb=kb, order=("column-outer", "k-outer")[index % 2], resident=True)
        assert stats.macs == shape[0] * shape[1] * shape[2]
        if stats.cycles is not None:
            assert stats.counters["read_beats"] == stats.counters["write_beats"] == 0
            assert stats.cycles == sum(stats.breakdown.values())
    stats = check(device, 9, 17, 33, WORDS, ka=ka, kb=kb, resident=True)
    assert stats.peak_macs_per_cycle == TINY.peak_macs(2)


def test_three_lanes_of_a_row_keep_off_the_next():
    """The last columns of a row are not a multiple of three: what its lanes store beyond them must not reach the next row."""
    with Device(TINY, "golden", memory_bytes=1 << 20) as device:
        for n in range(1, 26):
            for layout in ("nk", "kn"):
                check(device, 8, n, 9, ka=3, resident=True, b_layout=layout)


@pytest.mark.parametrize("resident", [False, True])
def test_choice_of_the_cost_model(device, resident):
    for shape in SHAPES:
        check(device, *shape, resident=resident)


@pytest.mark.parametrize("config", ["small", "base", "large", "resident64"])
def test_configurations(config):
    with Device(config, "golden") as device:
        for ka, kb in ((None, None), (1, 4), (3, 2)):
            check(device, 19, 70, 85, ka=ka, kb=kb)
            check(device, 19, 70, 85, ka=ka, kb=kb, resident=True)


def test_cores_share_merged_tiles():
    with Device(TINY.without_level2(name="three", cores=3), "golden", memory_bytes=1 << 20) as device:
        check(device, 5, 19, 40, ka=4)
        check(device, 5, 19, 40, kb=2)
        with pytest.raises(ValueError, match="^cores must be 1 for a resident product, not 3$"):
            check(device, 5, 19, 40, resident=True)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"ka": 5}, "ka must be one of 1, 2, 3, 4, not 5"),
        ({"kb": 0}, "kb must be one of 1, 2, 3, 4, not 0"),
        ({"ka": True}, "ka must be one of 1, 2, 3, 4, not True"),
        ({"ka": 4, "kb": 3}, "ka and kb must give groups of at most 8 lanes, not 16 (ka 4, kb 3)"),
        ({"order": "rows"}, "order must be one of k-outer, column-outer, not 'rows'"),
        ({"order": "rows", "resident": True}, "order must be one of k-outer, column-outer, not 'rows'"),
        ({"b_layout": "kn", "resident": True, "ka": 1, "kb": 1}, "shared_memory_kib must be at least 64 for a resident product with "
         "threads = 8, dot = 4, m = 100, n = 100, k = 4, ka = 1, kb = 1, not 16"),
        ({"resident": True, "ka": 1, "kb": 1}, "shared_memory_kib must be at least 64 for a resident product with threads = 8, dot = 4, "),
    ],
)
def test_wrong_choices(options, message):
    with Device(TINY, "golden", memory_bytes=1 << 20) as device:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            device.matmul(np.zeros((100, 4), np.int8), np.zeros((4, 100), np.int8), **options)
        assert device.memory.allocator.used == 0


def test_a_program_too_long_is_refused():
    with Device(TINY, "golden", memory_bytes=1 << 20) as device, pytest.raises(
            ConfigError, match="^instruction_words must be at least 1024 for a resident product with .*, ka = 3, kb = 2, not 512$"):
        device.matmul(np.zeros((24, 75), np.int8), np.zeros((75, 25), np.int8), ka=3, kb=2, resident=True)


@pytest.mark.parametrize("threads", [8, 16, 32, 64])
def test_columns_of_a_tile_are_dealt_out_once(threads):
    for ka in MERGES:
        merge = Merge(threads, 8, ka)
        assert sorted(map(merge.column, range(threads))) == list(range(threads))
        assert list(map(Merge(threads, 8, ka, 1, True).column, range(threads))) == list(range(threads))
        for register, first in merge.stores():      # what a vector store of lane a writes
            for position in range(ka):
                columns = [merge.column((register + index) * ka + position) if (register + index) * ka + position < threads else None
                           for index in range(merge.vector)]
                expected = [first + position * merge.vector + index for index in range(merge.vector)]
                assert columns == expected or None in columns


def test_the_cost_model_prefers_merges_for_few_rows():
    cfg = load_config("base")
    few, many = (preferred(candidates(cfg, MatmulProblem(m, n, 512))).problem.schedule for m, n in ((8, 256), (512, 512)))
    assert few.ka * few.kb == 4 and (many.ka, many.kb) == (1, 1)
    merged, plain = (candidates(cfg, MatmulProblem(8, 256, 512, schedule=Schedule(ka, 1, "k-outer")))[0] for ka in (4, 1))
    assert merged.cycles < 0.4 * plain.cycles
    assert bus_cycles(cfg, 8, 256, 512) == (8 + 256) * 512 // 32
    assert Tiling.choose(cfg, 512).chunks == 1


# -- folding --------------------------------------------------------------------------------

FOLDS = [
    ((7,), (7,), 1), ((7,), (7, 5), 1), ((3, 7), (7,), (1, 0)), ((3, 7), (5, 7), ([1], [1])), ((7, 3), (7, 5), (0, 0)),
    ((2, 3, 7), (7, 4), 1), ((2, 7, 3), (4, 7, 2), (1, 1)), ((2, 3, 2, 7), (7, 2, 3, 2), 1), ((2, 3, 7, 2), (2, 3, 2, 7), (-2, -1)),
]


@pytest.mark.parametrize("a_shape, b_shape, axes", FOLDS)
def test_tensordot_equals_numpy(device, a_shape, b_shape, axes):
    """Operands of one to four dimensions over any one axis [S0.16]."""
    rng = np.random.default_rng(len(a_shape))
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in (a_shape, b_shape))
    c, stats = device.tensordot(a, b, axes)
    expected = np.tensordot(a.astype(np.int32), b.astype(np.int32), axes)
    assert c.shape == expected.shape and c.dtype == np.int32 and np.array_equal(c, expected)
    assert stats.macs == expected.size * 7


@pytest.mark.parametrize(
    "a_shape, b_shape, axes, message",
    [
        ((3, 4), (4, 5), 2, "axes must contract one axis (1 or a pair of axes), not 2"),
        ((3, 4), (4, 5), 0, "axes must contract one axis (1 or a pair of axes), not 0"),
        ((3, 4), (4, 5), ([0, 1], [0, 1]), "axes must contract one axis (1 or a pair of axes), not ([0, 1], [0, 1])"),
        ((3, 4), (4, 5), "k", "axes must contract one axis (1 or a pair of axes), not 'k'"),
        ((3, 4), (4, 5), (2, 0), "axes must name an axis of a from -2 to 1, not 2"),
        ((3, 4), (5, 4), 1, "axes must have the same length in a and b, not 4 and 5"),
        ((), (5,), 1, "a must have at least 1 dimension, not 0"),
    ],
)
def test_wrong_axes(a_shape, b_shape, axes, message):
    with Device(TINY, "golden", memory_bytes=1 << 20) as device, pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        device.tensordot(np.ones(a_shape, np.int8), np.ones(b_shape, np.int8), axes)
