"""Jobs of the sparse engine as bytes: records, and packages of a job with its part of a matrix [S4.5, S4.6]."""

from __future__ import annotations

from enum import Enum

import numpy as np
from amaranth.hdl import Shape
from heddle.config import Config
from heddle.constants import BANK_BYTES
from heddle.interfaces.datapath import OPERAND_BITS
from heddle.isa.sparse_job import (
    BIAS_ROW,
    BOUNDS_ROW,
    INDEX_BYTES,
    JOB_BYTES,
    MULTIPLIER_ROW,
    POINTER_BYTES,
    SCALE_ROWS,
    PanelTarget,
    SparseKind,
    scale_bounds_layout,
    sparse_job_layout,
)
from numpy.typing import ArrayLike

from ..isa.records import record_bytes
from .compressed import Compressed

__all__ = ["ALIGNED_ELEMENTS", "depthwise_bytes", "job_record", "most_weights", "package_bytes", "panel_record", "rows_package",
           "samples_bytes", "samples_package", "scale_table", "weight_rows"]

ALIGNED_ELEMENTS = 16       # elements whose values fill a word of shared memory: a package begins at a multiple of them


def job_record(**fields: int | Enum) -> np.ndarray:
    """The record of a job, uint8 [32]; fields that are not given are 0."""
    plain = {name: value if isinstance(value, Enum) else int(value) for name, value in fields.items()}
    return np.frombuffer(record_bytes(sparse_job_layout, **plain), np.uint8)


def panel_record(first: int, rows: int, address: int, target: PanelTarget = PanelTarget.PANEL, strips: int = 0,
                 sub_warps: bool = False) -> np.ndarray:
    """Record of a job that loads ``rows`` rows at a shared address into the panel, or another target, from its row ``first`` on;
    ``strips`` and ``sub_warps``: as in the record."""
    return job_record(kind=SparseKind.PANEL.value, rows=rows, panel_rows=first, values=address, target=target.value, strips=strips,
                      sub_warps=sub_warps)


def weight_rows(cfg: Config, count: int) -> np.ndarray:
    """Rows of the weights of depthwise rows that belong to their elements 0 to ``count`` - 1; at most ``most_weights(cfg)``."""
    element = np.arange(count)
    return element // cfg.sparse_pairs * cfg.numbers_per_word + element % cfg.sparse_pairs


def most_weights(cfg: Config) -> int:
    """Elements of a depthwise row that have weights of their own."""
    return cfg.sparse_pairs << OPERAND_BITS


def scale_table(cfg: Config, bias: ArrayLike, multiplier: ArrayLike, **bounds: int) -> np.ndarray:
    """Rows of a job that loads the scales of scaled rows, uint8 [9, 4 * threads].

    Parameters
    ----------
    cfg : Config
        Configuration.
    bias, multiplier : int array (4 * threads,)
        Of each column, modulo 2^32.
    bounds
        Fields of ``scale_bounds_layout``; zero point and bounds modulo 2^8.
    """
    table = np.zeros((SCALE_ROWS, cfg.threads), np.uint32)
    for first, values in ((BIAS_ROW, bias), (MULTIPLIER_ROW, multiplier)):
        table[first:first + 4] = (np.asarray(values, np.int64) & 0xFFFFFFFF).astype(np.uint32).reshape(cfg.threads, 4).T
    named = {name: value & (1 << Shape.cast(scale_bounds_layout[name].shape).width) - 1 for name, value in bounds.items()}
    table[BOUNDS_ROW] = scale_bounds_layout.const(named).as_value().value
    return table.view(np.uint8)


