"""Matrix product C = A x B of 8-bit integers for any shape, from global memory to global memory.

A tile of C is ``threads`` rows by ``threads`` columns and lives in product registers; two tiles alternate, so that one is stored
while ``mm`` works on the other. A block of ``threads`` rows of A is staged in shared memory, with a pitch that spreads the
rows over the banks, and loaded into one half of the factor registers while ``mm`` reads the other half. ``threads`` columns of B at a
time go to one of two slots of shared memory. Where K is too long for that, all of it happens in chunks of k.

Nothing waits but for data: the tokens of ``mm`` say when A has been loaded (its staging area is free again) and when a
tile is complete (it can be stored, and the slot of B that it used is free).
"""

from dataclasses import dataclass

from heddle.config import BANK_BYTES, FIRST_FACTOR_REGISTER, TOKEN_GRANULES

from ..isa import assemble
from .launch import Launch

__all__ = ["Tiling", "plan"]

_MAX_SLICES = 16            # factor words of one mm
_UNIFORM = ("a", "b", "c", "pa_src", "pa_rows", "pa_left", "pa_k", "pa_n", "pb_src", "pb_cols", "pb_left", "pb_k", "slot_in",
            "slot_out", "tile", "half", "k_left", "cols", "rows", "c_tile", "c_row", "prev_c", "prev_cols", "prev_rows",
            "t0", "t1", "t2", "t3", "t4")


