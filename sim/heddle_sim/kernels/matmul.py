"""Matrix product C = A x B of 8- or 16-bit integers for any shape, from global memory to global memory.

A tile of C is ``threads`` rows by ``threads`` columns and lives in product registers; two tiles alternate, so that one is stored
while ``mm`` works on the other. A block of ``threads`` rows of A is staged in shared memory and loaded into one half of the
factor registers while ``mm`` reads the other half. ``threads`` columns of B at a time go to one of two slots of shared memory. Where K is
too long for that, all of it happens in chunks of k. A finished tile goes to one of two staging areas in shared memory and from there to C.
Rows lie an odd number of 16-byte blocks apart in shared memory: neighbouring threads and columns meet different banks.

Nothing waits but for data: the tokens of ``mm`` say when A has been loaded (its staging area is free again) and when a
tile is complete (it can be stored, and the slot of B that it used is free).

Several cores share the tiles out (``shares``): each takes a rectangle of C as if it were the whole, beginning with the
arguments of core 0, which the host sets, and changing what is different for itself.
"""

from dataclasses import dataclass

from heddle.config import BANK_BYTES, FIRST_FACTOR_REGISTER, TOKEN_GRANULES

from ..isa import assemble
from .columns import RowsOfB
from .launch import Launch
from .shares import begin_share, share_out
from .text import KernelText

__all__ = ["MatmulKernel", "Tiling", "plan"]

_MAX_SLICES = 16            # factor words of one mm
# Uniform registers; pairs for copy_rows stand together. The host sets those up to ``column_blocks``, the others are scratch.
_UNIFORM = ("a_to", "a_to_pitch", "a_from", "a_pitch", "a_blocks", "a_rows", "b_to", "b_to_pitch", "b_from", "b_pitch", "b_blocks",
            "b_cols", "c_from", "c_from_pitch", "c_to", "c_pitch", "c_blocks", "c_rows",
            "a_left", "a_rows_left", "a_k", "a_n", "b", "b_left", "b_cols_left", "b_k", "slot", "tile", "half", "k_left",
            "c_tile", "c_row", "cols", "rows", "n", "column_blocks", "prev_c", "prev_cols", "prev_rows", "bytes", "core",
            "table_from", "table_end", "table", "b_at", "b_low")
_ADDRESSES = ("a_from", "b_from", "b_at", "b", "c_tile", "c_row")   # uniform registers that depend on where the matrices lie
_B_SEGMENT = _UNIFORM.index("b_to_pitch")       # mm.t1 finds the distance of the rows in the uniform register of this number
_A_STAGED, _B_COPIED, _C_STAGED = 0, 1, (2, 3)      # barriers


