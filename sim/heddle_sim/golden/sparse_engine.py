"""Golden model of the sparse engine: executes a job on numpy arrays, with its checks [S4]."""

import numpy as np
from amaranth.lib import data
from heddle.config import Config
from heddle.constants import BANK_BYTES, ROW_BYTES
from heddle.isa.error_codes import ErrorCode
from heddle.isa.sparse_job import ELEMENTS_OF_WORD, INDEX_BYTES, JOB_ALIGNMENT, JOB_BYTES, POINTER_BYTES, SparseKind, sparse_job_layout

__all__ = ["SparseFault", "read_job", "sparse_run"]

class SparseFault(Exception):
    """A job ends with an error of the hardware: ``code`` and ``operand``."""

    def __init__(self, code: ErrorCode, operand: int) -> None:
        super().__init__(code, operand)
        self.code, self.operand = code, operand


def read_job(record: np.ndarray) -> data.Const:
    """The fields of a job record, uint8 [32]."""
    return sparse_job_layout.from_bits(int.from_bytes(record.tobytes(), "little"))


def sparse_run(cfg: Config, factors: np.ndarray, shared: np.ndarray, address: int) -> int:
    """Execute the job at a shared address; returns the number of its non-zeros, 0 of a panel.

    Parameters
    ----------
    cfg : Config
        Configuration with ``sparse``.
    factors : uint8 [threads, factor_words, dot]
        Factor register files; a PANEL job changes them in place.
    shared : uint8
        Shared memory; a ROWS job writes its rows of int32 sums.
    address : int
        Address of the job in bytes.

    Raises
    ------
    SparseFault
        With the first error of the job. Rows before its row are stored; of a panel none is loaded.
    """
    if address % JOB_ALIGNMENT:
        raise SparseFault(ErrorCode.SPARSE_JOB, address)
    for word in range(address, address + JOB_BYTES, BANK_BYTES):
        _inside(shared, word, BANK_BYTES)
    job = read_job(shared[address:address + JOB_BYTES])
    if not _legal(cfg, job):
        raise SparseFault(ErrorCode.SPARSE_JOB, address)
    panel = factors.reshape(cfg.threads, cfg.sparse_rows, 4)
    if job.kind is SparseKind.PANEL:
        _load(cfg, panel, shared, job)
        return 0
    return _rows(cfg, panel, shared, job)


def _legal(cfg: Config, job: data.Const) -> bool:
    if job.rows == 0:
        return False
    if job.kind is SparseKind.PANEL:
        return job.panel_rows + job.rows <= cfg.sparse_rows and job.values % min(ROW_BYTES, cfg.sparse_columns) == 0
    return (0 < job.panel_rows <= cfg.sparse_rows and job.first % BANK_BYTES == 0 and job.pointers % POINTER_BYTES == 0
            and job.indices % BANK_BYTES == 0 and job.values % BANK_BYTES == 0 and job.output % ROW_BYTES == 0)


def _inside(shared: np.ndarray, address: int, size: int) -> None:
    if address + size > len(shared):
        raise SparseFault(ErrorCode.OUT_OF_RANGE, address)


def _load(cfg: Config, panel: np.ndarray, shared: np.ndarray, job: data.Const) -> None:
    size = cfg.sparse_columns
    if job.values + job.rows * size > len(shared):
        raise SparseFault(ErrorCode.OUT_OF_RANGE, max(job.values, len(shared)))
    rows = shared[job.values:job.values + job.rows * size].reshape(job.rows, cfg.threads, 4)
    panel[:, job.panel_rows:job.panel_rows + job.rows] = rows.transpose(1, 0, 2)


def _rows(cfg: Config, panel: np.ndarray, shared: np.ndarray, job: data.Const) -> int:
    kind = np.uint8 if job.unsigned_panel else np.int8
    columns = panel.view(kind).astype(np.int64).transpose(1, 0, 2).reshape(cfg.sparse_rows, cfg.sparse_columns)
    begin = _pointer(shared, job, 0)
    first = begin
    if begin < job.first:
        raise SparseFault(ErrorCode.SPARSE_POINTER, 0)
    for row in range(job.rows):
        end = _pointer(shared, job, row + 1)
        if end < begin:
            raise SparseFault(ErrorCode.SPARSE_POINTER, row)
        indices, values = _elements(shared, job, begin, end, row, job.panel_rows)
        sums = (values @ columns[indices]).astype(np.int64) if len(indices) else np.zeros(cfg.sparse_columns, np.int64)
        start = job.output + row * 4 * cfg.sparse_columns
        for part in range(0, 4 * cfg.sparse_columns, ROW_BYTES):
            _inside(shared, start + part, ROW_BYTES)
        shared[start:start + 4 * cfg.sparse_columns] = (sums & 0xFFFFFFFF).astype("<u4").view(np.uint8)
        begin = end
    return begin - first


def _pointer(shared: np.ndarray, job: data.Const, number: int) -> int:
    address = job.pointers + POINTER_BYTES * number
    _inside(shared, address // BANK_BYTES * BANK_BYTES, BANK_BYTES)
    return int.from_bytes(shared[address:address + POINTER_BYTES].tobytes(), "little")


def _elements(shared: np.ndarray, job: data.Const, begin: int, end: int, row: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices and values of a row, int64; every word of 16 bytes is inside, and every index below ``limit``."""
    if end == begin:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    width = 2 if job.wide_values else 1
    kind = "<i2" if job.wide_values else np.uint8 if job.unsigned_values else np.int8
    for group in range((begin - job.first) // ELEMENTS_OF_WORD, (end - 1 - job.first) // ELEMENTS_OF_WORD + 1):
        for place in (job.indices + group * ELEMENTS_OF_WORD * INDEX_BYTES, job.values + group * ELEMENTS_OF_WORD * width):
            _inside(shared, place // BANK_BYTES * BANK_BYTES, BANK_BYTES)
        own = slice(max(begin - job.first, group * ELEMENTS_OF_WORD), min(end - job.first, (group + 1) * ELEMENTS_OF_WORD))
        indices = shared[job.indices + own.start * INDEX_BYTES:job.indices + own.stop * INDEX_BYTES].view("<u2")
        if (wrong := indices[indices >= limit]).size:
            raise SparseFault(ErrorCode.SPARSE_INDEX, row << 16 | int(wrong[0]))
    places = slice(begin - job.first, end - job.first)
    indices, values = (shared[base + places.start * size:base + places.stop * size].view(form).astype(np.int64)
                       for base, size, form in ((job.indices, INDEX_BYTES, "<u2"), (job.values, width, kind)))
    return indices, values
