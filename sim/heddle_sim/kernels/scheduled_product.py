"""Sparse product of several cores that take blocks of rows of A from the tile scheduler [S4.7].

Each core has to take its part of B into its factor registers before it multiplies, at the rate of its port. Where that would take long,
cores share the columns of B too: each takes fewer of them, and its PEs are sub-warps, so that it makes as many sums in a cycle. Tiles are
dealt in turn to the cores of a share then.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from heddle.isa.tensor_descriptor import TensorFormat

from ..golden.tensor_fields import TensorFields
from ..sparse.sub_warps import most_strips
from .panel_kernel import Part
from .parts.sparse_schedule import Block
from .parts.tile_loop import share_lines, take_turn
from .parts.tiling import round_up
from .scheduled_tiles import LEAST_TILE_CYCLES, MOST_BOX, TILES, ScheduledTiles
from .sparse_product import B_ARGUMENT, Panel, SparseOperands, SparseProductKernel

__all__ = ["ScheduledProductKernel"]

_SHARES = 2             # of the columns of a panel; with four, each of which reads all of A, products took longer
_LEAST_GAIN = 0.1       # of the expected cycles, which leave out that A is read for each share, and tiles that are dealt in turn


class ScheduledProductKernel(ScheduledTiles, SparseProductKernel):
    """``SparseProductKernel`` whose tiles the cores take at run time, or whose columns they share where that is expected to be faster."""

    @cached_property
    def panels(self) -> list[Panel]:
        """See ``SparseProductKernel``."""
        return [self._shared(panel) for panel in self._whole_panels()]

    def _shared(self, panel: Panel) -> Panel:
        """A panel, with shares where they fill the PEs of a sub-warp and are expected to be faster."""
        columns = self.cfg.sparse_columns
        strips = [strips for strips in range(most_strips(self.cfg, 1) + 1) if panel.columns == _SHARES * (columns >> strips)]
        if not (strips and self.problem.sub_warps) or self.cfg.cores % _SHARES:
            return panel
        shared = replace(panel, shares=_SHARES, strips=strips[0])
        return shared if self._expected_cycles(shared) < (1 - _LEAST_GAIN) * self._expected_cycles(panel) else panel

    def _expected_cycles(self, panel: Panel) -> int:
        """Until the panel is loaded and the rows are multiplied."""
        load = panel.share_columns * panel.rows // self.cfg.axi_bytes
        work = int(self._cycles(panel.a, 0, panel.a.shape[0], panel.strips).sum()) // self.turns(panel)
        return load + work

    def turns(self, panel: Panel) -> int:
        """See ``ScheduledTiles``: one of each core of a share."""
        return self.cfg.cores // panel.shares

    def take_lines(self, panel: Panel) -> tuple[list[str], list[str]]:
        """See ``ScheduledTiles``."""
        cores = self.cfg.cores, panel.shares
        return (share_lines(*cores, panel.share_columns, B_ARGUMENT), take_turn(*cores)) if panel.shares > 1 else super().take_lines(panel)

    def _blocks(self, panel: Panel) -> list[Block]:
        """See ``SparseProductKernel``: rows whose cycles are about the same; towards the end fewer."""
        together, count = 1 << panel.strips, panel.a.shape[0]
        ends, turns = np.cumsum(self._cycles(panel.a, 0, count, 0)) // together, self.turns(panel)
        usual = max(LEAST_TILE_CYCLES, int(ends[-1]) // (TILES * turns))
        most, blocks, row = min(self.most_rows << panel.strips, MOST_BOX), list[Block](), 0
        while row < count:
            before = int(ends[row - 1]) if row else 0
            wanted = max(LEAST_TILE_CYCLES, min(usual, (int(ends[-1]) - before) // (2 * turns)))
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
