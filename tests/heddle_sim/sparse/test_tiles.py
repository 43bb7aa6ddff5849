"""Tiles of rows of the output: every element in exactly one tile [S4.3]."""

import numpy as np
import pytest
from heddle_sim.sparse.tiles import row_tiles


@pytest.mark.parametrize("tile", [None, 1, 2, 7, 16, 128, 1000])
def test_every_element_is_in_exactly_one_tile(tile):
    """Rows of all lengths, also empty ones: dense results and sparse ones."""
    rng = np.random.default_rng(2)
    for _ in range(40):
        elements = rng.integers(0, rng.choice([1, 5, 40, 300]), int(rng.integers(0, 30)))
        tiles = row_tiles(elements, tile)
        seen = [np.zeros(count, int) for count in elements]
        for row, start, stop in zip(tiles.rows, tiles.starts, tiles.stops, strict=True):
            seen[row][start:stop] += 1
        assert all((row == 1).all() for row in seen)
        assert (tiles.sizes >= 1).all() and len(tiles) == len(tiles.sizes)
        last = np.diff(tiles.rows, append=-1) != 0
        assert (tiles.sizes[~last] == tile).all() and (tiles.sizes <= (tile or 300)).all()
        assert (np.diff(tiles.rows) >= 0).all()


def test_the_last_tile_of_a_row_is_shorter():
    tiles = row_tiles(np.full(2, 10), 4)
    assert tiles.rows.tolist() == [0, 0, 0, 1, 1, 1]
    assert tiles.starts.tolist() == [0, 4, 8] * 2 and tiles.stops.tolist() == [4, 8, 10] * 2
    assert tiles.macs(np.array([3, 0])).tolist() == [12, 12, 6, 0, 0, 0]
    assert tiles.cycles(np.array([3, 5]), 8).tolist() == [2, 2, 1, 3, 3, 2]


@pytest.mark.parametrize("make, kind, says", [
    (lambda: row_tiles(np.array([3]), 0), ValueError, "tile must be from 1 to 2147483647, not 0"),
    (lambda: row_tiles(np.array([3]), 1.5), TypeError, "tile must be an integer, not 1.5"),
    (lambda: row_tiles(np.array([3, -1])), ValueError, "elements must be 0 or more, not -1 (row 1)"),
    (lambda: row_tiles(np.array([0.5])), TypeError, "elements must be an array of integers with one dimension, not of float64 with 1"),
    (lambda: row_tiles(np.array([3])).cycles(np.array([1]), 0), ValueError, "multipliers must be from 1 to 2147483647, not 0"),
])
def test_wrong_use(make, kind, says):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == says
