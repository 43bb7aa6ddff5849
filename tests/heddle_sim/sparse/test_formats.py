"""Sparse formats: round trips against scipy.sparse, canonical form, and every broken array refused by name [S4.1]."""

import numpy as np
import pytest
import scipy.sparse as sp
from heddle_sim.sparse import DCSC, DCSR, Compressed, compress, compress_transposed, is_sparse, restore
from heddle_verif.stimulus.sparse_matrices import random_topologies, random_values

SCIPY = (sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix)
CLASSES = (*SCIPY, DCSR, DCSC)
TYPES = (np.int8, np.uint8, np.int16, np.uint16)


def of_class(kind, dense):
    return kind.of(Compressed.of_dense(dense)) if kind in (DCSR, DCSC) else kind(dense)


def canonical(made):
    """Of the types and in the order that ``Compressed`` promises."""
    assert made.indptr.dtype == made.indices.dtype == np.int32
    rows = made.rows
    keys = rows * max(made.shape[1], 1) + made.indices
    assert (np.diff(keys) > 0).all() and len(made.indptr) == made.shape[0] + 1
    return made


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_class_comes_back(kind, dtype):
    """Through compressed rows, with the values of another type, of the same class: the same matrix."""
    rng = np.random.default_rng(CLASSES.index(kind))
    for _, topology in random_topologies(rng, 60):
        dense = random_values(rng, topology, dtype)
        given = of_class(kind, dense)
        made, turned = canonical(compress("a", given)), canonical(compress_transposed("a", given))
        assert made.data.dtype == turned.data.dtype == dtype
        assert np.array_equal(made.dense(), dense) and np.array_equal(turned.dense(), dense.T)
        back = restore(made.with_data(made.data.astype(np.int32) * 1000), given)
        assert type(back) is kind and back.dtype == np.int32 and back.shape == dense.shape
        assert np.array_equal(back.toarray(), dense.astype(np.int32) * 1000)
        assert is_sparse(given) and not is_sparse(dense)


def test_dense_operands():
    dense = np.array([[0, 5, 0], [-3, 0, 7]], np.int8)
    made = compress("a", dense)
    assert (made.indptr.tolist(), made.indices.tolist(), made.data.tolist()) == ([0, 1, 3], [1, 0, 2], [5, -3, 7])
    assert made.lengths.tolist() == [1, 2] and made.columns_met.tolist() == [0, 1, 2] and made.density == 0.5
    assert np.array_equal(compress_transposed("a", dense).dense(), dense.T)
    assert np.array_equal(restore(made, dense), dense)
    assert np.array_equal(compress("a", dense.tolist()).dense(), dense)


def test_doubly_compressed_lists_what_has_elements():
    dense = np.zeros((6, 5), np.int8)
    dense[1, [0, 3]], dense[4, 3] = (1, 2), 3
    rows, columns = DCSR.of(Compressed.of_dense(dense)), DCSC.of(Compressed.of_dense(dense))
    assert [array.tolist() for array in (rows.indptr, rows.rows, rows.indices, rows.data)] == [[0, 2, 3], [1, 4], [0, 3, 3], [1, 2, 3]]
    assert [array.tolist() for array in (columns.indptr, columns.columns, columns.indices)] == [[0, 1, 3], [0, 3], [1, 1, 4]]
    assert (rows.nnz, columns.nnz, rows.dtype) == (3, 3, np.int8)
    lists = DCSR([0, 2, 3], [1, 4], [0, 3, 3], [1, 2, 3], [6, 5])
    assert np.array_equal(lists.toarray(), dense) and lists.shape == (6, 5) and lists.dtype == np.int8
    assert DCSR([0], [], [], [], (0, 7)).toarray().shape == (0, 7)


def test_unsorted_elements_are_sorted():
    """Columns within rows, and elements of coo; the operand keeps its order."""
    given = sp.csr_array((np.array([3, 1, 2], np.int8), np.array([4, 0, 2]), np.array([0, 3, 3])), shape=(2, 5))
    made = canonical(compress("a", given))
    assert made.indices.tolist() == [0, 2, 4] and made.data.tolist() == [1, 2, 3]
    assert given.indices.tolist() == [4, 0, 2]
    placed = sp.coo_array((np.array([9, 8, 7], np.int8), (np.array([1, 0, 1]), np.array([2, 1, 0]))), shape=(2, 3))
    assert canonical(compress("a", placed)).dense().tolist() == [[0, 8, 0], [7, 0, 9]]
    assert canonical(compress_transposed("a", DCSC([0, 2], [3], [5, 1], np.array([1, 2], np.int8), (6, 4)))).data.tolist() == [2, 1]


