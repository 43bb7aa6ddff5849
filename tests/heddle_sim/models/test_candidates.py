"""Operations that run in another way because it is faster: products of few rows and sums, as convolutions."""

import numpy as np
import pytest
from heddle_sim import Device, Requantise
from heddle_sim.golden.pooling import add, add_factors
from heddle_sim.models.block_sum import BlockSum
from heddle_sim.models.candidates import candidates
from heddle_sim.models.operations import FullyConnected, Sum


@pytest.fixture(scope="module")
def device():
    with Device("base", "golden", memory_bytes=1 << 20) as device:
        yield device


@pytest.mark.parametrize("rows, methods", [
    (1, ["linear_chain", "conv", "linear"]), (8, ["linear_chain", "conv", "linear"]), (9, ["conv", "linear"]), (32, ["conv", "linear"]),
    (33, ["linear"])])
def test_products_of_few_rows(device, rows, methods):
    """The same bytes by both ways."""
    rng = np.random.default_rng(rows)
    x, w = rng.integers(-128, 128, (rows, 24), np.int8), rng.integers(-128, 128, (10, 24), np.int8)
    spec = Requantise(rng.integers(1 << 29, 1 << 31, 10), 41, zero_point=5)
    found = list(candidates(FullyConnected((rows, 10), w, rng.integers(-500, 500, 10).astype(np.int32), spec)))
    assert [one.method for one in found] == methods
    results = [one.run(device, [x])[0][0] for one in found]
    assert all(np.array_equal(results[0], result) and result.shape == (rows, 10) for result in results)


@pytest.mark.parametrize("scales, shape, dtype", [((0.77, 2.04, 1.0), (1, 5, 7, 3), np.int8), ((0.3, 0.3, 0.5), (64,), np.uint8),
                                                  ((0.9, 0.011, 1.0), (2, 33), np.int8)])
def test_sums_differ_by_at_most_one(device, scales, shape, dtype):
    """From the exact sum, rounded once; where weights of 8 bits are good enough."""
    rng, limits = np.random.default_rng(3), np.iinfo(dtype)
    a, b = (rng.integers(limits.min, limits.max, shape, dtype, endpoint=True) for _ in "ab")
    multipliers, shift = add_factors(*scales)
    points = (limits.min + 120, limits.min + 133)
    spec = Requantise(1, shift, limits.min + 110, limits.min + 4, limits.max - 2, dtype=dtype)
    one = Sum(shape, multipliers, points, spec, operands=(0, 1))
    blocks = BlockSum.of_sum(one)
    assert blocks is not None
    (found,), stats = blocks.run(device, [a, b])
    wanted = add(a, b, multipliers, points, one.output)
    assert np.abs(found.astype(int) - wanted).max() <= 1 and (found == wanted).mean() > 0.8
    assert found.shape == shape and stats.macs == 0


def test_sums_with_scales_that_are_far_apart_stay_sums():
    multipliers, shift = add_factors(3.0, 0.0041, 3.1)
    found = list(candidates(Sum((4,), multipliers, (0, 0), Requantise(1, shift), operands=(0, 1))))
    assert [one.method for one in found] == (["add"] if BlockSum.of_sum(found[-1]) is None else ["conv", "add"])


def test_addends_of_two_types_stay_sums(device):
    """The convolution is refused, the sum is not."""
    multipliers, shift = add_factors(0.5, 0.25, 0.5)
    first, second = candidates(Sum((4,), multipliers, (0, 128), Requantise(1, shift), operands=(0, 1)))
    a, b = np.arange(4, dtype=np.int8), np.arange(4, dtype=np.uint8)
    with pytest.raises(Exception, match="addends must have one type for a convolution, not int8 and uint8"):
        first.run(device, [a, b])
    assert second.run(device, [a, b])[0][0].shape == (4,)
