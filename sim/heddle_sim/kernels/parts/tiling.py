"""Tiling of a product from global memory: how it is cut for a core."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from heddle.config import Config
from heddle.constants import BANK_BYTES

from .fitting import Region, Unfit, check_factors, check_regions
from .merges import Merge
from .register_groups import half_words

if TYPE_CHECKING:
    from .columns import RowsOfB

__all__ = ["MAX_SLICES", "SharedAreas", "Tiling", "odd_pitch", "round_up"]

MAX_SLICES = 16             # factor words of one mm
_SHORTER = 4                # how much shorter the chunks of the next candidate are
_FEWEST_COLUMNS = 4         # of a tile: a copy moves at least 16 bytes of a row of C


def round_up(value: int, multiple: int) -> int:
    """The next multiple of ``multiple`` from ``value`` on."""
    return -(-value // multiple) * multiple


def full_part(count: int, step: int) -> float:
    """Part that ``count`` is of the next multiple of ``step``."""
    return count / round_up(count, step)


def odd_pitch(nbytes: int) -> int:
    """A distance of rows in shared memory that lets neighbouring rows meet different banks: an odd number of 16-byte blocks."""
    return (round_up(nbytes, BANK_BYTES) // BANK_BYTES | 1) * BANK_BYTES


@dataclass(frozen=True, kw_only=True)
class SharedAreas:
    """Areas of shared memory that a tile takes.

    ``slots`` of B, ``a_stage`` (of A) and ``c_stages`` (of C) are addresses; the stages of C are equal where there is room for one only.
    ``ab_pitch``: distance of rows of A and of columns of B in bytes; ``c_pitch``: that of rows of C.
    """

    ab_pitch: int
    c_pitch: int
    slots: tuple[int, ...]
    a_stage: int
    c_stages: tuple[int, ...]

    def regions(self, rows: int, slot_bytes: int, c_rows: int | None = None) -> list[Region]:
        """The areas by name, for ``rows`` rows of A and ``c_rows`` staged rows of C (as many)."""
        return [*(Region(f"slot {index} of B", place, slot_bytes) for index, place in enumerate(self.slots)),
                Region("stage of A", self.a_stage, rows * self.ab_pitch),
                *(Region(f"stage {index} of C", place, (c_rows or rows) * self.c_pitch)
                  for index, place in enumerate(sorted(set(self.c_stages))))]


@dataclass(frozen=True, kw_only=True)
class Tiling(SharedAreas):
    """How a problem is cut; lengths along k are bytes.

    ``chunk`` bytes of k are processed at a time, ``chunks`` times, ``last_chunk`` the last time; ``pitch`` is the distance of rows of A and
    columns of B in global memory. A tile has ``rows`` rows and ``columns`` columns.
    """

    columns: int
    rows: int
    dot: int
    pitch: int
    chunk: int
    chunks: int
    last_chunk: int
    early_b: bool = False           # the third slot of B is filled before a tile is stored, not behind

    @classmethod
    def choose(cls, cfg: Config, k: int, merge: Merge = None, b_rows: RowsOfB | None = None, reserved: int = 0,
               fewest: int = _FEWEST_COLUMNS, plain: bool = False, n: int | None = None) -> Tiling:
        """The first of ``candidates``."""
        return next(cls.candidates(cfg, k, merge, b_rows, reserved, fewest, plain, n))

    @classmethod
    def candidates(cls, cfg: Config, k: int, merge: Merge = None, b_rows: RowsOfB | None = None, reserved: int = 0,
                   fewest: int = _FEWEST_COLUMNS, plain: bool = False, n: int | None = None) -> Iterator[Tiling]:
        """Tilings for a length of k in bytes, the fastest first.

        They have as many columns as there are threads and two staging areas of C where shared memory has room. With ``n``, the columns of
        the product, they have only as many as make all tiles alike. Then ``mm`` of the last one is not too short for the stores of the one
        before. Later ones have shorter and shorter chunks, whose programs are shorter.

        ``b_rows`` (``RowsOfB``): B comes in rows of k. ``reserved`` bytes at the end of shared memory are not used. A tile has at least
        ``fewest`` columns. ``plain``: threads do nothing but store the sums of a tile. Raises ``Unfit`` where nothing fits shared memory.
        """
        merge = merge or Merge(cfg.threads, cfg.dot)
        smallest = math.lcm(BANK_BYTES, merge.slice_bytes)
        for columns in _widths(merge, b_rows, fewest, n):
            for stages in (2, 1):
                room = _Room(cfg, merge, b_rows and b_rows.of_width(columns), cfg.shared_bytes - reserved, columns, stages, plain)
                limit = room.limit()
                if limit < smallest:
                    continue
                chunk = None
                while chunk is None or chunk > smallest:
                    tiling = room.tiling(k, limit)
                    yield tiling
                    chunk = tiling.chunk
                    limit = max(smallest, chunk // _SHORTER)
                return
        raise Unfit("shared_memory_kib")

    def check(self, cfg: Config, merge: Merge, slot_bytes: int, more: Sequence[Region] = ()) -> None:
        """Raises ``AssertionError`` unless all areas of shared memory, with those of ``more``, lie apart.

        The words of a chunk must fit a half of the factor registers."""
        assert self.last_chunk > 0 and self.chunk % BANK_BYTES == 0 and self.chunk * self.chunks >= self.pitch
        assert slot_bytes <= (self.slots[1] if len(self.slots) > 1 else self.a_stage)
        check_factors(cfg, merge.slices(self.chunk))
        check_regions(cfg, [*self.regions(self.rows, slot_bytes), *more])

    @property
    def end(self) -> int:
        """First byte of shared memory behind all areas."""
        return max(self.c_stages) + self.rows * self.c_pitch

    @property
    def stages(self) -> int:
        """Staging areas of C."""
        return len(set(self.c_stages))

    def with_stages(self, count: int, shared: int) -> Self:
        """With ``count`` staging areas of C, if ``shared`` bytes are enough for them; else the same."""
        first, size = min(self.c_stages), self.rows * self.c_pitch
        if first + count * size > shared:
            return self
        return replace(self, c_stages=tuple(first + size * index for index in range(count)))

    def with_all_columns(self, column_blocks: int, shared: int) -> Self | None:
        """With a slot for each block of columns of B, if ``shared`` bytes are enough for them; else None."""
        slot = self.slots[1]
        more = (column_blocks - len(self.slots)) * slot
        if self.chunks > 1 or self.end + more > shared:
            return None
        return replace(self, slots=tuple(slot * index for index in range(column_blocks)), a_stage=self.a_stage + more,
                       c_stages=tuple(stage + more for stage in self.c_stages))

    @property
    def contiguous(self) -> bool:
        """Whole columns of B lie in shared memory as they do in global memory."""
        return self.chunks == 1 and self.ab_pitch == self.pitch


def _widths(merge: Merge, b_rows: RowsOfB | None, fewest: int, n: int | None) -> list[int]:
    """Numbers of columns that a tile may have, the largest first; with ``n`` columns in all the largest makes tiles alike."""
    if merge.b_in_rows and merge.ka > 1:        # the lanes of a row store all their parts of a tile
        return [merge.threads]
    unit = math.lcm(merge.ka * merge.vector, fewest, b_rows.fewest_columns if b_rows else 1)
    largest = merge.threads
    if n and n > largest and not b_rows:
        largest = min(round_up(-(-n // -(-n // largest)), unit), largest)
    return [largest, *(unit << shift for shift in reversed(range(merge.threads.bit_length())) if unit << shift < largest)]


@dataclass(frozen=True)
class _Room:
    """Room of a core for tiles of ``columns`` columns, B in ``b_rows`` of that width or None, ``shared`` bytes of shared memory."""

    cfg: Config
    merge: Merge
    b_rows: RowsOfB | None
    shared: int
    columns: int
    stages: int
    plain: bool

    @property
    def beyond(self) -> int:
        """Bytes beyond the end of k that the last slice reads; rows that are not B count zero times."""
        return self.merge.slice_bytes if self.b_rows and self.merge.kb > 1 else 0

    def limit(self) -> int:
        """Bytes of k that fit registers and shared memory at a time; not positive where there is no room at all."""
        cfg, merge, b_rows = self.cfg, self.merge, self.b_rows
        shared = self.shared - self.stages * merge.rows * merge.result_pitch(self.columns + 1)
        in_factors = half_words(cfg) * merge.slice_bytes
        in_shared = shared // (2 * self.columns + merge.rows) - BANK_BYTES
        if b_rows:
            in_shared = (shared - merge.rows * BANK_BYTES - 2 * b_rows.slot_bytes(self.beyond)) // (
                merge.rows + 2 * b_rows.slot_bytes(1))
        limit = min(in_factors, in_shared, cfg.matrix_queue * MAX_SLICES * merge.slice_bytes)
        return min(limit, cfg.instruction_words * merge.slice_bytes // 8) if merge.kb > 1 else limit

    def tiling(self, k: int, limit: int) -> Tiling:
        """``Tiling`` with chunks of at most ``limit`` bytes of ``k``."""
        cfg, merge, columns, stages = self.cfg, self.merge, self.columns, self.stages
        rows, pitch, c_pitch = merge.rows, round_up(k, BANK_BYTES), merge.result_pitch(columns + 1)
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
        slot = self.b_rows.slot_bytes(chunk + self.beyond) if self.b_rows else columns * ab_pitch
        # Where the bus is busy most of the time a third slot keeps it so while mm works on one and the next is ready.
        mm = -(-columns // merge.ka) * merge.slices(k) * merge.step_cycles(cfg.fetch_slots)
        needed = 3 * slot + rows * (ab_pitch + stages * c_pitch)
        busy = 2 * columns * pitch > cfg.axi_bytes * mm
        # Where ``mm`` takes less than twice as long as the stores, B comes before the tile is sent: that copy would be in its way.
        early_b = self.plain and not busy and stages > 1 and mm < 2 * columns * cfg.thread_groups
        if chunks == 1 and needed <= self.shared and (busy or early_b):
            slots = 3
        a_stage = slots * slot
        c_stage = a_stage + rows * ab_pitch
        return Tiling(
            columns=columns, rows=rows, dot=merge.dot, pitch=pitch, chunk=chunk, chunks=chunks, last_chunk=k - (chunks - 1) * chunk,
            ab_pitch=ab_pitch, c_pitch=c_pitch, slots=tuple(slot * index for index in range(slots)), a_stage=a_stage,
            c_stages=tuple(c_stage + stage % stages * rows * c_pitch for stage in range(2)), early_b=early_b and slots == 3)
