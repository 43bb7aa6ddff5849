"""Random topologies of sparse matrices, usual and adversarial, as arrays of bool."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import DTypeLike

from .integers import random_integers

__all__ = ["ADVERSARIAL", "KINDS", "operand", "random_topologies", "random_values"]

Rng = np.random.Generator


def operand(rng: Rng, shape: tuple[int, ...], dtype: DTypeLike = np.int8) -> np.ndarray:
    """A dense operand of all values of its type."""
    return random_integers(rng, dtype, shape)


def _uniform(rng: Rng, rows: int, columns: int) -> np.ndarray:
    return rng.random((rows, columns)) < rng.choice([0.02, 0.1, 0.3, 0.5, 0.9])


def _banded(rng: Rng, rows: int, columns: int) -> np.ndarray:
    distance = np.arange(columns)[None] - np.arange(rows)[:, None] * columns // max(rows, 1)
    return (np.abs(distance) <= rng.integers(0, 4)) & (rng.random((rows, columns)) < 0.9)


def _power_law(rng: Rng, rows: int, columns: int) -> np.ndarray:
    lengths = np.minimum(columns, columns / (1 + rng.permutation(rows)) ** rng.uniform(0.5, 1.5))
    return rng.random((rows, columns)) * columns < lengths[:, None]


def _block(rng: Rng, rows: int, columns: int) -> np.ndarray:
    side = int(rng.choice([2, 4, 8]))
    blocks = rng.random((-(-rows // side), -(-columns // side))) < 0.3
    return np.kron(blocks, np.ones((side, side), bool))[:rows, :columns]


def _empty(rng: Rng, rows: int, columns: int) -> np.ndarray:
    return np.zeros((rows, columns), bool)


def _empty_rows(rng: Rng, rows: int, columns: int) -> np.ndarray:
    return _uniform(rng, rows, columns) & (rng.random(rows) < 0.2)[:, None] & (rng.random(columns) < 0.5)


def _one_dense_row(rng: Rng, rows: int, columns: int) -> np.ndarray:
    made = _empty(rng, rows, columns)
    made[rng.integers(rows)] = True
    return made


def _single_column(rng: Rng, rows: int, columns: int) -> np.ndarray:
    made = _empty(rng, rows, columns)
    made[:, rng.integers(columns)] = rng.random(rows) < 0.7
    return made


def _giant_row(rng: Rng, rows: int, columns: int) -> np.ndarray:
    made = rng.random((rows, columns)) < 0.02
    made[rng.integers(rows)] = True
    return made


def _corners(rng: Rng, rows: int, columns: int) -> np.ndarray:
    made = _empty(rng, rows, columns)
    made[[0, 0, -1, -1], [0, -1, 0, -1]] = True
    return made


ADVERSARIAL: dict[str, Callable[[Rng, int, int], np.ndarray]] = {
    "empty": _empty, "empty rows": _empty_rows, "one dense row": _one_dense_row, "single column": _single_column, "giant row": _giant_row,
    "corners": _corners,
}
KINDS = {"uniform": _uniform, "banded": _banded, "power law": _power_law, "block": _block, **ADVERSARIAL}


def random_topologies(rng: Rng, count: int, most: int = 40) -> Iterator[tuple[str, np.ndarray]]:
    """``count`` topologies with their kind, the kinds in turn, of 1 to ``most`` rows and columns; every 30th has no row or no column."""
    for number in range(count):
        rows, columns = map(int, rng.integers(1, most + 1, 2))
        if number % 30 == 29:
            yield "no rows" if number % 60 == 29 else "no columns", np.zeros((0, columns) if number % 60 == 29 else (rows, 0), bool)
            continue
        kind = [*KINDS][number % len(KINDS)]
        yield kind, KINDS[kind](rng, rows, columns)


def random_values(rng: Rng, topology: np.ndarray, dtype: type) -> np.ndarray:
    """An integer array with values other than zero where the topology has elements, extremes among them."""
    limits = np.iinfo(dtype)
    values = rng.integers(limits.min, limits.max, topology.shape, dtype, endpoint=True)
    values = np.where(rng.random(topology.shape) < 0.1, rng.choice(np.array([limits.min or 1, limits.max], dtype), topology.shape), values)
    return np.where(topology, np.where(values == 0, dtype(1), values), dtype(0)).astype(dtype)
