"""Vector loads: every element is loaded once, at aligned addresses, foreign values masked; loads with and without packing [S4.5, S4.6]."""

import numpy as np
import pytest
from heddle_sim.sparse import Compressed, compress
from heddle_sim.sparse.orders import tile_order
from heddle_sim.sparse.packing import LoadCounts, Piece, load_counts, row_pieces, vector_loads
from heddle_verif.stimulus.sparse_matrices import random_topologies


def of_lengths(*lengths):
    """A matrix whose rows have so many elements."""
    most = max(lengths)
    return Compressed.of_dense((np.arange(most)[None] < np.array(lengths)[:, None]).astype(np.int8))


def matrices(count=100):
    rng = np.random.default_rng(12)
    for _, topology in random_topologies(rng, count, 30):
        yield compress("a", topology.astype(np.int8)), rng


def test_offsets_are_moved_back_to_the_aligned_address():
    """Elements 5 to 10 by vectors of 4: from address 4, element 4 is masked in front and element 11 behind."""
    assert [*row_pieces(7, 5, 11, 4)] == [Piece(7, 4, 4, 5, 8), Piece(7, 8, 4, 8, 11)]
    assert [bin(piece.mask) for piece in row_pieces(7, 5, 11, 4)] == ["0b1110", "0b111"]
    plain = [*row_pieces(7, 5, 11, 4, aligned=False)]
    assert plain == [Piece(7, 5, 1, 5, 6), Piece(7, 6, 1, 6, 7), Piece(7, 7, 1, 7, 8), Piece(7, 8, 4, 8, 11)]
    assert [*row_pieces(7, 5, 5, 4)] == [*row_pieces(7, 5, 5, 4, aligned=False)] == []
    assert [*row_pieces(0, 5, 7, 4, aligned=False)] == [Piece(0, 5, 1, 5, 6), Piece(0, 6, 1, 6, 7)]


@pytest.mark.parametrize("vector, sub_warps", [(1, 1), (2, 2), (8, 1), (8, 2), (16, 4), (32, 8), (64, 64)])
@pytest.mark.parametrize("aligned", [True, False])
def test_every_element_is_loaded_once(vector, sub_warps, aligned):
    """For its own row, at an address that is a multiple of the width of the access, in any order of the rows."""
    for matrix, rng in matrices():
        rows = rng.permutation(matrix.shape[0]) if rng.integers(2) else None
        loads = vector_loads(matrix, vector, sub_warps, aligned, rows)
        seen = np.zeros(matrix.elements, int)
        owner = matrix.rows
        for load in loads:
            assert 1 <= len(load.pieces) <= sub_warps and len({piece.row for piece in load.pieces}) == len(load.pieces)
            for piece in load.pieces:
                assert piece.address % piece.width == 0 and piece.address <= piece.start < piece.stop <= piece.address + piece.width
                own = [piece.address + bit for bit in range(piece.width) if piece.mask >> bit & 1]
                assert own == [*range(piece.start, piece.stop)] and (owner[own] == piece.row).all()
                seen[own] += 1
            assert sum(piece.width for piece in load.pieces) <= vector
            assert all(matrix.lengths[piece.row] <= vector // sub_warps for piece in load.pieces) or len(load.pieces) == 1
        assert (seen == 1).all()


def test_short_rows_share_loads():
    """Rows of 2 elements, vectors of 8: four rows a load with four sub-warps, two with two. Without moving back, every other row of
    two sub-warps begins within a piece and is read one by one."""
    matrix = of_lengths(*[2] * 8)
    assert load_counts(matrix, 8, 4) == LoadCounts(plain=14, aligned=8, packed=2, both=2)
    assert load_counts(matrix, 8, 2) == LoadCounts(plain=14, aligned=8, packed=8, both=4)
    loads = vector_loads(matrix, 8, 4)
    assert [[(piece.row, piece.address, piece.mask) for piece in load.pieces] for load in loads] == [
        [(0, 0, 3), (1, 2, 3), (2, 4, 3), (3, 6, 3)], [(4, 8, 3), (5, 10, 3), (6, 12, 3), (7, 14, 3)]]


def test_long_rows_do_not_share():
    """Rows of 1, 9, 1, 0 and 1 elements: the long one has two loads of 8 by itself; the two behind it share one."""
    loads = vector_loads(of_lengths(1, 9, 1, 0, 1), 8, 2)
    assert [[piece.row for piece in load.pieces] for load in loads] == [[0], [1], [1], [2, 4]]
    assert [load.pieces[0].width for load in loads] == [8, 8, 8, 4]


def test_counts_are_those_of_the_lists():
    """And neither moving back nor sharing adds a load."""
    for matrix, rng in matrices(150):
        vector = int(rng.choice([2, 8, 32]))
        sub_warps = int(rng.choice([1, 2, vector]))
        order = tile_order(matrix.lengths, "sorted", 1) if rng.integers(2) else None
        counts = load_counts(matrix, vector, sub_warps, order)
        assert counts == LoadCounts(*(len(vector_loads(matrix, vector, *how, order))
                                      for how in ((1, False), (1, True), (sub_warps, False), (sub_warps, True))))
        assert counts.plain >= counts.aligned >= counts.both and counts.plain >= counts.packed >= counts.both
        assert counts.both * vector >= matrix.elements


def gains(suite):
    counts = [load_counts(matrix, 32, 4) for matrix in suite.values()]
    return [sum(getattr(count, name) for count in counts) for name in ("plain", "aligned", "packed", "both")]


def test_gain_on_generated_matrices(generated):
    """Vectors of 32 elements, a beat of the bus of ``base``: moving back is worth most; sub-warps save a tenth of what is left."""
    plain, aligned, packed, both = gains(generated)
    assert plain > 5 * aligned and plain > packed and aligned > 1.08 * both


def test_gain_on_the_collection(collection, say):
    plain, aligned, packed, both = gains(collection)
    assert plain > 5 * aligned and plain > packed and aligned > 1.08 * both
    say(f"{len(collection)} matrices: {plain} loads, {aligned} aligned, {packed} packed, {both} with both")


@pytest.mark.parametrize("vector, sub_warps, kind, says", [
    (12, 1, ValueError, "vector must be a power of two, not 12"),
    (0, 1, ValueError, "vector must be from 1 to 65536, not 0"),
    (8, 3, ValueError, "sub_warps must be a power of two, not 3"),
    (8, 16, ValueError, "sub_warps must be from 1 to 8, not 16"),
    ("8", 1, TypeError, "vector must be an integer, not '8'"),
])
def test_wrong_use(vector, sub_warps, kind, says):
    for call in (vector_loads, load_counts):
        with pytest.raises(kind) as error:
            call(of_lengths(1), vector, sub_warps)
        assert str(error.value) == says
