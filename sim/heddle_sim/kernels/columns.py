"""B in rows of k: how tiles of it come to shared memory, for ``mm`` with ``.t1``."""

from heddle.constants import BANK_BYTES

__all__ = ["RowsOfB"]


class RowsOfB:
    """Tiles of ``threads`` columns of B (k x n, row-major), a chunk of k at a time.

    Attributes
    ----------
    pitch : int
        Bytes from row to row of a tile in shared memory.
    narrow : bool
        A tile is narrower than the 16 bytes that a copy moves at least: it lies in one half of them.
    """

    def __init__(self, cfg, n, element_bytes):
        self.threads, self.element_bytes = cfg.threads, element_bytes
        width = cfg.threads * element_bytes
        self.narrow = width < BANK_BYTES
        self.pitch = max(width, BANK_BYTES)
        self.global_pitch = -(-n * element_bytes // BANK_BYTES) * BANK_BYTES
        self.last_columns = n % cfg.threads or cfg.threads

    def slot_bytes(self, chunk):
        """Bytes of a tile of ``chunk`` bytes of k, those of one column."""
        return -(-chunk * self.pitch // self.element_bytes)

    def arguments(self, tiling, b):
        """Uniform registers with which a core begins, B at ``b``."""
        return {"b_to_pitch": self.pitch, "b_from": b // BANK_BYTES * BANK_BYTES, "b_at": b, "b_low": b % BANK_BYTES,
                "b_pitch": self.global_pitch, "b_blocks": self.pitch // BANK_BYTES,
                "b_cols": (tiling.chunk if tiling.chunks > 1 else tiling.last_chunk) // self.element_bytes}

    def copy(self, text, tiling, issue):
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
        text(f"    uadd {at}, {at}, {self.threads * self.element_bytes}", f"    usub {{b_cols_left}}, {{b_cols_left}}, {self.threads}",
             "    usetp.gt up2, {b_cols_left}, 0", f"    @up2 bra {done}",
             f"    umov {at}, {{b}}", "    umov {b_cols_left}, {n}", f"{done}:")

    def _expect(self, text, rows, last_rows, chunked):
        """Blocks of a row of the tile, and the bytes of all its rows."""
        full = self.pitch // BANK_BYTES
        last = -(-self.last_columns * self.element_bytes // BANK_BYTES)
        ragged = last != full

        def choose(count):
            text(f"    umov {{bytes}}, {count * full * BANK_BYTES}")
            if ragged:
                text(f"    @up2 umov {{bytes}}, {count * last * BANK_BYTES}")

        if ragged:
            text(f"    usetp.lt up2, {{b_cols_left}}, {self.threads}", f"    umov {{b_blocks}}, {full}",
                 f"    @up2 umov {{b_blocks}}, {last}")
        choose(rows if chunked else last_rows)
        if chunked:
            chosen = text.label("chosen")
            text(f"    @!up6 bra {chosen}")
            choose(last_rows)
            text(f"{chosen}:")
