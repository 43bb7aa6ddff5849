"""Generated matrices with the statistics of the deep-learning matrix collection, for machines that lack its files."""

import zlib
from typing import NamedTuple

import numpy as np

from .compressed import Compressed
from .suites import seeded_values

__all__ = ["GENERATED", "Statistics", "generated_suite", "power_law_matrix", "spread_matrix", "uniform_matrix"]


class Statistics(NamedTuple):
    """Size; share of zeros; how uneven the lengths of rows and columns are (standard deviation by mean); how many rows, at least, have no
    element."""

    rows: int
    columns: int
    sparsity: float
    row_variation: float
    column_variation: float
    empty_rows: int = 0


# The sizes, the ways to prune and the values of these that the small matrices of the collection have (ResNet-50).
GENERATED = {
    "random__0.5": Statistics(256, 64, 0.5, 0.13, 0.08),
    "random__0.7": Statistics(64, 147, 0.7, 0.12, 0.20),
    "random__0.9": Statistics(64, 256, 0.9, 0.19, 0.56),
    "random__0.98": Statistics(256, 64, 0.972, 0.74, 0.37),
    "magnitude__0.5": Statistics(64, 64, 0.5, 0.22, 0.29),
    "magnitude__0.8": Statistics(256, 64, 0.8, 0.64, 0.62, 25),
    "magnitude__0.9": Statistics(256, 64, 0.9, 0.86, 0.92, 35),
    "magnitude__0.95": Statistics(64, 256, 0.95, 0.43, 1.10),
    "extended__0.91": Statistics(256, 64, 0.91, 1.07, 0.30, 70),
    "extended__0.96": Statistics(64, 256, 0.96, 0.48, 1.25),
    "variational__0.8": Statistics(256, 64, 0.58, 0.74, 0.09, 8),
    "variational__0.98": Statistics(256, 64, 0.89, 1.14, 0.26, 31),
}


def spread_matrix(rng: np.random.Generator, statistics: Statistics) -> Compressed:
    """Pattern with exactly as many elements as the sparsity says, and lengths about as uneven as asked for.

    Elements are drawn without repetition, by chances that are products of a weight of the row and one of the column. Weights are
    log-normal; their spread is the one, of a few, whose pattern comes closest.
    """
    rows, columns = statistics.rows, statistics.columns
    count = round(rows * columns * (1 - statistics.sparsity))
    row_weights, column_weights = rng.standard_normal(rows)[:, None], rng.standard_normal(columns)[None]
    chance = np.log(rng.exponential(size=(rows, columns)))
    chance[rng.choice(rows, statistics.empty_rows, replace=False)] = np.inf

    def pattern(spreads: tuple[float, float]) -> np.ndarray:
        scores = chance - spreads[0] * row_weights - spreads[1] * column_weights
        return scores <= np.partition(scores, count - 1, axis=None)[count - 1]

    spreads = [0.0, 0.0]
    for _ in range(3):          # one after the other: each moves the other a little
        for axis, wanted in enumerate((statistics.row_variation, statistics.column_variation)):
            def distance(spread: float, axis: int = axis, wanted: float = wanted) -> float:
                tried = (spread, spreads[1]) if axis == 0 else (spreads[0], spread)
                return abs(variation(pattern(tried).sum(axis=1 - axis)) - wanted)
            spreads[axis] = min((step / 10 for step in range(31)), key=distance)
    return Compressed.of_dense(pattern((spreads[0], spreads[1])).astype(np.int8))


def uniform_matrix(rows: int, columns: int, sparsity: float, seed: int) -> Compressed:
    """Elements at places of equal chance, without repetition, with seeded values."""
    places = np.random.default_rng(seed).choice(rows * columns, round(rows * columns * (1 - sparsity)), replace=False)
    pattern = np.zeros(rows * columns, np.int8)
    pattern[places] = 1
    return seeded_values(Compressed.of_dense(pattern.reshape(rows, columns)), seed)


def power_law_matrix(rows: int, columns: int, sparsity: float, seed: int, exponent: float = 0.6) -> Compressed:
    """Lengths of rows that fall with a power of their rank, rows in any order; about as many elements as the sparsity says, with seeded
    values."""
    rng = np.random.default_rng(seed)
    weights = rng.permutation(np.arange(1, rows + 1.0) ** -exponent)
    wanted, scale = rows * columns * (1 - sparsity), 0.0
    for power in range(40, -20, -1):        # the largest scale that does not exceed what is wanted, as a binary fraction
        if np.minimum(weights * (scale + 2.0 ** power), columns).sum() <= wanted:
            scale += 2.0 ** power
    pattern = np.zeros((rows, columns), np.int8)
    for row, length in enumerate(np.minimum(np.rint(weights * scale), columns).astype(int)):
        pattern[row, rng.choice(columns, length, replace=False)] = 1
    return seeded_values(Compressed.of_dense(pattern), seed)


def variation(lengths: np.ndarray) -> float:
    """Standard deviation by mean."""
    return float(lengths.std() / lengths.mean()) if lengths.any() else 0.0


def generated_suite() -> dict[str, Compressed]:
    """The dozen of ``GENERATED`` by name with seeded values (``seeded_values``); the same ones each time."""
    suite = {}
    for name, statistics in GENERATED.items():
        seed = zlib.crc32(name.encode())
        suite[name] = seeded_values(spread_matrix(np.random.default_rng(seed), statistics), seed)
    return suite
