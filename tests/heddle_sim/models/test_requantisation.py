"""Factors of filters as multipliers and shifts: TFLite's numbers, filters without weights, and what has no room."""

import numpy as np
import pytest
from heddle_sim.models.requantisation import mean_requantisation, with_own_shifts

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


def test_means():
    """The multiplier is divided by the count as an integer; no room for factors from about 1/8 on, and for those that vanish."""
    spec = mean_requantisation(0.75, 49, 3, np.int8)
    assert (spec.multiplier, spec.shift, spec.double_rounding) == ((3 << 29 << 5) // 49, 36, True)
    assert mean_requantisation(1.0, 7, 3, np.int8) is None and mean_requantisation(1.0, 8, 3, np.int8).shift == 33
    assert mean_requantisation(2.0 ** -32, 64, 3, np.int8).shift == 62 and mean_requantisation(2.0 ** -33, 64, 3, np.int8) is None
