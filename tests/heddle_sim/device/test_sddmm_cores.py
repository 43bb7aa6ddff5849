"""Sampled products of several cores: tiles from the tile scheduler [S4.7], results that one core collects [S4.8]."""

import numpy as np
import pytest
import scipy.sparse as sp
from heddle import load_config
from heddle_sim.device import Device
from heddle_sim.kernels.planner import plan
from heddle_sim.kernels.sampled_product import SampledProductKernel, SampledProductProblem
from heddle_sim.kernels.scheduled_samples import ScheduledSamplesKernel
from heddle_sim.sparse import compress
from heddle_sim.sparse.orders import ORDERS
from heddle_verif.differential.programs import random_settings
from heddle_verif.stimulus.sparse_matrices import operand, random_topologies, random_values
from heddle_verif.variants.shared_devices import TWO_CORES

MEMORY = 1 << 20
SHAPES = [(1, 1, 1), (3, 70, 40), (40, 33, 7), (120, 20, 50), (17, 300, 33)]


@pytest.fixture(scope="module", params=["golden", "verilator"])
def device(request):
    with Device(TWO_CORES, request.param, memory_bytes=MEMORY) as device:
        yield device


def check(device, rng, dense, inner, transpose, pattern=False, types=(np.int8, np.int8), **options):
    """A product at the elements of ``dense``; those that count are exact, and the result has their pattern."""
    mask, a, b = sp.csr_array(dense), operand(rng, (dense.shape[0], inner), types[0]), operand(rng, (inner, dense.shape[1]), types[1])
    found, _ = device.sddmm(a, b.T if transpose else b, mask, transpose, pattern, **options)
    expected = a.astype(np.int64) @ b.astype(np.int64) * (1 if pattern else dense.astype(np.int64))
    rows = np.repeat(np.arange(mask.shape[0]), np.diff(mask.indptr))
    assert (found.indptr == mask.indptr).all() and (found.indices == mask.indices).all()
    np.testing.assert_array_equal(found.data, expected[rows, mask.indices].astype(np.int32))


def uneven(rng, m, n):
    """A mask some of whose rows have many elements, and some none."""
    return operand(rng, (m, n)) * (rng.random((m, n)) < 0.6 * rng.random((m, 1)) ** 4)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("m, k, n", SHAPES)
def test_shapes(device, m, k, n, transpose, seed):
    """Fewer tiles than cores, panels of columns, parts of K whose sums are added."""
    rng = np.random.default_rng(seed)
    mask = uneven(rng, m, n)
    mask[0, 0] = 1
    check(device, rng, mask, k, transpose)
    check(device, rng, mask, k, transpose, collect=True)


@pytest.mark.parametrize("order", ORDERS)
def test_orders(device, order, seed):
    rng = np.random.default_rng(seed)
    for dynamic in (False, True):
        check(device, rng, uneven(rng, 60, 50), 40, dynamic, order=order, dynamic=dynamic)


def test_types(device, seed):
    rng = np.random.default_rng(seed)
    for types in ((np.uint8, np.int8), (np.int8, np.uint8), (np.int16, np.uint8)):
        check(device, rng, (uneven(rng, 20, 30) * 77).astype(np.int16), 33, True, types=types)


def test_no_elements(device):
    empty = sp.csr_array(np.zeros((30, 9), np.int8))
    for collect in (False, True):
        assert device.sddmm(np.ones((30, 4), np.int8), np.ones((4, 9), np.int8), empty, collect=collect)[0].nnz == 0


def test_under_delays(seed):
    """Whatever memory takes; every other product is collected."""
    rng = np.random.default_rng(seed)
    for number, (_, topology) in enumerate(random_topologies(rng, 8, 60)):
        dense = random_values(rng, topology, np.int8)
        if 0 not in dense.shape:
            with Device(TWO_CORES, memory_bytes=MEMORY, memory_settings=random_settings(rng)) as device:
                check(device, rng, dense, int(rng.choice([1, 32, 33, 100])), bool(number % 3), bool(number % 4), collect=bool(number % 2))


@pytest.mark.nightly
def test_topologies(device, seed):
    rng = np.random.default_rng(seed)
    for number, (_, topology) in enumerate(random_topologies(rng, 120, 90)):
        dense = random_values(rng, topology, (np.int8, np.uint8, np.int16)[number % 3])
        if 0 not in dense.shape:
            check(device, rng, dense, int(rng.choice([1, 7, 31, 32, 33, 64, 300])), bool(number % 2), bool(number % 5))


@pytest.mark.parametrize("by_columns", [False, True])
def test_a_plan(by_columns):
    """A program of the same length whatever the number of tiles; each element of the mask has a sum of its own."""
    cfg, lengths = load_config("quad"), set()
    for rows in (200, 2000):
        mask = compress("mask", sp.random_array((rows, 60), density=0.2, rng=1, dtype=np.float64).astype(bool).astype(np.int8))
        kernel = plan(cfg, SampledProductProblem(mask, 300, order="sorted", by_columns=by_columns))
        assert isinstance(kernel, ScheduledSamplesKernel)
        lengths |= {kernel._text(part).instructions for part in kernel.parts}
        part, = kernel.parts
        (tiles,), places = part.blocks, kernel.places
        covered = sorted(row for tile in tiles for row in range(tile.first, tile.first + tile.rows))
        assert len(covered) == len(set(covered)) and set(mask.rows.tolist()) <= set(covered)
        assert len(set(places.tolist())) == mask.elements and places.max() < kernel.sums
    assert len(lengths) == 1
    for dealt in (SampledProductProblem(mask, 300, dynamic=False), SampledProductProblem(mask, 300, collect=True)):
        assert type(plan(cfg, dealt)) is SampledProductKernel


def test_what_cannot_be_collected():
    a, b = sp.csr_array(np.eye(5, dtype=np.int8)), np.ones((5, 3), np.int8)
    with (Device(TWO_CORES.replace(multicast=False), "golden", memory_bytes=MEMORY) as device,
          pytest.raises(ValueError, match="collect must be False in configuration tiny_cores2 .*multicast")):
        device.sddmm(b, b.T, a, collect=True)