def test_stored_zeros_remain_elements():
    given = sp.csr_array((np.array([0, 1], np.int8), np.array([0, 2]), np.array([0, 2])), shape=(1, 3))
    assert compress("a", given).elements == 2


def test_the_pattern_alone_has_no_type():
    """Values may be of any type where they do not matter; they are 1."""
    for values in (np.array([0.5, 2.0]), np.array([True, False]), np.array([1 << 40, 2])):
        given = sp.csr_array((values, np.array([0, 2]), np.array([0, 2])), shape=(1, 3))
        made = compress("mask", given, pattern=True)
        assert made.data.dtype == np.int8 and made.data.tolist() == [1, 1]


def broken_csr(**arrays):
    """A csr array of 3 x 4 whose arrays are exchanged behind the back of scipy."""
    made = sp.csr_array((np.array([1, 2, 3, 4, 5], np.int8), np.array([0, 2, 1, 0, 3]), np.array([0, 2, 3, 5])), shape=(3, 4))
    for name, values in arrays.items():
        setattr(made, name, np.array(values, None if name != "data" else np.int8) if isinstance(values, list) else values)
    return made


def broken_csc(**arrays):
    made = sp.csc_array((np.array([1, 2, 3], np.int8), np.array([0, 2, 1]), np.array([0, 2, 2, 3])), shape=(4, 3))
    for name, values in arrays.items():
        setattr(made, name, np.array(values))
    return made


def coo(rows, columns, data=None, shape=(3, 4)):
    made = sp.coo_array((np.ones(len(rows), np.int8), (np.zeros(len(rows), int), np.zeros(len(rows), int))), shape=shape)
    made.coords = (np.array(rows), np.array(columns))
    made.data = np.ones(len(rows), np.int8) if data is None else data
    return made


class Headless:
    format, shape = "csr", (2, 2)


