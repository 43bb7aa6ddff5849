"""Tiling of a product of few rows: how it is cut where A stays in the factor registers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from heddle.config import Config
from heddle.constants import BANK_BYTES, REGISTER_GROUPS

from .fitting import check_factors, check_regions
from .merges import Merge
from .register_groups import GROUP_REGISTERS, words_per_group
from .shares import Share, share_out
from .tiling import MAX_SLICES, SharedAreas, odd_pitch, round_up

__all__ = ["MAX_SLOTS", "Part", "StreamTiling"]

MAX_SLOTS = 4
_STEP = 128                 # cycles that a tile should take at least: the instructions of a step, and a store, take fewer


@dataclass(frozen=True)
class Part:
    """Slices of A that are loaded together: ``first`` slice, their number ``length``, factor ``word`` of the first, and the
    ``start`` and number ``nbytes`` of the bytes of a row, whole blocks."""

    first: int
    length: int
    word: int
    start: int
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class StreamTiling(SharedAreas):
    """How a product of few rows is cut; lengths along k are bytes.

    ``shares`` of C (of ``n`` columns) are those of the cores, in tiles of ``columns`` columns. ``pitch`` is the distance of rows of A and
    columns of B in global memory. Product registers of slot s begin at ``s * distance``; ``places`` is the first register behind those of
    all slots. ``transposed``: columns of a tile are staged as rows, ``c_pitch`` apart.
    """

    merge: Merge
    shares: tuple[Share, ...]
    n: int
    columns: int
    k: int
    pitch: int
    parts: tuple[Part, ...]
    distance: int
    transposed: bool = False

    @property
    def places(self) -> int:
        return len(self.slots) * self.distance

    def loads(self, part: Part) -> list[tuple[int, int, str]]:
        """Loads of a part of A, as ``Merge.loads`` has them."""
        return self.merge.loads(self.k - part.start if part is self.parts[-1] else part.nbytes)

    @property
    def ragged(self) -> bool:
        """The last tile of a core has fewer columns than the others."""
        return any(share.columns % self.columns for share in self.shares)

    @classmethod
    @lru_cache(256)         # fits, estimate and cuts of a kernel ask for the same
    def choose(cls, cfg: Config, m: int, n: int, k: int, merge: Merge, transposed: bool = False) -> Self | None:
        """For C (m x n, stored ``transposed`` or not) and a length of k in bytes; ``None`` where the rows of a core take more than a tile.

        Also where A does not fit the factor registers or shared memory, or the program the instruction memory."""
        shares, parts = share_out(cfg.cores, m, n, merge.rows, cfg.threads), _parts(cfg, k, merge)
        if max(share.rows for share in shares) > merge.rows or parts is None:
            return None
        pitch, columns = round_up(k, BANK_BYTES), cfg.threads
        ab_pitch = odd_pitch(k)
        unit = math.lcm(merge.ka * merge.vector, BANK_BYTES // 4)
        step = merge.slices(k) * max(1, -(-merge.ka * merge.kb // cfg.fetch_slots)) / merge.ka      # of mm for a column
        widths = [unit << shift for shift in range(cfg.threads.bit_length())]
        for narrow in widths:
            if narrow < columns and 4 * narrow >= cfg.axi_bytes and narrow * max(step, pitch / cfg.axi_bytes) >= _STEP:
                columns = narrow
        distance = round_up(merge.registers, GROUP_REGISTERS)     # mm holds the groups of all that it could write
        while True:
            c_pitch, slot = round_up(4 * merge.rows, BANK_BYTES) if transposed else merge.result_pitch(columns + 1), columns * ab_pitch
            c_bytes = (merge.stored_columns(columns) if transposed else merge.rows) * c_pitch
            rest = cfg.shared_bytes - merge.rows * ab_pitch - 2 * c_bytes
            slots = min(MAX_SLOTS, rest // slot, (256 - 16) // distance)
            stores = len(merge.stores(columns)) * (merge.vector if transposed else 1)
            while slots >= 2 and _instructions(cfg, merge, k, len(parts), slots, stores) > cfg.instruction_words:
                slots -= 1
            if slots >= 2:
                break
            columns = max((width for width in widths if width < columns), default=None)
            if columns is None:
                return None
        a_stage = slots * slot
        c_stage = a_stage + merge.rows * ab_pitch
        tiling = cls(
            merge=merge, shares=tuple(shares), n=n, columns=columns, k=k, pitch=pitch, ab_pitch=ab_pitch, c_pitch=c_pitch,
            slots=tuple(slot * index for index in range(slots)), a_stage=a_stage, c_stages=(c_stage, c_stage + c_bytes),
            parts=parts, distance=distance, transposed=transposed)
        tiling.check(cfg)
        return tiling

    def check(self, cfg: Config) -> None:
        """Raises ``AssertionError`` unless all areas of shared memory lie apart and A fits the factor registers."""
        check_factors(cfg, self.parts[-1].word + self.parts[-1].length, halves=1)
        staged = self.merge.stored_columns(self.columns) if self.transposed else None
        check_regions(cfg, self.regions(self.merge.rows, self.columns * self.ab_pitch, staged))


def _instructions(cfg: Config, merge: Merge, k: int, parts: int, slots: int, stores: int) -> int:
    """Of the program, no fewer than it has; ``stores`` of a tile."""
    loads = len(merge.loads(k)) + cfg.dot // 4
    return 70 + 32 * (cfg.cores - 1) + loads + 6 * parts + slots * (40 + parts + stores)


def _parts(cfg: Config, k: int, merge: Merge) -> tuple[Part, ...]:
    """Parts of A, each in register groups of its own, or ``None`` where there are too few of these."""
    slices, group = merge.slices(k), words_per_group(cfg)
    size = MAX_SLICES
    words = round_up(size, group)
    count = -(-slices // size)
    if count * words > (REGISTER_GROUPS - 1) * group:
        return None
    nbytes = size * merge.slice_bytes
    return tuple(Part(size * part, min(size, slices - size * part), words * part, nbytes * part,
                      min(nbytes, round_up(k, BANK_BYTES) - nbytes * part)) for part in range(count))
