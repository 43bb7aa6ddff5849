"""Base of kernels of the sparse engine whose tiles the cores take from the tile scheduler [S4.7].

Tiles are blocks of rows. A table in memory has an entry for each, in the order in which they are handed out: its package and its
descriptors. A core that begins to load a tile asks for the number of the next one, which is that of an entry.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from heddle.config import Config
from heddle.isa.sparse_job import JOB_BYTES
from heddle.isa.tensor_descriptor import DESCRIPTOR_BYTES

from ..golden.tensor_fields import TensorFields
from ..sparse.orders import tile_order
from .panel_kernel import SLOTS, PanelKernel, Part
from .parts.sparse_schedule import PACKAGES, RECORDS_BARRIER, Block, Load, Schedule, block_copy, chunk_loads
from .parts.text import KernelText
from .parts.tile_loop import TileOperand, TileTable, first_lines, loop_lines, tile_load
from .parts.tiling import round_up

__all__ = ["LEAST_TILE_CYCLES", "MOST_BOX", "TILES", "ScheduledTiles"]

TILES = 16              # of a core on average
LEAST_TILE_CYCLES = 200     # its instructions take about 100, and its descriptor nearly as long
MOST_BOX = 256          # elements of a dimension
_AHEAD = 2              # tiles that a core loads beside the one that it starts


class ScheduledTiles(PanelKernel):
    """``PanelKernel`` of a launch for each panel, with the same program on every core, whatever the number of tiles."""

    @classmethod
    def fits(cls, cfg: Config, problem: Any) -> bool:
        """See ``Kernel``."""
        return cfg.tile_scheduler and problem.dynamic and not problem.collect

    @abstractmethod
    def descriptors(self, part: Part, tile: Block, operands: Any) -> list[TensorFields]:
        """Place of a tile in the result, of two dimensions, and its operand if it has one."""

    def operand(self, part: Part) -> TileOperand | None:
        """What every tile loads beside its package."""
        return None

    def _plans(self, blocks: list[Block], costs: list[int]) -> list[list[Block]]:
        """All tiles, in the order of the table."""
        return [[blocks[tile] for tile in tile_order(np.array(costs), self.problem.order, self.cfg.cores)]]

    def _table(self, part: Part) -> TileTable:
        tiles, = part.blocks
        body = max((self.package_bytes(part.panel, tile) for tile in tiles), default=JOB_BYTES) - JOB_BYTES
        return TileTable.of(len(tiles), body, SLOTS, 2 if self.operand(part) else 1)

    def _sizes(self, part: Part) -> list[list[int]]:
        """Bytes of the entries of a table."""
        table = self._table(part)
        return [[table.pitch] * table.tiles]

    def _record_bytes(self, part: Part) -> int:
        """Bytes of the records of chunks behind a table."""
        return round_up(JOB_BYTES * len(part.chunks), DESCRIPTOR_BYTES)

    def part_bytes(self, part: Part) -> int:
        """See ``PanelKernel``."""
        return sum(self._sizes(part)[0]) + self._record_bytes(part)

    def _data(self, part: Part) -> list[np.ndarray]:
        """The table of a part without descriptors, then the records of its chunks."""
        table, (tiles,) = self._table(part), part.blocks
        entries = np.zeros((table.tiles, table.pitch), np.uint8)
        for entry, tile in zip(entries, tiles):
            for slot in range(SLOTS):
                package = self.package(part.panel, tile, slot)
                entry[slot * JOB_BYTES:(slot + 1) * JOB_BYTES] = package[:JOB_BYTES]
            entry[table.head:][:len(package) - JOB_BYTES] = package[JOB_BYTES:]
        records = np.concatenate([np.zeros(0, np.uint8), *self._records(part)])
        return [entries.ravel(), np.pad(records, (0, self._record_bytes(part) - len(records)))]

    def arranged_packages(self, operands: Any) -> np.ndarray:
        """See ``PanelKernel``: with the descriptors of each tile."""
        packages, start = self.packages.copy(), 0
        for part in self.parts:
            table, (tiles,) = self._table(part), part.blocks
            entries = packages[start:start + table.tiles * table.pitch].reshape(table.tiles, table.pitch)
            for entry, tile in zip(entries, tiles):
                fields = b"".join(descriptor.encode() for descriptor in self.descriptors(part, tile, operands))
                entry[SLOTS * JOB_BYTES:table.head] = np.frombuffer(fields, np.uint8)
            start += self.part_bytes(part)
        return packages

    def _text(self, part: Part) -> KernelText:
        """Chunks as in ``core_lines``, with the first tiles behind them, then the loop."""
        table, schedule, operand = self._table(part), Schedule(), self.operand(part)
        loads = [tile_load(table, slot, SLOTS, at, operand) for slot, at in enumerate(self.packages_at)]
        schedule.lines += first_lines()
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
