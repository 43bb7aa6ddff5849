"""Layers on the device: bias and requantisation against their definition in exact integers."""

from fractions import Fraction

import numpy as np
import pytest
from heddle import Config, load_config
from heddle_sim import Device, Requantise
from heddle_sim.kernels.parts.requantisation import RequantiseSteps

TINY = load_config("tiny")
WIDE = Config(name="wide", threads=16, dot=8, shared_memory_kib=16, factor_words=128, axi_data_bits=128, thread_slots=4,
              thread_multipliers=1)
CORES = TINY.without_level2(name="cores", cores=3)
CORNERS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33)


def reference(value, multiplier, spec):
    """The definition, with exact fractions."""
    scaled = Fraction(value) * multiplier / 2**spec.shift + Fraction(1, 2)
    low, high = spec.bounds
    return min(max(scaled.numerator // scaled.denominator + spec.zero_point, low), high)


def random_spec(rng, n):
    """A requantisation with any factor, and one that brings many sums into range."""
    dtype = rng.choice([np.int8, np.uint8])
    limits = np.iinfo(dtype)
    multiplier = max(1, int(rng.integers(1 << 31) >> rng.integers(31)))
    usual = multiplier.bit_length() + int(rng.integers(2, 14))
    shift = min(usual, 62) if rng.random() < 0.6 else int(rng.integers(63))
    if rng.random() < 0.3:
        multiplier, shift = rng.integers(1 << 20, 1 << 31, n), int(rng.integers(33, 62))
    low, high = sorted(int(value) for value in rng.integers(limits.min, limits.max + 1, 2))
    zero = int(rng.integers(limits.min, limits.max + 1)) if rng.random() < 0.6 else 0
    return Requantise(multiplier, shift, zero, minimum=low if rng.random() < 0.3 else None, maximum=high if rng.random() < 0.3 else None,
                      relu=bool(rng.random() < 0.3 and zero <= high), dtype=dtype)


def test_golden_against_fractions():
    rng = np.random.default_rng(0)
    sums = np.array([0, 1, -1, (1 << 31) - 1, -(1 << 31), *rng.integers(-(1 << 31), 1 << 31, 30), *rng.integers(-999, 999, 20)], np.int32)
    for _ in range(150):
        spec = random_spec(rng, len(sums))
        multipliers = np.broadcast_to(spec.multiplier, sums.shape).tolist()
        expected = [reference(value, factor, spec) for value, factor in zip(sums.tolist(), multipliers)]
        assert spec.apply(sums).tolist() == expected, spec
    relu = Requantise(1, 1, zero_point=-3, minimum=-100, relu=True)
    assert relu.bounds == (-3, 127) and relu.apply(np.int32([-50, 9, 1])).tolist() == [-3, 2, -2]


def random_layer(rng, run):
    m, n = (int(rng.choice(CORNERS)) if rng.random() < 0.6 else int(rng.integers(1, 60)) for _ in range(2))
    k = int(rng.choice(CORNERS)) if rng.random() < 0.4 else int(rng.integers(1, 260))
    x, w = (rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)
            for dtype, shape in zip(rng.choice([np.int8, np.uint8], 2), ((m, k), (k, n))))
    bias = rng.integers(-(1 << 31), 1 << 31, n).astype(np.int32) >> int(rng.integers(0, 31)) if run % 3 else None
    return x, w, bias, None if run % 8 == 7 else random_spec(rng, n)


def check_layers(cfg, simulator, seed, runs):
    rng = np.random.default_rng(seed)
    with Device(cfg, simulator, memory_bytes=1 << 20, jitter=9) as device:
        for run in range(runs):
            x, w, bias, spec = random_layer(rng, run)
            sums = x.astype(np.int32) @ w.astype(np.int32) + (0 if bias is None else bias)
            y, stats = device.linear(x, w, bias, spec)
            expected = sums if spec is None else spec.apply(sums)
            assert y.dtype == expected.dtype and np.array_equal(y, expected), f"seed {seed}, run {run}: {x.shape} x {w.shape}, {spec}"
            assert stats.macs == x.shape[0] * w.size


@pytest.mark.parametrize("cfg", [TINY, WIDE, CORES], ids=lambda cfg: cfg.name)
def test_layers_on_the_functional_simulator(cfg):
    check_layers(cfg, "golden", 1, 60)


@pytest.mark.parametrize("cfg", [TINY, pytest.param(WIDE, marks=pytest.mark.nightly)], ids=lambda cfg: cfg.name)
def test_layers_on_the_hardware(cfg):
    check_layers(cfg, "verilator", 2, 24)


@pytest.mark.parametrize("columns", [32, 31, 64, 70])
def test_first_columns_have_their_own_multipliers(columns):
    """The first four columns of a tile are requantised with their multipliers from the first tile on (`base` as it ships)."""
    rng = np.random.default_rng(columns)
    x, w = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((70, 600), (600, columns)))
    bias = rng.integers(-1000, 1000, columns).astype(np.int32)
    spec = Requantise(rng.integers(1 << 28, 1 << 31, columns), 40)
    sums = x.astype(np.int32) @ w.astype(np.int32)
    with Device("base", "golden", memory_bytes=1 << 20) as device:
        assert np.array_equal(device.linear(x, w, None, spec)[0], spec.apply(sums))
        assert np.array_equal(device.linear(x, w, bias, spec)[0], spec.apply(sums + bias))