V, T = ValueError, TypeError
BROKEN = [
    (lambda: broken_csr(indptr=[1, 2, 3, 5]), V, "indptr of a must begin with 0, not 1"),
    (lambda: broken_csr(indptr=[0, 4, 3, 5]), V, "indptr of a must not fall, not be 3 after 4 (pointer 2)"),
    (lambda: broken_csr(indptr=[0, 2, 3, 4]), V, "indptr of a must end with the length of indices, 5, not 4"),
    (lambda: broken_csr(indptr=[0, 2, 3, 9]), V, "indptr of a must end with the length of indices, 5, not 9"),
    (lambda: broken_csr(indptr=[0, 2, 5]), V, "indptr of a must have 4 pointers, one more than the 3 rows, not 3"),
    (lambda: broken_csr(indptr=[]), T, "indptr of a must be an array of integers, not of float64"),
    (lambda: broken_csr(indptr=[0, -2, 3, 5]), V, "indptr of a must not fall, not be -2 after 0 (pointer 1)"),
    (lambda: broken_csr(indices=[0, 2, 1, 0]), V, "indptr of a must end with the length of indices, 4, not 5"),
    (lambda: broken_csr(indices=[0, 2, 1, 0, 4]), V, "indices of a must be from 0 to 3, not 4 (row 2)"),
    (lambda: broken_csr(indices=[0, 2, -1, 0, 3]), V, "indices of a must be from 0 to 3, not -1 (row 1)"),
    (lambda: broken_csr(indices=[0, 2, 1, 3, 3]), V, "a must have each element once, not row 2, column 3 twice"),
    (lambda: broken_csr(indices=[0.0, 2.0, 1.0, 0.0, 3.0]), T, "indices of a must be an array of integers, not of float64"),
    (lambda: broken_csr(indices=[[0, 2, 1, 0, 3]]), V, "indices of a must have one dimension, not 2"),
    (lambda: broken_csr(indices=np.array([0, 2, 1, 0, 1 << 63], np.uint64)), ValueError,
     "indices of a must be from 0 to 2147483647, not 9223372036854775808"),
    (lambda: broken_csr(indices="01234"), T, "indices of a must be a numpy array, not str"),
    (lambda: broken_csr(data=[1, 2, 3, 4]), V, "data of a must have as many elements as the indices, 5, not 4"),
    (lambda: broken_csr(data=np.ones(5)), T, "data of a must have dtype int8, uint8, int16 or uint16, not float64"),
    (lambda: broken_csr(data=np.ones(5, np.int32)), T, "data of a must have dtype int8, uint8, int16 or uint16, not int32"),
    (lambda: broken_csr(data=np.ones((5, 1), np.int8)), V, "data of a must have one dimension, not 2"),
    (lambda: broken_csr(data=np.ma.array(np.ones(5, np.int8), mask=[1, 0, 0, 0, 0])), TypeError,
     "data of a must be an array without mask, not a masked array"),
    (lambda: broken_csc(indices=[0, 4, 1]), V, "indices of a must be from 0 to 3, not 4 (column 0)"),
    (lambda: broken_csc(indices=[2, 2, 1]), V, "a must have each element once, not row 2, column 0 twice"),
    (lambda: broken_csc(indptr=[0, 2, 3]), V, "indptr of a must have 4 pointers, one more than the 3 columns, not 3"),
    (lambda: coo([0, 3], [0, 0]), V, "row of a must be from 0 to 2, not 3 (element 1)"),
    (lambda: coo([0, 1], [0, -1]), V, "col of a must be from 0 to 3, not -1 (element 1)"),
    (lambda: coo([0, 1], [0]), V, "col of a must have as many elements as row, 2, not 1"),
    (lambda: coo([2, 0, 2], [1, 0, 1]), V, "a must have each element once, not row 2, column 1 twice"),
    (lambda: coo([0, 1], [0, 1], np.ones(3, np.int8)), V, "data of a must have as many elements as the indices, 2, not 3"),
    (lambda: sp.bsr_array(np.eye(4, dtype=np.int8)), T, "a must have format csr, csc or coo, not bsr: a.tocsr() makes one of it"),
    (lambda: sp.lil_array((3, 3), dtype=np.int8), T, "a must have format csr, csc or coo, not lil: a.tocsr() makes one of it"),
    (lambda: sp.coo_array(np.ones(3, np.int8)), V, "shape of a must have two sizes, rows and columns, not (3,)"),
    (lambda: Headless(), T, "a must have an array indptr, as those of its format have, not none"),
    (lambda: None, T, "a must be a sparse matrix (scipy.sparse, DCSR, DCSC) or a numpy array, not NoneType"),
    (lambda: memoryview(b"ab"), T, "a must be a sparse matrix (scipy.sparse, DCSR, DCSC) or a numpy array, not memoryview"),
    (lambda: np.ones(3, np.int8), V, "a must have 2 dimensions, not 1"),
    (lambda: np.ones((3, 3)), T, "a must have dtype int8, uint8, int16 or uint16, not float64"),
]


@pytest.mark.parametrize("make, kind, says", BROKEN, ids=[says for *_, says in BROKEN])
def test_broken_operands_are_refused(make, kind, says):
    for read in (compress, compress_transposed):
        with pytest.raises(kind) as error:
            read("a", make())
        assert str(error.value) == says