def _whole(count: int, unit: int = BANK_BYTES) -> int:
    return -(-count // unit) * unit


def _parts(a: Compressed, first: int, rows: int, valued: bool = True, sub_warps: bool = False) -> tuple[int, int, list[int]]:
    """First element, moved back to an aligned one, end, and bytes of pointers, indices and values of a package."""
    unit = 2 * BANK_BYTES if sub_warps else BANK_BYTES      # of sub-warps words of indices are read in pairs
    start = int(a.indptr[first]) // ALIGNED_ELEMENTS * ALIGNED_ELEMENTS
    stop = int(a.indptr[first + rows])
    width = a.data.itemsize if valued else 0
    return start, stop, [_whole((rows + 1) * POINTER_BYTES, unit), _whole((stop - start) * INDEX_BYTES, unit),
                         _whole((stop - start) * width)]


def package_bytes(a: Compressed, first: int, rows: int, sub_warps: bool = False) -> int:
    """Bytes of ``rows_package``."""
    return JOB_BYTES + sum(_parts(a, first, rows, sub_warps=sub_warps)[2])


def depthwise_bytes(rows: int, elements: int) -> int:
    """Bytes of a ``rows_package`` of depthwise rows that have so many elements together."""
    return JOB_BYTES + _whole((rows + 1) * POINTER_BYTES) + _whole(elements * INDEX_BYTES)


def rows_package(a: Compressed, first: int, rows: int, address: int, output: int, panel_rows: int, **flags: int) -> np.ndarray:
    """A job that multiplies some rows of a matrix, with the row pointers, indices and values that it reads, uint8.

    Parameters
    ----------
    a : Compressed
        Sparse operand, whose columns are rows of the panel.
    first, rows : int
        Rows ``first`` to ``first + rows`` - 1, at least one.
    address : int
        Shared address at which the package will lie, a multiple of 16, with ``sub_warps`` of 32.
    output : int
        Shared address of the first row of sums, a multiple of 128.
    panel_rows : int
        Rows of the panel: indices are below this number.
    flags
        Further fields of the record.
    """
    valued = not flags.get("depthwise")
    start, stop, sizes = _parts(a, first, rows, valued, bool(flags.get("sub_warps")))
    places = np.cumsum([address + JOB_BYTES, *sizes])
    wide = a.data.itemsize == 2
    record = job_record(kind=SparseKind.ROWS.value, rows=rows, panel_rows=panel_rows, first=start, pointers=places[0], indices=places[1],
                        values=places[2] if valued else 0, output=output, wide_values=int(wide),
                        unsigned_values=int(a.data.dtype.kind == "u"), **flags)
    package = np.zeros(JOB_BYTES + sum(sizes), np.uint8)
    package[:JOB_BYTES] = record
    _fill(package, places - address, a.indptr[first:first + rows + 1], a.indices[start:stop], a.data[start:stop if valued else start])
    return package


def _fill(package: np.ndarray, places: np.ndarray, pointers: np.ndarray, indices: np.ndarray, values: np.ndarray) -> None:
    """Put pointers, indices and values at their places in a package."""
    for place, array in zip(places, (pointers.astype("<i4"), indices.astype("<u2"), values.astype(values.dtype.newbyteorder("<")))):
        data = np.ascontiguousarray(array).view(np.uint8)
        package[place:place + data.size] = data


def samples_bytes(mask: Compressed, first: int, rows: int, pattern: bool) -> int:
    """Bytes of ``samples_package``."""
    return JOB_BYTES + sum(_sample_sizes(mask, first, rows, pattern))


def _sample_sizes(mask: Compressed, first: int, rows: int, pattern: bool) -> list[int]:
    """Bytes of pointers, indices and values."""
    count = int(mask.indptr[first + rows]) - int(mask.indptr[first])
    return [_whole((rows + 1) * POINTER_BYTES), _whole(count * INDEX_BYTES), 0 if pattern else _whole(count * mask.data.itemsize)]


def samples_package(mask: Compressed, first: int, rows: int, address: int, output: int, *, left: int, words: int, panel_rows: int,
                    pattern: int, **flags: int) -> np.ndarray:
    """A job that multiplies rows of A with the columns of B in which a mask has elements. Returns it with the part of the mask that it
    reads, uint8.

    The elements of a package are counted from its first one on, so that its sums begin a word of shared memory.

    Parameters
    ----------
    mask : Compressed
        Mask, whose columns are those of the panel.
    first, rows : int
        Rows ``first`` to ``first + rows`` - 1, at least one.
    address : int
        Shared address at which the package will lie, a multiple of 16.
    output : int
        Shared address of the first sum, a multiple of 16.
    left : int
        Shared address of the rows of A.
    words : int
        Factor words of a column.
    panel_rows : int
        Columns of the panel: indices are below this number.
    pattern : int
        1: the package has no values, which count as 1.
    flags
        Further fields of the record.
    """
    sizes = _sample_sizes(mask, first, rows, bool(pattern))
    places = np.cumsum([address + JOB_BYTES, *sizes])
    start, stop = int(mask.indptr[first]), int(mask.indptr[first + rows])
    package = np.zeros(JOB_BYTES + sum(sizes), np.uint8)
    package[:JOB_BYTES] = job_record(
        kind=SparseKind.SAMPLES.value, rows=rows, panel_rows=panel_rows, words=words, pointers=places[0], indices=places[1],
        values=0 if pattern else places[2], left=left, output=output, pattern=pattern, wide_values=int(mask.data.itemsize == 2),
        unsigned_values=int(mask.data.dtype.kind == "u"), **flags)
    values = mask.data[start:start if pattern else stop]
    _fill(package, places - address, mask.indptr[first:first + rows + 1] - start, mask.indices[start:stop], values)
    return package