def test_transposed_weights():
    rng = np.random.default_rng(3)
    x, w = rng.integers(-128, 128, (2, 20, 30)).astype(np.int8)
    spec = Requantise(1 << 30, 41, relu=True)
    with Device(TINY, "golden", memory_bytes=1 << 20) as device:
        y, _ = device.linear(x, w, requantise=spec, transpose=True)
    assert np.array_equal(y, spec.apply(x.astype(np.int32) @ w.T.astype(np.int32)))


def test_messages():
    w = np.ones((4, 3), np.int8)
    with Device(TINY, "golden", memory_bytes=1 << 20) as device:
        for error, arguments, message in (
            (ValueError, (w, w), r"w must have shape \(3, N\) to match x of shape \(4, 3\), not \(4, 3\)"),
            (TypeError, (w.T.astype(np.int16), w), "x must have dtype int8 or uint8, not int16"),
            (TypeError, (w.T, w.astype(np.uint16)), "w must have dtype int8 or uint8, not uint16"),
            (TypeError, (w.T, w, np.zeros(3)), "bias must have integers of 32 bits, not float64"),
            (ValueError, (w.T, w, [0, 0, 1 << 31]), "bias must have integers of 32 bits, not 0 to 2147483648"),
            (ValueError, (w.T, w, [0, [1, 2], 3]), "bias must have a number for each column"),
            (ValueError, (w.T, w, np.zeros(4, np.int32)), r"bias must have shape \(3,\), not \(4,\)"),
            (TypeError, (w.T, w, None, 3), "requantise must be a Requantise, not int"),
            (ValueError, (w.T, w, None, Requantise(np.arange(1, 5), 40)),
             r"multiplier must be an integer or have shape \(3,\), not \(4,\)"),
            (ValueError, (np.ones((1, 2), np.int8), np.ones((2, 1200), np.int8), np.zeros(1200, np.int32)),
             "columns of w must be at most 1024 on tiny with bias of their own [(]shared_memory_kib = 16[)], not 1200"),
        ):
            with pytest.raises(error, match=f"^{message}$"):
                device.linear(*arguments)
    for error, arguments, message in (
        (TypeError, dict(multiplier=0.5, shift=3), "multiplier must be an integer or a one-dimensional integer array, not 0.5"),
        (ValueError, dict(multiplier=1 << 31, shift=3), "multiplier must be from 1 to 2147483647, not 2147483648 to 2147483648"),
        (ValueError, dict(multiplier=1, shift=63), "shift must be from 0 to 62, not 63"),
        (ValueError, dict(multiplier=1, shift=1, zero_point=128), "zero_point must be from -128 to 127, not 128"),
        (ValueError, dict(multiplier=1, shift=1, maximum=-4, relu=True), "maximum must be at least the lower bound 0, not -4"),
        (TypeError, dict(multiplier=1, shift=1, dtype=np.int16), "dtype must be int8 or uint8, not int16"),
    ):
        with pytest.raises(error, match=f"^{message}$"):
            Requantise(**arguments)
    with pytest.raises(ValueError, match="^multiplier / 2\\*\\*shift must be below 1/4"):
        RequantiseSteps.of(Requantise(np.array([1, 1 << 30]), 20))