ONES = np.ones(3, np.int8)
BROKEN_LISTS = [
    (lambda: DCSR([0, 2, 3], [1, 1], [0, 3, 3], ONES, (6, 5)), V, "rows must ascend, not have 1 after 1"),
    (lambda: DCSR([0, 2, 3], [4, 1], [0, 3, 3], ONES, (6, 5)), V, "rows must ascend, not have 1 after 4"),
    (lambda: DCSR([0, 2, 3], [1, 6], [0, 3, 3], ONES, (6, 5)), V, "rows must be from 0 to 5, not 6 (element 1)"),
    (lambda: DCSR([0, 2, 3], [-1, 4], [0, 3, 3], ONES, (6, 5)), V, "rows must be from 0 to 5, not -1 (element 0)"),
    (lambda: DCSR([0, 2, 2, 3], [1, 2, 4], [0, 3, 3], ONES, (6, 5)), V, "rows must be those with elements, not have 2, which is empty"),
    (lambda: DCSR([0, 2, 3], [1], [0, 3, 3], ONES, (6, 5)), V, "indptr must have 2 pointers, one more than the 1 rows, not 3"),
    (lambda: DCSR([0, 2, 3], [1, 4], [0, 3, 5], ONES, (6, 5)), V, "indices must be from 0 to 4, not 5 (row 4)"),
    (lambda: DCSR([0, 2, 3], [1, 4], [3, 3, 3], ONES, (6, 5)), V, "the matrix must have each element once, not row 1, column 3 twice"),
    (lambda: DCSR([0, 2, 3], [1, 4], [0, 3], ONES, (6, 5)), V, "indptr must end with the length of indices, 2, not 3"),
    (lambda: DCSR([0, 2, 3], [1, 4], [0, 3, 3], ONES[:2], (6, 5)), V, "data must have as many elements as the indices, 3, not 2"),
    (lambda: DCSR([0, 2, 3], [1, 4], [0, 3, 3], ONES, (6, -5)), V, "shape must be from 0 to 2147483647, not -5"),
    (lambda: DCSR([0, 2, 3], [1, 4], [0, 3, 3], ONES, 6), T, "shape must be a tuple (rows, columns), not int"),
    (lambda: DCSR([0, 2, 3], [1, 4], [0, 3, 3], ONES, (6, 5, 4)), V, "shape must have two sizes, rows and columns, not (6, 5, 4)"),
    (lambda: DCSR([0, [2], 3], [1, 4], [0, 3, 3], ONES, (6, 5)), V, "indptr must have one dimension, not rows of different lengths"),
    (lambda: DCSR([0], [], [], [1], (6, 5)), V, "data must have as many elements as the indices, 0, not 1"),
    (lambda: DCSR([0, 1], [1], [0], [1.5], (6, 5)), T, "data must be a numpy array, or a list of integers, not a list of float64"),
    (lambda: DCSR([0, 1], [1], [0], np.array(["1"]), (6, 5)), T, "data must be an array of numbers, not of <U1"),
    (lambda: DCSR([0, 1], [0], [0], [1], (0, 5)), V, "rows must be empty, as the matrix is, not 0 (element 0)"),
    (lambda: DCSC([0, 2, 3], [1, 5], [0, 3, 3], ONES, (6, 5)), V, "columns must be from 0 to 4, not 5 (element 1)"),
    (lambda: DCSC([0, 2, 3], [1, 4], [0, 3, 6], ONES, (6, 5)), V, "indices must be from 0 to 5, not 6 (column 4)"),
    (lambda: DCSC([0, 2, 3], [1, 4], [3, 3, 3], ONES, (6, 5)), V, "the matrix must have each element once, not row 3, column 1 twice"),
]


@pytest.mark.parametrize("make, kind, says", BROKEN_LISTS, ids=[says for *_, says in BROKEN_LISTS])
def test_broken_lists_are_refused(make, kind, says):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == says


def test_doubly_compressed_arrays_are_checked_again():
    made = DCSR(np.array([0, 2, 3]), np.array([1, 4]), np.array([0, 3, 3]), ONES, (6, 5))
    made.indptr[1] = 7
    with pytest.raises(ValueError, match=r"^indptr of mask must not fall, not be 3 after 7 \(pointer 2\)$"):
        compress("mask", made)


def test_one_random_entry_of_any_array_exchanged():
    """Whatever it becomes: refused with a named error, or a matrix that scipy reads the same way."""
    rng, refused = np.random.default_rng(5), []
    for _, topology in random_topologies(rng, 200, 12):
        given = sp.csr_array(random_values(rng, topology, np.int8))
        array = [given.indptr, given.indices][int(rng.integers(2))]
        if not len(array):
            continue
        array[rng.integers(len(array))] = rng.integers(-3, 20)
        try:
            made = compress("a", given)
        except ValueError as error:
            refused.append(str(error))
            continue
        assert np.array_equal(made.dense(), sp.csr_array((given.data, given.indices, given.indptr), given.shape).toarray())
    assert len(refused) > 80
    assert all(says.startswith(("indptr of a must", "indices of a must", "a must have each element once")) for says in refused)
