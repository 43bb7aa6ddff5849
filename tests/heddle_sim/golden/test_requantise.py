"""``Requantise``: TFLite's rounding by the text of its kernels, and what is refused."""

import numpy as np
import pytest
from heddle_sim import Device
from heddle_sim.golden.requantise import Requantise


def of_tflite(total, multiplier, exponent):
    """SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT, in whole numbers of any size."""
    product = total * multiplier
    nudged = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
    high = abs(nudged) // (1 << 31) * (1 if nudged >= 0 else -1)
    mask = (1 << exponent) - 1
    return (high >> exponent) + ((high & mask) > (mask >> 1) + (high < 0))


def test_double_rounding():
    rng, limits = np.random.default_rng(5), np.iinfo(np.int8)
    for _ in range(40):
        multipliers = np.where(rng.random(50) < 0.3, 1 << 30, rng.integers(1 << 30, 1 << 31, 50))
        exponents = rng.integers(2, 20, 50)
        halves = ((2 * rng.integers(-130, 130, 50) + 1) << 30 + exponents) // multipliers + rng.integers(-1, 3, 50)
        sums = np.where(rng.random(50) < 0.7, halves, rng.integers(-1 << 31, 1 << 31, 50))
        wanted = [of_tflite(*map(int, values)) for values in zip(sums, multipliers, exponents)]
        found = Requantise(multipliers, 31 + exponents, double_rounding=True).apply(sums)
        assert found.tolist() == np.clip(wanted, limits.min, limits.max).tolist()


SHIFTS = np.array([40, 41])
REFUSED = [
    ((np.array([1, 2, 3]), SHIFTS), TypeError, "shift must be an integer, or an integer array with one for each multiplier, not"),
    ((5, SHIFTS), TypeError, "shift must be an integer, or an integer array with one for each multiplier, not"),
    ((np.array([1, 2]), SHIFTS / 2), TypeError, "shift must be an integer, or an integer array with one for each multiplier, not"),
    ((np.array([1, 2]), np.array([32, 40])), ValueError, "shift must be from 33 to 62 as an array, not 32 to 40"),
    ((np.array([1, 2]), np.array([33, 63])), ValueError, "shift must be from 33 to 62 as an array, not 33 to 63"),
    ((np.array([1, 2]), np.ma.array(SHIFTS, mask=[0, 1])), TypeError, "shift must be"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), REFUSED)
def test_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Requantise(*arguments)


def test_double_rounding_needs_a_shift():
    with pytest.raises(ValueError, match="shift must be from 33 to 62, not 32"):
        Requantise(1, 32, double_rounding=True)
    with pytest.raises(TypeError, match="double_rounding must be"):
        Requantise(1, 40, double_rounding=1)


@pytest.mark.parametrize("spec", [Requantise(np.array([1, 2]), SHIFTS), Requantise(1, 40, double_rounding=True)], ids=["shifts", "twice"])
def test_products_and_averages_have_one_shift(spec):
    x, message = np.zeros((2, 4), np.int8), "requantise must have one shift and no double_rounding, but for convolutions"
    with Device("base", "golden", memory_bytes=1 << 16) as device:
        for call in (lambda: device.linear(x, x.T, None, spec), lambda: device.linear_chain(x, [(x.T, None, spec)])):
            with pytest.raises(ValueError, match=message):
                call()
        with pytest.raises(ValueError, match=message if not spec.per_column else "multiplier must be an integer for average_pool"):
            device.average_pool(np.zeros((1, 16, 4, 4), np.int8), 2, requantise=spec)
