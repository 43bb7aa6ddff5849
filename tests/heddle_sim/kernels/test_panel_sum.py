"""Sums of two tensors on the sparse engine: weights that give every result, and the same bytes as those of the golden model."""

from dataclasses import replace

import numpy as np
import pytest
from heddle import load_config
from heddle_sim import Device, Requantise
from heddle_sim.device.elementwise import sum_problem
from heddle_sim.device.observers import executed_kernels
from heddle_sim.golden.pooling import add, add_factors
from heddle_sim.kernels.elementwise import SumKernel
from heddle_sim.kernels.panel_sum import PanelSumKernel
from heddle_sim.kernels.parts.sum_weights import MOST_WEIGHT, sum_weights
from heddle_sim.kernels.planner import plan
from heddle_verif.stimulus.integers import random_integers

TYPES = (np.int8, np.uint8)
# Scales of a, b and the result. ``tiny`` has 16 places for weights, the others 32: elements go through them twice, or three times.
FEW, FAR = (0.7, 0.9, 1.1), (0.9, 0.011, 1.0)
REPEATED = {16: (1.02805019, 0.55072273, 1.0), 32: (1.28027831, 0.66923067, 1.0)}


@pytest.fixture(scope="module", params=["tiny", "base", "quad"])
def golden(request):
    with Device(request.param, "golden", memory_bytes=1 << 21) as device:
        yield device


def every_pair(dtype):
    limits = np.iinfo(dtype)
    return np.meshgrid(np.arange(limits.min, limits.max + 1), np.arange(limits.min, limits.max + 1))


def problem_of(scales, count=1 << 14, dtypes=(np.int8, np.int8)):
    multipliers, shift = add_factors(*scales)
    a, b = (np.zeros(count, dtype) for dtype in dtypes)
    return sum_problem(a, b, multipliers, (3, 5), Requantise(1, shift, 7, dtype=dtypes[0]))


def run(device, rng, scales, count, dtype, **bounds):
    """A sum of random bytes, compared; returns the kernel."""
    a, b, points = random_integers(rng, dtype, count), random_integers(rng, dtype, count), random_integers(rng, dtype, 3).tolist()
    multipliers, shift = add_factors(*scales)
    with executed_kernels() as kernels:
        y, _ = device.add(a, b, multipliers, shift, a_zero_point=points[0], b_zero_point=points[1], zero_point=points[2], **bounds)
    expected = add(a, b, multipliers, tuple(points[:2]), Requantise(1, shift, points[2], dtype=dtype, **bounds))
    assert y.dtype == expected.dtype and np.array_equal(y, expected), (scales, count, points)
    assert device.memory.allocator.used == 0
    return kernels[0]


@pytest.mark.parametrize("most, least_share", [(42, 0.8), (90, 0.95)])
def test_weights_give_every_result(most, least_share):
    """All 65,536 pairs, computed with whole numbers; how many sums have such weights."""
    rng, found = np.random.default_rng(41), 0
    for number in range(40):
        dtype = TYPES[number % 2]
        a, b = every_pair(dtype)
        limits, scales = np.iinfo(dtype), np.exp(rng.normal(0, 0.7, 2))
        if number % 8 == 0:
            scales[1] = scales[0]
        multipliers, shift = add_factors(*scales, np.hypot(*scales))
        points = tuple(rng.integers(limits.min, limits.max, 3, endpoint=True).tolist())
        bounds = sorted(rng.integers(limits.min, limits.max, 2, endpoint=True).tolist()) if number % 4 == 1 else (None, None)
        output = Requantise(1, shift, points[2], *bounds, dtype=dtype)
        weights = sum_weights(multipliers, points[:2], output, np.dtype(dtype), most)
        if weights is None:
            continue
        found += 1
        assert 2 <= weights.elements <= most and 33 <= weights.shift <= 62 and 0 < weights.multiplier < 1 << 31
        sums = weights.a * a.astype(object) + weights.b * b + weights.bias
        made = np.clip((sums * weights.multiplier + (1 << weights.shift - 1) >> weights.shift) + points[2], *output.bounds)
        assert (made == add(a.astype(dtype), b.astype(dtype), multipliers, points[:2], output)).all(), (multipliers, shift, points)
    assert found >= least_share * 40


def test_sums_near_a_half_may_be_rounded_either_way():
    """Factors of three digits have many sums at halves, and few weights. All other sums are as ever."""
    near, (a, b) = 1 << 8, every_pair(np.int8)
    for scales in ((0.311, 0.508, 1.0), (0.54, 0.588, 1.0), (0.71, 0.93, 1.12)):
        multipliers, shift = add_factors(*scales)
        output = Requantise(1, shift, -9)
        arguments = multipliers, (3, -5), output, np.dtype(np.int8), 90
        assert sum_weights(*arguments) is None
        weights = sum_weights(*arguments, near)
        sums = multipliers[0] * (a - 3) + multipliers[1] * (b + 5)
        distance = np.abs((sums & (1 << shift) - 1) - (1 << shift - 1))
        made = (weights.a * a + weights.b * b + weights.bias) * weights.multiplier + (1 << weights.shift - 1) >> weights.shift
        differs = np.clip(made - 9, -128, 127) != add(a.astype(np.int8), b.astype(np.int8), multipliers, (3, -5), output)
        assert differs.any() and distance[differs].max() < near


