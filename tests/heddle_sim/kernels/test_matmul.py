"""Matrix products on the generated hardware: random shapes and signedness under random memory latency and jitter."""

import numpy as np
import pytest
from heddle_sim import Device

RUNS, GROUPS, BY_DAY = 200, 10, 5
CORNERS = (1, 2, 3, 7, 8, 9, 13, 16, 17, 24, 31, 32, 33)      # around the tile of 8 x 8, and primes


def random_operands(rng):
    """A and B of a random shape, with the extremes of their types among the values."""
    m, n = (int(rng.choice(CORNERS)) if rng.random() < 0.6 else int(rng.integers(1, 48)) for _ in range(2))
    k = int(rng.choice(CORNERS)) if rng.random() < 0.4 else int(rng.integers(1, 260))
    kinds = [np.int8, np.uint8] if rng.random() < 0.7 else [np.int16, np.uint16]
    operands = []
    for shape in ((m, k), (k, n)):
        dtype = rng.choice(kinds)
        limits = np.iinfo(dtype)
        values = rng.integers(limits.min, limits.max + 1, shape)
        extreme = rng.random(shape) < 0.1
        values[extreme] = rng.choice([limits.min, limits.max, 0], int(extreme.sum()))
        operands.append(values.astype(dtype))
    return operands


@pytest.mark.parametrize("group", [
    pytest.param(0, marks=pytest.mark.smoke), *range(1, BY_DAY),
    *[pytest.param(group, marks=pytest.mark.nightly) for group in range(BY_DAY, GROUPS)]])
def test_random_shapes_on_the_hardware(group, seed):
    """The requirement: 200 random shapes, 100 of them by day, each with its own memory; a failure names the seed that repeats it."""
    base = np.random.SeedSequence().entropy if seed is None else seed
    rng = np.random.default_rng([base, group])
    for run in range(RUNS // GROUPS):
        a, b = random_operands(rng)
        layout = str(rng.choice(["nk", "nk", "kn"]))
        settings = {"latency": int(rng.integers(1, 150)), "jitter": int(rng.integers(0, 60)), "seed": int(rng.integers(1 << 30))}
        with Device("tiny", simulator="verilator", **settings) as device:
            c, stats = device.matmul(a, b, b_layout=layout)
        about = f"seed {base}, group {group}, run {run}: {a.dtype} {a.shape} x {b.dtype} {b.shape} {layout}, {settings}"
        assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32)), about
        assert sum(stats.breakdown.values()) == stats.cycles, about
        assert stats.counters["matrix_steps"] >= a.shape[0] * b.shape[1] * a.shape[1] // (8 * 4), about
