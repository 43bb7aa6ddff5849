"""Tiled matrix product C = A x B of 8- or 16-bit integers for any shape, from global memory to global memory.

Products whose rows fit one tile have a kernel of their own (``streaming``). Here a tile of C is ``threads`` rows by ``threads`` columns
(with merges fewer rows: ``merges``; in a small shared memory fewer columns: ``tiling``). It lives in product registers; two tiles
alternate, so that one is stored while ``mm`` works on the other; four where k is not cut, so that ``mm`` does not wait for stores. A
block of rows of A is staged in shared memory. It is loaded into one half of the factor registers while ``mm`` reads the other half. The
columns of B of a tile go to one of two slots of shared memory. Where K is too long for that, all of it happens in chunks of k. A finished
tile goes to one of two staging areas in shared memory (or to the only one) and from there to C. Rows lie an odd number of 16-byte blocks
apart in shared memory: neighbouring threads and columns meet different banks.

Nothing waits but for data. The hazards of ``mm`` say when A has been loaded: its staging area is free again. They say when a
tile is complete: it can be stored, and the slot of B that it used is free.

Several cores share the tiles out (``shares``): each takes a rectangle of C as if it were the whole. It begins with the
arguments of core 0, which the host sets, and changes what is different for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Self

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS

from .kernel import Kernel
from .parts.columns import RowsOfB
from .parts.cost import MERGE_GAIN, loading_cycles, matrix_cycles, storing_cycles
from .parts.launch import Launch
from .parts.merges import write_scaled
from .parts.register_groups import GROUP_REGISTERS
from .parts.shares import Share, begin_share, share_out
from .parts.text import KernelText
from .parts.tiling import MAX_SLICES, Tiling, round_up
from .parts.transfers import A_STAGED, C_STAGED, RowBytes, Rows, Transfers
from .problem import ORDERS, MatmulProblem, Operands

__all__ = ["B_SEGMENT", "TiledKernel"]

# Uniform registers; pairs for copy_rows stand together. The host sets those up to ``column_blocks``, the others are scratch.
_UNIFORM = ("a_to", "a_to_pitch", "a_from", "a_pitch", "a_blocks", "a_rows", "b_to", "b_to_pitch", "b_from", "b_pitch", "b_blocks",
            "b_cols", "c_from", "c_from_pitch", "c_to", "c_pitch", "c_blocks", "c_rows",
            "a_left", "a_rows_left", "a_k", "a_n", "b", "b_left", "b_cols_left", "b_k", "slot", "tile", "half", "k_left",
            "c_tile", "c_row", "cols", "rows", "n", "column_blocks", "prev_c", "prev_cols", "prev_rows", "bytes", "core",
            "table_from", "table_end", "table", "staged", "b_end", "b_at", "b_low")
_ADDRESSES = ("a_from", "b_from", "b_at", "b", "c_tile", "c_row")   # uniform registers that depend on where the matrices lie
B_SEGMENT = _UNIFORM.index("b_to_pitch")       # mm.t1 finds the distance of the rows in the uniform register of this number

# Cycles of the cost model.
_LATENCY = 70               # of global memory and the way there
_FIRST_TILE = 150           # start and the lanes' places
_MERGED = 80                # more instructions for the lanes' places
_STEP = 100                 # a chunk of a tile: control, waiting for its copies
_STAGED = 14                # between the stores of two of four tiles


def _registers(cfg: Config) -> int:
    """Product registers from one tile to the next: tiles share no register group, so that one is stored while ``mm`` writes the other."""
    return round_up(cfg.threads, GROUP_REGISTERS)


def _four_tiles(cfg: Config, tiling: Tiling) -> bool:
    """Whether there is room for four tiles in product registers, and k is not cut."""
    return tiling.chunks == 1 and tiling.stages == 2 and 4 * _registers(cfg) < PRODUCT_REGISTERS


class TiledKernel(Transfers, Kernel):
    """Tiled product of a ``MatmulProblem`` in global memory, cut by a ``Tiling``; ``result_bytes``: size of an element of C.

    Uniform predicates: up0 tile parity; up1 half of the factor registers; up2 scratch; up3 a tile waits to be stored; up4 last store; up5
    first chunk of a tile; up6 last chunk. Thread predicates: p1 columns of the tile, p2 lanes with a word of the last slice, p3 lanes with
    results. Segments: ur0 staged A, ur2 and ur3 staged C, ur7 slot of B.
    """

    gain = MERGE_GAIN
    result_bytes = 4

    def __init__(self, cfg: Config, problem: MatmulProblem, tiling: Tiling | None, tiles: int = 2) -> None:
        super().__init__(cfg, problem)
        self.tiles = tiles                  # that have product registers
        self.product, element_bytes, n = problem, problem.elements.nbytes, problem.n
        self.merge, self.tiling = problem.merge(cfg), tiling
        t = tiling
        self.b_rows = RowsOfB(cfg, n, element_bytes, t.columns) if problem.layout.b_in_rows else None
        self.element_bytes = element_bytes
        self.multiplies = f"mm{8 * element_bytes}{'.t1' if self.b_rows else ''}{self.merge.modifiers}"
        self.order = ORDERS[problem.schedule.order]
        self.shares = share_out(cfg.cores, problem.m, n, self.merge.rows, t.columns)
        self.column_blocks = max(-(-share.columns // t.columns) for share in self.shares)
        self.last_rows, self.last_columns = problem.m % self.merge.rows or self.merge.rows, n % t.columns or t.columns
        self.c_pitch = round_up(self.result_bytes * n, BANK_BYTES)
        self.column, self.offset_a, self.offset_c, self.thread_number, self.scratch = (
            self.tile_registers() + index for index in range(5))
        self.used_columns = min(t.columns, round_up(max(share.columns for share in self.shares), 4))     # of a tile, at most
        self.offset_b = cfg.registers - 1
        # For each mm of a tile: predicate of the threads whose columns it takes, register with the numbers of these, the first of them.
        self.column_parts = [(1, self.column, 0)]
        self.text = KernelText(_UNIFORM)
        self.check()

    @classmethod
    def fits(cls, cfg: Config, problem: MatmulProblem) -> bool:
        """All products from global memory."""
        return not problem.layout.resident

    @classmethod
    def estimate(cls, cfg: Config, problem: MatmulProblem) -> int:
        """Cycles of the busiest core, roughly: for each tile the longest of ``mm``, thread accesses and bus."""
        merge = problem.merge(cfg)
        tiling = Tiling.choose(cfg, problem.k_bytes, merge, n=problem.n)
        return cls._cycles(cfg, problem, tiling, _four_tiles(cfg, tiling))

    @staticmethod
    def _cycles(cfg: Config, problem: MatmulProblem, tiling: Tiling, four: bool = False) -> int:
        """See ``estimate``; with ``four`` tiles in product registers, or two."""
        merge, k, passes = problem.merge(cfg), problem.k_bytes, cfg.passes(problem.elements.nbytes)
        share = max(share_out(cfg.cores, problem.m, problem.n, merge.rows, tiling.columns), key=lambda part: part.rows * part.columns)
        row_blocks, column_blocks = -(-share.rows // merge.rows), -(-share.columns // tiling.columns)
        columns = share.columns / column_blocks
        mm = matrix_cycles(cfg, merge, columns, k, passes)
        stores, loads = storing_cycles(cfg, merge, tiling.columns), loading_cycles(cfg, merge, k)
        fresh = 1 if tiling.chunks > 1 else 1 / column_blocks       # blocks of A for each tile
        rows = min(share.rows, merge.rows)
        bus = (columns + rows * fresh) * tiling.pitch / cfg.axi_bytes
        # Rows are bursts of their own, so many at a time; a tile that is small for its latency waits for them.
        copies = tiling.chunks * _LATENCY * (columns + rows * fresh) / cfg.axi_reads + _LATENCY * rows / cfg.axi_writes
        if four:        # blocks of columns one by one: the last one may be narrow
            widths = [min(tiling.columns, share.columns - first) for first in range(0, share.columns, tiling.columns)]
            each = sum(max(matrix_cycles(cfg, merge, width, k, passes), bus, stores + loads * fresh + _STAGED) for width in widths)
            each /= column_blocks
        else:
            each = max(mm, bus, stores + loads * fresh + copies + _STEP * tiling.chunks)
        first = _FIRST_TILE + _MERGED * (merge.group > 1) + _LATENCY + columns * tiling.chunk / cfg.axi_bytes + loads / tiling.chunks
        return round(first + row_blocks * column_blocks * each + stores)

    @classmethod
    def cuts(cls, cfg: Config, problem: MatmulProblem) -> Iterator[Self]:
        """Four tiles where there is room for them, then two for each of ``Tiling.candidates``."""
        rows_of_b = RowsOfB(cfg, problem.n, problem.elements.nbytes) if problem.layout.b_in_rows else None
        cut = (cfg, problem.k_bytes, problem.merge(cfg), rows_of_b)
        tiling = Tiling.choose(*cut, plain=True, n=problem.n)
        if _four_tiles(cfg, tiling):
            yield cls(cfg, problem, tiling.with_stages(4, cfg.shared_bytes), tiles=4)
        for tiling in Tiling.candidates(*cut, n=problem.n):
            yield cls(cfg, problem, tiling)

    def check(self) -> None:
        """See ``Tiling.check``."""
        t = self.tiling
        t.check(self.cfg, self.merge, self.b_rows.slot_bytes(t.chunk) if self.b_rows else t.columns * t.ab_pitch)

    @property
    def ragged(self) -> bool:
        """Not all tiles have as many columns as there are threads."""
        return self.last_columns != self.cfg.threads

    def c_staged(self, tile: int) -> int:
        """Barrier of the staging area of a tile."""
        return C_STAGED[tile % self.tiling.stages]

    @property
    def sends_late(self) -> bool:
        """A staged tile goes to C with the next one, when its stores are over: the ``mm`` between them does not wait for these."""
        return self.tiles > 2

    def copy_c(self, tile: int) -> None:
        """Store a tile: registers to its staging area, from there to the rows of C."""
        t, text = self.tiling, self.text
        if t.early_b:
            self.copy_b()
        text(f"    barrier.wait b{self.c_staged(tile)}")
        count = 0
        guard, access = "@p3 " if self.some_lanes_store else "", {4: "v4", 2: "v2", 1: "b32"}[self.merge.vector]
        for register, column in self.merge.stores(t.columns):
            if self.merge.ka == 1 and column >= self.used_columns:
                break
            segment = 2 + tile % len(t.c_stages)
            text(f"    {guard}st.{access} ur{segment}:rf{self.offset_c}:{4 * column}, r{self.register_of(tile, register)}")
            count += 1
            if t.chunks == 1 and len(t.slots) == 2 and register == 0:
                self.copy_b()       # the first store has waited for the mm of the tile: its slot is free
        if self.sends_late:         # behind these stores, so that they follow those of the tile before without a gap
            self.send_staged((tile - 1) % self.tiles, f"wait_thread {count}")
        self.announce_rows(tile)
        if self.sends_late:
            text("    umov {staged}, 1")
        else:
            self.send_rows(tile)
        if len(t.slots) == 3 and not t.early_b:
            self.copy_b()               # the bus has another block to read

    def announce_rows(self, tile: int) -> None:
        """Tell the barrier of a staged tile what ``send_rows`` will copy, while the stores to the staging area are under way."""
        t, text = self.tiling, self.text
        full, last = self.result_bytes * t.columns, round_up(self.result_bytes * self.last_columns, BANK_BYTES)
        ragged = self.last_columns != t.columns
        if ragged:
            text(f"    usetp.lt up6, {{prev_cols}}, {t.columns}", f"    umov {{c_blocks}}, {full // BANK_BYTES}",
                 f"    @up6 umov {{c_blocks}}, {last // BANK_BYTES}")
        if self.last_rows != t.rows:
            text(f"    umin {{c_rows}}, {{prev_rows}}, {t.rows}")
        text("    umov {c_to}, {prev_c}", f"    umov {{c_from}}, {t.c_stages[tile % len(t.c_stages)]}")
        self.expect(self.c_staged(tile), Rows("{c_rows}", t.rows, self.last_rows), RowBytes(full, last, "up6" if ragged else None))

    def send_rows(self, tile: int, wait: str = "wait.thread") -> None:
        """A staged tile to the rows of C; ``wait`` for the stores to the staging area, if they are not over."""
        if wait:
            self.text(f"    {wait}")
        self.text(f"    copy_rows.global.shared {{c_to}}, {{c_from}}, {{c_blocks}}, b{self.c_staged(tile)}")

    def send_staged(self, tile: int, wait: str = "wait.thread") -> None:
        """Send a tile to the rows of C, if one is staged; ``wait`` as for ``send_rows``."""
        none = self.text.label("sent")
        self.text("    usetp.eq up2, {staged}, 0", f"    @up2 bra {none}")
        self.send_rows(tile, wait)
        self.text(f"{none}:")

    # -- registers --------------------------------------------------------------------------

    def load_a(self, half: int, last: bool) -> None:
        """Load the staged rows of A into one half of the factor registers, a block or a word of every lane at a time; zero where a
        lane has no word in the last slice."""
        t, merge = self.tiling, self.merge
        first = FIRST_FACTOR_REGISTER + half * self.cfg.factor_registers // 2
        nbytes = t.last_chunk if last else t.chunk
        loads, tail = merge.loads(nbytes), merge.tail(nbytes)
        for number, place, access in loads[:-1] if tail else loads:
            self.text(f"    ld.{access} r{first + number}, ur{self.segment_of_a(half)}:rf{self.offset_a}:{place}")
        if tail:
            number, place, access = loads[-1]
            self.text(*(f"    mov r{first + number + part}, 0" for part in range(t.dot // 4)),
                      f"    @p2 ld.{access} r{first + number}, ur{self.segment_of_a(half)}:rf{self.offset_a}:{place}")

    def segment_of_a(self, half: int) -> int:
        """Segment of the staged rows that go to one half of the factor registers."""
        return 0

    def load_next_a(self, half: int | None = None) -> None:
        """``load_a`` for the chunk that comes; without ``half``, for the half that up1 names."""
        t, text = self.tiling, self.text
        if t.chunks == 1 or not self.merge.tail(t.last_chunk):
            last = t.chunks == 1
            self.load_a(half, last) if half is not None else text.select(("up1",), lambda chosen: self.load_a(chosen, last))
            return
        text("    usetp.eq up6, {k_left}, 1")
        if half is not None:
            text.select(("up6",), lambda last: self.load_a(half, last))
        else:
            text.select(("up1", "up6"), self.load_a)

    def multiply(self, tile: int, half: int, first: bool = True, last: bool = False, parts: slice = slice(None)) -> None:
        """mm over the words of one chunk, for some of ``column_parts``."""
        t, merge = self.tiling, self.merge
        slices = merge.slices(t.last_chunk if last or t.chunks == 1 else t.chunk)
        for predicate, _, column in self.column_parts[parts]:
            guard = f"@p{predicate} " if self.ragged or len(self.column_parts) > 1 else ""
            for index in range(0, slices, MAX_SLICES):
                zero = ".z" if first and index == 0 else ""
                register = FIRST_FACTOR_REGISTER + half * self.cfg.factor_registers // 2 + index * t.dot // 4
                self.text(f"    {guard}{self.multiplies}{self.product.elements.signs}.k{min(MAX_SLICES, slices - index)}{self.order}{zero} "
                          f"r{self.register_of(tile, column)}, {self.b_address(index, column)}, r{register}")

    def choose_columns(self, count: int | str) -> None:
        """Columns of a tile before ``count``, a number or ``{n}``, exist."""
        if self.tiling.columns < self.cfg.threads and count == "{n}":
            self.text(f"    umin {{bytes}}, {{n}}, {self.tiling.columns}")
            count = "{bytes}"
        self.text(*(f"    setp.lt p{predicate}, r{register}, {count}" for predicate, register, _ in self.column_parts))

    def tile_registers(self) -> int:
        """Registers of all tiles."""
        return self.tiles * _registers(self.cfg)

    def register_of(self, tile: int, column: int) -> int:
        """Product register of a column of a tile."""
        return tile * _registers(self.cfg) + column

    def b_address(self, index: int, column: int = 0) -> str:
        """Address of the columns of B from ``column`` and from slice ``index`` of the chunk on."""
        place = index * self.merge.slice_bytes + column * self.tiling.ab_pitch
        if self.b_rows:
            place = place // self.element_bytes * self.b_rows.pitch
        return f"ur{B_SEGMENT}:rf{self.offset_b}:{place}"

    def scale_thread_number(self, register: int, factor: int, source: int | None = None) -> None:
        """register = thread number (or register ``source``) x factor; any register."""
        write_scaled(self.text, self.scratch + 2, self.thread_number if source is None else source, 1, factor, self.scratch)
        self.text(f"    mov r{register}, r{self.scratch + 2}")

    # -- program ----------------------------------------------------------------------------

    def arguments(self, operands: Operands, share: Share) -> dict[str, int]:
        """Names and values of the uniform registers with which a core begins its share, with ``operands`` at these addresses."""
        t = self.tiling
        row_blocks, column_blocks = -(-share.rows // t.rows), -(-share.columns // t.columns)
        steps = row_blocks * column_blocks * t.chunks
        a = operands.a + share.row * t.pitch
        b = operands.b + share.column * (self.element_bytes if self.b_rows else t.pitch)
        c = operands.c + share.row * self.c_pitch + self.result_bytes * share.column
        return {
            "a_to": t.a_stage, "a_to_pitch": t.ab_pitch, "a_from": a, "a_pitch": t.pitch, "a_blocks": t.chunk // BANK_BYTES,
            "b_to": t.slots[0], "b_to_pitch": t.ab_pitch, "b_blocks": t.chunk * (t.columns if t.contiguous else 1) // BANK_BYTES,
            "b_cols": t.columns, "b_from": b, "b_pitch": t.pitch, "b": b,
            "c_rows": t.rows, "c_from_pitch": t.c_pitch, "c_pitch": self.c_pitch, "c_blocks": self.result_bytes * t.columns // BANK_BYTES,
            "c_tile": c, "c_row": c,
            "a_left": row_blocks if t.chunks == 1 else steps, "a_rows_left": share.rows, "a_k": t.chunks, "a_n": column_blocks,
            "b_left": steps, "b_cols_left": share.columns, "b_k": t.chunks, "slot": t.slots[0], "tile": 0, "half": 0, "k_left": t.chunks,
            "cols": share.columns, "rows": share.rows, "n": share.columns, "column_blocks": column_blocks,
            "staged": 0,
        } | (self.b_rows.arguments(t, b) if self.b_rows else {})

    def launches(self, operands: Operands = None) -> list[Launch]:
        """One ``Launch``: the values of the uniform registers at the doorbell are those with which core 0 begins."""
        values = self.arguments(operands, self.shares[0])
        uniform = {_UNIFORM.index(name): value for name, value in values.items()}
        return [Launch(self.programs[0], uniform, self.product.macs, self.element_bytes)]

    def arranged(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """A (M x K) and B (N x K) as they are to lie in global memory."""
        a, b = arrays
        return [a, b.T if self.b_rows else b]

    def prologue(self) -> None:
        t, text = self.tiling, self.text
        if self.cfg.cores > 1:
            begin_share(text, self.cfg.cores, [self.arguments(Operands(), share) for share in self.shares], _ADDRESSES, "finish")
        self.copy_first()
        self.copy_a()
        self.copy_b()
        if t.chunks == 1:
            self.copy_b()
        self.lanes()
        text(f"    segment.shared.b8.d1 ur0, {t.a_stage}")
        text(*(f"    segment.shared.b8.d1 ur{2 + tile}, {stage}" for tile, stage in enumerate(t.c_stages)))
        self.choose_columns("{n}")
        text(f"    usetp.eq up5, {{k_left}}, {t.chunks}")
        self.begin()
        text(f"    barrier.wait b{A_STAGED}")
        self.load_next_a(0)

    def lanes(self) -> None:
        """What the threads are: their columns, and their places in the staged rows of A and C."""
        t, merge, text, scratch = self.tiling, self.merge, self.text, self.scratch
        text(f"    mov r{self.thread_number}, %tid")
        merge.write_row_offset(text, self.offset_a, self.thread_number, t.ab_pitch, scratch)
        merge.write_column(text, self.column, self.thread_number, scratch)
        self.scale_thread_number(self.offset_b, self.element_bytes if self.b_rows else t.ab_pitch, self.column)
        merge.write_result_offset(text, self.offset_c, self.thread_number, t.c_pitch, scratch)
        self.some_lanes_store = merge.write_result_lanes(text, 3, self.thread_number, scratch)
        if merge.tail(t.last_chunk):
            merge.write_tail_lanes(text, 2, self.thread_number, merge.tail(t.last_chunk), scratch)

    def copy_first(self) -> None:
        """Copies of a kernel derived from this one that come before all others."""

    def begin(self) -> None:
        """What a kernel derived from this one does before the first step."""

    def end(self) -> None:
        """Behind the last step: the last tile, if it is still staged, goes to C."""
        if self.sends_late:
            self.select_tile(lambda tile: self.send_staged((tile - 1) % self.tiles))

    def step(self) -> None:
        """One chunk of one tile, and the store of the tile before."""
        t, text = self.tiling, self.text
        text("step:")
        self.wait_for_b()
        text(f"    segment.shared.b8.d1 ur{B_SEGMENT}, {self.slot_of_b()}")
        self.next_slot("{slot}")
        if t.chunks > 1:
            text("    usetp.eq up6, {k_left}, 1")
            text.select(("up0", "up1", "up5", "up6"), self.multiply)
        else:
            self.select_tile(lambda tile: text.select(("up1",), lambda half: self.multiply(tile, half)))
        self.copy_next_a()
        text("    @up3 bra store")
        if len(t.slots) == 3 and not t.early_b:
            self.copy_b()
        text("    bra stored", "store:")
        self.select_tile(lambda tile: self.copy_c((tile - 1) % self.tiles))
        text("stored:", "    @up4 bra finish")

    def select_tile(self, emit: Callable[[int], object]) -> None:
        """Run ``emit`` for the number of the tile."""
        if self.tiles == 2:
            self.text.select(("up0",), emit)
            return
        self.text("    usetp.ge up2, {tile}, 2")
        self.text.select(("up2", "up0"), lambda high, low: emit(2 * high + low))

    def next_tile(self) -> list[str]:
        """Number and parity of the next tile."""
        if self.tiles == 2:
            return ["    uxor {tile}, {tile}, 1", "    usetp.ne up0, {tile}, 0"]
        return ["    uadd {tile}, {tile}, 1", f"    uand {{tile}}, {{tile}}, {self.tiles - 1}",
                "    uand {bytes}, {tile}, 1", "    usetp.ne up0, {bytes}, 0"]

    def copy_next_a(self) -> None:
        """The first mm of a row block has waited for its A: the staging area is free."""
        if self.tiling.chunks == 1 and self.column_blocks > 1:
            self.text("    usetp.ne up2, {cols}, {n}", "    @up2 bra staged")
        self.copy_a()
        self.text("staged:")

    def slot_of_b(self) -> str:
        """Uniform register with the shared address of the columns of this step."""
        if self.b_rows and self.b_rows.narrow:
            self.text("    uor {bytes}, {slot}, {b_low}")
            return "{bytes}"
        return "{slot}"

    def next_a(self) -> None:
        """Load the A of the next step into the other half."""
        self.text("    uxor {half}, {half}, 1", "    usetp.ne up1, {half}, 0", f"    barrier.wait b{A_STAGED}")
        self.load_next_a()

    def next_chunk(self) -> None:
        """Stay on the tile while it has chunks left."""
        self.text("    usub {k_left}, {k_left}, 1", "    usetp.le up2, {k_left}, 0", "    @up2 bra next_tile",
                  "    usetp.ne up3, {k_left}, {k_left}", "    usetp.ne up5, {k_left}, {k_left}", "    bra load_next",
                  "next_tile:", f"    umov {{k_left}}, {self.tiling.chunks}", "    usetp.eq up5, {k_left}, {k_left}")

    def advance(self) -> None:
        t, text = self.tiling, self.text
        columns = t.columns
        ragged = self.last_columns != columns
        if t.chunks > 1:
            self.next_chunk()
        before = ["    umov {prev_c}, {c_tile}", "    umov {prev_cols}, {cols}", "    umov {prev_rows}, {rows}",
                  "    usetp.eq up3, {tile}, {tile}"]
        # In turns with those of the next tile, each of which takes the result of the one before.
        text(*(line for pair in zip_longest(self.next_tile(), before) for line in pair if line))
        text(f"    usub {{cols}}, {{cols}}, {columns}", f"    uadd {{c_tile}}, {{c_tile}}, {self.result_bytes * columns}",
             "    usetp.gt up2, {cols}, 0", f"    @up2 bra {self.same_rows_begin()}")
        if self.b_rows and self.b_rows.narrow:
            text(f"    uand {{b_low}}, {{b}}, {BANK_BYTES - 1}")
        text(f"    usub {{rows}}, {{rows}}, {t.rows}", "    usetp.le up4, {rows}, 0", "    @up4 bra store",
             f"    uadd {{c_row}}, {{c_row}}, {t.rows * self.c_pitch}", "    umov {c_tile}, {c_row}",
             "    umov {cols}, {n}")
        if t.chunks == 1:
            self.next_a()
        if self.column_blocks > 1 and ragged:
            self.choose_columns("{n}")
        text("    bra load_next", "same_rows:")
        if self.b_rows and self.b_rows.narrow:
            text(f"    uxor {{b_low}}, {{b_low}}, {columns * self.element_bytes}")
        if ragged:
            text(f"    usetp.ge up2, {{cols}}, {columns}", "    @up2 bra load_next")
            self.choose_columns(self.last_columns)
        text("load_next:")
        if t.chunks > 1:
            self.next_a()
            self.copy_b()
        text("    bra step", "finish:")
        self.end()
        text("    halt")

    def same_rows_begin(self) -> str:
        """Where the next tile of the same rows begins."""
        return "same_rows"

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        self.prologue()
        self.step()
        self.advance()
        return [self.text]
