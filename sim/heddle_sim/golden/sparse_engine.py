"""Golden model of the sparse engine: executes a job on numpy arrays, with its checks [S4]."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Self

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, ROW_BYTES
from heddle.interfaces.datapath import OPERAND_BITS
from heddle.isa.error_codes import ErrorCode
from heddle.isa.sparse_job import (
    BIAS_ROW,
    BOUNDS_ROW,
    ELEMENTS_OF_WORD,
    INDEX_BYTES,
    JOB_ALIGNMENT,
    JOB_BYTES,
    MOST_SUB_WARPS,
    MULTIPLIER_ROW,
    POINTER_BYTES,
    SCALE_ROWS,
    STRIP_ROWS,
    SUM_BYTES,
    PanelTarget,
    SparseKind,
    scale_bounds_layout,
    sparse_job_layout,
)
from heddle.parameters.sparse import OPERAND_WORDS

from .output_stage import output_bytes

__all__ = ["EngineRegisters", "SparseFault", "read_job", "sparse_run"]

_MEMBERS = {"kind": SparseKind, "target": PanelTarget}
_FIELDS = {name: (field.offset, (1 << field.width) - 1, {member.value: member for member in _MEMBERS.get(name, ())})
           for name, field in sparse_job_layout}


@dataclass
class EngineRegisters:
    """What jobs keep in the engine and its PEs.

    Attributes
    ----------
    factors : uint8 [threads, factor_words, dot]
        Factor register files: the panel.
    weights : uint8 [rows, threads, 4]
        Operand rows; undefined after a SAMPLES job.
    scales : uint32 [9, threads]
        Biases, multipliers and bounds of scaled rows.
    """

    factors: np.ndarray
    weights: np.ndarray
    scales: np.ndarray

    @classmethod
    def of(cls, cfg: Config) -> Self:
        """All zero, for a configuration."""
        rows = cfg.numbers_per_word << OPERAND_BITS
        return cls(np.zeros((cfg.threads, cfg.factor_words, cfg.dot), np.uint8), np.zeros((rows, cfg.threads, 4), np.uint8),
                   np.zeros((SCALE_ROWS, cfg.threads), np.uint32))


class SparseFault(Exception):
    """A job ends with an error of the hardware: ``code`` and ``operand``."""

    def __init__(self, code: ErrorCode, operand: int) -> None:
        super().__init__(code, operand)
        self.code, self.operand = code, operand


def read_job(record: np.ndarray) -> SimpleNamespace:
    """The fields of a job record, uint8 [32], by name: numbers, and members of ``SparseKind`` and ``PanelTarget``.

    A code that is no member's stays a number.
    """
    bits = int.from_bytes(record.tobytes(), "little")
    codes = {name: bits >> first & mask for name, (first, mask, _) in _FIELDS.items()}
    return SimpleNamespace(**{name: _FIELDS[name][2].get(code, code) for name, code in codes.items()})


def sparse_run(cfg: Config, registers: EngineRegisters, shared: np.ndarray, address: int) -> int:
    """Execute the job at a shared address; returns the number of its non-zeros, 0 of a panel.

    Parameters
    ----------
    cfg : Config
        Configuration with ``sparse``.
    registers : EngineRegisters
        A PANEL job changes them in place.
    shared : uint8
        Shared memory; a ROWS job writes its rows of int32 sums, or of bytes, a SAMPLES job the sums of its elements.
    address : int
        Address of the job in bytes.

    Raises
    ------
    SparseFault
        With the first error of the job. Rows before its row are stored, of samples the elements before its element; of a panel none is
        loaded.
    """
    if address % JOB_ALIGNMENT:
        raise SparseFault(ErrorCode.SPARSE_JOB, address)
    for word in range(address, address + JOB_BYTES, BANK_BYTES):
        _inside(shared, word, BANK_BYTES)
    job = read_job(shared[address:address + JOB_BYTES])
    if not _legal(cfg, job):
        raise SparseFault(ErrorCode.SPARSE_JOB, address)
    if job.kind is SparseKind.PANEL:
        _load(cfg, registers, shared, job)
        return 0
    if job.kind is SparseKind.SAMPLES:
        return _samples(cfg, registers.factors, shared, job)
    return _rows(cfg, registers, shared, job)


def _legal(cfg: Config, job: SimpleNamespace) -> bool:
    if job.rows == 0 or (job.kind is not SparseKind.SAMPLES and 1 << job.strips > cfg.thread_groups):
        return False
    if job.kind is not SparseKind.SAMPLES and job.sub_warps and not 1 < 1 << job.strips <= MOST_SUB_WARPS:
        return False
    if job.kind is SparseKind.PANEL:
        if job.sub_warps and job.target is not PanelTarget.PANEL:
            return False
        limits = {PanelTarget.PANEL: cfg.sparse_rows, PanelTarget.WEIGHTS: cfg.numbers_per_word << OPERAND_BITS,
                  PanelTarget.SCALES: SCALE_ROWS}
        return job.panel_rows + job.rows <= limits.get(job.target, 0) and job.values % min(ROW_BYTES, cfg.sparse_columns) == 0
    if (job.first % BANK_BYTES or job.pointers % POINTER_BYTES or job.indices % BANK_BYTES or job.values % BANK_BYTES
            or not job.panel_rows):
        return False
    if job.kind is SparseKind.SAMPLES:
        return (0 < job.words <= OPERAND_WORDS and job.panel_rows * job.words <= cfg.factor_words and job.output % BANK_BYTES == 0
                and job.left % (ROW_BYTES if job.left_by_columns else min(ROW_BYTES, cfg.sparse_columns)) == 0)
    if job.sub_warps and (job.depthwise or job.scaled or job.indices % (2 * BANK_BYTES)):
        return False
    return job.kind is SparseKind.ROWS and job.panel_rows <= cfg.sparse_rows and job.output % ROW_BYTES == 0


def _inside(shared: np.ndarray, address: int, size: int) -> None:
    if address + size > len(shared):
        raise SparseFault(ErrorCode.OUT_OF_RANGE, address)


def _load(cfg: Config, registers: EngineRegisters, shared: np.ndarray, job: SimpleNamespace) -> None:
    size = cfg.sparse_columns >> (job.strips if job.sub_warps else 0)
    if job.values + job.rows * size > len(shared):
        raise SparseFault(ErrorCode.OUT_OF_RANGE, max(job.values, len(shared)))
    data = shared[job.values:job.values + job.rows * size]
    strips = np.tile(data, 1 << job.strips if job.sub_warps else 1).reshape(1 << job.strips, job.rows, -1, 4)
    rows = strips.transpose(1, 0, 2, 3).reshape(job.rows, cfg.threads, 4)
    place = slice(job.panel_rows, job.panel_rows + job.rows)
    if job.target is PanelTarget.PANEL:
        registers.factors.reshape(cfg.threads, cfg.sparse_rows, 4)[:, place] = rows.transpose(1, 0, 2)
    elif job.target is PanelTarget.WEIGHTS:
        registers.weights[place] = rows
    else:
        registers.scales[place] = rows.copy().view("<u4")[:, :, 0]


def _rows(cfg: Config, registers: EngineRegisters, shared: np.ndarray, job: SimpleNamespace) -> int:
    panel = registers.factors.reshape(cfg.threads, cfg.sparse_rows, 4).view(np.uint8 if job.unsigned_panel else np.int8)
    columns = panel.astype(np.int64).transpose(1, 0, 2).reshape(cfg.sparse_rows, cfg.sparse_columns)
    size = cfg.sparse_columns * (1 if job.scaled else SUM_BYTES) >> job.strips         # of a strip
    piece, count = ROW_BYTES // (SUM_BYTES if job.scaled else 1), 0
    far = job.rows * size * ((1 << job.strips) - 1)         # from the first strip to the last
    for row, begin, end in _extents(shared, job, cfg.sparse_pairs << job.strips if job.sub_warps else None):
        indices, values = _elements(shared, job, begin, end, row, job.panel_rows)
        factors = _weights(cfg, registers, job, len(indices)) if job.depthwise else values[:, None]
        products = factors * columns[indices]
        sums = _of_sub_warps(cfg, job, products) if job.sub_warps else products.sum(axis=0, dtype=np.int64)
        start = job.output + row * size
        for part in range(0, size, piece):
            _inside(shared, start + far + part, piece)
        results = _scaled(registers, sums) if job.scaled else (sums & 0xFFFFFFFF).astype("<u4").view(np.uint8)
        for strip, result in enumerate(results.reshape(1 << job.strips, -1)):
            shared[start + strip * job.rows * size:][:size] = result
        count += end - begin
    return count


def _of_sub_warps(cfg: Config, job: SimpleNamespace, products: np.ndarray) -> np.ndarray:
    """Sums of the rows of a group, int64 [columns]: each strip has those of its own elements in its own columns."""
    strips = 1 << job.strips
    steps = products.reshape(-1, strips, cfg.sparse_pairs, strips, cfg.sparse_columns >> job.strips)
    own = steps[:, np.arange(strips), :, np.arange(strips)]         # [strips, steps, pairs, columns of a strip]
    return own.sum(axis=(1, 2), dtype=np.int64).ravel()


def _weights(cfg: Config, registers: EngineRegisters, job: SimpleNamespace, count: int) -> np.ndarray:
    """Weights of the columns for each of ``count`` elements of a row, int64 [count, columns]."""
    element, pairs = np.arange(count), cfg.sparse_pairs
    rows = (element // pairs % (1 << OPERAND_BITS)) * cfg.numbers_per_word + element % pairs
    weights = registers.weights[rows].view(np.uint8 if job.unsigned_left else np.int8)
    return weights.reshape(count, cfg.sparse_columns).astype(np.int64)


def _scaled(registers: EngineRegisters, sums: np.ndarray) -> np.ndarray:
    """Bytes of the sums of a row, uint8."""
    def columns(first: int) -> np.ndarray:
        return registers.scales[first:first + 4].T.ravel()

    bounds = scale_bounds_layout.from_bits(int(registers.scales[BOUNDS_ROW, 0]))
    return output_bytes(sums, columns(BIAS_ROW), columns(MULTIPLIER_ROW), bounds, bounds.shift, bool(bounds.unsigned)).astype(np.uint8)


def _extents(shared: np.ndarray, job: SimpleNamespace, step: int | None = None) -> Iterator[tuple[int, int, int]]:
    """Rows of a job in order: number, first element, and the one behind the last. A pointer is read and checked when its row comes.
    ``step``: of sub-warps the elements of a step.
    """
    begin = _pointer(shared, job, 0)
    if begin < job.first or (step and begin != job.first):
        raise SparseFault(ErrorCode.SPARSE_POINTER, 0)
    for row in range(job.rows):
        end = _pointer(shared, job, row + 1)
        if end < begin or (step and end % step):
            raise SparseFault(ErrorCode.SPARSE_POINTER, row)
        yield row, begin, end
        begin = end


def _pointer(shared: np.ndarray, job: SimpleNamespace, number: int) -> int:
    address = job.pointers + POINTER_BYTES * number
    _inside(shared, address // BANK_BYTES * BANK_BYTES, BANK_BYTES)
    return int.from_bytes(shared[address:address + POINTER_BYTES].tobytes(), "little")


def _elements(shared: np.ndarray, job: SimpleNamespace, begin: int, end: int, row: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices and values of a row, int64, of a depthwise one no values; every word of 16 bytes is inside, and every index below ``limit``.
    """
    if end == begin:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    width, kind = _value_format(job)
    read = ((job.indices, INDEX_BYTES, "<u2"), *([] if job.depthwise else [(job.values, width, kind)]))
    unit = ELEMENTS_OF_WORD * (2 if job.sub_warps and not job.wide_values else 1)      # that is read together
    for group in range((begin - job.first) // unit, (end - 1 - job.first) // unit + 1):
        for base, size, _ in read:
            _inside(shared, (base + group * unit * size) // BANK_BYTES * BANK_BYTES, BANK_BYTES)
        own = slice(max(begin - job.first, group * unit), min(end - job.first, (group + 1) * unit))
        indices = shared[job.indices + own.start * INDEX_BYTES:job.indices + own.stop * INDEX_BYTES].view("<u2")
        if (wrong := indices[indices >= limit]).size:
            raise SparseFault(ErrorCode.SPARSE_INDEX, row << 16 | int(wrong[0]))
    places = slice(begin - job.first, end - job.first)
    found = [shared[base + places.start * size:base + places.stop * size].view(form).astype(np.int64) for base, size, form in read]
    return found[0], found[-1]


def _value_format(job: SimpleNamespace) -> tuple[int, str]:
    """Bytes and numpy type of a value."""
    return (2, "<i2") if job.wide_values else (1, "u1" if job.unsigned_values else "i1")


def _samples(cfg: Config, factors: np.ndarray, shared: np.ndarray, job: SimpleNamespace) -> int:
    """Elements of a mask, one after the other: dot product of a row of A and a column of B, times the value of the element."""
    size = job.words * cfg.threads * cfg.dot
    words = factors[:, :job.panel_rows * job.words].reshape(cfg.threads, job.panel_rows, job.words * cfg.dot // 4, 4)
    columns = np.ascontiguousarray(words.transpose(1, 2, 0, 3)).reshape(job.panel_rows, size)
    columns = columns.view(np.uint8 if job.unsigned_panel else np.int8).astype(np.int64)
    count = 0
    for row, begin, end in _extents(shared, job):
        count += end - begin
        if end > begin:
            left = _left_row(shared, job, row, size).view(np.uint8 if job.unsigned_left else np.int8).astype(np.int64)
            for element in range(begin - job.first, end - job.first):
                _sample(shared, job, element, row, left, columns)
    return count


def _left_row(shared: np.ndarray, job: SimpleNamespace, row: int, size: int) -> np.ndarray:
    """A row of A, uint8; by columns it is one of a strip, else a strip of its own."""
    rows, first = (STRIP_ROWS, job.left_first) if job.left_by_columns else (1, 0)
    number, column = divmod(first + row, rows)
    place = job.left + number * size * rows
    if place + size * rows > len(shared):
        raise SparseFault(ErrorCode.OUT_OF_RANGE, max(place, len(shared)))
    return np.ascontiguousarray(shared[place:place + size * rows][column::rows])


def _sample(shared: np.ndarray, job: SimpleNamespace, element: int, row: int, left: np.ndarray, columns: np.ndarray) -> None:
    """An element, counted from ``first`` on."""
    width, kind = _value_format(job)
    group = element // ELEMENTS_OF_WORD * ELEMENTS_OF_WORD
    for place in (job.indices + group * INDEX_BYTES, *([] if job.pattern else [job.values + group * width])):
        _inside(shared, place // BANK_BYTES * BANK_BYTES, BANK_BYTES)
    index = _number(shared, job.indices + element * INDEX_BYTES, "<u2")
    if index >= job.panel_rows:
        raise SparseFault(ErrorCode.SPARSE_INDEX, row << 16 | index)
    place = job.output + SUM_BYTES * element
    _inside(shared, place // BANK_BYTES * BANK_BYTES, BANK_BYTES)
    value = 1 if job.pattern else _number(shared, job.values + element * width, kind)
    total = int(columns[index] @ left) * value
    shared[place:place + SUM_BYTES] = np.array([total & 0xFFFFFFFF], "<u4").view(np.uint8)


def _number(shared: np.ndarray, address: int, kind: str) -> int:
    return int(shared[address:address + np.dtype(kind).itemsize].view(kind)[0])
