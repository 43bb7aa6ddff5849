"""Doubly compressed matrices: only rows, or only columns, that have elements are listed [S4.1]."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from heddle.errors import UsageError

from ..arguments import ELEMENT_TYPES
from .checks import Naming, check_indices, check_shape, index_array, value_array
from .compressed import Compressed

__all__ = ["DCSC", "DCSR"]


def _checked(naming: Naming, indptr: object, lines: object, indices: object, data: object, shape: object,
             types: tuple[type, ...] | None) -> tuple[np.ndarray, Compressed]:
    """Listed rows (or columns), and the matrix of these alone: (listed, minors)."""
    sizes = check_shape(naming.array("shape"), shape)
    majors, minors = sizes[::-1] if naming.by_columns else sizes
    name = naming.array(naming.lines)
    listed = index_array(name, lines)
    check_indices(naming, naming.lines, listed, majors)
    falls = np.flatnonzero(np.diff(listed) <= 0)
    if len(falls):
        raise UsageError(f"{name} must ascend, not have {listed[falls[0] + 1]} after {listed[falls[0]]}")
    naming = replace(naming, numbers=listed)
    pointers = index_array(naming.array("indptr"), indptr)
    short = Compressed.of_arrays(pointers, indices, data, (len(listed), minors), naming, types)
    empty = np.flatnonzero(np.diff(pointers) == 0)
    if len(empty):
        raise UsageError(f"{name} must be those with elements, not have {listed[empty[0]]}, which is empty")
    return listed, short


def _spread(listed: np.ndarray, short: Compressed, majors: int) -> Compressed:
    """The matrix with all its rows."""
    lengths = np.zeros(majors, np.int64)
    lengths[listed] = short.lengths
    return Compressed(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), short.indices, short.data, (majors, short.shape[1]))


def _listed(matrix: Compressed) -> tuple[np.ndarray, np.ndarray]:
    """Pointers of the rows that have elements, and these rows."""
    rows = np.flatnonzero(matrix.lengths)
    return np.append(matrix.indptr[rows], matrix.indptr[-1]).astype(np.int32), rows.astype(np.int32)


class _DoublyCompressed:
    """What ``DCSR`` and ``DCSC`` share; ``by_columns``: their pointers stand for columns."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    shape: tuple[int, int]
    by_columns: ClassVar[bool]

    def __post_init__(self) -> None:
        """Checks the arrays; lists that were given become arrays."""
        self._checked("", None)
        for name in ("indptr", Naming(by_columns=self.by_columns).lines, "indices"):
            if isinstance(getattr(self, name), (list, tuple)):
                object.__setattr__(self, name, index_array(name, getattr(self, name)))
        object.__setattr__(self, "data", value_array("data", self.data))
        object.__setattr__(self, "shape", check_shape("shape", self.shape))

    @property
    def nnz(self) -> int:
        return len(self.indices)

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    def _checked(self, name: str, types: tuple[type, ...] | None) -> tuple[np.ndarray, Compressed]:
        """``_checked`` of its arrays."""
        naming = Naming(name, self.by_columns)
        return _checked(naming, self.indptr, getattr(self, naming.lines), self.indices, self.data, self.shape, types)

    def _all_lines(self, name: str, types: tuple[type, ...] | None) -> Compressed:
        """All rows (or columns), those without elements too, sorted and checked."""
        return _spread(*self._checked(name, types), self.shape[self.by_columns])


@dataclass(frozen=True, eq=False)
class DCSR(_DoublyCompressed):
    """Doubly compressed sparse rows.

    Parameters
    ----------
    indptr : integer array (listed + 1,)
        Listed row l has the elements ``indptr[l]`` to ``indptr[l + 1]`` - 1, at least one.
    rows : integer array (listed,)
        Number of each listed row, ascending.
    indices : integer array (elements,)
        Column of each element; each at most once in a row, in any order.
    data : array (elements,)
        Value of each element.
    shape : (int, int)
        Rows and columns.

    Raises ``ValueError`` or ``TypeError`` for arrays that are no such matrix. They are checked again when they are used.
    """

    indptr: np.ndarray = field(repr=False)
    rows: np.ndarray = field(repr=False)
    indices: np.ndarray = field(repr=False)
    data: np.ndarray = field(repr=False)
    shape: tuple[int, int]
    format: ClassVar[str] = "dcsr"
    by_columns: ClassVar[bool] = False

    @classmethod
    def of(cls, matrix: Compressed) -> Self:
        """From a checked matrix."""
        indptr, rows = _listed(matrix)
        return cls(indptr, rows, matrix.indices, matrix.data, matrix.shape)

    def compressed(self, name: str = "", types: tuple[type, ...] | None = ELEMENT_TYPES) -> Compressed:
        """Compressed rows, sorted and checked. ``name``: of the parameter, for errors. ``types``: of the values; ``None`` for any."""
        return self._all_lines(name, types)

    def toarray(self) -> np.ndarray:
        """The matrix with its zeros."""
        return self.compressed(types=None).dense()


@dataclass(frozen=True, eq=False)
class DCSC(_DoublyCompressed):
    """Doubly compressed sparse columns: ``DCSR`` with rows and columns exchanged.

    Parameters
    ----------
    indptr : integer array (listed + 1,)
        Listed column l has the elements ``indptr[l]`` to ``indptr[l + 1]`` - 1, at least one.
    columns : integer array (listed,)
        Number of each listed column, ascending.
    indices : integer array (elements,)
        Row of each element; each at most once in a column, in any order.
    data : array (elements,)
        Value of each element.
    shape : (int, int)
        Rows and columns.

    Raises ``ValueError`` or ``TypeError`` for arrays that are no such matrix. They are checked again when they are used.
    """

    indptr: np.ndarray = field(repr=False)
    columns: np.ndarray = field(repr=False)
    indices: np.ndarray = field(repr=False)
    data: np.ndarray = field(repr=False)
    shape: tuple[int, int]
    format: ClassVar[str] = "dcsc"
    by_columns: ClassVar[bool] = True

    @classmethod
    def of(cls, matrix: Compressed) -> Self:
        """From the compressed rows of a checked matrix."""
        turned = matrix.transpose()
        indptr, columns = _listed(turned)
        return cls(indptr, columns, turned.indices, turned.data, matrix.shape)

    def compressed_columns(self, name: str = "", types: tuple[type, ...] | None = ELEMENT_TYPES) -> Compressed:
        """Compressed columns, which are the compressed rows of the transpose, sorted and checked. Parameters as of ``DCSR``."""
        return self._all_lines(name, types)

    def toarray(self) -> np.ndarray:
        """The matrix with its zeros."""
        return self.compressed_columns(types=None).dense().T
