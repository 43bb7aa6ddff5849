"""Sparse and dense operands as compressed rows, and results in the class of an operand [S4.1].

Objects of scipy.sparse are known by their attribute ``format``; scipy is never imported.
"""

from typing import Any

import numpy as np
from heddle.errors import UsageError, UsageTypeError

from ..arguments import ELEMENT_TYPES, check_flag, integer_array
from .checks import Naming, check_shape
from .compressed import Compressed
from .doubly import DCSC, DCSR

__all__ = ["check_dense", "check_layer", "compress", "compress_transposed", "is_sparse", "operand_shape", "product_operands", "restore",
           "sampled_operands"]

_READ = ("csr", "csc", "coo")
_KNOWN = (*_READ, "bsr", "dia", "dok", "lil")


def is_sparse(value: object) -> bool:
    """Whether ``value`` is a ``DCSR``, a ``DCSC`` or an object of scipy.sparse, also of a format that is not read."""
    return isinstance(value, (DCSR, DCSC)) or _scipy_format(value) is not None


def _scipy_format(value: object) -> str | None:
    name = getattr(value, "format", None)
    return name if isinstance(name, str) and name in _KNOWN and hasattr(value, "shape") else None


def check_dense(name: str, value: object) -> np.ndarray:
    """``value``, which must be a matrix of 8- or 16-bit integers; it may have no rows or no columns."""
    array = integer_array(name, value)
    if array.dtype not in ELEMENT_TYPES:
        raise UsageTypeError(f"{name} must have dtype int8, uint8, int16 or uint16, not {array.dtype}")
    if array.ndim != 2:
        raise UsageError(f"{name} must have 2 dimensions, not {array.ndim}")
    return array


def operand_shape(name: str, value: Any) -> tuple[int, int]:
    """Rows and columns of an operand whose elements are not looked at: doubly compressed ones may have far more rows than elements."""
    if is_sparse(value):
        return check_shape(Naming(name).array("shape"), value.shape)
    rows, columns = check_dense(name, value).shape
    return rows, columns


def compress(name: str, value: object, pattern: bool = False) -> Compressed:
    """Compressed rows of an operand, checked.

    Parameters
    ----------
    name : str
        Of the parameter, for errors.
    value : array of scipy.sparse (csr, csc or coo), DCSR, DCSC, or numpy array
        Of int8, uint8, int16 or uint16. Elements of a sparse operand that are zero remain elements; zeros of an array are none.
    pattern : bool
        The values do not matter: they may have any type, and are 1 (int8) in the result.
    """
    made, by_columns = _stored(name, value, pattern)
    return made.transpose() if by_columns else made


def compress_transposed(name: str, value: object, pattern: bool = False) -> Compressed:
    """Compressed rows of the transpose of an operand: of csc and ``DCSC`` their own arrays. Parameters as of ``compress``."""
    made, by_columns = _stored(name, value, pattern)
    return made if by_columns else made.transpose()


def _stored(name: str, value: object, pattern: bool) -> tuple[Compressed, bool]:
    """Compressed rows, or columns, as the operand has them; whether they are columns."""
    if isinstance(value, np.ndarray) or not is_sparse(value):
        if not isinstance(value, (np.ndarray, list, tuple)):
            raise UsageTypeError(f"{name} must be a sparse matrix (scipy.sparse, DCSR, DCSC) or a numpy array, not {type(value).__name__}")
        made, by_columns = Compressed.of_dense(check_dense(name, value)), False
    else:
        made, by_columns = _stored_sparse(name, value, None if pattern else ELEMENT_TYPES)
    return (made.with_data(np.ones(made.elements, np.int8)) if pattern else made), by_columns


def _stored_sparse(name: str, value: Any, types: tuple[type, ...] | None) -> tuple[Compressed, bool]:
    if isinstance(value, DCSR):
        return value.compressed(name, types), False
    if isinstance(value, DCSC):
        return value.compressed_columns(name, types), True
    kind = value.format
    if kind not in _READ:
        raise UsageTypeError(f"{name} must have format csr, csc or coo, not {kind}: {name}.tocsr() makes one of it")
    naming = Naming(name, kind == "csc")
    shape = check_shape(naming.array("shape"), value.shape)
    if kind == "coo":
        rows, columns, data = _attributes(name, value, "row", "col", "data")
        return Compressed.of_places(rows, columns, data, shape, naming, types), False
    indptr, indices, data = _attributes(name, value, "indptr", "indices", "data")
    sizes = shape[::-1] if naming.by_columns else shape
    return Compressed.of_arrays(indptr, indices, data, sizes, naming, types), naming.by_columns


