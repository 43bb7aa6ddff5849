"""Products of tensors as one matrix product [S0.16]."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from heddle.errors import UsageError
from numpy.typing import ArrayLike

from ...arguments import check_mask, integer_array

__all__ = ["contracted_axes", "fold"]


def contracted_axes(a_rank: int, b_rank: int, axes: Any) -> tuple[int, int]:
    """The contracted axis of each operand, from 0, for the ``axes`` of ``numpy.tensordot``: 1, or a pair of an axis (or a sequence of
    one) each.

    Raises ``ValueError`` unless it is exactly one axis of each, and one that exists.
    """
    check_mask("axes", axes)
    if isinstance(axes, (int, np.integer)) and not isinstance(axes, bool):
        if axes != 1:
            raise UsageError(f"axes must contract one axis (1 or a pair of axes), not {axes}")
        pair = [[-1], [0]]
    else:
        try:
            pair = [list(part) if np.ndim(part) else [part] for part in axes]
        except TypeError:
            pair = []
        if [len(part) for part in pair] != [1, 1]:
            raise UsageError(f"axes must contract one axis (1 or a pair of axes), not {axes!r}")
    found = []
    for name, rank, (axis,) in zip("ab", (a_rank, b_rank), pair):
        if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)) or not -rank <= axis < rank:
            raise UsageError(f"axes must name an axis of {name} from {-rank} to {rank - 1}, not {axis!r}")
        found.append(int(axis) % rank)
    return found[0], found[1]


def fold(a: ArrayLike, b: ArrayLike, axes: int | Sequence[int | Sequence[int]]) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Fold two arrays to matrices: A (m, x, k) to (m·x, k), B (k, n, y, z) to the n·y·z columns of k elements.

    Returns ``(a, b, shape)``: ``a`` (M, K), ``b`` (N, K) and the shape to which the product (M, N) unfolds.
    """
    a, b = integer_array("a", a), integer_array("b", b)
    for name, array in (("a", a), ("b", b)):
        if array.ndim == 0:
            raise UsageError(f"{name} must have at least 1 dimension, not 0")
    matrices: list[np.ndarray] = []
    shape: tuple[int, ...] = ()
    for array, axis in zip((a, b), contracted_axes(a.ndim, b.ndim, axes)):
        moved = np.moveaxis(array, axis, -1)
        shape += moved.shape[:-1]
        matrices.append(np.ascontiguousarray(moved).reshape(math.prod(moved.shape[:-1]), moved.shape[-1]))
    if matrices[0].shape[1] != matrices[1].shape[1]:
        raise UsageError(f"axes must have the same length in a and b, not {matrices[0].shape[1]} and {matrices[1].shape[1]}")
    return matrices[0], matrices[1], shape
