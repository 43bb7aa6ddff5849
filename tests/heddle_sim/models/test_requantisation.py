"""Factors of filters as multipliers and shifts: TFLite's numbers, filters without weights, and what has no room."""

import numpy as np
import pytest
from heddle_sim.models.errors import Refusal
from heddle_sim.models.requantisation import mean_requantisation, with_one_shift, with_own_shifts

NO_BOUNDS = (None, None)


def spec_of(factors, sums, bias):
    return with_own_shifts(np.array(factors), 3, np.int8, NO_BOUNDS, np.array(sums, float), np.array(bias, np.int32), True)


def test_multipliers_have_31_bits():
    factors = [0.0123, 2.0 ** -20, np.nextafter(2.0 ** -7, 0)]      # the last one is rounded to the next power of two
    bias, spec = spec_of(factors, [1000] * 3, [5, -6, 7])
    assert bias.tolist() == [5, -6, 7] and spec.double_rounding
    assert spec.multiplier.tolist() == [round(0.0123 * 2.0 ** 37), 1 << 30, 1 << 30] and spec.shift.tolist() == [37, 50, 37]


def test_filters_without_weights():
    """Their biases have no room, but their results are always the same."""
    large, tiny = 1 << 30, 2.0 ** -26 * 0.9
    bias, spec = spec_of([0.01, tiny, tiny, 2.0 ** -40, tiny / 8], [9000, 0, 0, 50, 4], [100, large, -large, large, 7 - large])
    sums = np.array([1234, 0, 0, -50, 4])
    assert np.abs(bias).max() < 1 << 26 and bias[0] == 100
    assert spec.apply(sums + bias).tolist() == [13 + 3, 14 + 3, -14 + 3, 0 + 3, -2 + 3]


@pytest.mark.parametrize(("factors", "sums", "bias"), [
    ([0.25, 0.1], [100, 100], [0, 0]), ([0.1, np.inf], [100, 100], [0, 0]), ([0.1, 0.0], [100, 100], [0, 0]),
    ([0.1, 0.001], [100, 1e8], [0, 0]), ([0.1, 1e-6], [100, 1e6], [0, 1 << 27])])
def test_no_room(factors, sums, bias):
    assert spec_of(factors, sums, bias) is None


def test_filters_of_no_use_with_one_shift():
    """Factors that differ by 2**60: the result of a filter is always the same, which another filter, bias and factor give."""
    rng, points = np.random.default_rng(3), np.array([3, 0, -5, 0, 0])
    w, bias = rng.integers(-6, 7, (5, 2, 3, 3), np.int8), np.array([10, 1 << 30, -(1 << 29), 5, 1 << 10], np.int32)
    factors = np.array([0.61803, 1e-7, 1e-8, 1e-18, 0.050007])
    other, biases, spec = with_one_shift(factors, 3, np.int8, NO_BOUNDS, w, points, bias)
    same = [0, 4]
    assert np.array_equal(other[same], w[same]) and np.array_equal(biases[same], bias[same])
    assert not (other[1:4] - points[1:4].reshape(-1, 1, 1, 1)).any()
    x = rng.integers(-9, 10, (200, 2, 3, 3))
    sums, others = (np.tensordot(x, v - points.reshape(-1, 1, 1, 1).astype(int), ((1, 2, 3), (1, 2, 3))) + b
                    for v, b in ((w, bias), (other, biases)))
    wanted = np.clip(np.floor(sums * factors + 0.5) + 3, -128, 127)
    assert np.array_equal(spec.apply(others), wanted) and min(len(np.unique(wanted[:, index])) for index in same) > 5
    assert (wanted[:, 1:4] == [107 + 3, -5 + 3, 3]).all()


def test_small_factors_of_filters_that_are_of_use():
    """Their results differ: nothing stands in for them."""
    w, points, bias = np.full((2, 4), 100, np.int8), np.zeros(1, np.int64), np.zeros(2, np.int32)
    found = with_one_shift(np.array([1.0, 2.0 ** -17]), 3, np.int8, NO_BOUNDS, w, points, bias)
    assert found[0] is w and found[1] is bias
    with pytest.raises(Refusal, match="factors of the filters must differ less"):
        with_one_shift(np.array([2.0 ** 14, 0.01]), 3, np.int8, NO_BOUNDS, w, points, bias)


def test_means():
    """The multiplier is divided by the count as an integer; no room for factors from about 1/8 on, and for those that vanish."""
    spec = mean_requantisation(0.75, 49, 3, np.int8)
    assert (spec.multiplier, spec.shift, spec.double_rounding) == ((3 << 29 << 5) // 49, 36, True)
    assert mean_requantisation(1.0, 7, 3, np.int8) is None and mean_requantisation(1.0, 8, 3, np.int8).shift == 33
    assert mean_requantisation(2.0 ** -32, 64, 3, np.int8).shift == 62 and mean_requantisation(2.0 ** -33, 64, 3, np.int8) is None
