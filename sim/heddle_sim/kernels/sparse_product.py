"""Product of a sparse and a dense matrix on the sparse engine: a panel of B goes to factor registers, blocks of rows of A pass by.

Packages of A arrive in four slots of shared memory, sums leave from four others, while the engine works on the block between them. Chunks
of B come before, through slots where the sums will be. Sizes and addresses are known to the host, so they stand in the program. Where a
panel has few columns, the PEs are sub-warps with rows of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, ROW_BYTES
from heddle.errors import UsageError
from heddle.isa.sparse_job import ELEMENTS_OF_WORD, JOB_BYTES

from ..isa.features import lacking
from ..sparse.compressed import Compressed
from ..sparse.job import package_bytes, panel_record, rows_package
from ..sparse.sub_warps import group_elements, most_strips, row_groups
from .panel_kernel import SLOTS, PanelKernel, PanelPart, Part, element_count, met_runs, renumbered
from .parts.collection import WORKSPACE
from .parts.fitting import Unfit
from .parts.launch import Launch
from .parts.sparse_schedule import (
    CHUNK_BARRIERS,
    FROM,
    PACKAGE_BARRIERS,
    PACKAGES,
    SIZE,
    STORE_FROM,
    STORE_SIZE,
    STORE_TO,
    TO,
    Block,
    block_copy,
)
from .parts.tiling import round_up
from .problem import Problem

__all__ = ["Panel", "SparseOperands", "SparseProductKernel", "SparseProductProblem"]

_LEAST_ROWS, _LAST_ROWS = 8, 4      # of a block: its instructions take about 30 cycles; of the first and the last
_BLOCKS = 48            # of a core: each has instructions of its own
_CHUNKS = 4             # of a panel
_CHUNK_BYTES = 4096     # of B; twice as many with several cores, whose misses in the L2 wait for each other
_BLOCK_CYCLES = 14     # between two blocks
_RESULT_BYTES = 4
_B, _C = 1, 2           # uniform registers of the arguments


@dataclass(frozen=True)
class SparseOperands:
    """Addresses in global memory: ``packages`` of ``SparseProductKernel.arranged_packages``, B and C row-major, rows at multiples of 16
    bytes, and the workspace of a ``Collection``."""

    packages: int = 0
    b: int = 0
    c: int = 0
    workspace: int = 0


@dataclass(frozen=True, eq=False)
class SparseProductProblem(Problem):
    """C (M x N, int32) = A (M x K, ``Compressed``) x B (K x N, int8 or uint8). Values of A are int8, uint8 or int16.

    ``order``: in which blocks of rows are handed out to the cores. ``dynamic``: cores take them from the tile scheduler; else, and with
    ``resident``, they are dealt before the start (``hand_out``). ``resident``: B is in the factor registers before the
    run that counts. Sums stay in shared memory, each block in the place of the fourth one before it. ``tile``: columns of a tile, whose
    last one may have fewer; all of B without it. A tile takes a panel, or several where the lanes do not hold it; it begins in memory at a
    multiple of 16 columns (``places``). ``sub_warps``: panels of few columns may be on sub-warps. ``collect``: core 0 writes the result of
    all cores.
    """

    a: Compressed
    columns: int
    b_signed: bool = True
    order: str = "natural"
    dynamic: bool = True
    resident: bool = False
    tile: int | None = None
    sub_warps: bool = True
    collect: bool = False

    @property
    def name(self) -> str:
        return "spmm"

    @property
    def tile_columns(self) -> int:
        """Columns of every tile but the last one."""
        return min(self.tile or self.columns, self.columns)

    @property
    def places(self) -> np.ndarray:
        """Column in memory of each column of B, and of C."""
        tiles, within = np.divmod(np.arange(self.columns), self.tile_columns)
        return tiles * round_up(self.tile_columns, BANK_BYTES) + within

    @property
    def columns_in_memory(self) -> int:
        """Columns of B in memory, with those between tiles."""
        return int(self.places[-1]) + 1


@dataclass(frozen=True)
class Panel(PanelPart):
    """Columns ``first_column`` to ``first_column + columns`` - 1 of B in memory with the rows of ``runs``. ``adds``: the sums are added to
    those of the panels before. ``strips``: log2 of the sub-warps.
    """

    first_column: int = 0
    columns: int = 0
    adds: bool = False
    strips: int = 0


class SparseProductKernel(PanelKernel):
    """Sparse product: a launch for each panel of B. Sums of later panels of the same columns are added in the L2 cache.

    Registers r0 to r15 of all threads and the factor registers are used.
    """

    problem: SparseProductProblem

    def __init__(self, cfg: Config, problem: SparseProductProblem) -> None:
        super().__init__(cfg, problem)
        self.keeps_panels = problem.resident
        self._groups: dict[tuple[Panel, int, int], Compressed] = {}        # of ``_packed``
        self.row_bytes = _RESULT_BYTES * cfg.sparse_columns         # of sums
        self.b_pitch, self.c_pitch = (round_up(problem.columns_in_memory * nbytes, BANK_BYTES) for nbytes in (1, _RESULT_BYTES))
        if len(problem.a.columns_met) > cfg.sparse_rows and not cfg.reductions:
            raise UsageError(f"a must have non-zeros in at most {cfg.sparse_rows} columns in configuration {cfg.name} "
                             f"({lacking(cfg, 'reductions')}), not {len(problem.a.columns_met)}")
        self._layout()

    def _layout(self) -> None:
        """Places in shared memory: records of the panel's chunks, packages, sums and, before them, chunks of B."""
        cfg = self.cfg
        self.whole = ROW_BYTES // min(ROW_BYTES, cfg.sparse_columns)        # rows of B of a row of shared memory
        wanted = min(_CHUNK_BYTES * min(cfg.cores, 2), cfg.shared_bytes // 16)
        self.chunk_rows = round_up(max(1, wanted // cfg.sparse_columns), self.whole)
        chunk = self.chunk_rows * cfg.sparse_columns
        records = round_up(JOB_BYTES * (max(-(-cfg.sparse_rows // self.chunk_rows), _CHUNKS) + 8), ROW_BYTES)
        self.most_rows = max(1, self._most_sums(cfg.shared_bytes // 8) // self.row_bytes)
        sums = self.most_rows * self.row_bytes
        self.package_room = (cfg.shared_bytes - records - SLOTS * sums) // SLOTS // ROW_BYTES * ROW_BYTES
        if self.package_room < ROW_BYTES:
            raise Unfit("shared_memory_kib")
        self._place_slots(records, self.package_room, sums)
        count = min(PACKAGE_BARRIERS - CHUNK_BARRIERS, SLOTS * sums // chunk)
        if not count:
            raise Unfit("shared_memory_kib")
        self.chunks_at = [self.sums_at[0] + slot * chunk for slot in range(count)]

    @cached_property
    def panels(self) -> list[Panel]:
        """``Panel``s, those of the same columns one after the other. Without a non-zero the first one of each remains."""
        problem, cfg, panels = self.problem, self.cfg, []
        met = problem.a.columns_met
        cuts = [met_runs(met[start:start + cfg.sparse_rows], cfg.sparse_rows) for start in range(0, max(len(met), 1), cfg.sparse_rows)]
        parts = [(runs, renumbered(problem.a, runs)) for runs in cuts]
        for first, columns in self._cut_columns():
            for number, (runs, part) in enumerate(parts):
                panels.append(Panel(runs, part, first, columns, number > 0, self._strips(part, columns)))
        return panels

    def _cut_columns(self) -> list[tuple[int, int]]:
        """First column in memory and number of columns of each panel: tiles, cut where the lanes do not hold them."""
        columns, tile, most, places = self.problem.columns, self.problem.tile_columns, self.cfg.sparse_columns, self.problem.places
        cuts = []
        for start in range(0, columns, tile):
            end = min(start + tile, columns)
            cuts += [(int(places[first]), min(most, end - first)) for first in range(start, end, most)]
        return cuts

    def _strips(self, a: Compressed, columns: int) -> int:
        """log2 of the sub-warps that take the fewest cycles: the more, the more elements fill short rows."""
        most = most_strips(self.cfg, columns) if self.problem.sub_warps else 0
        return min(range(most + 1), key=lambda strips: self._cycles(a, 0, a.shape[0], strips).sum())

    def _cycles(self, a: Compressed, first: int, rows: int, strips: int) -> np.ndarray:
        """Cycles of each row, or group of rows on sub-warps, of some rows."""
        cfg = self.cfg
        elements = group_elements(a.lengths[first:first + rows], strips, cfg.sparse_pairs)
        read = elements // (ELEMENTS_OF_WORD // 2 if a.data.itemsize == 2 else ELEMENTS_OF_WORD)      # by words of shared memory
        return np.maximum(np.maximum(elements // (cfg.sparse_pairs << strips), read), cfg.thread_groups)

    def expected(self, panel: Panel) -> tuple[list[Block], list[int]]:
        """See ``PanelKernel``."""
        blocks = self._blocks(panel)
        costs = [int(self._cycles(panel.a, *block, panel.strips).sum()) + _BLOCK_CYCLES for block in blocks]
        return blocks, costs

    def package_bytes(self, panel: Panel, block: Block) -> int:
        """See ``PanelKernel``."""
        return package_bytes(*self._packed(panel, *block), sub_warps=panel.strips > 0)

    def _packed(self, panel: Panel, first: int, rows: int) -> tuple[Compressed, int, int]:
        """Matrix and rows of it of which a package is made: groups of rows on sub-warps."""
        if not panel.strips:
            return panel.a, first, rows
        key = panel, first, rows
        if key not in self._groups:
            self._groups[key] = row_groups(panel.a, first, rows, panel.strips, self.cfg.sparse_pairs)
        return self._groups[key], 0, self._groups[key].shape[0]

    def _fitting(self, panel: Panel, first: int, rows: int) -> Block:
        """At most so many rows, from ``first`` on, whose package has room. Raises ``Unfit`` where one row has none."""
        while rows > 1 and self.package_bytes(panel, Block(first, rows)) > self.package_room:
            rows //= 2
        if self.package_bytes(panel, Block(first, rows)) > self.package_room:
            raise Unfit("shared_memory_kib")
        return Block(first, rows)

    def _blocks(self, panel: Panel) -> list[Block]:
        """Blocks of rows whose packages and sums have room: small ones, the smallest first and last, as their sums are stored while others
        are made; with ``resident`` each is twice as large as the one before. Raises ``Unfit`` where a row has no room."""
        blocks: list[Block] = []
        row, m, cores = 0, panel.a.shape[0], self.cfg.cores
        least, last, most = (rows << panel.strips for rows in (_LEAST_ROWS << self.collects, _LAST_ROWS, self.most_rows))
        usual = min(max(least, -(-m // (_BLOCKS * cores))), most)
        while row < m:
            left = m - row
            rows = min(usual, max(last, left // (2 * cores)))
            if self.problem.resident:
                rows = 2 * blocks[-1].rows if blocks else 0
            blocks.append(self._fitting(panel, row, min(last if len(blocks) < cores else rows, most, left)))
            row += blocks[-1].rows
        return blocks

    def _chunks(self, panel: Panel) -> list[Block]:
        """Runs of rows of B of the panel, the last ones short: the first product waits for them."""
        whole, least = self.whole << panel.strips, _LEAST_ROWS << panel.strips
        usual = min(self.chunk_rows << panel.strips, max(least, round_up(-(-panel.rows // _CHUNKS), whole)))
        chunks, row = [], 0
        while row < panel.rows:
            left = panel.rows - row
            rows = min(usual, max(least, round_up(-(-left // 2), whole)), left)
            chunks.append(Block(row, rows))
            row += rows
        return chunks

    def _records(self, part: Part) -> list[np.ndarray]:
        return [panel_record(chunk.first, chunk.rows, self.chunks_at[number % len(self.chunks_at)], strips=part.panel.strips,
                             sub_warps=part.panel.strips > 0) for number, chunk in enumerate(part.chunks)]

    def package(self, panel: Panel, block: Block, slot: int) -> np.ndarray:
        """See ``PanelKernel``."""
        return rows_package(*self._packed(panel, *block), self.packages_at[slot], self.sums_at[slot], max(panel.rows, 1),
                            unsigned_panel=int(not self.problem.b_signed), strips=panel.strips, sub_warps=int(panel.strips > 0))

    def chunk_copy(self, panel: Panel, chunk: Block, slot: int) -> list[str]:
        """See ``PanelKernel``: a copy for each run of rows of B."""
        width, to, barrier = self.cfg.sparse_columns >> panel.strips, self.chunks_at[slot], CHUNK_BARRIERS + slot
        blocks = -(-panel.columns // BANK_BYTES)
        dense = self.b_pitch == width and blocks * BANK_BYTES == width        # rows follow each other without a gap, here and there
        lines = [f"barrier.expect b{barrier}, {chunk.rows * blocks * BANK_BYTES}"]
        if not dense:
            lines += [f"umov ur{TO + 1}, {width}", f"umov ur{FROM + 1}, {self.b_pitch}", f"umov ur{SIZE}, {blocks}"]
        for run in panel.sources(chunk):
            lines += [f"umov ur{TO}, {to}", f"uadd ur{FROM}, ur{_B}, {run.first * self.b_pitch}"]
            if dense:
                lines.append(f"copy_block.shared.global ur{TO}, ur{FROM}, {run.rows * blocks}, b{barrier}")
            else:
                lines += [f"umov ur{SIZE + 1}, {run.rows}", f"copy_rows.shared.global ur{TO}, ur{FROM}, ur{SIZE}, b{barrier}"]
            to += run.rows * width
        return lines

    def block_copy(self, panel: Panel, block: Block, slot: int, offset: int, size: int) -> list[str]:
        """See ``PanelKernel``: its package."""
        return block_copy(PACKAGES, offset, self.packages_at[slot], size, PACKAGE_BARRIERS + slot)

    def sum_bytes(self, panel: Panel, block: Block) -> int:
        """See ``PanelKernel``."""
        return round_up(block.rows, 1 << panel.strips) * (self.row_bytes >> panel.strips)

    def block_store(self, panel: Panel, block: Block, address: int) -> list[str]:
        """See ``PanelKernel``: sums to C; those of later panels are added. Nothing of a ``resident`` product."""
        if self.problem.resident:
            return []
        how, pitch = ".add.u32" if panel.adds else "", self.row_bytes >> panel.strips
        blocks = -(-panel.columns * _RESULT_BYTES // BANK_BYTES)
        lines = [f"uadd ur{STORE_TO}, ur{_C}, {block.first * self.c_pitch}", f"umov ur{STORE_FROM}, {address}"]
        if self.c_pitch == pitch and blocks * BANK_BYTES == pitch:
            lines.append(f"copy_block.global.shared{how} ur{STORE_TO}, ur{STORE_FROM}, {block.rows * blocks}")
        else:
            lines += [f"umov ur{STORE_TO + 1}, {self.c_pitch}", f"umov ur{STORE_FROM + 1}, {pitch}",
                      f"umov ur{STORE_SIZE}, {blocks}", f"umov ur{STORE_SIZE + 1}, {block.rows}",
                      f"copy_rows.global.shared{how} ur{STORE_TO}, ur{STORE_FROM}, ur{STORE_SIZE}"]
        return [*lines, "commit_group"]

    def launches(self, operands: SparseOperands = SparseOperands()) -> list[Launch]:
        """One ``Launch`` for each of ``parts``; with ``resident`` those that load a panel do not count."""
        launches, packages = [], operands.packages
        for part, program in zip(self.parts, self.programs):
            panel, elements = part.panel, sum(element_count(part.panel.a, block) for blocks in part.blocks for block in blocks)
            launches.append(Launch(program, {
                0: packages, 1: operands.b + panel.first_column,
                2: operands.c + panel.first_column * _RESULT_BYTES, WORKSPACE: operands.workspace}, elements * panel.columns,
                counted=not (self.problem.resident and part.chunks)))
            packages += self.part_bytes(part)
        return launches
