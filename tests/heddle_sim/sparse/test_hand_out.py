"""Hand-out of tiles to cores: every tile once, none waits longer than the work in front of it [S4.3, S4.7]."""

import numpy as np
import pytest
from heddle_sim.sparse.hand_out import hand_out
from heddle_sim.sparse.orders import ORDERS, tile_order
from heddle_sim.sparse.tiles import row_tiles


def cases(count=120):
    rng = np.random.default_rng(6)
    for _ in range(count):
        yield rng.integers(0, int(rng.choice([1, 3, 1000])), int(rng.integers(0, 60))), int(rng.integers(1, 8)), int(rng.integers(0, 5))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_every_tile_runs_once(order, dynamic):
    """On one core, for as many cycles as it costs; the tiles of a core do not overlap."""
    for costs, cores, latency in cases():
        made = hand_out(costs, order, cores, dynamic, latency)
        runs = [run for core in made.cores for run in core]
        assert sorted(run.tile for run in runs) == list(range(len(costs))) and len(made.cores) == cores
        assert all(run.end - run.start == costs[run.tile] for run in runs)
        for core in made.cores:
            assert not core or core[0].start == 0
            gap = latency if dynamic else 0
            assert all(after.start == before.end + gap for before, after in zip(core, core[1:]))
        assert made.cycles == max((run.end for run in runs), default=0) and sum(made.work) == costs.sum()
        assert made.slowest_to_mean >= 1


@pytest.mark.parametrize("order", ORDERS)
def test_no_tile_starves(order):
    """With dynamic hand-out tiles start in their order. Until a tile starts, every core is at work on those in front of it."""
    for costs, cores, _ in cases():
        made = hand_out(costs, order, cores, True)
        starts = {run.tile: run.start for core in made.cores for run in core}
        waited = 0
        begun = 0
        for tile in tile_order(costs, order, cores):
            assert begun <= starts[tile] and starts[tile] * cores <= waited
            begun = starts[tile]
            waited += costs[tile]
        assert made.cycles * cores <= costs.sum() + (cores - 1) * costs.max(initial=0)


def test_by_hand():
    made = hand_out([4, 1, 1, 3], "natural", 2, dynamic=True)
    assert made.cores == (((0, 0, 4),), ((1, 0, 1), (2, 1, 2), (3, 2, 5))) and made.ends == [4, 5]
    assert (made.cycles, made.slowest_to_mean) == (5, 5 * 2 / 9)
    late = hand_out([4, 1, 1, 3], "natural", 2, dynamic=True, latency=2)
    assert late.cores == (((0, 0, 4), (3, 6, 9)), ((1, 0, 1), (2, 3, 4)))
    dealt = hand_out([4, 1, 1, 3], "natural", 2, dynamic=False)
    assert dealt.cores == (((0, 0, 4), (2, 4, 5)), ((1, 0, 1), (3, 1, 4)))
    assert hand_out([4, 3, 2, 1], "snake", 2, dynamic=False).ends == [5, 5]


def test_idle_cores_and_no_work():
    assert hand_out([], "sorted", 3, True).ends == [0, 0, 0]
    assert hand_out([], "sorted", 3, True).slowest_to_mean == 1
    assert hand_out([7], "sorted", 3, True).ends == [7, 0, 0]
    assert hand_out([0, 0, 0], "snake", 2, False).cycles == 0


def ratios(suite, order, dynamic):
    """Slowest core by mean of four, each matrix, N = 128, a row a tile, on 256 multipliers."""
    costs = [row_tiles(np.full(matrix.shape[0], 128)).cycles(matrix.lengths, 256) for matrix in suite.values()]
    return np.array([hand_out(each, order, 4, dynamic).slowest_to_mean for each in costs])


def check_balance(suite):
    """Sorted tiles, handed out when a core is done: the slowest core takes at most 3 % longer than the mean. Dealt in natural order it
    takes longer; in snake order less so."""
    natural, snake, dealt = (ratios(suite, order, False) for order in ("natural", "snake", "sorted"))
    taken = ratios(suite, "sorted", True)
    assert taken.max() <= 1.03
    assert taken.mean() <= snake.mean() <= dealt.mean() <= natural.mean()
    return natural, snake, taken


def test_balance_of_generated_matrices(generated):
    check_balance(generated)


def test_balance_of_the_collection(collection, say):
    natural, snake, taken = check_balance(collection)
    say(f"{len(collection)} matrices, slowest core by mean: natural {natural.mean():.3f}, snake {snake.mean():.3f}, sorted and dynamic "
        f"{taken.mean():.3f}, at most {taken.max():.3f}")


@pytest.mark.parametrize("make, kind, says", [
    (lambda: hand_out([1], "sorted", 2, 1), TypeError, "dynamic must be True or False, not 1"),
    (lambda: hand_out([1], "sorted", 2, True, -1), ValueError, "latency must be from 0 to 2147483647, not -1"),
    (lambda: hand_out([1], "best", 2, True), ValueError, "order must be one of natural, sorted, snake, grouped, not 'best'"),
])
def test_wrong_use(make, kind, says):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == says