def _attributes(name: str, value: object, *names: str) -> tuple[object, ...]:
    """Arrays of a sparse object, read without one of its methods: these trust their arrays."""
    for attribute in names:
        if not hasattr(value, attribute):
            raise UsageTypeError(f"{name} must have an array {attribute}, as those of its format have, not none")
    return tuple(getattr(value, attribute) for attribute in names)


def product_operands(a: Any, b: Any) -> tuple[Compressed, np.ndarray, bool]:
    """Operands of a product of which one or both are sparse: compressed rows, an array, and whether these are those of the transposed
    product, as where only b is sparse. Of two sparse operands b becomes an array. Raises ``TypeError`` where neither is sparse, and
    ``ValueError`` where they do not fit together.
    """
    if not (is_sparse(a) or is_sparse(b)):
        raise UsageTypeError("a or b must be sparse (scipy.sparse, DCSR, DCSC), not two arrays: matmul multiplies these")
    turned = not is_sparse(a)
    if turned:
        dense, left = check_dense("a", a), compress_transposed("b", b)
        right, columns, rows = dense.T, dense.shape[1], left.shape[1]
    else:
        left = compress("a", a)
        right = compress("b", b).dense() if is_sparse(b) else check_dense("b", b)
        columns, rows = left.shape[1], right.shape[0]
    if columns != rows:
        raise UsageError(f"b must have {columns} rows, as a has columns, not {rows}")
    return left, right, turned


def check_layer(w: Any, x: Any, dy: Any = None) -> None:
    """Raises where the operands of a layer do not fit together: weights (M, K), inputs (K, N), and an array, the gradient of the result
    (M, N), if there is one. Elements of sparse operands are not looked at.
    """
    of_w, of_x = operand_shape("w", w), operand_shape("x", x)
    if of_x[0] != of_w[1]:
        raise UsageError(f"x must have {of_w[1]} rows, as w has columns, not {of_x[0]}")
    if dy is not None and check_dense("dy", dy).shape != (of_w[0], of_x[1]):
        raise UsageError(f"dy must have shape {(of_w[0], of_x[1])}, that of the result, not {np.shape(dy)}")


def sampled_operands(a: Any, b: Any, mask: Any, transpose: bool, pattern: bool) -> tuple[np.ndarray, np.ndarray, Compressed]:
    """Operands of a sampled product: a (M, K), the columns of b (N, K), and the mask (M, N), whose values are 1 with ``pattern``.

    Raises ``TypeError`` where the mask is not sparse, and ``ValueError`` where they do not fit together.
    """
    if not is_sparse(mask):
        raise UsageTypeError(f"mask must be sparse (scipy.sparse, DCSR, DCSC), not {type(mask).__name__}")
    left, right, by_rows = check_dense("a", a), check_dense("b", b), check_flag("transpose", transpose)
    places = compress("mask", mask, check_flag("pattern", pattern))
    columns = right if by_rows else right.T
    if left.shape[1] != columns.shape[1]:
        raise UsageError(f"b must have {left.shape[1]} {'columns' if by_rows else 'rows'}, as a has columns, not {columns.shape[1]}")
    if places.shape != (len(left), len(columns)):
        raise UsageError(f"mask must have shape {(len(left), len(columns))}, that of the product, not {places.shape}")
    return left, columns, places


def restore(made: Compressed, like: Any) -> Any:
    """A checked matrix as an object of the class of the operand ``like``, with the values and the type that ``made`` has."""
    if isinstance(like, (DCSR, DCSC)):
        return type(like).of(made)
    match _scipy_format(like):
        case "csr":
            return type(like)((made.data, made.indices, made.indptr), shape=made.shape)
        case "csc":
            turned = made.transpose()
            return type(like)((turned.data, turned.indices, turned.indptr), shape=made.shape)
        case "coo":
            return type(like)((made.data, (made.rows, made.indices)), shape=made.shape)
    return made.dense()
