"""How a product from global memory is cut for a core."""

import math
from dataclasses import dataclass, replace

from heddle.constants import BANK_BYTES, TOKEN_GRANULES

from .merges import Merge

__all__ = ["MAX_SLICES", "Tiling", "odd_pitch", "round_up"]

MAX_SLICES = 16             # factor words of one mm


def round_up(value, multiple):
    """The next multiple of ``multiple`` from ``value`` on."""
    return -(-value // multiple) * multiple


def odd_pitch(nbytes):
    """A distance of rows in shared memory that lets neighbouring rows meet different banks: an odd number of 16-byte blocks."""
    return (round_up(nbytes, BANK_BYTES) // BANK_BYTES | 1) * BANK_BYTES


@dataclass(frozen=True)
class Tiling:
    """How a problem is cut; lengths along k are bytes.

    ``chunk`` bytes of k are processed at a time, ``chunks`` times, ``last_chunk`` the last time; ``ab_pitch`` and ``c_pitch`` are the
    distances of rows of A, columns of B and rows of C in shared memory; ``slots`` (of B), ``a_stage`` and ``c_stages``
    are shared addresses. A tile has ``rows`` rows and ``threads`` columns.
    """

    threads: int
    rows: int
    dot: int
    pitch: int
    chunk: int
    chunks: int
    last_chunk: int
    ab_pitch: int
    c_pitch: int
    slots: tuple
    a_stage: int
    c_stages: tuple

    @classmethod
    def choose(cls, cfg, k, merge=None, b_rows=None, reserved=0):
        """For a length of k in bytes; ``b_rows`` (``RowsOfB``) says that B comes in rows of k; ``reserved`` bytes at the end of
        shared memory are not used."""
        merge = merge or Merge(cfg.threads, cfg.dot)
        threads, dot, rows = cfg.threads, cfg.dot, merge.rows
        pitch = round_up(k, BANK_BYTES)
        c_pitch = merge.result_pitch(threads + 1)
        beyond = 0      # of the end of k, in the last slice; rows that are not B count zero times
        in_factors = (cfg.factor_words // TOKEN_GRANULES) * (TOKEN_GRANULES // 2 - 1) * merge.slice_bytes
        shared = cfg.shared_bytes - reserved
        in_shared = (shared - 2 * rows * c_pitch) // (2 * threads + rows) - BANK_BYTES
        if b_rows:
            beyond = merge.slice_bytes if merge.kb > 1 else 0
            in_shared = (shared - threads * (2 * c_pitch + BANK_BYTES) - 2 * b_rows.slot_bytes(beyond)) // (
                threads + 2 * b_rows.slot_bytes(1))
        limit = min(in_factors, in_shared, cfg.matrix_queue * MAX_SLICES * merge.slice_bytes)
        if merge.kb > 1:
            limit = min(limit, cfg.instruction_words * merge.slice_bytes // 8)
        chunk, chunks = pitch, 1
        if pitch > limit:
            limit = min(limit, cfg.instruction_words)       # the loads of a chunk are unrolled
            smallest = math.lcm(BANK_BYTES, merge.slice_bytes)
            unit = math.lcm(smallest, MAX_SLICES * merge.slice_bytes)
            unit = unit if limit >= unit else smallest
            chunks = -(-pitch // (limit // unit * unit))
            chunk = round_up(-(-pitch // chunks), unit)
            chunks = -(-pitch // chunk)
        ab_pitch = odd_pitch(chunk)
        slots = 2
        slot = b_rows.slot_bytes(chunk + beyond) if b_rows else threads * ab_pitch
        # Where the bus is busy most of the time a third slot keeps it so while mm works on one and the next is ready.
        mm = -(-threads // merge.ka) * merge.slices(k) * merge.step_cycles(cfg.fetch_slots)
        if chunks == 1 and 3 * slot + rows * (ab_pitch + 2 * c_pitch) <= shared and 2 * threads * pitch > cfg.axi_bytes * mm:
            slots = 3
        a_stage = slots * slot
        c_stage = a_stage + rows * ab_pitch
        return cls(threads, rows, dot, pitch, chunk, chunks, k - (chunks - 1) * chunk, ab_pitch, c_pitch,
                   tuple(slot * index for index in range(slots)),
                   a_stage, (c_stage, c_stage + rows * c_pitch))

    def with_all_columns(self, column_blocks, shared):
        """With a slot for each block of columns of B, if ``shared`` bytes are enough for them; else None."""
        slot = self.slots[1]
        more = (column_blocks - len(self.slots)) * slot
        if self.chunks > 1 or self.c_stages[1] + self.rows * self.c_pitch + more > shared:
            return None
        return replace(self, slots=tuple(slot * index for index in range(column_blocks)), a_stage=self.a_stage + more,
                       c_stages=tuple(stage + more for stage in self.c_stages))

    @property
    def contiguous(self):
        """Columns of B lie in shared memory as they do in global memory."""
        return self.ab_pitch == self.pitch
