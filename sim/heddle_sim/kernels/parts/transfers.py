"""Copies of A and B from global to shared memory, for kernels that work on tiles."""


from typing import NamedTuple

from heddle.constants import BANK_BYTES

from .columns import RowsOfB
from .text import KernelText
from .tiling import Tiling, round_up

__all__ = ["A_STAGED", "B_COPIED", "C_STAGED", "RowBytes", "Rows", "Transfers"]

A_STAGED, B_COPIED, C_STAGED = 0, (1, 6, 7), (2, 3, 4, 5)     # barriers; of B and C one for each slot and stage


class Rows(NamedTuple):
    """Number of rows that a copy brings: uniform ``register`` holds ``full`` or, the last time, ``last``."""

    register: str
    full: int
    last: int


class RowBytes(NamedTuple):
    """Bytes of each row that a copy brings: ``full``, or ``last`` where uniform predicate ``where`` holds (None: nowhere)."""

    full: int
    last: int
    where: str | None = None


class Transfers:
    """Part of ``TiledKernel``: writes the instructions that bring the next block of A or B and tell its barrier what comes."""

    text: KernelText
    tiling: Tiling
    b_rows: RowsOfB | None
    last_rows: int
    last_columns: int

    def expect(self, barrier: int | None, rows: Rows, row_bytes: RowBytes) -> None:
        """Tell a barrier the bytes of ``rows`` (``Rows``) of ``row_bytes`` (``RowBytes``); without a barrier they stand in ``bytes``."""
        text = self.text
        ragged = rows.last != rows.full
        if barrier is not None and not ragged and not row_bytes.where:
            text(f"    barrier.expect b{barrier}, {rows.full * row_bytes.full}")
            return

        def choose(nbytes: int) -> None:
            text(f"    umov {{bytes}}, {rows.full * nbytes}")
            if ragged:
                text(f"    @up2 umov {{bytes}}, {rows.last * nbytes}")

        if ragged:
            text(f"    usetp.lt up2, {rows.register}, {rows.full}")
        choose(row_bytes.full)
        if row_bytes.where:
            chosen = text.label("chosen")
            text(f"    @!{row_bytes.where} bra {chosen}")
            choose(row_bytes.last)
            text(f"{chosen}:")
        if barrier is not None:
            text(f"    barrier.expect b{barrier}, {{bytes}}")

    def next_chunk_of(self, counter: str, source: str, done: str) -> None:
        """Move a producer to its next chunk, or behind the last one of its rows; returns in the latter case only."""
        t = self.tiling
        self.text(f"    uadd {source}, {source}, {t.chunk}", f"    usub {counter}, {counter}, 1",
                  f"    usetp.gt up2, {counter}, 0", f"    @up2 bra {done}",
                  f"    umov {counter}, {t.chunks}", f"    usub {source}, {source}, {t.chunks * t.chunk}")

    def chunk_blocks(self, counter: str, blocks: str) -> None:
        """Blocks of the producer's chunk; up6 says that it is the last."""
        t = self.tiling
        self.text(f"    umov {blocks}, {t.chunk // BANK_BYTES}", f"    usetp.eq up6, {counter}, 1",
                  f"    @up6 umov {blocks}, {-(-t.last_chunk // BANK_BYTES)}")

    def chunk_bytes(self) -> RowBytes:
        """``RowBytes`` of a chunk of A or B: up6 says that it is the last."""
        t = self.tiling
        return RowBytes(t.chunk, round_up(t.last_chunk, BANK_BYTES), "up6" if t.chunks > 1 else None)

    def copy_a(self) -> None:
        """Stage the next block of A."""
        t, text = self.tiling, self.text
        done, chunked = text.label("a_staged"), t.chunks > 1
        text("    usetp.le up2, {a_left}, 0", f"    @up2 bra {done}", "    usub {a_left}, {a_left}, 1",
             f"    umin {{a_rows}}, {{a_rows_left}}, {t.rows}")
        if chunked:
            self.chunk_blocks("{a_k}", "{a_blocks}")
        self.issue_a(Rows("{a_rows}", t.rows, self.last_rows), self.chunk_bytes())
        if chunked:
            self.next_chunk_of("{a_k}", "{a_from}", done)
            text("    usub {a_n}, {a_n}, 1", "    usetp.gt up2, {a_n}, 0", f"    @up2 bra {done}",
                 "    umov {a_n}, {column_blocks}")
        text(f"    uadd {{a_from}}, {{a_from}}, {t.rows * t.pitch}", f"    usub {{a_rows_left}}, {{a_rows_left}}, {t.rows}",
             f"{done}:")

    def issue_a(self, rows: Rows, row_bytes: RowBytes) -> None:
        """Copy the next rows of A to their staging area, whose barrier is told (``expect``)."""
        self.expect(A_STAGED, rows, row_bytes)
        self.text(f"    copy_rows.shared.global {{a_to}}, {{a_from}}, {{a_blocks}}, b{A_STAGED}")

    def copy_b(self) -> None:
        """Bring the next columns of B into the free slot."""
        t, text = self.tiling, self.text
        if self.b_rows:
            self.b_rows.copy(text, t, lambda: self.issue_b("rows"))
            return
        done = text.label("b_copied")
        text("    usetp.le up2, {b_left}, 0", f"    @up2 bra {done}", "    usub {b_left}, {b_left}, 1")
        ragged = self.last_columns != t.columns         # otherwise ``arguments`` has the number of columns and of blocks
        if ragged:
            text(f"    umin {{b_cols}}, {{b_cols_left}}, {t.columns}")
        chunked = t.chunks > 1
        if chunked:
            self.chunk_blocks("{b_k}", "{b_blocks}")
        self.expect(None, Rows("{b_cols}", t.columns, self.last_columns), self.chunk_bytes())
        copy = "block" if t.contiguous else "rows"
        if t.contiguous and ragged:
            text("    ushr {b_blocks}, {bytes}, 4")
        self.issue_b(copy)
        if chunked:
            self.next_chunk_of("{b_k}", "{b_from}", done)
        text(f"    uadd {{b_from}}, {{b_from}}, {t.columns * t.pitch}", f"    usub {{b_cols_left}}, {{b_cols_left}}, {t.columns}",
             "    usetp.gt up2, {b_cols_left}, 0", f"    @up2 bra {done}",
             "    umov {b_from}, {b}", "    umov {b_cols_left}, {n}", f"{done}:")

    def issue_b(self, kind: str) -> None:
        """Copy the next columns to their slot, whose barrier is told the ``bytes``."""
        for slot, barrier in zip(self.tiling.slots, B_COPIED):
            self.text(f"    usetp.eq up2, {{b_to}}, {slot}", f"    @up2 barrier.expect b{barrier}, {{bytes}}",
                      f"    @up2 copy_{kind}.shared.global {{b_to}}, {{b_from}}, {{b_blocks}}, b{barrier}")
        self.next_slot("{b_to}")

    def wait_for_b(self) -> None:
        """The columns of this step are in their slot."""
        for slot, barrier in zip(self.tiling.slots, B_COPIED):
            self.text(f"    usetp.eq up2, {{slot}}, {slot}", f"    @up2 barrier.wait b{barrier}")

    def next_slot(self, register: str) -> None:
        """Move an address to the next slot of B."""
        t = self.tiling
        if len(t.slots) == 2:
            self.text(f"    uxor {register}, {register}, {t.slots[1]}")
        else:
            self.text(f"    uadd {register}, {register}, {t.slots[1]}", f"    usetp.ge up2, {register}, {t.a_stage}",
                      f"    @up2 umov {register}, {t.slots[0]}")
