"""Products with B in rows of n and in columns of k: time, and what the fetch of B reads from shared memory."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES

from ..kernels.parts.merges import Merge
from .bench_gemm import gemm_row
from .common import print_rows

if TYPE_CHECKING:
    from ..device.device import Device

__all__ = ["TRANSPOSE_SHAPES", "print_transpose", "transpose_row"]

TRANSPOSE_SHAPES = ((32, 32, 128), (64, 64, 256), (128, 128, 128), (50, 70, 90))


def transpose_row(device: Device, m: int, n: int, k: int, dtype: str, b_layout: str, seed: int, check: bool,
                  **choice: Any) -> dict[str, Any]:
    """A benchmark row with ``b_bytes``, ``b_bytes_read`` and ``reads_per_byte``. ``b_bytes``: those of B in tiles, once for each block of
    rows of A; ``b_bytes_read``: what the hardware counted; ``choice``: see ``gemm_row``."""
    row = gemm_row(device, m, n, k, dtype, seed, check, b_layout, **choice)
    size, rows = np.dtype(dtype).itemsize, Merge(device.cfg.threads, device.cfg.dot, row["ka"], row["kb"]).rows
    needed = -(-m // rows) * n * k * size
    if not row["cycles"]:
        return row | {"b_bytes": needed, "b_bytes_read": None, "reads_per_byte": None}
    read = BANK_BYTES * row["counters"]["matrix_blocks"]
    return row | {"b_bytes": needed, "b_bytes_read": read, "reads_per_byte": read / needed}


def print_transpose(options: argparse.Namespace, cfg: Config, rows: list[dict[str, Any]]) -> None:
    print_rows(options, "transpose", cfg.name, rows, dict.fromkeys(
        ("m", "n", "k", "ka", "kb", "resident", "dtype", "b_layout", "cycles", "utilization", "b_bytes_read", "reads_per_byte", "checked")))
