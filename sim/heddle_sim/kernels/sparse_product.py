"""Product of a sparse and a dense matrix on the sparse engine: a panel of B goes to factor registers, blocks of rows of A pass by.

Packages of A arrive in two slots of shared memory, sums leave from two others, while the engine works on the block between them. Chunks of
B come before, through slots where the sums will be. Sizes and addresses are known to the host, so they stand in the program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, ROW_BYTES
from heddle.errors import UsageError
from heddle.isa.sparse_job import JOB_BYTES

from ..isa.features import lacking
from ..sparse.compressed import Compressed
from ..sparse.hand_out import hand_out
from ..sparse.job import package_bytes, panel_record, rows_package
from .kernel import Kernel
from .parts.fitting import Region, Unfit, check_regions, check_tensors
from .parts.launch import Launch
from .parts.sparse_schedule import Block, CorePlan, core_lines
from .parts.text import KernelText
from .problem import Problem

__all__ = ["Panel", "SparseOperands", "SparseProductKernel", "SparseProductProblem"]

_SLOTS = 2              # of packages, and of sums
_FIRST_ROWS = 8         # of the first block and of the last one: nothing runs beside its copy
_MOST_ROWS = 64
_CHUNK_BYTES = 4096     # of B
_BLOCK_CYCLES = 14      # between two blocks
_RESULT_BYTES = 4


@dataclass(frozen=True)
class SparseOperands:
    """Addresses in global memory: ``packages`` of ``SparseProductKernel.packages``, B and C row-major, rows at multiples of 16 bytes."""

    packages: int = 0
    b: int = 0
    c: int = 0


@dataclass(frozen=True, eq=False)
class SparseProductProblem(Problem):
    """C (M x N, int32) = A (M x K, ``Compressed``) x B (K x N, int8 or uint8). Values of A are int8, uint8 or int16.

    ``order`` and ``dynamic``: how blocks of rows are dealt to cores (``hand_out``). ``resident``: A lies in shared memory and C stays
    there.
    """

    a: Compressed
    columns: int
    b_signed: bool = True
    order: str = "natural"
    dynamic: bool = True
    resident: bool = False

    @property
    def name(self) -> str:
        return "spmm"

    @property
    def macs(self) -> int:
        """Multiply-accumulates of non-zeros."""
        return self.a.elements * self.columns


@dataclass(frozen=True)
class Panel:
    """Columns ``first_column`` to ``first_column + columns`` - 1 of B with the rows ``first_row`` to ``first_row + rows`` - 1.

    ``a``: the part of A that meets these rows, whose indices count from ``first_row``.
    """

    first_column: int
    columns: int
    first_row: int
    rows: int
    a: Compressed = field(repr=False)


class SparseProductKernel(Kernel):
    """Sparse product: a launch for each panel of B. Sums of later panels of the same columns are added in the L2 cache.

    Registers r0 to r15 of all threads and the factor registers are used.
    """

    problem: SparseProductProblem

    def __init__(self, cfg: Config, problem: SparseProductProblem) -> None:
        super().__init__(cfg, problem)
        if not cfg.sparse:
            raise UsageError(f"configuration {cfg.name} must have sparse for spmm ({lacking(cfg, 'sparse')})")
        check_tensors(cfg, problem.name)
        self.row_bytes = _RESULT_BYTES * cfg.sparse_columns         # of sums
        self.b_pitch = -(-problem.columns // BANK_BYTES) * BANK_BYTES
        self.c_pitch = -(-problem.columns * _RESULT_BYTES // BANK_BYTES) * BANK_BYTES
        if problem.a.shape[1] > cfg.sparse_rows and not cfg.reductions:
            raise UsageError(f"a must have at most {cfg.sparse_rows} columns in configuration {cfg.name} ({lacking(cfg, 'reductions')}), "
                             f"not {problem.a.shape[1]}")
        self._layout()

    def _layout(self) -> None:
        """Places in shared memory: records of the panel's chunks, packages, sums and, before them, chunks of B."""
        cfg = self.cfg
        self.chunk_rows = max(1, min(_CHUNK_BYTES // cfg.sparse_columns, cfg.shared_bytes // 16 // cfg.sparse_columns))
        whole = ROW_BYTES // min(ROW_BYTES, cfg.sparse_columns)     # rows of B of a row of shared memory
        self.chunk_rows = -(-self.chunk_rows // whole) * whole
        chunk = self.chunk_rows * cfg.sparse_columns
        records = -(-JOB_BYTES * (-(-cfg.sparse_rows // self.chunk_rows) + 8) // ROW_BYTES) * ROW_BYTES
        self.most_rows = max(1, min(_MOST_ROWS, cfg.shared_bytes // 4 // self.row_bytes))
        sums = self.most_rows * self.row_bytes
        self.package_room = (cfg.shared_bytes - records - _SLOTS * sums) // _SLOTS // ROW_BYTES * ROW_BYTES
        if self.package_room < ROW_BYTES:
            raise Unfit("shared_memory_kib")
        self.packages_at = [records + slot * self.package_room for slot in range(_SLOTS)]
        self.sums_at = [records + _SLOTS * self.package_room + slot * sums for slot in range(_SLOTS)]
        count = min(4, _SLOTS * sums // chunk)
        if not count:
            raise Unfit("shared_memory_kib")
        self.chunks_at = [self.sums_at[0] + slot * chunk for slot in range(count)]
        check_regions(cfg, [Region("records", 0, records), *(Region(f"package {slot}", at, self.package_room)
                                                             for slot, at in enumerate(self.packages_at)),
                            *(Region(f"sums {slot}", at, sums) for slot, at in enumerate(self.sums_at))])

    @cached_property
    def panels(self) -> list[Panel]:
        """``Panel``s, those of the same columns one after the other. Without a non-zero the first one of each remains."""
        problem, cfg, panels = self.problem, self.cfg, []
        m, k = problem.a.shape
        for first_column in range(0, problem.columns, cfg.sparse_columns):
            columns = min(cfg.sparse_columns, problem.columns - first_column)
            for first_row in range(0, max(k, 1), cfg.sparse_rows):
                rows = min(cfg.sparse_rows, k - first_row)
                part = _columns_of(problem.a, first_row, rows) if k > cfg.sparse_rows else problem.a
                if first_row == 0 or part.elements:
                    panels.append(Panel(first_column, columns, first_row, rows, part))
        return panels

    @cached_property
    def plans(self) -> list[list[CorePlan]]:
        """For each panel the ``CorePlan`` of each core."""
        return [self._plan(panel) for panel in self.panels]

    def _plan(self, panel: Panel) -> list[CorePlan]:
        blocks = self._blocks(panel.a)
        lengths = panel.a.indptr.astype(np.int64)
        pairs = -(-np.diff(lengths) // self.cfg.sparse_pairs)
        drain = self.cfg.threads // 8
        costs = [int(np.maximum(pairs[first:first + rows], drain).sum()) + _BLOCK_CYCLES for first, rows in blocks]
        dealt = hand_out(costs, self.problem.order, self.cfg.cores, self.problem.dynamic)
        return [CorePlan(self._chunks(panel), [blocks[run.tile] for run in core]) for core in dealt.cores]

    def _blocks(self, a: Compressed) -> list[Block]:
        """Blocks of rows whose packages and sums have room: small ones first and last. Raises ``Unfit`` where a row has none."""
        blocks, row, m, cores = [], 0, a.shape[0], self.cfg.cores
        wanted = _FIRST_ROWS
        while row < m:
            left = m - row
            rows = min(wanted, self.most_rows, max(_FIRST_ROWS, left // (2 * cores)), left)
            while rows > 1 and package_bytes(a, row, rows) > self.package_room:
                rows //= 2
            if package_bytes(a, row, rows) > self.package_room:
                raise Unfit("shared_memory_kib")
            blocks.append(Block(row, rows))
            row, wanted = row + rows, (2 * wanted if len(blocks) % cores == 0 else wanted)
        return blocks

    def _chunks(self, panel: Panel) -> list[Block]:
        """Runs of rows of B of the panel, the last ones short: the first product waits for them."""
        whole = ROW_BYTES // min(ROW_BYTES, self.cfg.sparse_columns)
        chunks, row = [], 0
        while row < panel.rows:
            left = panel.rows - row
            rows = min(self.chunk_rows, max(8, -(-left // 2 // whole) * whole), left)
            chunks.append(Block(row, rows))
            row += rows
        return chunks

    @cached_property
    def packages(self) -> np.ndarray:
        """Records of the chunks and packages of all blocks, uint8, as they are to lie in global memory."""
        return np.concatenate([part for parts in self._packages for part in parts] or [np.zeros(BANK_BYTES, np.uint8)])

    @cached_property
    def _packages(self) -> list[list[np.ndarray]]:
        """For each panel its records, and the packages of each core in order."""
        return [self._of_panel(panel, plans) for panel, plans in zip(self.panels, self.plans)]

    def _of_panel(self, panel: Panel, plans: list[CorePlan]) -> list[np.ndarray]:
        chunks = plans[0].chunks
        parts = [panel_record(chunk.first, chunk.rows, self.chunks_at[number % len(self.chunks_at)])
                 for number, chunk in enumerate(chunks)]
        for plan in plans:
            for number, block in enumerate(plan.blocks):
                slot = number % _SLOTS
                parts.append(rows_package(panel.a, block.first, block.rows, self.packages_at[slot], self.sums_at[slot],
                                          max(panel.rows, 1), unsigned_panel=int(not self.problem.b_signed)))
        return parts

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        return [self._text(panel, plans) for panel, plans in zip(self.panels, self.plans)]

    def _text(self, panel: Panel, plans: list[CorePlan]) -> KernelText:
        lines, cores, sizes = [], self.cfg.cores, iter([len(part) for part in self._of_panel(panel, plans)])
        if cores > 1:
            lines.append("umov ur8, %core")
            for core in range(1, cores):
                lines += [f"usetp.eq up0, ur8, {core}", f"@up0 bra core_{core}"]
        offset = sum(next(sizes) for _ in plans[0].chunks)
        for core, plan in enumerate(plans):
            taken = [next(sizes) for _ in plan.blocks]
            lines += [f"core_{core}:", *core_lines(self, panel, plan, offset, taken), "halt"]
            offset += sum(taken)
        return KernelText.of(lines)

    def launches(self, operands: SparseOperands = SparseOperands()) -> list[Launch]:
        """One ``Launch`` for each panel."""
        launches, packages = [], operands.packages
        for panel, parts, program in zip(self.panels, self._packages, self.programs):
            launches.append(Launch(program, {
                0: packages, 1: operands.b + panel.first_row * self.b_pitch + panel.first_column,
                2: operands.c + panel.first_column * _RESULT_BYTES}, panel.a.elements * panel.columns))
            packages += sum(map(len, parts))
        return launches


def _columns_of(a: Compressed, first: int, count: int) -> Compressed:
    """The elements of some columns, whose numbers then count from ``first``."""
    kept = (a.indices >= first) & (a.indices < first + count)
    pointers = np.concatenate([[0], np.cumsum(np.bincount(a.rows[kept], minlength=a.shape[0]))]).astype(np.int32)
    return Compressed(pointers, a.indices[kept] - first, a.data[kept], (a.shape[0], count))
