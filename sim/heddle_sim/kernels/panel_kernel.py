"""Base of kernels of the sparse engine that load a panel, then work through blocks of rows of a sparse matrix."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES
from heddle.errors import UsageError
from heddle.isa.sparse_job import JOB_BYTES

from ..isa.features import lacking
from ..sparse.compressed import Compressed
from ..sparse.hand_out import hand_out
from .kernel import Kernel
from .parts.collection import Collection, Sums
from .parts.fitting import Region, Unfit, check_regions, check_tensors
from .parts.sparse_schedule import Block, CorePlan, core_lines, text_of_cores
from .parts.text import KernelText

__all__ = ["SLOTS", "PanelKernel", "PanelPart", "Part", "element_count", "met_runs", "renumbered"]

SLOTS = 4               # of packages and of sums: blocks on their way, at work, or with sums that are stored
_GAPS = (0, 1, 2, 8, 32)      # rows of B that are fetched though nothing meets them, at most, between two that are: a copy costs as much
_MOST_RUNS = 96         # copies of B: each has instructions of its own


@dataclass(frozen=True)
class PanelPart:
    """Rows of B, or columns of it where it is transposed, of some ``runs``, which a panel holds one after the other [S4.4].

    ``a``: the part of the sparse matrix that meets these rows, whose indices are numbers in the panel.
    """

    runs: tuple[Block, ...]
    a: Compressed = field(repr=False)

    @property
    def rows(self) -> int:
        """Rows, or columns, of the panel."""
        return sum(run.rows for run in self.runs)

    def sources(self, chunk: Block) -> list[Block]:
        """Runs of rows of B that are the rows of the panel in a chunk."""
        found, place = [], 0
        for run in self.runs:
            first, last = max(chunk.first, place), min(chunk.first + chunk.rows, place + run.rows)
            if first < last:
                found.append(Block(run.first + first - place, last - first))
            place += run.rows
        return found


@dataclass(frozen=True)
class Part:
    """What a program does: chunks of B of a panel that every core loads, then blocks of rows of each core."""

    panel: Any
    chunks: list[Block]
    blocks: list[list[Block]]


class PanelKernel(Kernel):
    """Kernel of the sparse engine: programs that load chunks of a panel and then do blocks of rows, each core its own.

    A subclass says what the ``panels`` are, how they are cut, and which copies a chunk and a block take.
    """

    packages_at: list[int]          # shared addresses of packages, of sums, and before these of chunks of a panel
    sums_at: list[int]
    chunks_at: list[int]
    keeps_panels = False            # their loads have programs of their own, and sums stay in shared memory
    first_block_alone = False       # blocks behind the first one are copied when the panel is loaded: they would delay a large first one

    def __init__(self, cfg: Config, problem: Any) -> None:
        super().__init__(cfg, problem)
        if not cfg.sparse:
            raise UsageError(f"configuration {cfg.name} must have sparse for {problem.name} ({lacking(cfg, 'sparse')})")
        check_tensors(cfg, problem.name)
        self.collects = problem.collect and cfg.cores > 1
        if self.collects and not cfg.multicast:
            raise UsageError(f"collect must be False in configuration {cfg.name} ({lacking(cfg, 'multicast')})")

    def _most_sums(self, usual: int) -> int:
        """Bytes of sums that a slot has room for: fewer than usual where one core collects those of many."""
        return min(usual, self.cfg.shared_bytes // (self.cfg.cores - 1)) if self.collects else usual

    def _place_slots(self, records: int, room: int, sums: int) -> None:
        """Places in shared memory: ``records`` bytes for records of chunks, then ``SLOTS`` of ``room`` bytes for packages, and as many of
        ``sums`` bytes for sums."""
        self.packages_at = [records + slot * room for slot in range(SLOTS)]
        self.sums_at = [records + SLOTS * room + slot * sums for slot in range(SLOTS)]
        check_regions(self.cfg, [Region("records", 0, records),
                                 *(Region(f"package {slot}", at, room) for slot, at in enumerate(self.packages_at)),
                                 *(Region(f"sums {slot}", at, sums) for slot, at in enumerate(self.sums_at))])

    @cached_property
    @abstractmethod
    def panels(self) -> list[Any]:
        """Panels in order, each a ``PanelPart``."""

    @abstractmethod
    def expected(self, panel: Any) -> tuple[list[Block], list[int]]:
        """Blocks of rows, and the cycles that each is expected to take."""

    @abstractmethod
    def _chunks(self, panel: Any) -> list[Block]:
        """Chunks of the rows of a panel, in order."""

    @abstractmethod
    def _records(self, part: Part) -> list[np.ndarray]:
        """Records of the chunks of a part."""

    @abstractmethod
    def package(self, panel: Any, block: Block, slot: int) -> np.ndarray:
        """Package of a block in a slot."""

    @abstractmethod
    def package_bytes(self, panel: Any, block: Block) -> int:
        """Bytes of the package of a block."""

    @abstractmethod
    def chunk_copy(self, panel: Any, chunk: Block, slot: int) -> list[str]:
        """Instructions that copy a chunk to a slot, with their barrier."""

    @abstractmethod
    def block_copy(self, panel: Any, block: Block, slot: int, offset: int, size: int) -> list[str]:
        """Instructions that copy what a block needs to a slot, with their barrier; its package is at ``offset`` and has ``size`` bytes."""

    @abstractmethod
    def block_store(self, panel: Any, block: Block, address: int) -> list[str]:
        """Instructions that store the sums of a block from a shared address to the result, as one group."""

    @abstractmethod
    def sum_bytes(self, panel: Any, block: Block) -> int:
        """Bytes of the sums of a block in shared memory, a multiple of 16."""

    @cached_property
    def _expected(self) -> list[tuple[list[Block], list[int]]]:
        """``expected`` of each of ``panels``."""
        return [self.expected(panel) for panel in self.panels]

    @cached_property
    def collection(self) -> Collection | None:
        """Collection of the sums by one core, whose places have room for those of any block."""
        if not self.collects:
            return None
        sizes = [self.sum_bytes(panel, block) for panel, (blocks, _) in zip(self.panels, self._expected) for block in blocks]
        return Collection(self.cfg, max(sizes, default=BANK_BYTES))

    @cached_property
    def parts(self) -> list[Part]:
        """What each program does, in order; a panel takes several where the instruction memory is too small for one."""
        return [part for panel, expected in zip(self.panels, self._expected) for part in self._parts(panel, self._plans(*expected))]

    def _plans(self, blocks: list[Block], costs: list[int]) -> list[list[Block]]:
        """Blocks of each core, in order."""
        workers = self.collection.workers if self.collection else self.cfg.cores
        dealt = hand_out(costs, self.problem.order, workers, self.problem.dynamic)
        of_workers = [[blocks[run.tile] for run in core] for core in dealt.cores]
        return [[], *of_workers] if self.collection else of_workers

    def _parts(self, panel: Any, plans: list[list[Block]]) -> list[Part]:
        chunks = self._chunks(panel)
        whole = Part(panel, chunks, plans)
        if self._fits(whole) and not self.keeps_panels:
            return [whole]
        nothing: list[list[Block]] = [[] for _ in plans]
        return [*self._cut(len(chunks), lambda first, last: Part(panel, chunks[first:last], nothing)),
                *self._cut(max(map(len, plans)), lambda first, last: Part(panel, [], [blocks[first:last] for blocks in plans]))]

    def _cut(self, count: int, make: Callable[[int, int], Part]) -> list[Part]:
        """``make(first, last)`` of consecutive ranges of ``count`` items, as few as fit the instruction memory."""
        for number in range(1, max(count, 1) + 1):
            size = -(-count // number)
            parts = [make(first, first + size) for first in range(0, count, max(size, 1))]
            if all(map(self._fits, parts)):
                return parts
        raise Unfit("instruction_words")

    def _fits(self, part: Part) -> bool:
        return self._text(part).instructions <= self.cfg.instruction_words

    def _data(self, part: Part) -> list[np.ndarray]:
        """Records of the chunks of a part, then the packages of each core, in order."""
        return self._records(part) + [self.package(part.panel, block, number % SLOTS)
                                      for blocks in part.blocks for number, block in enumerate(blocks)]

    def _sizes(self, part: Part) -> list[list[int]]:
        """Bytes of the packages of each core."""
        return [[self.package_bytes(part.panel, block) for block in blocks] for blocks in part.blocks]

    def part_bytes(self, part: Part) -> int:
        """Bytes of ``packages`` of a part."""
        return JOB_BYTES * len(part.chunks) + sum(map(sum, self._sizes(part)))

    def arranged_packages(self, operands: Any) -> np.ndarray:
        """``packages`` where the operands lie at these addresses."""
        return self.packages

    @cached_property
    def packages(self) -> np.ndarray:
        """Records of the chunks and packages of all blocks, uint8, as they are to lie in global memory."""
        return np.concatenate([np.zeros(0, np.uint8), *(data for part in self.parts for data in self._data(part))])

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        return [self._text(part) for part in self.parts]

    def _text(self, part: Part) -> KernelText:
        of_core, offset = [], JOB_BYTES * len(part.chunks)
        for core, (blocks, sizes) in enumerate(zip(part.blocks, self._sizes(part))):
            of_core.append(self._core_lines(part, core, CorePlan(part.chunks, blocks, sizes, offset)))
            offset += sum(sizes)
        return text_of_cores(of_core)

    def _core_lines(self, part: Part, core: int, plan: CorePlan) -> list[str]:
        """Instructions of a core, without a ``halt``."""
        collection, panel, blocks = self.collection, part.panel, plan.blocks
        if collection is None:
            return core_lines(self, panel, plan, lambda number: self.block_store(panel, blocks[number], self.sums_at[number % SLOTS]))
        if core == 0:
            return collection.core_0_lines(self._all_sums(part, collection))
        sizes = [self.sum_bytes(panel, block) for block in blocks]

        def store(number: int) -> list[str]:
            before = collection.worker_send(core - 1, number - 1, sizes[number - 1]) if number else []
            return before + collection.worker_store(core - 1, number, self.sums_at[number % SLOTS], sizes[number])

        lines, last = core_lines(self, panel, plan, store), len(blocks) - 1
        return lines + collection.worker_send(core - 1, last, sizes[last]) if blocks else lines

    def _all_sums(self, part: Part, collection: Collection) -> list[Sums]:
        """Blocks of all workers, the first of each, then the second of each, …"""
        _, *of_workers = part.blocks
        return [Sums(worker, number, self.sum_bytes(part.panel, blocks[number]), number + collection.places < len(blocks),
                     partial(self.block_store, part.panel, blocks[number]))
                for number in range(max(map(len, of_workers))) for worker, blocks in enumerate(of_workers) if number < len(blocks)]


def met_runs(met: np.ndarray, most: int) -> tuple[Block, ...]:
    """Runs of rows that have all rows of ``met``, which ascend, and few others; at most ``most`` rows."""
    if not len(met):
        return ()
    for gap in (*_GAPS, 0):
        ends = np.flatnonzero(np.diff(met) > gap + 1)
        firsts, lasts = met[np.append(0, ends + 1)], met[np.append(ends, len(met) - 1)]
        if (lasts - firsts + 1).sum() <= most and (len(firsts) <= _MOST_RUNS or gap == _GAPS[-1]):
            break
    return tuple(Block(int(first), int(last - first + 1)) for first, last in zip(firsts, lasts))


def renumbered(a: Compressed, runs: tuple[Block, ...]) -> Compressed:
    """The elements in the columns of some runs, whose indices become rows of the panel."""
    numbers, place = np.full(a.shape[1] + 1, -1, np.int64), 0
    for run in runs:
        numbers[run.first:run.first + run.rows] = np.arange(place, place + run.rows)
        place += run.rows
    kept = numbers[a.indices] >= 0
    pointers = np.concatenate([[0], np.cumsum(np.bincount(a.rows[kept], minlength=a.shape[0]))]).astype(np.int32)
    return Compressed(pointers, numbers[a.indices[kept]].astype(np.int32), a.data[kept], (a.shape[0], place))


def element_count(a: Compressed, block: Block) -> int:
    """Elements of a block of rows."""
    return int(a.indptr[block.first + block.rows]) - int(a.indptr[block.first])
