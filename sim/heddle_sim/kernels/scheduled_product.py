"""Sparse product of several cores that take tiles from the tile scheduler [S4.7].

Tiles are blocks of rows of A. A table in memory has an entry for each, in the order in which they are handed out: its package, and the
descriptor of its rows of C. A core that begins to load a tile asks for the number of the next one, which is that of an entry.
"""

from __future__ import annotations

import numpy as np
from heddle.config import Config
from heddle.isa.sparse_job import JOB_BYTES
from heddle.isa.tensor_descriptor import DESCRIPTOR_BYTES, TensorFormat

from ..golden.tensor_fields import TensorFields
from ..sparse.orders import tile_order
from .panel_kernel import SLOTS, Part
from .parts.sparse_schedule import PACKAGES, RECORDS_BARRIER, Block, Load, Schedule, block_copy, chunk_loads
from .parts.text import KernelText
from .parts.tile_loop import TileTable, loop_lines, tile_load
from .parts.tiling import round_up
from .sparse_product import Panel, SparseProductKernel, SparseProductProblem

__all__ = ["ScheduledProductKernel"]

_AHEAD = 2              # tiles that a core loads beside the one that it starts
_TILES = 16             # of a core on average
_LEAST_CYCLES = 200     # of a tile: its instructions take about 100, and its descriptor nearly as long
_MOST_BOX = 256         # rows


class ScheduledProductKernel(SparseProductKernel):
    """``SparseProductKernel`` whose tiles the cores take at run time: a launch for each panel of B, with the same program on every core."""

    @classmethod
    def fits(cls, cfg: Config, problem: SparseProductProblem) -> bool:
        """See ``Kernel``."""
        return cfg.tile_scheduler and problem.dynamic and not (problem.resident or problem.collect)

    def _blocks(self, panel: Panel) -> list[Block]:
        """See ``SparseProductKernel``: rows whose cycles are about the same; towards the end fewer."""
        together, count = 1 << panel.strips, panel.a.shape[0]
        ends, cores = np.cumsum(self._cycles(panel.a, 0, count, 0)) // together, self.cfg.cores
        usual = max(_LEAST_CYCLES, int(ends[-1]) // (_TILES * cores))
        most, blocks, row = min(self.most_rows << panel.strips, _MOST_BOX), list[Block](), 0
        while row < count:
            before = int(ends[row - 1]) if row else 0
            wanted = max(_LEAST_CYCLES, min(usual, (int(ends[-1]) - before) // (2 * cores)))
            rows = max(int(np.searchsorted(ends, before + wanted, "right")) - row, 1)
            blocks.append(self._fitting(panel, row, min(round_up(rows, together), most, count - row)))
            row += blocks[-1].rows
        return blocks

    def _plans(self, panel: Panel) -> list[list[Block]]:
        """All tiles, in the order of the table."""
        blocks, costs = self.expected(panel)
        return [[blocks[tile] for tile in tile_order(np.array(costs), self.problem.order, self.cfg.cores)]]

    def _table(self, part: Part) -> TileTable:
        tiles, = part.blocks
        body = max((self._package_bytes(part.panel, *tile) for tile in tiles), default=JOB_BYTES) - JOB_BYTES
        return TileTable.of(len(tiles), body, SLOTS)

    def _sizes(self, part: Part) -> list[list[int]]:
        """Bytes of the entries of a table."""
        table = self._table(part)
        return [[table.pitch] * table.tiles]

    def _record_bytes(self, part: Part) -> int:
        """Bytes of the records of chunks behind a table."""
        return round_up(JOB_BYTES * len(part.chunks), DESCRIPTOR_BYTES)

    def part_bytes(self, part: Part) -> int:
        """See ``SparseProductKernel``."""
        return sum(self._sizes(part)[0]) + self._record_bytes(part)

    def _data(self, part: Part) -> list[np.ndarray]:
        """The table of a part without addresses of C, then the records of its chunks."""
        table, (tiles,) = self._table(part), part.blocks
        entries = np.zeros((table.tiles, table.pitch), np.uint8)
        for entry, tile in zip(entries, tiles):
            for slot in range(SLOTS):
                package = self._package(part.panel, tile, slot)
                entry[slot * JOB_BYTES:(slot + 1) * JOB_BYTES] = package[:JOB_BYTES]
            entry[table.head(SLOTS):][:len(package) - JOB_BYTES] = package[JOB_BYTES:]
        records = np.concatenate([np.zeros(0, np.uint8), *self._records(part)])
        return [entries.ravel(), np.pad(records, (0, self._record_bytes(part) - len(records)))]

    def arranged_packages(self, c: int) -> np.ndarray:
        """See ``SparseProductKernel``: with the descriptors of the rows of each tile."""
        packages, start = self.packages.copy(), 0
        for part in self.parts:
            table, (tiles,), panel = self._table(part), part.blocks, part.panel
            entries = packages[start:start + table.tiles * table.pitch].reshape(table.tiles, table.pitch)
            for entry, tile in zip(entries, tiles):
                fields = TensorFields(
                    format=TensorFormat.U32, address=c + panel.first_column * 4 + tile.first * self.c_pitch,
                    sizes=(panel.columns, tile.rows), strides=(self.c_pitch,), box=(self.cfg.sparse_columns >> panel.strips, tile.rows),
                    element_strides=(1, 1))
                entry[SLOTS * JOB_BYTES:table.head(SLOTS)] = np.frombuffer(fields.encode(), np.uint8)
            start += self.part_bytes(part)
        return packages

    def _text(self, part: Part) -> KernelText:
        """Chunks as in ``core_lines``, with the first tiles behind them, then the loop."""
        table, schedule = self._table(part), Schedule()
        loads = [tile_load(table, slot, SLOTS, at) for slot, at in enumerate(self.packages_at)]
        if part.chunks:
            schedule.lines += block_copy(PACKAGES, table.tiles * table.pitch, 0, JOB_BYTES * len(part.chunks), RECORDS_BARRIER)
        schedule.loads = chunk_loads(self, part.panel, part.chunks)
        if table.tiles:
            schedule.loads += [Load(lines, -1) for lines in loads[:_AHEAD]]
        schedule.panel(len(part.chunks), len(self.chunks_at))
        if not table.tiles:
            schedule.wait(len(part.chunks))
            return KernelText.of([*schedule.lines, "halt"])
        return KernelText.of(loop_lines(schedule, loads, list(zip(self.packages_at, self.sums_at)), _AHEAD, part.panel.adds))
