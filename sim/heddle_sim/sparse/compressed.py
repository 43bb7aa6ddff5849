"""The one form in which sparse matrices are computed with: compressed sparse rows, sorted and checked [S4.1]."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from heddle.errors import UsageError
from numpy.typing import DTypeLike

from ..arguments import ELEMENT_TYPES
from .checks import Naming, check_indices, check_pointers, check_values, index_array, sorted_order

__all__ = ["Compressed"]


@dataclass(frozen=True, eq=False)
class Compressed:
    """Compressed sparse rows in canonical form: the columns of each row ascend, and no element is there twice.

    The constructor checks nothing; ``of_arrays`` and ``of_places`` do. Elements that are zero remain elements.

    Attributes
    ----------
    indptr : int32 (rows + 1,)
        Row r has the elements ``indptr[r]`` to ``indptr[r + 1]`` - 1.
    indices : int32 (elements,)
        Column of each element.
    data : array (elements,)
        Value of each element: int8, uint8, int16 or uint16 of an operand, int32 of a result.
    shape : (int, int)
        Rows and columns.
    """

    indptr: np.ndarray = field(repr=False)
    indices: np.ndarray = field(repr=False)
    data: np.ndarray = field(repr=False)
    shape: tuple[int, int]

    @classmethod
    def of_arrays(cls, indptr: object, indices: object, data: object, shape: tuple[int, int], naming: Naming,
                  types: tuple[type, ...] | None = ELEMENT_TYPES) -> Self:
        """From the arrays of compressed rows, which are checked; columns that are not sorted are sorted.

        ``naming``: how errors call the arrays. ``types``: of the values; ``None`` for any.
        """
        columns = index_array(naming.array("indices"), indices)
        pointers = index_array(naming.array("indptr"), indptr)
        check_pointers(naming, pointers, shape[0], len(columns))
        values = check_values(naming, data, len(columns), types)
        rows = np.repeat(np.arange(shape[0]), np.diff(pointers))
        check_indices(naming, "indices", columns, shape[1], rows)
        return cls._sorted(rows, columns, values, shape, naming, pointers)

    @classmethod
    def of_places(cls, rows: object, columns: object, data: object, shape: tuple[int, int], naming: Naming,
                  types: tuple[type, ...] | None = ELEMENT_TYPES) -> Self:
        """From row and column of each element, in any order, which are checked."""
        row, column = (index_array(naming.array(name), value) for name, value in (("row", rows), ("col", columns)))
        if len(row) != len(column):
            raise UsageError(f"{naming.array('col')} must have as many elements as row, {len(row)}, not {len(column)}")
        values = check_values(naming, data, len(row), types)
        check_indices(naming, "row", row, shape[0])
        check_indices(naming, "col", column, shape[1])
        return cls._sorted(row, column, values, shape, naming)

    @classmethod
    def of_dense(cls, array: np.ndarray) -> Self:
        """The elements of a matrix that are not zero."""
        rows, columns = np.nonzero(array)
        return cls._sorted(rows, columns, array[rows, columns], array.shape, Naming())

    @classmethod
    def _sorted(cls, rows: np.ndarray, columns: np.ndarray, data: np.ndarray, shape: tuple[int, ...], naming: Naming,
                pointers: np.ndarray | None = None) -> Self:
        order = sorted_order(naming, rows, columns, shape[1])
        if order is not None:
            rows, columns, data = rows[order], columns[order], data[order]
        if pointers is None:
            pointers = _pointers(rows, shape[0])
        return cls(pointers.astype(np.int32), columns.astype(np.int32), data.copy(), (shape[0], shape[1]))

    @property
    def elements(self) -> int:
        return len(self.indices)

    @property
    def lengths(self) -> np.ndarray:
        """Elements of each row, int64."""
        return np.diff(self.indptr.astype(np.int64))

    @property
    def rows(self) -> np.ndarray:
        """Row of each element."""
        return np.repeat(np.arange(self.shape[0]), self.lengths)

    @property
    def columns_met(self) -> np.ndarray:
        """Columns that have an element, ascending: the rows of a right operand that are fetched [S4.4]."""
        return np.unique(self.indices)

    @property
    def density(self) -> float:
        return self.elements / max(self.shape[0] * self.shape[1], 1)

    def transpose(self) -> Self:
        """Compressed rows of the transpose, which are the compressed columns of this matrix."""
        order = np.argsort(self.indices, kind="stable")
        return type(self)(_pointers(self.indices, self.shape[1]).astype(np.int32), self.rows[order].astype(np.int32), self.data[order],
                          self.shape[::-1])

    def take_rows(self, numbers: np.ndarray) -> Self:
        """Rows of some numbers, in their order."""
        starts, lengths = self.indptr[:-1].astype(np.int64)[numbers], self.lengths[numbers]
        pointers = np.concatenate([[0], np.cumsum(lengths)])
        elements = np.arange(pointers[-1]) + np.repeat(starts - pointers[:-1], lengths)
        return type(self)(pointers.astype(np.int32), self.indices[elements], self.data[elements], (len(lengths), self.shape[1]))

    def dense(self, dtype: DTypeLike | None = None) -> np.ndarray:
        """The matrix with its zeros, of the type of ``data`` unless ``dtype`` says otherwise."""
        full = np.zeros(self.shape, self.data.dtype if dtype is None else dtype)
        full[self.rows, self.indices] = self.data
        return full

    def with_data(self, data: np.ndarray) -> Self:
        """The same pattern with other values."""
        return replace(self, data=data)


def _pointers(rows: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
