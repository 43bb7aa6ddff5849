"""Where B lies in shared memory, and how tiles of rows of k come there, for ``mm`` with ``.t1``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES

from .tiling import Tiling, odd_pitch, round_up

if TYPE_CHECKING:
    from .text import KernelText

__all__ = ["ResidentB", "RowsOfB"]


class ResidentB:
    """How B lies in shared memory for ``ResidentKernel``: columns of ``k_bytes``, or with ``in_rows`` rows of ``n`` elements.

    Attributes
    ----------
    rows, row_bytes, pitch : int
        How many there are to load, bytes of each (in global memory too, with what follows the matrix), bytes from row to row.
    column_bytes : int
        From column to column.
    """

    def __init__(self, n: int, k_bytes: int, element_bytes: int, in_rows: bool) -> None:
        self.in_rows, self.element_bytes = in_rows, element_bytes
        self.rows = k_bytes // element_bytes if in_rows else n
        self.row_bytes = round_up(n * element_bytes, BANK_BYTES) if in_rows else k_bytes
        self.pitch = odd_pitch(self.row_bytes)
        self.column_bytes = element_bytes if in_rows else self.pitch

    def place(self, column: int, nbytes: int) -> int:
        """Byte of the element of a column that begins ``nbytes`` behind the first along k."""
        return column * self.column_bytes + (nbytes // self.element_bytes * self.pitch if self.in_rows else nbytes)

    def padded(self, b: np.ndarray) -> np.ndarray:
        """B (N x K) as it lies in global memory for loading."""
        padded = np.zeros((self.rows, self.row_bytes // self.element_bytes), b.dtype)
        b = b.T if self.in_rows else b
        padded[:b.shape[0], :b.shape[1]] = b
        return padded


class RowsOfB:
    """Tiles of ``columns`` columns (as many as threads unless given) of B (k x n, row-major), a chunk of k at a time.

    Attributes
    ----------
    pitch : int
        Bytes from row to row of a tile in shared memory.
    fewest_columns : int
        Of a tile: two tiles at most share 16 bytes.
    narrow : bool
        A tile is narrower than the 16 bytes that a copy moves at least: it lies in one half of them.
    """

    def __init__(self, cfg: Config, n: int, element_bytes: int, columns: int | None = None) -> None:
        self.cfg, self.n, self.element_bytes = cfg, n, element_bytes
        self.columns = columns = columns or cfg.threads
        self.fewest_columns = BANK_BYTES // 2 // element_bytes
        width = columns * element_bytes
        self.narrow = width < BANK_BYTES
        self.pitch = max(width, BANK_BYTES)
        self.global_pitch = -(-n * element_bytes // BANK_BYTES) * BANK_BYTES
        self.last_columns = n % columns or columns

    def of_width(self, columns: int) -> RowsOfB:
        """The same with tiles of so many columns."""
        return RowsOfB(self.cfg, self.n, self.element_bytes, columns)

    def slot_bytes(self, chunk: int) -> int:
        """Bytes of a tile of ``chunk`` bytes of k, those of one column."""
        return -(-chunk * self.pitch // self.element_bytes)

    def arguments(self, tiling: Tiling, b: int) -> dict[str, int]:
        """Uniform registers with which a core begins, B at ``b``."""
        return {"b_to_pitch": self.pitch, "b_from": b // BANK_BYTES * BANK_BYTES, "b_at": b, "b_low": b % BANK_BYTES,
                "b_pitch": self.global_pitch, "b_blocks": self.pitch // BANK_BYTES,
                "b_cols": (tiling.chunk if tiling.chunks > 1 else tiling.last_chunk) // self.element_bytes}

    def copy(self, text: KernelText, tiling: Tiling, issue: Callable[[], None]) -> None:
        """Bring the next tile into the free slot; ``issue()`` writes the copy; up2 and up6 are used."""
        done = text.label("b_copied")
        rows, last_rows = tiling.chunk // self.element_bytes, tiling.last_chunk // self.element_bytes
        text("    usetp.le up2, {b_left}, 0", f"    @up2 bra {done}", "    usub {b_left}, {b_left}, 1")
        if self.narrow:
            text(f"    uand {{b_from}}, {{b_at}}, {(1 << 32) - BANK_BYTES}")
        if tiling.chunks > 1:
            text(f"    umov {{b_cols}}, {rows}", "    usetp.eq up6, {b_k}, 1", f"    @up6 umov {{b_cols}}, {last_rows}")
        self._expect(text, rows, last_rows, tiling.chunks > 1)
        issue()
        at = "{b_at}" if self.narrow else "{b_from}"
        if tiling.chunks > 1:
            step = rows * self.global_pitch
            text(f"    uadd {at}, {at}, {step}", "    usub {b_k}, {b_k}, 1", "    usetp.gt up2, {b_k}, 0", f"    @up2 bra {done}",
                 f"    umov {{b_k}}, {tiling.chunks}", f"    usub {at}, {at}, {tiling.chunks * step}")
        text(f"    uadd {at}, {at}, {self.columns * self.element_bytes}", f"    usub {{b_cols_left}}, {{b_cols_left}}, {self.columns}",
             "    usetp.gt up2, {b_cols_left}, 0", f"    @up2 bra {done}",
             f"    umov {at}, {{b}}", "    umov {b_cols_left}, {n}", f"{done}:")

    def _expect(self, text: KernelText, rows: int, last_rows: int, chunked: bool) -> None:
        """Blocks of a row of the tile, and the bytes of all its rows."""
        full = self.pitch // BANK_BYTES
        last = -(-self.last_columns * self.element_bytes // BANK_BYTES)
        ragged = last != full

        def choose(count: int) -> None:
            text(f"    umov {{bytes}}, {count * full * BANK_BYTES}")
            if ragged:
                text(f"    @up2 umov {{bytes}}, {count * last * BANK_BYTES}")

        if ragged:
            text(f"    usetp.lt up2, {{b_cols_left}}, {self.columns}", f"    umov {{b_blocks}}, {full}",
                 f"    @up2 umov {{b_blocks}}, {last}")
        choose(rows if chunked else last_rows)
        if chunked:
            chosen = text.label("chosen")
            text(f"    @!up6 bra {chosen}")
            choose(last_rows)
            text(f"{chosen}:")
