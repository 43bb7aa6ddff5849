"""Jobs of the sparse engine as bytes: records, and packages of a job with its part of a matrix [S4.5, S4.6]."""

from __future__ import annotations

import numpy as np
from heddle.constants import BANK_BYTES
from heddle.isa.sparse_job import INDEX_BYTES, JOB_BYTES, POINTER_BYTES, SparseKind, sparse_job_layout

from ..isa.records import record_bytes
from .compressed import Compressed

__all__ = ["ALIGNED_ELEMENTS", "job_record", "package_bytes", "panel_record", "rows_package"]

ALIGNED_ELEMENTS = 16       # elements whose values fill a word of shared memory: a package begins at a multiple of them


def job_record(**fields: int) -> np.ndarray:
    """The record of a job, uint8 [32]; fields that are not given are 0."""
    return np.frombuffer(record_bytes(sparse_job_layout, **{name: int(value) for name, value in fields.items()}), np.uint8)


def panel_record(first: int, rows: int, address: int) -> np.ndarray:
    """Record of a job that loads ``rows`` rows of B at a shared address into the panel, from its row ``first`` on."""
    return job_record(kind=SparseKind.PANEL.value, rows=rows, panel_rows=first, values=address)


def _whole(count: int) -> int:
    return -(-count // BANK_BYTES) * BANK_BYTES


def _parts(a: Compressed, first: int, rows: int) -> tuple[int, int, list[int]]:
    """First element, moved back to an aligned one, end, and bytes of pointers, indices and values of a package."""
    start = int(a.indptr[first]) // ALIGNED_ELEMENTS * ALIGNED_ELEMENTS
    stop = int(a.indptr[first + rows])
    width = a.data.itemsize
    return start, stop, [_whole((rows + 1) * POINTER_BYTES), _whole((stop - start) * INDEX_BYTES), _whole((stop - start) * width)]


def package_bytes(a: Compressed, first: int, rows: int) -> int:
    """Bytes of ``rows_package``."""
    return JOB_BYTES + sum(_parts(a, first, rows)[2])


def rows_package(a: Compressed, first: int, rows: int, address: int, output: int, panel_rows: int, **flags: int) -> np.ndarray:
    """A job that multiplies some rows of a matrix, with the row pointers, indices and values that it reads, uint8.

    Parameters
    ----------
    a : Compressed
        Sparse operand, whose columns are rows of the panel.
    first, rows : int
        Rows ``first`` to ``first + rows`` - 1, at least one.
    address : int
        Shared address at which the package will lie, a multiple of 16.
    output : int
        Shared address of the first row of sums, a multiple of 128.
    panel_rows : int
        Rows of the panel: indices are below this number.
    flags
        Further fields of the record.
    """
    start, stop, sizes = _parts(a, first, rows)
    places = np.cumsum([address + JOB_BYTES, *sizes])
    wide = a.data.itemsize == 2
    record = job_record(kind=SparseKind.ROWS.value, rows=rows, panel_rows=panel_rows, first=start, pointers=places[0], indices=places[1],
                        values=places[2], output=output, wide_values=int(wide), unsigned_values=int(a.data.dtype.kind == "u"), **flags)
    package = np.zeros(JOB_BYTES + sum(sizes), np.uint8)
    package[:JOB_BYTES] = record
    for place, array in zip(places, (a.indptr[first:first + rows + 1].astype("<i4"), a.indices[start:stop].astype("<u2"),
                                     a.data[start:stop].astype(a.data.dtype.newbyteorder("<")))):
        data = np.ascontiguousarray(array).view(np.uint8)
        package[place - address:place - address + data.size] = data
    return package
