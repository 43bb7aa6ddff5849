"""Random programs on the generated hardware and on the functional simulator: all of global memory must be equal."""

import pytest
from heddle import load_config
from heddle.isa.error_codes import ErrorCode
from heddle_verif.differential.programs import (
    PRECISE,
    PROGRAMS_OF_A_DEVICE,
    compare_barrier_programs,
    compare_broken_programs,
    compare_programs,
)


def some(count, seeds):
    """Seeds, of which the first ``count`` run by day."""
    return [pytest.param(seed, marks=[pytest.mark.nightly] * (seed >= count)) for seed in range(seeds)]


@pytest.mark.parametrize("seed", some(4, 6))
def test_tiny(seed):
    compare_programs(load_config("tiny"), seed, PROGRAMS_OF_A_DEVICE)


@pytest.mark.parametrize("seed", some(1, 3))
def test_tiny_broken(seed):
    seen = compare_broken_programs(load_config("tiny"), seed, 2 * PROGRAMS_OF_A_DEVICE)
    assert PRECISE & set(seen)


def test_barriers():
    """Bytes expected in parts and in any order."""
    assert compare_barrier_programs(load_config("tiny"), 0, 10, wrong=0) == [None] * 10


def test_wrong_barriers():
    """Some barriers are told too few or too many bytes."""
    seen = compare_barrier_programs(load_config("tiny"), 1, 20, wrong=0.1)
    assert {ErrorCode.BARRIER_UNDERRUN, ErrorCode.BARRIER_OVERRUN} <= set(seen)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 1010))
@pytest.mark.parametrize("wrong", [0, 0.1])
def test_barriers_long(seed, wrong):
    compare_barrier_programs(load_config("tiny"), seed, 20, wrong=wrong)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 1140))
def test_tiny_long(seed):
    compare_programs(load_config("tiny"), seed, PROGRAMS_OF_A_DEVICE)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(560))
def test_tiny_soak(part, seed):
    compare_programs(load_config("tiny"), [seed, part], PROGRAMS_OF_A_DEVICE)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 1015))
def test_tiny_broken_long(seed):
    seen = compare_broken_programs(load_config("tiny"), seed, 2 * PROGRAMS_OF_A_DEVICE)
    assert PRECISE & set(seen)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(120))
def test_tiny_broken_soak(part, seed):
    seen = compare_broken_programs(load_config("tiny"), [seed, part], 2 * PROGRAMS_OF_A_DEVICE)
    assert PRECISE & set(seen)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
@pytest.mark.parametrize("name", ["small", "base"])
def test_larger(name, part, seed):
    """Small memories: programs meet in the same places more often. As they ship: ``test_presets.py``."""
    cfg = load_config(name)
    compare_programs(cfg.replace(shared_memory_kib=32, factor_words=64), [seed, part], PROGRAMS_OF_A_DEVICE)