def test_only_where_exact_is_false(golden):
    """Where there are exact weights these are taken all the same."""
    problem = problem_of((0.71, 0.93, 1.12))
    assert isinstance(plan(golden.cfg, problem), SumKernel)
    assert isinstance(plan(golden.cfg, replace(problem, exact=False)), PanelSumKernel)
    exact, loose = (PanelSumKernel(golden.cfg, replace(problem_of(FEW), exact=exact)).weights for exact in (True, False))
    assert exact == loose
    x = np.arange(-128, 128, dtype=np.int8).repeat(32)
    y, _ = golden.add(x, x[::-1], problem.multipliers, int(problem.output.shift), exact=False)
    expected = add(x, x[::-1], problem.multipliers, (0, 0), Requantise(1, problem.output.shift))
    assert np.abs(y.astype(int) - expected).max() <= 1 and (y == expected).mean() > 0.9
    with pytest.raises(TypeError, match="exact must be True or False, not 0"):
        golden.add(x, x, (1, 1), 1, exact=0)


def test_weights_that_are_not_found():
    assert sum_weights((3774874, 46137), (3, -5), Requantise(1, 22, 7), np.dtype(np.int8), 60) is None
    assert sum_weights((1, (1 << 31) - 1), (0, 0), Requantise(1, 0), np.dtype(np.int8), 60) is None


def test_one_result_only():
    """Bounds that leave nothing to choose."""
    weights = sum_weights((5, 7), (0, 0), Requantise(1, 3, 0, 9, 9), np.dtype(np.int8), 60)
    assert weights is not None and weights.multiplier > 0


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_sizes_around_chunks(repeated, dtype, golden):
    """Around one, two and four chunks on each core: a block of 16 bytes more and less, and a byte around it."""
    rng = np.random.default_rng(42)
    kernel, taken = PanelSumKernel(golden.cfg, problem_of(FEW)), set()
    scales = REPEATED[kernel.places] if repeated else FEW
    for chunks in (1, 2, 4):
        for more in (-17, -16, 0, 1):
            taken.add(type(run(golden, rng, scales, chunks * golden.cfg.cores * kernel.chunk + more, dtype, relu=bool(more % 2))))
    assert PanelSumKernel in taken


@pytest.mark.parametrize("cfg", ["tiny", "base"])
def test_elements_behind_the_places_have_the_first_weights(cfg):
    """Of many random sums: in one turn, two and three."""
    rng, config, turns = np.random.default_rng(43), load_config(cfg), set()
    for _ in range(60):
        try:
            kernel = PanelSumKernel(config, problem_of((*rng.uniform(0.2, 1.5, 2), 1.0)))
        except ValueError:
            continue
        used = [kernel.multiplied[number % kernel.places] for number in range(len(kernel.fetched))]
        for tensor in (0, 1):
            assert sum(weight for weight, fetched in zip(used, kernel.fetched) if fetched == tensor) == kernel.weights[tensor]
        assert max(used) == MOST_WEIGHT or len(used) <= 2
        turns.add(-(-len(used) // kernel.places))
    assert turns == {1, 2, 3}


def test_the_thread_unit_takes_the_rest():
    """Few bytes, addends of two types, factors without weights, configurations without the engine; all sums of a kind have a family."""
    base = load_config("base")
    assert isinstance(plan(base, problem_of(FEW)), PanelSumKernel)
    for cfg, problem in ((load_config("tiny"), problem_of(FEW, 16)), (base, problem_of(FEW, dtypes=(np.uint8, np.int8))),
                         (base, problem_of(FAR)), (base.replace(name="plain", sparse=False), problem_of(FEW)),
                         (load_config("small_all"), problem_of(FEW))):
        assert isinstance(plan(cfg, problem), SumKernel)


@pytest.mark.parametrize("cfg, problem, message", [
    ("small_all", problem_of(FEW), r"configuration small_all must have sparse \(.*\) for sums on the sparse engine"),
    ("base", problem_of(FEW, dtypes=(np.uint8, np.int8)), "a and b must have one type for sums on the sparse engine, not uint8 and int8"),
    ("base", problem_of(FAR), r"multipliers must be near two sums of weights for the sparse engine, not \(3774874, 46137\)")])
def test_refused(cfg, problem, message):
    with pytest.raises(ValueError, match=message):
        PanelSumKernel(load_config(cfg), problem)


def test_a_program_does_not_grow_with_the_tensors():
    lengths = {len(plan(load_config("quad"), problem_of(FEW, count)).programs[0].words) for count in (1 << 14, 1 << 20)}
    assert len(lengths) == 1
