"""Schedule of a sparse product on one core: which copy and which job is issued when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from heddle.constants import BANK_BYTES
from heddle.isa.sparse_job import JOB_BYTES

if TYPE_CHECKING:
    from ..sparse_product import Panel, SparseProductKernel

__all__ = ["Block", "CorePlan", "core_lines"]

_RECORDS_BARRIER, _CHUNK_BARRIERS, _PACKAGE_BARRIERS = 0, 1, 8        # first of each kind
_TO, _FROM, _SIZE, _JOB = 10, 12, 14, 16            # uniform registers; of the first three pairs
_STORE_TO, _STORE_FROM, _STORE_SIZE = 18, 20, 22
# Uniform registers of the arguments.
_PACKAGES, _B, _C = 0, 1, 2


class Block(NamedTuple):
    """Rows ``first`` to ``first + rows`` - 1."""

    first: int
    rows: int


class CorePlan(NamedTuple):
    """Chunks of B and blocks of rows of A of one core, in order; bytes of its packages, and offset of the first one in bytes."""

    chunks: list[Block]
    blocks: list[Block]
    sizes: list[int]
    offset: int


@dataclass(frozen=True)
class _Load:
    """Copy into a slot, which may begin when job ``after`` is done (-1: at once)."""

    lines: list[str]
    after: int


class _Schedule:
    """Instructions of a core, in order. Jobs are numbered as they are issued: chunks, then blocks."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.loads: list[_Load] = []
        self.issued = self.done = self.jobs = 0     # loads; jobs that are known to be done; jobs

    def load_ahead(self) -> None:
        """Issue the loads whose slots are free, in order."""
        while self.issued < len(self.loads) and self.loads[self.issued].after < self.done:
            self.lines += self.loads[self.issued].lines
            self.issued += 1

    def wait(self, done: int) -> None:
        """Wait until so many jobs are done."""
        if done > self.done:
            self.lines.append(f"wait_sparse {self.jobs - done}")
            self.done = done

    def start(self, number: int, barrier: int, record: int) -> None:
        """Start a job whose load is ``number``, which reports to a barrier."""
        while self.issued <= number:
            self.wait(self.loads[self.issued].after + 1)
            self.load_ahead()
        self.lines += [f"barrier.wait b{barrier}", f"umov ur{_JOB}, {record}", f"sparse ur{_JOB}"]
        self.jobs += 1


def core_lines(kernel: SparseProductKernel, panel: Panel, plan: CorePlan) -> list[str]:
    """Instructions of a core, without a ``halt``; ``kernel``: places in shared memory, pitches and configuration."""
    chunks, blocks, sizes, offset = plan
    if not (chunks or blocks):
        return []
    schedule, places, packages = _Schedule(), kernel.chunks_at, kernel.packages_at
    if chunks:
        schedule.lines += _block_copy(_PACKAGES, 0, 0, JOB_BYTES * len(chunks), _RECORDS_BARRIER)
    for number, chunk in enumerate(chunks):
        schedule.loads.append(_Load(_chunk_copy(kernel, panel, chunk, number % len(places)), number - len(places)))
    for number, size in enumerate(sizes):
        slot = number % len(packages)
        after = len(chunks) + number - len(packages) if number >= len(packages) else -1
        schedule.loads.append(_Load(_block_copy(_PACKAGES, offset, packages[slot], size, _PACKAGE_BARRIERS + slot), after))
        offset += size
    schedule.load_ahead()
    if chunks:
        schedule.lines.append(f"barrier.wait b{_RECORDS_BARRIER}")
    for number in range(len(chunks)):
        schedule.start(number, _CHUNK_BARRIERS + number % len(places), number * JOB_BYTES)
        schedule.wait(number)
        schedule.load_ahead()
    for number in range(len(blocks)):
        slot = number % len(packages)
        if number >= len(kernel.sums_at) and not kernel.problem.resident:       # the sums of the block before in this slot have been read
            schedule.lines.append(f"wait_group.read {len(kernel.sums_at) - 2}")
        schedule.start(len(chunks) + number, _PACKAGE_BARRIERS + slot, packages[slot])
        schedule.wait(len(chunks) + number)
        if number:
            schedule.lines += _store(kernel, panel, blocks[number - 1], (number - 1) % len(kernel.sums_at))
        schedule.load_ahead()
    schedule.wait(len(chunks) + len(blocks))
    return schedule.lines + (_store(kernel, panel, blocks[-1], (len(blocks) - 1) % len(kernel.sums_at)) if blocks else [])


def _block_copy(source: int, offset: int, to: int, nbytes: int, barrier: int) -> list[str]:
    return [f"umov ur{_TO}, {to}", f"uadd ur{_FROM}, ur{source}, {offset}", f"barrier.expect b{barrier}, {nbytes}",
            f"copy_block.shared.global ur{_TO}, ur{_FROM}, {nbytes // BANK_BYTES}, b{barrier}"]


def _chunk_copy(kernel: SparseProductKernel, panel: Panel, chunk: Block, slot: int) -> list[str]:
    """Rows of the panel to a slot, a copy for each run of rows of B."""
    width, to, barrier = kernel.cfg.sparse_columns, kernel.chunks_at[slot], _CHUNK_BARRIERS + slot
    blocks = -(-panel.columns // BANK_BYTES)
    dense = kernel.b_pitch == width and blocks * BANK_BYTES == width        # rows follow each other without a gap, here and there
    lines = [f"barrier.expect b{barrier}, {chunk.rows * blocks * BANK_BYTES}"]
    if not dense:
        lines += [f"umov ur{_TO + 1}, {width}", f"umov ur{_FROM + 1}, {kernel.b_pitch}", f"umov ur{_SIZE}, {blocks}"]
    for run in panel.sources(chunk):
        lines += [f"umov ur{_TO}, {to}", f"uadd ur{_FROM}, ur{_B}, {run.first * kernel.b_pitch}"]
        if dense:
            lines.append(f"copy_block.shared.global ur{_TO}, ur{_FROM}, {run.rows * blocks}, b{barrier}")
        else:
            lines += [f"umov ur{_SIZE + 1}, {run.rows}", f"copy_rows.shared.global ur{_TO}, ur{_FROM}, ur{_SIZE}, b{barrier}"]
        to += run.rows * width
    return lines


def _store(kernel: SparseProductKernel, panel: Panel, block: Block, slot: int) -> list[str]:
    """Sums of a block to C, as a group of stores; those of later panels are added. Nothing of a ``resident`` product."""
    if kernel.problem.resident:
        return []
    how = ".add.u32" if panel.adds else ""
    blocks = -(-panel.columns * 4 // BANK_BYTES)
    lines = [f"uadd ur{_STORE_TO}, ur{_C}, {block.first * kernel.c_pitch}", f"umov ur{_STORE_FROM}, {kernel.sums_at[slot]}"]
    if kernel.c_pitch == kernel.row_bytes and blocks * BANK_BYTES == kernel.row_bytes:
        lines.append(f"copy_block.global.shared{how} ur{_STORE_TO}, ur{_STORE_FROM}, {block.rows * blocks}")
    else:
        lines += [f"umov ur{_STORE_TO + 1}, {kernel.c_pitch}", f"umov ur{_STORE_FROM + 1}, {kernel.row_bytes}",
                  f"umov ur{_STORE_SIZE}, {blocks}", f"umov ur{_STORE_SIZE + 1}, {block.rows}",
                  f"copy_rows.global.shared{how} ur{_STORE_TO}, ur{_STORE_FROM}, ur{_STORE_SIZE}"]
    return [*lines, "commit_group"]
