"""Sparse product of several cores that take blocks of rows of A from the tile scheduler [S4.7]."""

from __future__ import annotations

import numpy as np
from heddle.config import Config
from heddle.isa.tensor_descriptor import TensorFormat

from ..golden.tensor_fields import TensorFields
from .panel_kernel import Part
from .parts.sparse_schedule import Block
from .parts.tiling import round_up
from .scheduled_tiles import LEAST_TILE_CYCLES, MOST_BOX, TILES, ScheduledTiles
from .sparse_product import Panel, SparseOperands, SparseProductKernel, SparseProductProblem

__all__ = ["ScheduledProductKernel"]


class ScheduledProductKernel(ScheduledTiles, SparseProductKernel):
    """``SparseProductKernel`` whose tiles the cores take at run time."""

    @classmethod
    def fits(cls, cfg: Config, problem: SparseProductProblem) -> bool:
        """See ``Kernel``."""
        return not problem.resident and super().fits(cfg, problem)

    def _blocks(self, panel: Panel) -> list[Block]:
        """See ``SparseProductKernel``: rows whose cycles are about the same; towards the end fewer."""
        together, count = 1 << panel.strips, panel.a.shape[0]
        ends, cores = np.cumsum(self._cycles(panel.a, 0, count, 0)) // together, self.cfg.cores
        usual = max(LEAST_TILE_CYCLES, int(ends[-1]) // (TILES * cores))
        most, blocks, row = min(self.most_rows << panel.strips, MOST_BOX), list[Block](), 0
        while row < count:
            before = int(ends[row - 1]) if row else 0
            wanted = max(LEAST_TILE_CYCLES, min(usual, (int(ends[-1]) - before) // (2 * cores)))
            rows = max(int(np.searchsorted(ends, before + wanted, "right")) - row, 1)
            blocks.append(self._fitting(panel, row, min(round_up(rows, together), most, count - row)))
            row += blocks[-1].rows
        return blocks

    def descriptors(self, part: Part, tile: Block, operands: SparseOperands) -> list[TensorFields]:
        """See ``ScheduledTiles``: rows of C."""
        panel = part.panel
        return [TensorFields(
            format=TensorFormat.U32, address=operands.c + panel.first_column * 4 + tile.first * self.c_pitch,
            sizes=(panel.columns, tile.rows), strides=(self.c_pitch,), box=(self.cfg.sparse_columns >> panel.strips, tile.rows),
            element_strides=(1, 1))]
