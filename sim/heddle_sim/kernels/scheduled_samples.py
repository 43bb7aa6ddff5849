"""Sampled product of several cores that take blocks of rows of the mask from the tile scheduler [S4.7]."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from heddle.constants import ROW_BYTES
from heddle.isa.sparse_job import STRIP_ROWS, SUM_BYTES
from heddle.isa.tensor_descriptor import TensorFormat

from ..golden.tensor_fields import TensorFields
from ..sparse.compressed import Compressed
from .panel_kernel import Part, element_count
from .parts.fitting import Unfit
from .parts.sparse_schedule import Block
from .parts.tile_loop import TileOperand
from .sampled_product import SampledOperands, SampledPanel, SampledProductKernel
from .scheduled_tiles import LEAST_TILE_CYCLES, MOST_BOX, TILES, ScheduledTiles

__all__ = ["ScheduledSamplesKernel"]

_SUM_COLUMNS = 64       # sums of a tile are stored as rows of so many


class _Box(NamedTuple):
    """What the tiles of a panel have in common: rows of A that each loads, bytes from the package of a slot to these, most sums."""

    rows: int
    offset: int
    sums: int


class ScheduledSamplesKernel(ScheduledTiles, SampledProductKernel):
    """``SampledProductKernel`` whose tiles the cores take at run time. All tiles of a panel have as many rows, but those at the ends of
    the mask or of a strip: each loads a box of A of the same size.
    """

    sum_alignment = _SUM_COLUMNS

    def _blocks(self, a: Compressed) -> list[Block]:
        """See ``SampledProductKernel``."""
        cycles = self.row_cycles(a, self.part_words[0])
        mean = max(int(cycles.sum()) // max(a.shape[0], 1), 1)
        wanted = max(LEAST_TILE_CYCLES, int(cycles.sum()) // (TILES * self.cfg.cores))
        rows = max(1, min(wanted // mean, MOST_BOX, self.load_room // (self.part_words[0] * self.word_bytes)))
        if self.problem.by_columns:         # a tile loads its whole strip
            rows = STRIP_ROWS
        while rows:
            blocks = self._cut_rows(a, rows)
            if blocks is not None:
                return blocks
            rows //= 2
        raise Unfit("shared_memory_kib")

    def _cut_rows(self, a: Compressed, most: int) -> list[Block] | None:
        """Blocks of ``most`` rows, none without an element; None where a slot has no room for the largest package and the largest box."""
        blocks, row = list[Block](), 0
        while row < a.shape[0]:
            if a.indptr[row] == a.indptr[row + 1]:
                row += 1
                continue
            rows = min(most, a.shape[0] - row)
            if self.problem.by_columns:
                rows = min(rows, STRIP_ROWS - row % STRIP_ROWS)
            blocks.append(Block(row, rows))
            row += rows
        size = self.part_words[0] * self.word_bytes
        offset = max((self._left_offset(a, block) for block in blocks), default=0)
        left = max((self._left_rows(block) for block in blocks), default=0) * size
        sums = max((element_count(a, block) for block in blocks), default=0)
        fits = offset + left <= self.load_room and sums <= min(self.sums_room, MOST_BOX * _SUM_COLUMNS)
        return blocks if fits else None

    @cached_property
    def _boxes(self) -> dict[tuple[Block, ...], _Box]:
        """Of the panels by their runs."""
        return {panel.runs: _Box(max((self._left_rows(block) for block in panel.blocks), default=0),
                                 max((self._left_offset(panel.a, block) for block in panel.blocks), default=ROW_BYTES),
                                 max((element_count(panel.a, block) for block in panel.blocks), default=0))
                for panel in self.panels if panel.part == 0}

    def left_address(self, panel: SampledPanel, block: Block, slot: int) -> int:
        """See ``SampledProductKernel``: the same in all tiles."""
        return self.packages_at[slot] + self._boxes[panel.runs].offset

    def operand(self, part: Part) -> TileOperand:
        """See ``ScheduledTiles``: rows of A, or a strip of it."""
        panel = part.panel
        box = self._boxes[panel.runs]
        return TileOperand(box.rows * panel.words * self.word_bytes, box.offset)

    def descriptors(self, part: Part, tile: Block, operands: SampledOperands) -> list[TensorFields]:
        """See ``ScheduledTiles``: sums in rows of 64, and rows of A; by columns a strip of it."""
        panel = part.panel
        sums, most = (-(-count // _SUM_COLUMNS) for count in (element_count(panel.a, tile), self._boxes[panel.runs].sums))
        result = TensorFields(
            format=TensorFormat.U32, address=operands.c + panel.sums[tile] * SUM_BYTES, sizes=(_SUM_COLUMNS, sums),
            strides=(_SUM_COLUMNS * SUM_BYTES,), box=(_SUM_COLUMNS, most), element_strides=(1, 1))
        return [result, self._left_box(panel, tile, operands.a + self.left_source(panel, tile))]

    def _left_box(self, panel: SampledPanel, tile: Block, address: int) -> TensorFields:
        """What ``operand`` loads for a tile."""
        row = panel.words * self.word_bytes
        if self.problem.by_columns:
            unit = min(self.word_bytes, MOST_BOX)
            sizes, strides = (STRIP_ROWS, unit, row // unit), (self.pitch, unit * self.pitch)
            return TensorFields(address=address, sizes=sizes, strides=strides, box=sizes, element_strides=(1,) * 3)
        unit = self.word_bytes // 4
        return TensorFields(format=TensorFormat.U32, address=address, sizes=(unit, panel.words, tile.rows), strides=(self.word_bytes, row),
                            box=(unit, panel.words, self._boxes[panel.runs].rows), element_strides=(1,) * 3)
