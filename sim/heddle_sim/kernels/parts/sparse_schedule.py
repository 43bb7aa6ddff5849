"""Schedule of a kernel of the sparse engine on one core: which copy and which job is issued when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from heddle.constants import BANK_BYTES
from heddle.isa.sparse_job import JOB_BYTES

from .text import KernelText

if TYPE_CHECKING:
    from ..panel_kernel import PanelKernel

__all__ = ["CHUNK_BARRIERS", "FROM", "PACKAGES", "PACKAGE_BARRIERS", "RECORDS_BARRIER", "SIZE", "STORE_FROM", "STORE_SIZE", "STORE_TO",
           "TO", "Block", "CorePlan", "Load", "Schedule", "block_copy", "block_lines", "chunk_loads", "core_lines",
           "strip_lines", "text_of_cores"]

RECORDS_BARRIER, CHUNK_BARRIERS, PACKAGE_BARRIERS = 0, 1, 8        # first of each kind
# While a chunk of a panel arrives, or is written: so many later chunks are loaded in any case, and other loads within so many instructions.
# More would hold up its job.
_CHUNKS_AHEAD, _BESIDE_CHUNK = 2, 30
TO, FROM, SIZE, _JOB = 10, 12, 14, 16               # uniform registers; of the first three pairs
STORE_TO, STORE_FROM, STORE_SIZE = 18, 20, 22
PACKAGES = 0            # uniform register of an argument: address of the packages


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
class Load:
    """Copy into a slot, which may begin when job ``after`` is done (-1: at once)."""

    lines: list[str]
    after: int


class Schedule:
    """Instructions of a core, in order. Jobs are numbered as they are issued."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.loads: list[Load] = []
        self.issued = self.done = self.jobs = 0     # loads; jobs that are known to be done; jobs

    def load_ahead(self, needed: int | None = None) -> None:
        """Issue the loads whose slots are free, in order: all of them, or the first ``needed`` and further ones as long as
        ``_BESIDE_CHUNK`` instructions suffice for what is issued here."""
        last = len(self.lines) + _BESIDE_CHUNK
        while self.issued < len(self.loads) and self.loads[self.issued].after < self.done:
            lines = self.loads[self.issued].lines
            if needed is not None and self.issued >= needed and len(self.lines) + len(lines) > last:
                return
            self.lines += lines
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
        self.lines.append(f"barrier.wait b{barrier}")
        self.issue(record)

    def panel(self, chunks: int, places: int) -> None:
        """Start the jobs that load a panel: the first loads are those of its chunks, which share some places."""
        self.load_ahead(_CHUNKS_AHEAD if chunks else None)
        if chunks:
            self.lines.append(f"barrier.wait b{RECORDS_BARRIER}")
        for number in range(chunks):
            self.start(number, CHUNK_BARRIERS + number % places, number * JOB_BYTES)
            self.wait(number)
            self.load_ahead(number + 1 + _CHUNKS_AHEAD if number + 1 < chunks else None)

    def issue(self, record: int) -> None:
        """Start a job whose data are there."""
        self.lines += [f"umov ur{_JOB}, {record}", f"sparse ur{_JOB}"]
        self.jobs += 1


def chunk_loads(kernel: PanelKernel, panel: Any, chunks: list[Block]) -> list[Load]:
    """Loads of the chunks of a panel; the first ones of a schedule."""
    places = len(kernel.chunks_at)
    return [Load(kernel.chunk_copy(panel, chunk, number % places), number - places) for number, chunk in enumerate(chunks)]


def core_lines(kernel: PanelKernel, panel: Any, plan: CorePlan, store: Callable[[int], list[str]]) -> list[str]:
    """Instructions of a core, without a ``halt``; ``kernel``: places in shared memory, and copies; ``store(number)``: instructions that
    store the sums of a block of the plan, as one group."""
    chunks, blocks, sizes, offset = plan
    if not (chunks or blocks):
        return []
    schedule, places, packages = Schedule(), kernel.chunks_at, kernel.packages_at
    if chunks:
        schedule.lines += block_copy(PACKAGES, 0, 0, JOB_BYTES * len(chunks), RECORDS_BARRIER)
    schedule.loads += chunk_loads(kernel, panel, chunks)
    for number, (block, size) in enumerate(zip(blocks, sizes)):
        slot = number % len(packages)
        early = len(chunks) - 1 if number and kernel.first_block_alone else -1
        after = len(chunks) + number - len(packages) if number >= len(packages) else early
        schedule.loads.append(Load(kernel.block_copy(panel, block, slot, offset, size), after))
        offset += size
    schedule.panel(len(chunks), len(places))
    for number in range(len(blocks)):
        slot = number % len(packages)
        if number >= len(kernel.sums_at) and not kernel.keeps_panels:       # the sums of the block before in this slot have been read
            schedule.lines.append(f"wait_group.read {len(kernel.sums_at) - 2}")
        schedule.start(len(chunks) + number, PACKAGE_BARRIERS + slot, packages[slot])
        schedule.wait(len(chunks) + number)
        if number:
            schedule.lines += store(number - 1)
        schedule.load_ahead()
    schedule.wait(len(chunks) + len(blocks))
    return schedule.lines + (store(len(blocks) - 1) if blocks else [])


def text_of_cores(of_core: Sequence[list[str]]) -> KernelText:
    """A program in which each core runs lines of its own, without their ``halt``."""
    lines = ["umov ur8, %core"] if len(of_core) > 1 else []
    for core in range(1, len(of_core)):
        lines += [f"usetp.eq up0, ur8, {core}", f"@up0 bra core_{core}"]
    for core, own in enumerate(of_core):
        lines += [f"core_{core}:", *own, "halt"]
    return KernelText.of(lines)


def block_copy(source: int, offset: int, to: int, nbytes: int, barrier: int) -> list[str]:
    """Copy of ``nbytes`` from ``offset`` behind the address in uniform register ``source`` to a shared address, with its barrier."""
    *addresses, copy = block_lines(source, offset, to, nbytes, barrier)
    return [*addresses, f"barrier.expect b{barrier}, {nbytes}", copy]


def block_lines(source: int, offset: int, to: int, nbytes: int, barrier: int) -> list[str]:
    """``block_copy`` without the announcement of its bytes."""
    return [f"umov ur{TO}, {to}", f"uadd ur{FROM}, ur{source}, {offset}",
            f"copy_block.shared.global ur{TO}, ur{FROM}, {nbytes // BANK_BYTES}, b{barrier}"]


def strip_lines(source: int, offset: int, pitch: int, to: int, rows: int, barrier: int) -> list[str]:
    """As ``block_lines``, of 16 bytes of each of ``rows`` rows that are ``pitch`` bytes apart; without gaps in shared memory."""
    return [f"umov ur{TO}, {to}", f"umov ur{TO + 1}, {BANK_BYTES}", f"uadd ur{FROM}, ur{source}, {offset}", f"umov ur{FROM + 1}, {pitch}",
            f"umov ur{SIZE}, 1", f"umov ur{SIZE + 1}, {rows}", f"copy_rows.shared.global ur{TO}, ur{FROM}, ur{SIZE}, b{barrier}"]