def _round_up(value, multiple):
    return -(-value // multiple) * multiple


@dataclass(frozen=True)
class Tiling:
    """How a problem is cut; lengths along k are bytes.

    ``chunk`` bytes of k are processed at a time, ``chunks`` times, ``last_chunk`` the last time; ``ab_pitch`` and ``c_pitch`` are the
    distances of rows of A, columns of B and rows of C in shared memory; ``slots`` (of B), ``a_stage`` and ``c_stages``
    are shared addresses.
    """

    threads: int
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
    def choose(cls, cfg, k, b_rows=None, reserved=0):
        """For a length of k in bytes; ``b_rows`` (``RowsOfB``) says that B comes in rows of k; ``reserved`` bytes at the end of
        shared memory are not used."""
        threads, dot = cfg.threads, cfg.dot
        pitch = _round_up(k, BANK_BYTES)
        c_pitch = 4 * threads + BANK_BYTES
        in_factors = (cfg.factor_words // TOKEN_GRANULES) * (TOKEN_GRANULES // 2 - 1) * dot
        shared = cfg.shared_bytes - reserved
        in_shared = b_rows.longest(shared, c_pitch) if b_rows else (shared // threads - 2 * c_pitch) // 3 - BANK_BYTES
        limit = min(in_factors, in_shared, cfg.matrix_queue * _MAX_SLICES * dot)
        chunk, chunks = pitch, 1
        if pitch > limit:
            limit = min(limit, cfg.instruction_words)       # the loads of a chunk are unrolled
            unit = _MAX_SLICES * dot if limit >= _MAX_SLICES * dot else BANK_BYTES
            chunks = -(-pitch // (limit // unit * unit))
            chunk = _round_up(-(-pitch // chunks), unit)
            chunks = -(-pitch // chunk)
        ab_pitch = chunk if chunk // BANK_BYTES % 2 else chunk + BANK_BYTES
        slot = b_rows.slot_bytes(chunk) if b_rows else threads * ab_pitch
        a_stage = 2 * slot
        c_stage = a_stage + threads * ab_pitch
        return cls(threads, dot, pitch, chunk, chunks, k - (chunks - 1) * chunk, ab_pitch, c_pitch, (0, slot), a_stage,
                   (c_stage, c_stage + threads * c_pitch))

    @property
    def contiguous(self):
        """Columns of B lie in shared memory as they do in global memory."""
        return self.ab_pitch == self.pitch

    def words(self, nbytes):
        """Factor words that hold ``nbytes`` of k."""
        return -(-nbytes // self.dot)


class MatmulKernel:
    """Writes the program for one shape; ``result_bytes`` is the size of an element of C.

    Uniform predicates: up0 tile parity, up1 half of the factor registers, up2 scratch, up3 a tile waits to be stored, up4 last
    store, up5 first chunk of a tile, up6 last chunk. Thread predicate p1: columns of the tile. Segments: ur0 staged A, ur2 and ur3
    staged C, ur7 slot of B.
    """

    result_bytes = 4

    def __init__(self, cfg, m, n, k, a_signed, b_signed, element_bytes=1, b_layout="nk", reserved=0):
        self.cfg = cfg
        self.b_rows = RowsOfB(cfg, n, element_bytes) if b_layout == "kn" else None
        self.tiling = Tiling.choose(cfg, k * element_bytes, self.b_rows, reserved)
        self.multiplies = f"mm{8 * element_bytes}{'.t1' if self.b_rows else ''}.{'s' if a_signed else 'u'}a.{'s' if b_signed else 'u'}b"
        threads = cfg.threads
        self.shares = share_out(cfg.cores, m, n, threads)
        self.column_blocks = max(-(-share.columns // threads) for share in self.shares)
        self.last_rows, self.last_columns = m % threads or threads, n % threads or threads
        self.c_pitch = _round_up(self.result_bytes * n, BANK_BYTES)
        self.thread_number, self.offset_a, self.offset_c, self.scratch = (2 * threads + index for index in range(4))
        self.offset_b = cfg.registers - 1
        self.text = KernelText(_UNIFORM)

    # -- copies -----------------------------------------------------------------------------

    def expect(self, barrier, rows, last_rows, row_bytes, last, last_bytes):
        """Tell a barrier the bytes of ``rows`` (``threads`` or ``last_rows``) rows of ``row_bytes``, or ``last_bytes`` where predicate
        ``last`` holds (None: nowhere)."""
        threads, text = self.tiling.threads, self.text
        ragged = last_rows != threads

        def choose(nbytes):
            text(f"    umov {{bytes}}, {threads * nbytes}")
            if ragged:
                text(f"    @up2 umov {{bytes}}, {last_rows * nbytes}")

        if ragged:
            text(f"    usetp.lt up2, {rows}, {threads}")
        choose(row_bytes)
        if last:
            chosen = text.label("chosen")
            text(f"    @!{last} bra {chosen}")
            choose(last_bytes)
            text(f"{chosen}:")
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
             f"    umin {{a_rows}}, {{a_rows_left}}, {t.threads}")
        if chunked:
            self.chunk_blocks("{a_k}", "{a_blocks}")
        self.expect(_A_STAGED, "{a_rows}", self.last_rows, t.chunk, chunked and "up6", _round_up(t.last_chunk, BANK_BYTES))
        text(f"    copy_rows.shared.global {{a_to}}, {{a_from}}, {{a_blocks}}, b{_A_STAGED}")
        if chunked:
            self.next_chunk_of("{a_k}", "{a_from}", done)
            text("    usub {a_n}, {a_n}, 1", "    usetp.gt up2, {a_n}, 0", f"    @up2 bra {done}",
                 "    umov {a_n}, {column_blocks}")
        text(f"    uadd {{a_from}}, {{a_from}}, {t.threads * t.pitch}", f"    usub {{a_rows_left}}, {{a_rows_left}}, {t.threads}",
             f"{done}:")

    def copy_b(self):
        """Bring the next columns of B into the free slot."""
        t, text = self.tiling, self.text
        if self.b_rows:
            self.b_rows.copy(text, t, _B_COPIED)
            return
        done = text.label("b_copied")
        text("    usetp.le up2, {b_left}, 0", f"    @up2 bra {done}", "    usub {b_left}, {b_left}, 1",
             f"    umin {{b_cols}}, {{b_cols_left}}, {t.threads}")
        chunked = t.chunks > 1
        if chunked:
            self.chunk_blocks("{b_k}", "{b_blocks}")
        self.expect(_B_COPIED, "{b_cols}", self.last_columns, t.chunk, chunked and "up6", _round_up(t.last_chunk, BANK_BYTES))
        if t.contiguous:
            text("    ushr {b_blocks}, {bytes}, 4", f"    copy_block.shared.global {{b_to}}, {{b_from}}, {{b_blocks}}, b{_B_COPIED}")
        else:
            text(f"    copy_rows.shared.global {{b_to}}, {{b_from}}, {{b_blocks}}, b{_B_COPIED}")
        text(f"    uxor {{b_to}}, {{b_to}}, {t.slots[1]}")
        if chunked:
            self.next_chunk_of("{b_k}", "{b_from}", done)
        text(f"    uadd {{b_from}}, {{b_from}}, {t.threads * t.pitch}", f"    usub {{b_cols_left}}, {{b_cols_left}}, {t.threads}",
             "    usetp.gt up2, {b_cols_left}, 0", f"    @up2 bra {done}",
             "    umov {b_from}, {b}", "    umov {b_cols_left}, {n}", f"{done}:")

    def copy_c(self, tile):
        """Store a tile: registers to its staging area, from there to the rows of C."""
        t, text, threads = self.tiling, self.text, self.cfg.threads
        text(f"    barrier.wait b{_C_STAGED[tile]}")
        for column in range(0, threads, 4):
            text(f"    st.v4 ur{2 + tile}:rf{self.offset_c}:{4 * column}, r{tile * threads + column}")
        if t.chunks == 1:
            self.copy_b()           # the first store has waited for the mm of the tile: its slot is free
        ragged = self.last_columns != threads
        if ragged:
            text(f"    usetp.lt up6, {{prev_cols}}, {threads}", f"    umov {{c_blocks}}, {threads // 4}",
                 f"    @up6 umov {{c_blocks}}, {-(-self.last_columns // 4)}")
        text(f"    umin {{c_rows}}, {{prev_rows}}, {threads}", "    umov {c_to}, {prev_c}", f"    umov {{c_from}}, {t.c_stages[tile]}")
        self.expect(_C_STAGED[tile], "{c_rows}", self.last_rows, 4 * threads, ragged and "up6",
                    _round_up(4 * self.last_columns, BANK_BYTES))
        text("    wait.thread", f"    copy_rows.global.shared {{c_to}}, {{c_from}}, {{c_blocks}}, b{_C_STAGED[tile]}")

    # -- registers --------------------------------------------------------------------------

    def load_a(self, half):
        """Load the staged rows of A into one half of the factor registers, 16 bytes of every row at a time."""
        first = FIRST_FACTOR_REGISTER + half * self.cfg.factor_registers // 2
        for block in range(self.tiling.chunk // BANK_BYTES):
            self.text(f"    ld.v4 r{first + 4 * block}, ur0:rf{self.offset_a}:{BANK_BYTES * block}")

    def multiply(self, tile, half, first=True, last=False):
        """mm over the words of one chunk."""
        t = self.tiling
        words = t.words(t.last_chunk if last or t.chunks == 1 else t.chunk)
        guard = "@p1 " if self.last_columns != t.threads else ""
        for word in range(0, words, _MAX_SLICES):
            zero = ".z" if first and word == 0 else ""
            register = FIRST_FACTOR_REGISTER + half * self.cfg.factor_registers // 2 + word * t.dot // 4
            self.text(f"    {guard}{self.multiplies}.k{min(_MAX_SLICES, words - word)}{zero} r{tile * t.threads}, "
                      f"ur{_B_SEGMENT}:rf{self.offset_b}:{word * t.dot * (self.b_rows.bytes_of_k if self.b_rows else 1)}, r{register}")

    def scale_thread_number(self, register, factor):
        """register = thread number x factor, by shifts and adds."""
        bits = [bit for bit in range(factor.bit_length()) if factor >> bit & 1]
        self.text(f"    shl r{self.scratch}, r{self.thread_number}, {bits[0]}")
        for bit in bits[1:]:
            self.text(f"    shl r{self.scratch + 1}, r{self.thread_number}, {bit}",
                      f"    add r{self.scratch}, r{self.scratch}, r{self.scratch + 1}")
        self.text(f"    mov r{register}, r{self.scratch}")

    # -- program ----------------------------------------------------------------------------

    def arguments(self, a, b, c, share):
        """Names and values of the uniform registers with which a core begins its share."""
        t = self.tiling
        row_blocks, column_blocks = -(-share.rows // t.threads), -(-share.columns // t.threads)
        steps = row_blocks * column_blocks * t.chunks
        a, b = a + share.row * t.pitch, b + share.column * (self.b_rows.element_bytes if self.b_rows else t.pitch)
        c += share.row * self.c_pitch + self.result_bytes * share.column
        return {
            "a_to": t.a_stage, "a_to_pitch": t.ab_pitch, "a_from": a, "a_pitch": t.pitch, "a_blocks": t.chunk // BANK_BYTES,
            "b_to": t.slots[0], "b_to_pitch": t.ab_pitch, "b_blocks": t.chunk // BANK_BYTES, "b_from": b, "b_pitch": t.pitch, "b": b,
            "c_from_pitch": t.c_pitch, "c_pitch": self.c_pitch, "c_blocks": t.threads // 4, "c_tile": c, "c_row": c,
            "a_left": row_blocks if t.chunks == 1 else steps, "a_rows_left": share.rows, "a_k": t.chunks, "a_n": column_blocks,
            "b_left": steps, "b_cols_left": share.columns, "b_k": t.chunks, "slot": t.slots[0], "tile": 0, "half": 0, "k_left": t.chunks,
            "cols": share.columns, "rows": share.rows, "n": share.columns, "column_blocks": column_blocks,
        } | (self.b_rows.arguments(t, b) if self.b_rows else {})

    def uniform(self, a, b, c):
        """Values of the uniform registers at the doorbell: what core 0 begins with."""
        return {_UNIFORM.index(name): value for name, value in self.arguments(a, b, c, self.shares[0]).items()}

    def prologue(self):
        t, text = self.tiling, self.text
        if self.cfg.cores > 1:
            begin_share(text, self.cfg.cores, [self.arguments(0, 0, 0, share) for share in self.shares], _ADDRESSES, "finish")
        self.copy_a()
        self.copy_b()
        text(f"    mov r{self.thread_number}, %tid")
        self.scale_thread_number(self.offset_a, t.ab_pitch)
        self.scale_thread_number(self.offset_b, self.b_rows.element_bytes if self.b_rows else t.ab_pitch)
        self.scale_thread_number(self.offset_c, t.c_pitch)
        text(f"    segment.shared.b8.d1 ur0, {t.a_stage}")
        text(*(f"    segment.shared.b8.d1 ur{2 + tile}, {stage}" for tile, stage in enumerate(t.c_stages)))
        text(f"    setp.lt p1, r{self.thread_number}, {{n}}",
             f"    usetp.eq up5, {{k_left}}, {t.chunks}", f"    barrier.wait b{_A_STAGED}")
        self.begin()
        self.load_a(0)

    def begin(self):
        """What a kernel derived from this one does before the first step."""

    def step(self):
        """One chunk of one tile, and the store of the tile before."""
        t, text = self.tiling, self.text
        text("step:", f"    barrier.wait b{_B_COPIED}", *(self.b_rows.slot() if self.b_rows else ()),
             f"    segment.shared.b8.d1 ur{_B_SEGMENT}, {'{bytes}' if self.b_rows else '{slot}'}",
             f"    uxor {{slot}}, {{slot}}, {t.slots[1]}")
        if t.chunks > 1:
            text("    usetp.eq up6, {k_left}, 1")
        text.select(("up0", "up1") + (("up5", "up6") if t.chunks > 1 else ()), self.multiply)
        if t.chunks == 1 and self.column_blocks > 1:
            # The first mm of a row block has waited for its A: the staging area is free.
            text("    usetp.ne up2, {cols}, {n}", "    @up2 bra staged")
        self.copy_a()
        text("staged:", "    @up3 bra store")
        if t.chunks == 1:
            self.copy_b()
        text("    bra stored", "store:")
        text.select(("up0",), lambda tile: self.copy_c(not tile))
        text("stored:", "    @up4 bra finish")

    def next_a(self):
        """Load the A of the next step into the other half."""
        self.text("    uxor {half}, {half}, 1", "    usetp.ne up1, {half}, 0", f"    barrier.wait b{_A_STAGED}")
        self.text.select(("up1",), self.load_a)

    def next_chunk(self):
        """Stay on the tile while it has chunks left."""
        self.text("    usub {k_left}, {k_left}, 1", "    usetp.le up2, {k_left}, 0", "    @up2 bra next_tile",
                  "    usetp.ne up3, {k_left}, {k_left}", "    usetp.ne up5, {k_left}, {k_left}", "    bra load_next",
                  "next_tile:", f"    umov {{k_left}}, {self.tiling.chunks}", "    usetp.eq up5, {k_left}, {k_left}")

    def advance(self):
        t, text, threads = self.tiling, self.text, self.cfg.threads
        ragged = self.last_columns != threads
        if t.chunks > 1:
            self.next_chunk()
        text("    umov {prev_c}, {c_tile}", "    umov {prev_cols}, {cols}", "    umov {prev_rows}, {rows}",
             "    usetp.eq up3, {tile}, {tile}", "    uxor {tile}, {tile}, 1", "    usetp.ne up0, {tile}, 0",
             f"    uadd {{c_tile}}, {{c_tile}}, {self.result_bytes * threads}", f"    usub {{cols}}, {{cols}}, {threads}",
             "    usetp.gt up2, {cols}, 0", "    @up2 bra same_rows", *(self.b_rows.to_first_columns() if self.b_rows else ()),
             f"    usub {{rows}}, {{rows}}, {threads}", "    usetp.le up4, {rows}, 0", "    @up4 bra store",
             f"    uadd {{c_row}}, {{c_row}}, {threads * self.c_pitch}", "    umov {c_tile}, {c_row}",
             "    umov {cols}, {n}")
        if t.chunks == 1:
            self.next_a()
        if self.column_blocks > 1 and ragged:
            text(f"    setp.lt p1, r{self.thread_number}, {{n}}")
        text("    bra load_next", "same_rows:", *(self.b_rows.to_next_columns() if self.b_rows else ()))
        if ragged:
            text(f"    usetp.ge up2, {{cols}}, {threads}", "    @up2 bra load_next",
                 f"    setp.lt p1, r{self.thread_number}, {self.last_columns}")
        text("load_next:")
        if t.chunks > 1:
            self.next_a()
            self.copy_b()
        text("    bra step", "finish:", "    halt")

    def program(self):
        self.prologue()
        self.step()
        self.advance()
        return assemble(str(self.text), self.cfg)


def plan(cfg, m, n, k, a_address, b_address, c_address, a_signed, b_signed, element_bytes=1, b_layout="nk"):
    """Program and arguments for C (m x n, int32) = A (m x k) x B (k x n) of integers of one or two bytes.

    A lies row-major at ``a_address``, B as n rows of k (``b_layout`` "nk") or k rows of n ("kn") at ``b_address``, C row-major at
    ``c_address``; rows start at multiples of 16 bytes, and the bytes behind a row of A or B up to the next are zero. Returns ``Launch``.
    """
    kernel = MatmulKernel(cfg, m, n, k, a_signed, b_signed, element_bytes, b_layout)
    return Launch(kernel.program(), kernel.uniform(a_address, b_address, c_address), m * n * k)
