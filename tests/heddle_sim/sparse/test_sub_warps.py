"""Groups of rows for sub-warps against their definition, row by row [S4.5]."""

import numpy as np
import pytest
from heddle import load_config
from heddle_sim.sparse import compress
from heddle_sim.sparse.sub_warps import group_elements, like_rows, most_strips, row_groups


@pytest.mark.parametrize("strips", [1, 2])
@pytest.mark.parametrize("pairs", [1, 2])
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 13])
def test_groups(strips, pairs, rows, seed):
    """Each element is where its row, its group and its step say; the others are zeros."""
    rng = np.random.default_rng(seed)
    dense = rng.integers(1, 100, (20, 30)).astype(np.int8) * (rng.random((20, 30)) < 0.3)
    a, first = compress("a", dense), 4
    groups = row_groups(a, first, rows, strips, pairs)
    count = -(-rows // (1 << strips))
    assert groups.shape == (count, 30)
    found = np.zeros((count << strips, 30), np.int64)
    for group in range(count):
        elements = slice(groups.indptr[group], groups.indptr[group + 1])
        for number, (index, value) in enumerate(zip(groups.indices[elements], groups.data[elements], strict=True)):
            found[(number // pairs % (1 << strips)) * count + group, index] += value
    np.testing.assert_array_equal(found[:rows], dense[first:first + rows])
    assert not found[rows:].any()
    np.testing.assert_array_equal(np.diff(groups.indptr), group_elements(a.lengths[first:first + rows], strips, pairs))


def test_like_rows(seed):
    """The shortest first where there are sub-warps, whose groups then have fewer elements; each row once."""
    rng, cfg = np.random.default_rng(seed), load_config("base")
    dense = (rng.random((50, 40)) < rng.random((50, 1)) ** 3).astype(np.int8)
    a = compress("a", dense)
    order = like_rows(cfg, a, 32, "sorted")
    assert sorted(order) == list(range(50)) and like_rows(cfg, a, 128, "sorted") is None and like_rows(cfg, a, 32, "natural") is None
    lengths = a.lengths[order]
    assert (np.diff(lengths) >= 0).all()
    least, natural = (sum(group_elements(found[first:first + 4], 2, 2).sum() for first in range(0, 50, 4))
                      for found in (lengths, a.lengths))
    assert least < natural
    np.testing.assert_array_equal(a.take_rows(order).dense(), dense[order])


def test_group_elements():
    """The longest row of a group says how many steps it has."""
    assert group_elements(np.array([5, 0, 3, 0]), strips=1, pairs=2).tolist() == [12, 0]
    assert group_elements(np.array([5, 4, 3]), strips=1, pairs=2).tolist() == [12, 8]
    assert group_elements(np.array([1, 2, 3]), strips=2, pairs=1).tolist() == [12]


@pytest.mark.parametrize("name, columns, strips", [
    ("tiny", 8, 0), ("base", 1, 2), ("base", 32, 2), ("base", 33, 1), ("base", 64, 1), ("base", 65, 0), ("large", 64, 2), ("large", 65, 1)])
def test_most_strips(name, columns, strips):
    assert most_strips(load_config(name), columns) == strips
