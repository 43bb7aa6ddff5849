"""Golden models of sparse products: sums of products of the elements that are there, modulo 2**32 [S4.1, S4.2, S4.9]."""

from typing import Any

import numpy as np

from ..sparse.compressed import Compressed
from ..sparse.formats import check_dense, check_layer, compress, compress_transposed, is_sparse, product_operands, restore, sampled_operands

__all__ = ["sddmm", "sparse_linear_backward", "sparse_linear_forward", "spmm"]


def spmm(a: Any, b: Any) -> np.ndarray:
    """Product of two matrices of which one or both are sparse [S4.1].

    c[i, j] = sum over k of a[i, k] · b[k, j], over the elements that are there.

    Parameters
    ----------
    a : (M, K), sparse, or integer array
        Sparse: array of scipy.sparse (csr, csc, coo), DCSR or DCSC, of int8, uint8, int16 or uint16.
    b : (K, N), sparse, or integer array
        Right operand, of the same types.

    Returns
    -------
    int32 array (M, N)
        Sums modulo 2**32.
    """
    left, right, turned = product_operands(a, b)
    c = _product(left, right)
    return np.ascontiguousarray(c.T) if turned else c


def _product(a: Compressed, b: np.ndarray) -> np.ndarray:
    """Row by row: each element takes a row of b."""
    b = b.astype(np.int64)
    c = np.zeros((a.shape[0], b.shape[1]), np.int64)
    for row, (start, stop) in enumerate(zip(a.indptr[:-1], a.indptr[1:])):
        c[row] = a.data[start:stop].astype(np.int64) @ b[a.indices[start:stop]]
    return c.astype(np.int32)


def sddmm(a: np.ndarray, b: np.ndarray, mask: Any, transpose: bool = False, pattern: bool = False) -> Any:
    """Product of two arrays at the elements of a sparse one, by which it is multiplied [S4.2].

    d[i, j] = mask[i, j] · sum over k of a[i, k] · b[k, j], for the elements that the mask has.

    Parameters
    ----------
    a : integer array (M, K)
        Left operand: int8, uint8, int16 or uint16.
    b : integer array (K, N), or (N, K) with ``transpose``
        Right operand.
    mask : (M, N), sparse
        Array of scipy.sparse (csr, csc, coo), DCSR or DCSC.
    transpose : bool
        b is stored transposed: d[i, j] = mask[i, j] · sum over k of a[i, k] · b[j, k].
    pattern : bool
        The values of the mask count as 1 and may have any type.

    Returns
    -------
    sparse (M, N)
        Of the class and the pattern of the mask, int32: products modulo 2**32. Elements of each row are sorted.
    """
    left, columns, places = sampled_operands(a, b, mask, transpose, pattern)
    left, columns = left.astype(np.int64), columns.astype(np.int64)
    sums = np.zeros(places.elements, np.int64)
    for row, (start, stop) in enumerate(zip(places.indptr[:-1], places.indptr[1:])):
        sums[start:stop] = columns[places.indices[start:stop]] @ left[row]
    return restore(places.with_data((sums * places.data).astype(np.int32)), mask)


def sparse_linear_forward(w: Any, x: Any) -> np.ndarray:
    """Result of a layer, y = w · x [S4.9].

    Parameters
    ----------
    w : (M, K), sparse, or integer array
        Weights.
    x : (K, N), sparse, or integer array
        Inputs, a column for each sample.

    Returns
    -------
    int32 array (M, N)
        y modulo 2**32.
    """
    check_layer(w, x)
    return _product(compress("w", w), _dense("x", x))


def sparse_linear_backward(w: Any, x: Any, dy: np.ndarray) -> tuple[np.ndarray, Any]:
    """Gradients of a layer: dx = wᵀ · dy and dw = (dy · xᵀ) ⊙ I(w), where I is 1 at the elements of w [S4.9].

    Parameters
    ----------
    w : (M, K), sparse, or integer array
        Weights. Of an array all elements are there, also those that are zero.
    x : (K, N), sparse, or integer array
        Inputs.
    dy : integer array (M, N)
        Gradient of the result: int8, uint8, int16 or uint16.

    Returns
    -------
    dx : int32 array (K, N)
        Gradient of the inputs modulo 2**32.
    dw : (M, K)
        Gradient of the weights modulo 2**32, int32: of the class and the pattern of w.
    """
    gradient = check_dense("dy", dy)
    check_layer(w, x, gradient)
    inputs = _dense("x", x)
    dx = _product(compress_transposed("w", w), gradient)
    if is_sparse(w):
        return dx, sddmm(gradient, inputs, w, transpose=True, pattern=True)
    return dx, (gradient.astype(np.int64) @ inputs.T.astype(np.int64)).astype(np.int32)


def _dense(name: str, value: Any) -> np.ndarray:
    return compress(name, value).dense() if is_sparse(value) else check_dense(name, value)
