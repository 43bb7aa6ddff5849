"""Checks of the arrays of a sparse matrix: every rule that is broken is an error that names array, rule and value."""

from dataclasses import dataclass

import numpy as np
from heddle.errors import UsageError, UsageTypeError

from ..arguments import ELEMENT_TYPES, check_integer, check_mask, integer_array, plain_array

__all__ = ["LARGEST", "Naming", "check_indices", "check_pointers", "check_shape", "check_values", "index_array", "sorted_order",
           "value_array"]

LARGEST = (1 << 31) - 1         # of a size, an index or a pointer


@dataclass(frozen=True)
class Naming:
    """How errors call the arrays of a matrix.

    ``matrix``: name of the parameter; empty where the arrays are parameters themselves. ``by_columns``: pointers stand for columns, not
    for rows. ``numbers``: those of the rows (columns) that are listed, where not all are.
    """

    matrix: str = ""
    by_columns: bool = False
    numbers: np.ndarray | None = None

    @property
    def major(self) -> str:
        return "column" if self.by_columns else "row"

    @property
    def minor(self) -> str:
        return "row" if self.by_columns else "column"

    @property
    def lines(self) -> str:
        """Array of a doubly compressed matrix that lists the rows or columns."""
        return f"{self.major}s"

    def array(self, name: str) -> str:
        return f"{name} of {self.matrix}" if self.matrix else name

    @property
    def whole(self) -> str:
        return self.matrix or "the matrix"

    def number(self, major: int) -> int:
        return int(major if self.numbers is None else self.numbers[major])

    def place(self, major: int, minor: int) -> str:
        major = self.number(major)
        row, column = (minor, major) if self.by_columns else (major, minor)
        return f"row {row}, column {column}"


def check_shape(name: str, value: object) -> tuple[int, int]:
    """``value`` as (rows, columns), each from 0 to ``LARGEST``."""
    if not isinstance(value, (tuple, list)):
        raise UsageTypeError(f"{name} must be a tuple (rows, columns), not {type(value).__name__}")
    if len(value) != 2:
        raise UsageError(f"{name} must have two sizes, rows and columns, not {tuple(value)}")
    rows, columns = (check_integer(name, size, 0, LARGEST) for size in value)
    return rows, columns


def index_array(name: str, value: object) -> np.ndarray:
    """``value``, an array or a list of integers of any type, as int64 with one dimension."""
    check_mask(name, value)
    if isinstance(value, (list, tuple)):
        try:
            value = np.array(value) if len(value) else np.zeros(0, np.int64)
        except ValueError:
            raise UsageError(f"{name} must have one dimension, not rows of different lengths") from None
    array = plain_array(name, value)
    if array.dtype.kind not in "iu":
        raise UsageTypeError(f"{name} must be an array of integers, not of {array.dtype}")
    if array.ndim != 1:
        raise UsageError(f"{name} must have one dimension, not {array.ndim}")
    if array.dtype == np.uint64 and array.size and array.max() > LARGEST:
        raise UsageError(f"{name} must be from 0 to {LARGEST}, not {array.max()}")
    return array.astype(np.int64)


def value_array(name: str, value: object) -> np.ndarray:
    """``value``, an array, or a list of integers, which gets the smallest type that holds them all."""
    return np.zeros(0, np.int8) if isinstance(value, (list, tuple)) and not value else integer_array(name, value)


def check_pointers(naming: Naming, indptr: np.ndarray, majors: int, elements: int) -> None:
    """Pointers begin with 0, do not fall, and end with the number of elements; there is one more than rows."""
    name = naming.array("indptr")
    if len(indptr) != majors + 1:
        raise UsageError(f"{name} must have {majors + 1} pointers, one more than the {majors} {naming.lines}, not {len(indptr)}")
    if indptr[0]:
        raise UsageError(f"{name} must begin with 0, not {indptr[0]}")
    falls = np.flatnonzero(np.diff(indptr) < 0)
    if len(falls):
        first = falls[0]
        raise UsageError(f"{name} must not fall, not be {indptr[first + 1]} after {indptr[first]} (pointer {first + 1})")
    if indptr[-1] != elements:
        raise UsageError(f"{name} must end with the length of indices, {elements}, not {indptr[-1]}")
    if elements > LARGEST:
        raise UsageError(f"{naming.array('indices')} must have at most {LARGEST} elements, not {elements}")


def check_indices(naming: Naming, name: str, indices: np.ndarray, most: int, majors: np.ndarray | None = None) -> None:
    """Indices are from 0 to ``most`` - 1. ``majors``: row of each, for the message."""
    wrong = np.flatnonzero((indices < 0) | (indices >= most))
    if len(wrong):
        first = wrong[0]
        where = f"element {first}" if majors is None else f"{naming.major} {naming.number(majors[first])}"
        rule = f"be from 0 to {most - 1}" if most else "be empty, as the matrix is"
        raise UsageError(f"{naming.array(name)} must {rule}, not {indices[first]} ({where})")


def check_values(naming: Naming, data: object, elements: int, types: tuple[type, ...] | None = ELEMENT_TYPES) -> np.ndarray:
    """``data``, one number for each of the ``elements`` indices. ``types``: allowed ones; ``None`` for any."""
    name = naming.array("data")
    array = value_array(name, data)
    if array.dtype.kind not in "biuf":
        raise UsageTypeError(f"{name} must be an array of numbers, not of {array.dtype}")
    if array.ndim != 1:
        raise UsageError(f"{name} must have one dimension, not {array.ndim}")
    if types is not None and array.dtype not in types:
        *others, last = (np.dtype(kind).name for kind in types)
        raise UsageTypeError(f"{name} must have dtype {', '.join(others)} or {last}, not {array.dtype}")
    if len(array) != elements:
        raise UsageError(f"{name} must have as many elements as the indices, {elements}, not {len(array)}")
    return array


def sorted_order(naming: Naming, majors: np.ndarray, indices: np.ndarray, minors: int) -> np.ndarray | None:
    """Order that sorts elements by row, then by column; ``None`` where they are sorted. An element that is there twice is an error."""
    keys = majors * max(minors, 1) + indices
    order = None
    if (np.diff(keys) <= 0).any():
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
    twice = np.flatnonzero(np.diff(keys) == 0)
    if len(twice):
        major, minor = divmod(int(keys[twice[0]]), max(minors, 1))
        raise UsageError(f"{naming.whole} must have each element once, not {naming.place(major, minor)} twice")
    return order
