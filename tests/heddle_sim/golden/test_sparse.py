"""Golden models of sparse products against scipy.sparse and numpy on random topologies [S4.1, S4.2, S4.9]."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from heddle_sim.golden.sparse import sddmm, sparse_linear_backward, sparse_linear_forward, spmm
from heddle_sim.sparse import DCSC, DCSR, Compressed
from heddle_verif.stimulus.sparse_matrices import KINDS, random_topologies, random_values

CLASSES = (sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, DCSR, DCSC)
TYPES = (np.int8, np.uint8, np.int16, np.uint16)
COUNT = 300


@cache
def topologies():
    return [*random_topologies(np.random.default_rng(41), COUNT)]


def of_class(kind, dense):
    return kind.of(Compressed.of_dense(dense)) if kind in (DCSR, DCSC) else kind(dense)


def integers(rng, shape, dtype):
    return random_values(rng, np.ones(shape, bool), dtype)


def wrapped(values):
    """Modulo 2**32."""
    return np.asarray(values, np.int64).astype(np.int32)


def equal(result, expected):
    assert result.dtype == np.int32 and result.shape == expected.shape and np.array_equal(result, wrapped(expected))


def test_every_kind_is_among_the_topologies():
    kinds = [kind for kind, _ in topologies()]
    assert len(kinds) == COUNT and set(kinds) == {*KINDS, "no rows", "no columns"}
    assert min(kinds.count(kind) for kind in KINDS) >= 20
    assert sum(not topology.any() for _, topology in topologies()) > 20


@pytest.mark.parametrize("dtype", TYPES)
def test_spmm_equals_scipy(dtype):
    """Sparse on the left, on the right and on both sides, every class; the other operand of any type."""
    rng = np.random.default_rng(TYPES.index(dtype))
    for number, (kind, topology) in enumerate(topologies()):
        left = random_values(rng, topology, dtype)
        other, width = TYPES[int(rng.integers(4))], int(rng.integers(0, 20))
        right = integers(rng, (topology.shape[1], width), other)
        sparse, scipy = of_class(CLASSES[number % len(CLASSES)], left), sp.csr_array(left.astype(np.int64))
        equal(spmm(sparse, right), scipy @ right.astype(np.int64))
        front = integers(rng, (int(rng.integers(0, 20)), topology.shape[0]), other)
        equal(spmm(front, sparse), (scipy.T @ front.astype(np.int64).T).T)
        second = random_values(rng, rng.random((topology.shape[1], 1 + width)) < rng.choice([0.0, 0.1, 0.5]), other)
        both = spmm(sparse, of_class(CLASSES[int(rng.integers(len(CLASSES)))], second))
        equal(both, (scipy @ sp.csr_array(second.astype(np.int64))).toarray())
        assert kind


@pytest.mark.parametrize("dtype", TYPES)
def test_sddmm_equals_numpy(dtype):
    """Plain and transposed, with the values of the mask and without: class, pattern and values."""
    rng = np.random.default_rng(10 + TYPES.index(dtype))
    for number, (_, topology) in enumerate(topologies()):
        values, inner = random_values(rng, topology, dtype), int(rng.integers(0, 30))
        a = integers(rng, (topology.shape[0], inner), TYPES[int(rng.integers(4))])
        b = integers(rng, (inner, topology.shape[1]), TYPES[int(rng.integers(4))])
        mask, product = of_class(CLASSES[number % len(CLASSES)], values), a.astype(np.int64) @ b.astype(np.int64)
        for pattern, factor in ((False, values.astype(np.int64)), (True, topology)):
            for transpose, right in ((False, b), (True, np.ascontiguousarray(b.T))):
                made = sddmm(a, right, mask, transpose=transpose, pattern=pattern)
                assert type(made) is type(mask) and made.nnz == topology.sum() and made.dtype == np.int32
                assert np.array_equal(made.toarray(), wrapped(product * factor))


def test_sums_are_modulo_two_to_the_32():
    row = np.full((1, 5), 0x7FFF, np.int16)
    assert spmm(sp.csr_array(row), row.T).tolist() == [[5 * 0x7FFF ** 2 - (1 << 32)]]
    scaled = sddmm(row, row, sp.csr_array(np.array([[0x7FFF]], np.int16)), transpose=True)
    assert scaled.toarray()[0, 0] == (5 * 0x7FFF ** 3 + (1 << 31)) % (1 << 32) - (1 << 31)


def test_elements_that_are_zero_stay_in_the_pattern():
    mask = sp.csr_array((np.array([0, 1], np.int8), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    made = sddmm(np.array([[2]], np.int8), np.array([[3, 4]], np.int8), mask)
    assert made.nnz == 2 and made.data.tolist() == [0, 8]
    assert sddmm(np.array([[2]], np.int8), np.array([[3, 4]], np.int8), mask, pattern=True).data.tolist() == [6, 8]


def test_a_mask_of_truth_values_is_a_pattern():
    mask = sp.coo_array(np.array([[True, False], [True, True]]))
    made = sddmm(np.eye(2, dtype=np.int8), np.array([[1, 2], [3, 4]], np.int8), mask, pattern=True)
    assert type(made) is sp.coo_array and made.toarray().tolist() == [[1, 0], [3, 4]]


@pytest.mark.parametrize("sparse_weights", [True, False])
@pytest.mark.parametrize("sparse_inputs", [True, False])
def test_layers_equal_numpy(sparse_weights, sparse_inputs):
    """y = w · x, dx = wᵀ · dy, dw = (dy · xᵀ) at the elements of w, each operand sparse or dense."""
    rng = np.random.default_rng(3)
    for number, (_, topology) in enumerate(topologies()[:120]):
        kind, dtype = CLASSES[number % len(CLASSES)], TYPES[number % 4]
        w = random_values(rng, topology, dtype)
        x = random_values(rng, rng.random((topology.shape[1], int(rng.integers(0, 9)))) < 0.4, dtype)
        dy = integers(rng, (len(w), x.shape[1]), dtype)
        weights, inputs = of_class(kind, w) if sparse_weights else w, of_class(CLASSES[::-1][number % 6], x) if sparse_inputs else x
        wide, deep, gradient = (array.astype(np.int64) for array in (w, x, dy))
        equal(sparse_linear_forward(weights, inputs), wide @ deep)
        dx, dw = sparse_linear_backward(weights, inputs, dy)
        equal(dx, wide.T @ gradient)
        if sparse_weights:
            assert type(dw) is kind and dw.nnz == topology.sum()
            equal(dw.toarray(), gradient @ deep.T * topology)
            equal(sparse_linear_forward(weights, inputs), spmm(weights, inputs))
        else:
            equal(dw, gradient @ deep.T)


S, D = sp.csr_array(np.eye(3, 4, dtype=np.int8)), np.ones((4, 2), np.int8)
WRONG = [
    (lambda: spmm(D.T, D), TypeError, "a or b must be sparse (scipy.sparse, DCSR, DCSC), not two arrays: matmul multiplies these"),
    (lambda: spmm(S, D.T), ValueError, "b must have 4 rows, as a has columns, not 2"),
    (lambda: spmm(D, S), ValueError, "b must have 2 rows, as a has columns, not 3"),
    (lambda: spmm(S, S), ValueError, "b must have 4 rows, as a has columns, not 3"),
    (lambda: spmm(S, D.astype(float)), TypeError, "b must have dtype int8, uint8, int16 or uint16, not float64"),
    (lambda: spmm(S.astype(float), D), TypeError, "data of a must have dtype int8, uint8, int16 or uint16, not float64"),
    (lambda: spmm(S, None), TypeError, "b must be a numpy array, not NoneType"),
    (lambda: sddmm(D, D.T, D), TypeError, "mask must be sparse (scipy.sparse, DCSR, DCSC), not ndarray"),
    (lambda: sddmm(D, D, S), ValueError, "b must have 2 rows, as a has columns, not 4"),
    (lambda: sddmm(D, D.T, S, transpose=True), ValueError, "b must have 2 columns, as a has columns, not 4"),
    (lambda: sddmm(D, D.T, S), ValueError, "mask must have shape (4, 4), that of the product, not (3, 4)"),
    (lambda: sddmm(D, D.T, S, transpose=1), TypeError, "transpose must be True or False, not 1"),
    (lambda: sddmm(D, D.T, S, pattern=None), TypeError, "pattern must be True or False, not None"),
    (lambda: sparse_linear_forward(S, D.T), ValueError, "x must have 4 rows, as w has columns, not 2"),
    (lambda: sparse_linear_backward(S, D.T, D), ValueError, "x must have 4 rows, as w has columns, not 2"),
    (lambda: sparse_linear_backward(S, D, D), ValueError, "dy must have shape (3, 2), that of the result, not (4, 2)"),
]


@pytest.mark.parametrize("call, kind, says", WRONG, ids=[f"{number}: {says}" for number, (*_, says) in enumerate(WRONG)])
def test_wrong_use(call, kind, says):
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == says
