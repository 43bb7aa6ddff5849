"""Vector loads of the elements of sparse matrices, with and without alignment and rows that share loads [S4.5, S4.6]."""

from __future__ import annotations

import argparse
from typing import Any

from ..sparse.compressed import Compressed
from ..sparse.packing import load_counts
from .common import print_rows

__all__ = ["load_rows", "print_loads"]

_COUNTS = ("plain", "aligned", "packed", "both")


def load_rows(matrices: dict[str, Compressed], vector: int, sub_warps: int) -> list[dict[str, Any]]:
    """A row for each matrix with its ``LoadCounts``, and one for all. ``gain``: loads with neither by those with both."""
    rows: list[dict[str, Any]] = []
    for name, matrix in matrices.items():
        counts = load_counts(matrix, vector, sub_warps)
        rows.append({"matrix": name, "rows": matrix.shape[0], "non_zeros": matrix.elements}
                    | {way: getattr(counts, way) for way in _COUNTS})
    sums = {name: sum(row[name] for row in rows) for name in ("rows", "non_zeros", *_COUNTS)}
    rows.append({"matrix": f"all {len(rows)}"} | sums)
    return [row | {"vector": vector, "sub_warps": sub_warps, "gain": row["plain"] / max(row["both"], 1)} for row in rows]


def print_loads(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Print the rows of ``load_rows``."""
    print_rows(options, "loads", "model", rows, dict.fromkeys(("matrix", "rows", "non_zeros", *_COUNTS, "gain")))
