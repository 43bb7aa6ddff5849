"""Sampled product on the sparse engine: columns of B go to factor registers, rows of A pass by, sums are made where a mask has elements.

Packages of the mask and rows of A, or strips of 16 rows where A lies by columns, arrive in four slots of shared memory. Sums leave from
four others. Meanwhile the engine works on the block between them. Chunks of B come before, through slots where the sums will be. Sizes
and addresses are known to the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, ROW_BYTES
from heddle.errors import UsageError
from heddle.isa.sparse_job import JOB_BYTES, STRIP_ROWS, SUM_BYTES
from heddle.parameters.sparse import OPERAND_WORDS

from ..isa.features import lacking
from ..sparse.compressed import Compressed
from ..sparse.job import panel_record, samples_bytes, samples_package
from .panel_kernel import SLOTS, PanelKernel, PanelPart, Part, element_count, met_runs, renumbered
from .parts.collection import WORKSPACE
from .parts.fitting import Unfit
from .parts.launch import Launch
from .parts.sparse_schedule import CHUNK_BARRIERS, PACKAGE_BARRIERS, PACKAGES, STORE_FROM, STORE_TO, Block, block_lines, strip_lines
from .parts.tiling import round_up
from .problem import Problem

__all__ = ["SampledOperands", "SampledPanel", "SampledProductKernel", "SampledProductProblem"]

_LEAST_ROWS, _LAST_ROWS = 4, 2      # of a block: its instructions take about 30 cycles; of the first and the last
_BLOCKS = 32            # of a core: each has instructions of its own
_LEAST_COLUMNS = 8      # of a chunk
_BLOCK_CYCLES = 14      # between two blocks
_LOAD_CYCLES = 6        # of a row of A beside its words
_STRIP_LOAD = 4         # loads of a row by columns, eight bytes a cycle, for each of 32 bytes a cycle
_PAIR_WORDS = 4         # of rows by columns that are loaded two at a time, at most
_B, _C, _A = 1, 2, 3    # uniform registers of the arguments
_SUMS_OF_WORD = BANK_BYTES // SUM_BYTES


@dataclass(frozen=True)
class SampledOperands:
    """Addresses in global memory: ``packages`` of ``SampledProductKernel.packages``, A and B as ``arranged``, sums, and the workspace of
    a ``Collection``."""

    packages: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    workspace: int = 0


@dataclass(frozen=True, eq=False)
class SampledProductProblem(Problem):
    """Sums of A (M x K) x B (K x N) at the elements of ``mask`` (M x N, ``Compressed``), times its values. A and B are int8 or uint8.

    ``inner``: K, at least 1. ``by_columns``: A lies as an array of K x M. ``pattern``: the values count as 1. ``order`` and ``dynamic``:
    how blocks of rows are handed out to cores. ``collect``: core 0 writes the sums of all cores.
    """

    mask: Compressed
    inner: int
    a_signed: bool = True
    b_signed: bool = True
    by_columns: bool = False
    pattern: bool = False
    order: str = "natural"
    dynamic: bool = True
    collect: bool = False

    @property
    def name(self) -> str:
        return "sddmm"


@dataclass(frozen=True)
class SampledPanel(PanelPart):
    """Columns of B of some runs, in one part of K.

    ``words``: factor words of a column. ``part``: number of the part of K. ``blocks``: of rows of the mask that have elements;
    ``sums``: number of the first sum of each of them in global memory. Sums of parts behind the first one are added.
    """

    words: int = 1
    part: int = 0
    blocks: tuple[Block, ...] = ()
    sums: dict[Block, int] = field(default_factory=dict)

    @property
    def adds(self) -> bool:
        """The sums are added to those of the parts before."""
        return self.part > 0


class SampledProductKernel(PanelKernel):
    """Sampled product: a launch for each panel of columns and each part of K. Sums of later parts of K are added in the L2 cache.

    Registers r0 to r15 of all threads and the factor registers are used.
    """

    problem: SampledProductProblem
    sum_alignment = _SUMS_OF_WORD       # sums of a block begin at a multiple of it in global memory

    def __init__(self, cfg: Config, problem: SampledProductProblem) -> None:
        super().__init__(cfg, problem)
        self.word_bytes = cfg.threads * cfg.dot     # of a factor word of all PEs
        self.first_block_alone = problem.by_columns
        self.words = -(-problem.inner // self.word_bytes)
        most = min(OPERAND_WORDS, cfg.factor_words)
        if self.words > most and not cfg.reductions:
            raise UsageError(f"a must have at most {most * self.word_bytes} columns in configuration {cfg.name} "
                             f"({lacking(cfg, 'reductions')}), not {problem.inner}")
        fitting = next((words for words in range(min(most, self.words), 0, -1) if self._has_layout(words)), 0)
        if not fitting or (self.words > fitting and not cfg.reductions):
            raise Unfit("shared_memory_kib")
        self.part_words = [min(fitting, self.words - first) for first in range(0, self.words, fitting)]

    def _has_layout(self, words: int) -> bool:
        """Places in shared memory: records of chunks, packages with rows or a strip of A, sums and, before them, chunks of B. Whether parts
        of K of ``words`` factor words a column have room in them."""
        cfg, widest = self.cfg, words * self.word_bytes
        sums = self._most_sums(cfg.shared_bytes * 3 // 8 // SLOTS) // ROW_BYTES * ROW_BYTES
        if widest > sums:
            return False
        self.chunk_room = sums
        chunks = -(-cfg.factor_words * self.word_bytes // min(sums, _LEAST_COLUMNS * widest)) + 8
        records = round_up(JOB_BYTES * min(chunks, 256), ROW_BYTES)
        self.most_chunks = records // JOB_BYTES
        self.sums_room = sums // SUM_BYTES
        self.load_room = (cfg.shared_bytes - records - SLOTS * sums) // SLOTS // ROW_BYTES * ROW_BYTES
        left = widest * (STRIP_ROWS if self.problem.by_columns else 1)
        if self.load_room < max(left * 3 // 2, ROW_BYTES):      # a third is left for the package
            return False
        self._place_slots(records, self.load_room, sums)
        self.chunks_at = self.sums_at
        return True

    @cached_property
    def panels(self) -> list[SampledPanel]:
        """Panels of columns that have an element, each with all parts of K in turn. Without an element one that does nothing."""
        mask, panels, place = self.problem.mask, list[SampledPanel](), 0
        met, most = mask.columns_met, self.cfg.factor_words // self.part_words[0]
        for start in range(0, max(len(met), 1), most):
            runs = met_runs(met[start:start + most], most)
            part = renumbered(mask, runs)
            blocks, sums = self._blocks(part), dict[Block, int]()
            for block in blocks:
                sums[block] = place
                place += round_up(element_count(part, block), self.sum_alignment)
            panels += [SampledPanel(runs, part, words, number, tuple(blocks), sums) for number, words in enumerate(self.part_words)]
        return panels

    @cached_property
    def places(self) -> np.ndarray:
        """Number of the sum in global memory of each element of the mask, int64."""
        mask, places = self.problem.mask, np.zeros(self.problem.mask.elements, np.int64)
        numbers = np.arange(mask.elements)
        for panel in self.panels:
            if panel.part == 0:
                own = renumbered(mask.with_data(numbers), panel.runs).data
                for block, place in panel.sums.items():
                    first, last = panel.a.indptr[block.first], panel.a.indptr[block.first + block.rows]
                    places[own[first:last]] = place + np.arange(last - first)
        return places

    @property
    def sums(self) -> int:
        """Sums in global memory, those that only fill a word of 16 bytes included; at least one word."""
        ends = [place + round_up(element_count(panel.a, block), self.sum_alignment)
                for panel in self.panels for block, place in panel.sums.items()]
        return max([self.sum_alignment, *ends])

    @property
    def pitch(self) -> int:
        """Bytes of a row of A as it lies by columns in global memory."""
        return round_up(self.problem.mask.shape[0], STRIP_ROWS)

    def arranged(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """A (M x K, by columns K x M) and B (N x K) as they are to lie in global memory: one part of K after the other, each with zeros
        behind its end; by columns rows of A are filled to ``pitch``."""
        a, b = arrays
        if self.problem.by_columns:
            a = np.pad(a, ((0, 0), (0, self.pitch - a.shape[1])))
            left = [np.ascontiguousarray(part.T) for part in self._parts_of(a.T)]
        else:
            left = self._parts_of(a)
        return [np.concatenate([part.reshape(-1) for part in parts]) for parts in (left, self._parts_of(b))]

    def _parts_of(self, array: np.ndarray) -> list[np.ndarray]:
        """Parts of K of an array (rows x K), each with zeros behind its end."""
        most, parts = self.part_words[0] * self.word_bytes, []
        for number, words in enumerate(self.part_words):
            piece = array[:, number * most:(number + 1) * most]
            parts.append(np.pad(piece, ((0, 0), (0, words * self.word_bytes - piece.shape[1]))))
        return parts

    def _blocks(self, a: Compressed) -> list[Block]:
        """Blocks of rows whose packages, rows of A and sums have room, the first and the last ones small; none without an element. Raises
        ``Unfit`` where a row has no room."""
        blocks: list[Block] = []
        m, cores, row = a.shape[0], self.cfg.cores, 0
        usual = max(_LEAST_ROWS, -(-m // (_BLOCKS * cores)))
        while row < m:
            if a.indptr[row] == a.indptr[row + 1]:
                row += 1
                continue
            rows = min(usual, max(_LAST_ROWS, (m - row) // (2 * cores)), m - row)
            if len(blocks) < cores:
                rows = min(_LAST_ROWS, m - row)
            if self.problem.by_columns:         # a block copies its whole strip
                rows = min(STRIP_ROWS - row % STRIP_ROWS, m - row)
            while rows > 1 and not self._has_room(a, Block(row, rows)):
                rows -= 1
            if not self._has_room(a, Block(row, rows)):
                raise Unfit("shared_memory_kib")
            blocks.append(Block(row, rows))
            row += rows
        return blocks

    def _has_room(self, a: Compressed, block: Block) -> bool:
        left = self._left_rows(block) * self.part_words[0] * self.word_bytes
        return self._left_offset(a, block) + left <= self.load_room and element_count(a, block) <= self.sums_room

    def _left_rows(self, block: Block) -> int:
        """Rows of A that come with a block."""
        return STRIP_ROWS if self.problem.by_columns else block.rows

    def _left_offset(self, a: Compressed, block: Block) -> int:
        """Bytes from a package to the rows of A behind it."""
        return round_up(samples_bytes(a, *block, self.problem.pattern), ROW_BYTES)

    def expected(self, panel: SampledPanel) -> tuple[list[Block], list[int]]:
        """See ``PanelKernel``."""
        cycles = self.row_cycles(panel.a, panel.words)
        costs = [int(cycles[first:first + rows].sum()) + _BLOCK_CYCLES for first, rows in panel.blocks]
        return list(panel.blocks), costs

    def row_cycles(self, a: Compressed, words: int) -> np.ndarray:
        """Cycles of each row with ``words`` factor words a column."""
        groups, parts = self.cfg.thread_groups, self.cfg.numbers_per_word
        load = words * parts * groups * (_STRIP_LOAD if self.problem.by_columns else 1) + _LOAD_CYCLES
        if self.problem.by_columns and words <= _PAIR_WORDS:
            load //= 2
        return np.maximum(a.lengths * words, load)

    def _chunks(self, panel: SampledPanel) -> list[Block]:
        """Runs of columns of the panel, the last ones short: the first product waits for them."""
        size = panel.words * self.word_bytes
        most = max(1, self.chunk_room // size)
        chunks, column = [], 0
        while column < panel.rows and panel.blocks:
            left = panel.rows - column
            columns = min(most, max(_LEAST_COLUMNS, -(-left // 2)), left)
            chunks.append(Block(column, columns))
            column += columns
        if len(chunks) > self.most_chunks:
            raise Unfit("shared_memory_kib")
        return chunks

    def _records(self, part: Part) -> list[np.ndarray]:
        rows = part.panel.words * self.cfg.numbers_per_word        # of the panel in the factor registers, of a column
        return [panel_record(chunk.first * rows, chunk.rows * rows, self.chunks_at[number % SLOTS])
                for number, chunk in enumerate(part.chunks)]

    def package(self, panel: SampledPanel, block: Block, slot: int) -> np.ndarray:
        """See ``PanelKernel``."""
        problem = self.problem
        return samples_package(
            panel.a, *block, self.packages_at[slot], self.sums_at[slot], left=self.left_address(panel, block, slot), words=panel.words,
            panel_rows=panel.rows, pattern=int(problem.pattern), unsigned_panel=int(not problem.b_signed),
            unsigned_left=int(not problem.a_signed), left_by_columns=int(problem.by_columns),
            left_first=block.first % STRIP_ROWS if problem.by_columns else 0)

    def package_bytes(self, panel: SampledPanel, block: Block) -> int:
        """See ``PanelKernel``."""
        return samples_bytes(panel.a, *block, self.problem.pattern)

    def left_address(self, panel: SampledPanel, block: Block, slot: int) -> int:
        """Shared address of the rows of A of a block in a slot."""
        return self.packages_at[slot] + self._left_offset(panel.a, block)

    def _of_part(self, panel: SampledPanel, rows: int) -> int:
        """Offset of a part of K of ``rows`` rows in global memory."""
        return sum(self.part_words[:panel.part]) * self.word_bytes * rows

    def chunk_copy(self, panel: SampledPanel, chunk: Block, slot: int) -> list[str]:
        """See ``PanelKernel``: a copy for each run of columns of B."""
        size, to, barrier = panel.words * self.word_bytes, self.chunks_at[slot], CHUNK_BARRIERS + slot
        base, lines = self._of_part(panel, self.problem.mask.shape[1]), [f"barrier.expect b{barrier}, {chunk.rows * size}"]
        for run in panel.sources(chunk):
            lines += block_lines(_B, base + run.first * size, to, run.rows * size, barrier)
            to += run.rows * size
        return lines

    def block_copy(self, panel: SampledPanel, block: Block, slot: int, offset: int, size: int) -> list[str]:
        """See ``PanelKernel``: its package and its rows of A, or the strip that has them."""
        row, to, barrier = panel.words * self.word_bytes, self.packages_at[slot], PACKAGE_BARRIERS + slot
        left, source = self.left_address(panel, block, slot), self.left_source(panel, block)
        lines = [f"barrier.expect b{barrier}, {size + self._left_rows(block) * row}", *block_lines(PACKAGES, offset, to, size, barrier)]
        if self.problem.by_columns:
            return [*lines, *strip_lines(_A, source, self.pitch, left, row, barrier)]
        return [*lines, *block_lines(_A, source, left, block.rows * row, barrier)]

    def sum_bytes(self, panel: SampledPanel, block: Block) -> int:
        """See ``PanelKernel``."""
        return round_up(element_count(panel.a, block), _SUMS_OF_WORD) * SUM_BYTES

    def left_source(self, panel: SampledPanel, block: Block) -> int:
        """Offset of the rows of A of a block in global memory; by columns of the strip that has them."""
        if self.problem.by_columns:
            return self._of_part(panel, self.pitch) + block.first // STRIP_ROWS * STRIP_ROWS
        return self._of_part(panel, self.problem.mask.shape[0]) + block.first * panel.words * self.word_bytes

    def block_store(self, panel: SampledPanel, block: Block, address: int) -> list[str]:
        """See ``PanelKernel``: the sums of its elements; those of later parts of K are added."""
        words = self.sum_bytes(panel, block) // BANK_BYTES
        how = ".add.u32" if panel.adds else ""
        return [f"uadd ur{STORE_TO}, ur{_C}, {panel.sums[block] * SUM_BYTES}", f"umov ur{STORE_FROM}, {address}",
                f"copy_block.global.shared{how} ur{STORE_TO}, ur{STORE_FROM}, {words}", "commit_group"]

    def launches(self, operands: SampledOperands = SampledOperands()) -> list[Launch]:
        """One ``Launch`` for each of ``parts``; multiply-accumulates count once, with the first part of K."""
        return list(self._launches(operands))

    def _launches(self, operands: SampledOperands) -> Iterator[Launch]:
        packages = operands.packages
        for part, program in zip(self.parts, self.programs):
            panel = part.panel
            elements = 0 if panel.part else sum(element_count(panel.a, block) for blocks in part.blocks for block in blocks)
            yield Launch(program, {PACKAGES: packages, _B: operands.b, _C: operands.c, _A: operands.a, WORKSPACE: operands.workspace},
                         elements * self.problem.inner)
            packages += self.part_bytes(part)
