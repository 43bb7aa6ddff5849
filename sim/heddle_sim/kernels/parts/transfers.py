"""Copies of A and B from global to shared memory, for kernels that work on tiles."""

from heddle.constants import BANK_BYTES

from .tiling import round_up

__all__ = ["A_STAGED", "B_COPIED", "C_STAGED", "Transfers"]

A_STAGED, B_COPIED, C_STAGED = 0, (1, 6, 7), (2, 3)     # barriers; of B and C one for each slot and stage


class Transfers:
    """Part of ``MatmulKernel``: writes the instructions that bring the next block of A or B and tell its barrier what comes."""

    def expect(self, barrier, rows, full, last_rows, row_bytes, last, last_bytes):
        """Tell a barrier the bytes of ``rows`` (``full`` or ``last_rows``) rows of ``row_bytes``, or ``last_bytes`` where predicate
        ``last`` holds (None: nowhere)."""
        text = self.text
        ragged = last_rows != full

        def choose(nbytes):
            text(f"    umov {{bytes}}, {full * nbytes}")
            if ragged:
                text(f"    @up2 umov {{bytes}}, {last_rows * nbytes}")

        if ragged:
            text(f"    usetp.lt up2, {rows}, {full}")
        choose(row_bytes)
        if last:
            chosen = text.label("chosen")
            text(f"    @!{last} bra {chosen}")
            choose(last_bytes)
            text(f"{chosen}:")
        if barrier is not None:
            text(f"    barrier.expect b{barrier}, {{bytes}}")

    def next_chunk_of(self, counter, source, done):
        """Move a producer to its next chunk, or behind the last one of its rows; returns in the latter case only."""
        t = self.tiling
        self.text(f"    uadd {source}, {source}, {t.chunk}", f"    usub {counter}, {counter}, 1",
                  f"    usetp.gt up2, {counter}, 0", f"    @up2 bra {done}",
                  f"    umov {counter}, {t.chunks}", f"    usub {source}, {source}, {t.chunks * t.chunk}")

    def chunk_blocks(self, counter, blocks):
        """Blocks of the producer's chunk; up6 says that it is the last."""
        t = self.tiling
        self.text(f"    umov {blocks}, {t.chunk // BANK_BYTES}", f"    usetp.eq up6, {counter}, 1",
                  f"    @up6 umov {blocks}, {-(-t.last_chunk // BANK_BYTES)}")

    def copy_a(self):
        """Stage the next block of A."""
        t, text = self.tiling, self.text
        done, chunked = text.label("a_staged"), t.chunks > 1
        text("    usetp.le up2, {a_left}, 0", f"    @up2 bra {done}", "    usub {a_left}, {a_left}, 1",
             f"    umin {{a_rows}}, {{a_rows_left}}, {t.rows}")
        if chunked:
            self.chunk_blocks("{a_k}", "{a_blocks}")
        self.issue_a("{a_rows}", t.rows, self.last_rows, t.chunk, chunked and "up6", round_up(t.last_chunk, BANK_BYTES))
        if chunked:
            self.next_chunk_of("{a_k}", "{a_from}", done)
            text("    usub {a_n}, {a_n}, 1", "    usetp.gt up2, {a_n}, 0", f"    @up2 bra {done}",
                 "    umov {a_n}, {column_blocks}")
        text(f"    uadd {{a_from}}, {{a_from}}, {t.rows * t.pitch}", f"    usub {{a_rows_left}}, {{a_rows_left}}, {t.rows}",
             f"{done}:")

    def issue_a(self, *what):
        """Copy the next rows of A to their staging area, whose barrier is told (``expect``)."""
        self.expect(A_STAGED, *what)
        self.text(f"    copy_rows.shared.global {{a_to}}, {{a_from}}, {{a_blocks}}, b{A_STAGED}")

    def copy_b(self):
        """Bring the next columns of B into the free slot."""
        t, text = self.tiling, self.text
        if self.b_rows:
            self.b_rows.copy(text, t, lambda: self.issue_b("rows"))
            return
        done = text.label("b_copied")
        text("    usetp.le up2, {b_left}, 0", f"    @up2 bra {done}", "    usub {b_left}, {b_left}, 1",
             f"    umin {{b_cols}}, {{b_cols_left}}, {t.columns}")
        chunked = t.chunks > 1
        if chunked:
            self.chunk_blocks("{b_k}", "{b_blocks}")
        self.expect(None, "{b_cols}", t.columns, self.last_columns, t.chunk, chunked and "up6", round_up(t.last_chunk, BANK_BYTES))
        copy = "block" if t.contiguous else "rows"
        if t.contiguous:
            text("    ushr {b_blocks}, {bytes}, 4")
        self.issue_b(copy)
        if chunked:
            self.next_chunk_of("{b_k}", "{b_from}", done)
        text(f"    uadd {{b_from}}, {{b_from}}, {t.columns * t.pitch}", f"    usub {{b_cols_left}}, {{b_cols_left}}, {t.columns}",
             "    usetp.gt up2, {b_cols_left}, 0", f"    @up2 bra {done}",
             "    umov {b_from}, {b}", "    umov {b_cols_left}, {n}", f"{done}:")

    def issue_b(self, kind):
        """Copy the next columns to their slot, whose barrier is told the ``bytes``."""
        for slot, barrier in zip(self.tiling.slots, B_COPIED):
            self.text(f"    usetp.eq up2, {{b_to}}, {slot}", f"    @up2 barrier.expect b{barrier}, {{bytes}}",
                      f"    @up2 copy_{kind}.shared.global {{b_to}}, {{b_from}}, {{b_blocks}}, b{barrier}")
        self.next_slot("{b_to}")

    def wait_for_b(self):
        """The columns of this step are in their slot."""
        for slot, barrier in zip(self.tiling.slots, B_COPIED):
            self.text(f"    usetp.eq up2, {{slot}}, {slot}", f"    @up2 barrier.wait b{barrier}")

    def next_slot(self, register):
        """Move an address to the next slot of B."""
        t = self.tiling
        if len(t.slots) == 2:
            self.text(f"    uxor {register}, {register}, {t.slots[1]}")
        else:
            self.text(f"    uadd {register}, {register}, {t.slots[1]}", f"    usetp.ge up2, {register}, {t.a_stage}",
                      f"    @up2 umov {register}, {t.slots[0]}")
