"""Round-robin arbiter of streams: bench on both simulators, parameter errors."""

import pytest
from heddle.lib.round_robin import RoundRobin, RoundRobinArbiter
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.bench.round_robin import SHAPE, make_unit

# The variants of the device, and other numbers of inputs.
CASES = {
    "two": {"count": 2},
    "two_unlocked": {"count": 2, "locked": False, "first": 1},
    "four_registered": {"count": 4, "locked": False, "registered": True},
    "four_packets": {"count": 4, "last": "last", "first": 1},
    "one_packets": {"count": 1, "last": "last"},
    "three": {"count": 3, "first": 2},
    "five_packets_registered": {"count": 5, "last": "last", "registered": True},
}


MARKS = {"two": [pytest.mark.smoke], "five_packets_registered": []}


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, pytest.mark.nightly)) for name in CASES])
def test_bench(name, simulator, seed):
    parameters = CASES[name]
    run_bench(make_unit(**parameters), bench="heddle_verif.bench.round_robin", simulator=simulator, seed=seed, parameters=parameters,
              name=f"round_robin_{name}")


@pytest.mark.parametrize("make", [RoundRobin, lambda *arguments: RoundRobinArbiter(8, arguments[0], first=arguments[1])])
@pytest.mark.parametrize("count, first, message", [
    (0, 0, "^count must be an integer of at least 1, not 0"), (2.0, 0, "^count must be an integer of at least 1, not 2.0"),
    (3, 3, "^first must be from 0 to 2, not 3"), (1, -1, "^first must be from 0 to 0, not -1")])
def test_numbers(make, count, first, message):
    with pytest.raises(ValueError, match=message):
        make(count, first)


@pytest.mark.parametrize("shape, last", [(SHAPE, "ends"), (8, "last")])
def test_last_is_a_field(shape, last):
    with pytest.raises(ValueError, match=f"^last must be a field of the payload, not '{last}'"):
        RoundRobinArbiter(shape, 2, last=last)


def test_packets_lock_the_grant():
    with pytest.raises(ValueError, match="^last must be None without locked, not 'last'"):
        RoundRobinArbiter(SHAPE, 2, last="last", locked=False)