def _round_up(value, multiple):
    return -(-value // multiple) * multiple


@dataclass(frozen=True)
class Tiling:
    """How a problem is cut; lengths along k are bytes.

    ``chunk`` bytes of k are processed at a time, ``chunks`` times, ``last_chunk`` the last time; ``stage_pitch`` is the distance of rows of A in
    shared memory; ``stage``, ``slots`` are shared addresses.
    """

    threads: int
    dot: int
    pitch: int
    chunk: int
    chunks: int
    last_chunk: int
    stage_pitch: int
    stage: int
    slots: tuple

    @classmethod
    def choose(cls, cfg, k):
        threads, dot = cfg.threads, cfg.dot
        pitch = _round_up(k, BANK_BYTES)
        in_factors = (cfg.factor_words // TOKEN_GRANULES) * (TOKEN_GRANULES // 2 - 1) * dot
        in_shared = (cfg.shared_bytes // threads - BANK_BYTES) // 3
        limit = min(in_factors, in_shared, cfg.matrix_queue * _MAX_SLICES * dot)
        chunk, chunks = pitch, 1
        if pitch > limit:
            limit = min(limit, cfg.instruction_words)       # the loads of a chunk are unrolled
            unit = _MAX_SLICES * dot if limit >= _MAX_SLICES * dot else BANK_BYTES
            chunks = -(-pitch // (limit // unit * unit))
            chunk = _round_up(-(-pitch // chunks), unit)
            chunks = -(-pitch // chunk)
        stage_pitch = chunk if chunk // BANK_BYTES % 2 else chunk + BANK_BYTES
        stage = 2 * threads * chunk
        return cls(threads, dot, pitch, chunk, chunks, k - (chunks - 1) * chunk, stage_pitch, stage, (0, threads * chunk))

    def words(self, nbytes):
        """Factor words that hold ``nbytes`` of k."""
        return -(-nbytes // self.dot)


class _Text:
    """Assembly text with named uniform registers (``{name}``) and fresh labels."""

    def __init__(self, names):
        self._registers = {name: f"ur{number}" for number, name in enumerate(names)}
        self._lines = []
        self._labels = 0

    def __call__(self, *lines):
        self._lines += [line.format_map(self._registers) for line in lines]

    def label(self, stem):
        self._labels += 1
        return f"{stem}_{self._labels}"

    def select(self, predicates, emit, chosen=()):
        """Run ``emit(*values)`` for the present values of uniform predicates, then go on behind it."""
        end = self.label("selected")
        self._select(predicates, emit, chosen, end)
        self(f"{end}:")

    def _select(self, predicates, emit, chosen, end):
        if not predicates:
            emit(*chosen)
            self(f"    bra {end}")
            return
        true = self.label("case")
        self(f"    @{predicates[0]} bra {true}")
        self._select(predicates[1:], emit, (*chosen, False), end)
        self(f"{true}:")
        self._select(predicates[1:], emit, (*chosen, True), end)

    def __str__(self):
        return "\n".join(self._lines) + "\n"


class _Kernel:
    """Writes the program for one shape.

    Uniform predicates: up0 tile parity, up1 half of the factor registers, up2 scratch, up3 a tile waits to be stored, up4 last
    store, up5 first chunk of a tile, up6 last chunk. Thread predicates: p1 columns of the tile, p2 rows of the last row block.
    """

    def __init__(self, cfg, m, n, k, a_signed, b_signed):
        self.cfg, self.m, self.n = cfg, m, n
        self.tiling = Tiling.choose(cfg, k)
        self.signs = f".{'s' if a_signed else 'u'}a.{'s' if b_signed else 'u'}b"
        threads = cfg.threads
        self.row_blocks, self.column_blocks = -(-m // threads), -(-n // threads)
        self.c_pitch = _round_up(4 * n, BANK_BYTES)
        self.thread_number, self.offset_a, self.offset_c = (2 * threads + index for index in range(3))
        self.offset_b = cfg.registers - 1
        self.text = _Text(_UNIFORM)

    # -- copies from global memory ----------------------------------------------------------

    def copy_a(self):
        """Stage the next block of A, row by row."""
        t, text = self.tiling, self.text
        done, row = text.label("a_staged"), text.label("a_row")
        text("    usetp.le up2, {pa_left}, 0", f"    @up2 bra {done}", "    usub {pa_left}, {pa_left}, 1",
             f"    umin {{t0}}, {{pa_rows}}, {t.threads}", "    umov {t1}, {pa_src}", f"    umov {{t2}}, {t.stage}")
        self._chunk_blocks("pa_k")
        text(f"{row}:", "    barrier.expect b0, {t4}", "    copy_block.shared.global {t2}, {t1}, {t3}, b0",
             f"    uadd {{t1}}, {{t1}}, {t.pitch}", f"    uadd {{t2}}, {{t2}}, {t.stage_pitch}",
             "    usub {t0}, {t0}, 1", "    usetp.gt up2, {t0}, 0", f"    @up2 bra {row}")
        next_rows = (f"    uadd {{pa_src}}, {{pa_src}}, {t.threads * t.pitch}", f"    usub {{pa_rows}}, {{pa_rows}}, {t.threads}")
        if t.chunks == 1:
            text(*next_rows)
        else:
            text(f"    uadd {{pa_src}}, {{pa_src}}, {t.chunk}", "    usub {pa_k}, {pa_k}, 1",
                 "    usetp.gt up2, {pa_k}, 0", f"    @up2 bra {done}",
                 f"    umov {{pa_k}}, {t.chunks}", f"    usub {{pa_src}}, {{pa_src}}, {t.chunks * t.chunk}",
                 "    usub {pa_n}, {pa_n}, 1", "    usetp.gt up2, {pa_n}, 0", f"    @up2 bra {done}",
                 f"    umov {{pa_n}}, {self.column_blocks}", *next_rows)
        text(f"{done}:")

    def _chunk_blocks(self, counter):
        """t3 blocks and t4 bytes of a row of the present chunk; ``counter`` counts the chunks that are left."""
        t, text = self.tiling, self.text
        text(f"    umov {{t3}}, {t.chunk // BANK_BYTES}")
        if t.chunks > 1:
            text(f"    usetp.eq up2, {{{counter}}}, 1", f"    @up2 umov {{t3}}, {-(-t.last_chunk // BANK_BYTES)}")
        text("    ushl {t4}, {t3}, 4")

    def copy_b(self):
        """Bring the next columns of B into the free slot: whole columns lie side by side, chunks come one by one."""
        t, text = self.tiling, self.text
        done = text.label("b_copied")
        text("    usetp.le up2, {pb_left}, 0", f"    @up2 bra {done}", "    usub {pb_left}, {pb_left}, 1",
             f"    umin {{t0}}, {{pb_cols}}, {t.threads}", "    umov {t1}, {pb_src}", "    umov {t2}, {slot_in}")
        if t.chunks == 1:
            last = self.n - (self.column_blocks - 1) * t.threads
            text(f"    umov {{t3}}, {t.threads * t.pitch // BANK_BYTES}", f"    usetp.lt up2, {{t0}}, {t.threads}",
                 f"    @up2 umov {{t3}}, {last * t.pitch // BANK_BYTES}", "    ushl {t4}, {t3}, 4",
                 "    barrier.expect b1, {t4}", "    copy_block.shared.global {t2}, {t1}, {t3}, b1")
        else:
            self._chunk_blocks("pb_k")
            column = text.label("b_column")
            text(f"{column}:", "    barrier.expect b1, {t4}", "    copy_block.shared.global {t2}, {t1}, {t3}, b1",
                 f"    uadd {{t1}}, {{t1}}, {t.pitch}", f"    uadd {{t2}}, {{t2}}, {t.chunk}",
                 "    usub {t0}, {t0}, 1", "    usetp.gt up2, {t0}, 0", f"    @up2 bra {column}")
        text(f"    uxor {{slot_in}}, {{slot_in}}, {t.slots[0] ^ t.slots[1]}")
        if t.chunks > 1:
            text(f"    uadd {{pb_src}}, {{pb_src}}, {t.chunk}", "    usub {pb_k}, {pb_k}, 1",
                 "    usetp.gt up2, {pb_k}, 0", f"    @up2 bra {done}",
                 f"    umov {{pb_k}}, {t.chunks}", f"    usub {{pb_src}}, {{pb_src}}, {t.chunks * t.chunk}")
        text(f"    uadd {{pb_src}}, {{pb_src}}, {t.threads * t.pitch}", f"    usub {{pb_cols}}, {{pb_cols}}, {t.threads}",
             "    usetp.gt up2, {pb_cols}, 0", f"    @up2 bra {done}",
             "    umov {pb_src}, {b}", f"    umov {{pb_cols}}, {self.n}", f"{done}:")

    # -- registers --------------------------------------------------------------------------

    def factor_register(self, half):
        """First register of a half of the factor registers."""
        return FIRST_FACTOR_REGISTER + half * self.cfg.factor_registers // 2

    def load_a(self, half):
        """Load the staged rows of A, 16 bytes of every row at a time."""
        for block in range(self.tiling.chunk // BANK_BYTES):
            self.text(f"    ld.v4 r{self.factor_register(half) + 4 * block}, ur0:rf{self.offset_a}:{BANK_BYTES * block}")

    def multiply(self, tile, half, first=True, last=False):
        """mm over the words of one chunk."""
        t = self.tiling
        words = t.words(t.last_chunk if last or t.chunks == 1 else t.chunk)
        guard = "@p1 " if self.n % t.threads else ""
        for word in range(0, words, _MAX_SLICES):
            zero = ".z" if first and word == 0 else ""
            register = self.factor_register(half) + word * t.dot // 4
            self.text(f"    {guard}mm8{self.signs}.k{min(_MAX_SLICES, words - word)}{zero} r{tile * t.threads}, "
                      f"ur1:rf{self.offset_b}:{word * t.dot}, r{register}")

    def store(self, tile, ragged):
        """Store the previous tile, four columns of every row at a time."""
        text, stored = self.text, self.text.label("stored")
        guard = "@p2 " if ragged else ""
        for column in range(0, self.cfg.threads, 4):
            if column and self.n % self.cfg.threads:
                text(f"    usetp.le up2, {{prev_cols}}, {column}", f"    @up2 bra {stored}")
            text(f"    {guard}st.v4 ur2:rf{self.offset_c}:{4 * column}, r{tile * self.cfg.threads + column}")
        text(f"{stored}:")

    def scale_thread_number(self, register, factor):
        """register = thread number x factor, by shifts and adds."""
        text = self.text
        scratch = self.offset_c + 1
        text(f"    mov r{scratch}, 0")
        for bit in range(factor.bit_length()):
            if factor >> bit & 1:
                text(f"    shl r{scratch + 1}, r{self.thread_number}, {bit}", f"    add r{scratch}, r{scratch}, r{scratch + 1}")
        text(f"    mov r{register}, r{scratch}")

    # -- program ----------------------------------------------------------------------------

    def prologue(self):
        t, text, threads = self.tiling, self.text, self.cfg.threads
        steps = self.row_blocks * self.column_blocks * t.chunks
        values = {"pa_rows": self.m, "pa_left": self.row_blocks if t.chunks == 1 else steps, "pa_k": t.chunks,
                  "pa_n": self.column_blocks, "pb_cols": self.n, "pb_left": steps, "pb_k": t.chunks, "slot_in": t.slots[0],
                  "slot_out": t.slots[0], "tile": 0, "half": 0, "k_left": t.chunks, "cols": self.n, "rows": self.m}
        text("    umov {pa_src}, {a}", "    umov {pb_src}, {b}", "    umov {c_tile}, {c}", "    umov {c_row}, {c}")
        text(*(f"    umov {{{name}}}, {value}" for name, value in values.items()))
        self.copy_a()
        self.copy_b()
        text(f"    segment.shared.b8.d1 ur0, {t.stage}", f"    mov r{self.thread_number}, %tid")
        self.scale_thread_number(self.offset_a, t.stage_pitch)
        self.scale_thread_number(self.offset_b, t.chunk)
        self.scale_thread_number(self.offset_c, self.c_pitch)
        text(f"    setp.lt p1, r{self.thread_number}, {self.n}",
             f"    setp.lt p2, r{self.thread_number}, {self.m - (self.row_blocks - 1) * threads}",
             f"    usetp.eq up5, {{k_left}}, {t.chunks}", "    usetp.eq up6, {k_left}, 1", "    barrier.wait b0")
        self.load_a(0)

    def step(self):
        """One chunk of one tile, and the store of the tile before."""
        t, text = self.tiling, self.text
        text("step:", "    barrier.wait b1", "    segment.shared.b8.d1 ur1, {slot_out}",
             f"    uxor {{slot_out}}, {{slot_out}}, {t.slots[0] ^ t.slots[1]}")
        text.select(("up0", "up1") + (("up5", "up6") if t.chunks > 1 else ()), self.multiply)
        if t.chunks == 1 and self.column_blocks > 1:
            # The first mm of a row block has waited for its A: the staging area is free.
            text(f"    usetp.ne up2, {{cols}}, {self.n}", "    @up2 bra staged")
        self.copy_a()
        text("staged:", "    @!up3 bra stored", "store:", "    segment.global.b8.d1 ur2, {prev_c}")
        ragged = self.m % t.threads != 0
        text(f"    usetp.lt up2, {{prev_rows}}, {t.threads}")
        text.select(("up0",) + (("up2",) if ragged else ()), lambda tile, rows=False: self.store(not tile, rows))
        text("stored:", "    @up4 bra finish")

    def next_a(self):
        """Load the A of the next step into the other half."""
        text = self.text
        text("    uxor {half}, {half}, 1", "    usetp.ne up1, {half}, 0", "    barrier.wait b0")
        text.select(("up1",), self.load_a)

    def next_chunk(self):
        text = self.text
        text("    usub {k_left}, {k_left}, 1", "    usetp.le up2, {k_left}, 0", "    @up2 bra next_tile",
             "    usetp.ne up3, {k_left}, {k_left}", "    usetp.ne up5, {k_left}, {k_left}", "    usetp.eq up6, {k_left}, 1",
             "    bra load_next", "next_tile:", f"    umov {{k_left}}, {self.tiling.chunks}",
             "    usetp.eq up5, {k_left}, {k_left}", "    usetp.eq up6, {k_left}, 1")

    def advance(self):
        t, text = self.tiling, self.text
        threads = t.threads
        if t.chunks == 1:
            self.copy_b()
        else:
            self.next_chunk()
        text("    umov {prev_c}, {c_tile}", "    umov {prev_cols}, {cols}", "    umov {prev_rows}, {rows}",
             "    usetp.eq up3, {tile}, {tile}", "    uxor {tile}, {tile}, 1", "    usetp.ne up0, {tile}, 0",
             f"    uadd {{c_tile}}, {{c_tile}}, {4 * threads}", f"    usub {{cols}}, {{cols}}, {threads}",
             "    usetp.gt up2, {cols}, 0", "    @up2 bra same_rows",
             f"    usub {{rows}}, {{rows}}, {threads}", "    usetp.le up4, {rows}, 0", "    @up4 bra store",
             f"    uadd {{c_row}}, {{c_row}}, {threads * self.c_pitch}", "    umov {c_tile}, {c_row}",
             f"    umov {{cols}}, {self.n}")
        if t.chunks == 1:
            self.next_a()
        if self.column_blocks > 1 and self.n % threads:
            text(f"    setp.lt p1, r{self.thread_number}, {threads}")
        text("    bra load_next", "same_rows:")
        if self.n % threads:
            text(f"    usetp.ge up2, {{cols}}, {threads}", "    @up2 bra load_next",
                 f"    setp.lt p1, r{self.thread_number}, {self.n % threads}")
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


def plan(cfg, m, n, k, a_address, b_address, c_address, a_signed, b_signed):
    """Program and arguments for C (m x n, int32) = A (m x k) x B (k x n) of 8-bit integers.

    A lies row-major at ``a_address``, B as n rows of k at ``b_address``, C row-major at ``c_address``; rows start at multiples of 16 bytes,
    and the bytes between the end of a row of A or B and the next multiple of 16 are zero. Returns ``Launch``.
    """
    program = _Kernel(cfg, m, n, k, a_signed, b_signed).program()
    return Launch(program, {0: a_address, 1: b_address, 2: c_address}, m * n * k)
