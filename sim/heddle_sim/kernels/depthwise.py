"""Depthwise convolution on the sparse engine [S2.3]: pixels are rows of a panel, filters are weights that each PE has for its channels.

A row of the panel has ``4 * threads`` bytes: the channels of a pixel. Where these are few it has those of a pixel of each of some *strips*:
horizontal parts of the image that are done side by side. A pixel of the result is a row of a sparse matrix whose elements are the pixels
that its window meets; an element in the padding is row 0 of the panel, which has zero points. Which pixels these are is the same for all
channels and strips, so the list of them is made once, before the run.

A *round* has the channels of a panel and some rows of each strip. Its pixels arrive chunk by chunk, and go to the factor registers between
blocks of pixels of the result, whose sums leave meanwhile.
"""

from __future__ import annotations

from heddle.constants import BANK_BYTES
from heddle.isa.sparse_job import JOB_BYTES

from .depthwise_plan import CHUNK_SLOTS, SLOTS, DepthwisePlan, DepthwiseProblem, Round
from .parts.launch import Launch
from .parts.sparse_schedule import (
    CHUNK_BARRIERS,
    FROM,
    PACKAGE_BARRIERS,
    PACKAGES,
    RECORDS_BARRIER,
    SIZE,
    STORE_FROM,
    STORE_SIZE,
    STORE_TO,
    TO,
    Block,
    Load,
    Schedule,
    block_copy,
    text_of_cores,
)
from .parts.text import KernelText
from .sparse_product import SparseOperands

__all__ = ["DepthwiseKernel", "DepthwiseProblem"]

_JOBS_AHEAD = 2         # jobs that are issued while another one is under way
_X, _Y = 1, 2           # uniform registers of the arguments
_FILL = 24              # pair of uniform registers: address of the zero points, and a pitch of 0


class DepthwiseKernel(DepthwisePlan):
    """A launch for each ``Round`` of a ``DepthwiseProblem``, or for as many as there are cores. Operands: ``SparseOperands``, with
    ``tables`` as packages, the image as b and the result as c.
    """

    def launches(self, operands: SparseOperands | None = None) -> list[Launch]:
        """One ``Launch`` for each of ``turns``."""
        operands = operands or SparseOperands()
        launches, packages, channels = [], operands.packages, self.shape.channels - self.problem.filled
        for turn, program in zip(self.turns, self.programs):
            results = sum(self.valid(strip, part) * min(part.channels, channels - part.channel)
                          for part in turn for strip in range(self.strips))
            launches.append(Launch(program, {PACKAGES: packages, _X: operands.b, _Y: operands.c}, results * self.shape.positions))
            packages += sum(map(self.bytes, turn))
        return launches

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        return [self._text(turn) for turn in self.turns]

    def _text(self, turn: list[Round]) -> KernelText:
        """A program: each core has its round."""
        of_core: list[list[str]] = [[] for _ in range(self.cfg.cores)]
        at = 0
        for core, part in enumerate(turn):
            of_core[core] = self._lines(part, at)
            at += self.bytes(part)
        return text_of_cores(of_core)

    def _lines(self, part: Round, at: int) -> list[str]:
        """Jobs in order: weights, scales and zero points, then chunks and blocks, each block behind the chunks that it needs. The tables of
        the round begin ``at`` bytes behind those of the launch."""
        schedule, chunks, blocks = Schedule(), self.chunks(part), self.blocks(part)
        constants = 2 + self.scaled
        schedule.lines += self._begin(part, at)
        order: list[tuple[bool, int]] = []         # whether it is a block, and its number
        begun = 0
        for number, block in enumerate(blocks):
            while begun < len(chunks) and chunks[begun].first < self.needed(block):
                order.append((False, begun))
                begun += 1
            order.append((True, number))
        offset, job_of = at + self.constants_end, {}
        for place, (is_block, number) in enumerate(order):
            job_of[is_block, number] = job = constants + place
            slots = SLOTS if is_block else CHUNK_SLOTS
            after = job_of.get((is_block, number - slots), -1)
            if is_block:
                size = self.package_bytes(blocks[number].rows)
                lines = block_copy(PACKAGES, offset, self.packages_at[number % SLOTS], size, PACKAGE_BARRIERS + number % SLOTS)
                offset += size
            else:
                lines = self._chunk_copy(part, chunks[number], number % CHUNK_SLOTS)
            schedule.loads.append(Load(lines, after))
            assert after < job
        schedule.load_ahead()
        schedule.lines.append(f"barrier.wait b{RECORDS_BARRIER}")
        for number in range(constants):
            schedule.issue(number * JOB_BYTES)
        stored = 0
        for place, (is_block, number) in enumerate(order):
            if is_block and number >= SLOTS:       # the results of the block before in this slot have been read
                schedule.lines.append(f"wait_group.read {stored - 1 - (number - SLOTS)}")
            if is_block:
                schedule.start(place, PACKAGE_BARRIERS + number % SLOTS, self.packages_at[number % SLOTS])
            else:
                schedule.start(place, CHUNK_BARRIERS + number % CHUNK_SLOTS, (constants + number) * JOB_BYTES)
            schedule.wait(constants + place - _JOBS_AHEAD)
            while stored < len(blocks) and job_of[True, stored] < schedule.done:
                schedule.lines += self._store(part, blocks[stored], stored % SLOTS)
                stored += 1
            schedule.load_ahead()
        for number in range(stored, len(blocks)):
            schedule.wait(job_of[True, number] + 1)
            schedule.lines += self._store(part, blocks[number], number % SLOTS)
        return schedule.lines

    def _begin(self, part: Round, at: int) -> list[str]:
        """Copies of records and constants, and registers that stay."""
        size = self.constants_end
        zeros = at + size - self.width
        return [f"barrier.expect b{RECORDS_BARRIER}, {size}", f"umov ur{TO}, 0", f"uadd ur{FROM}, ur{PACKAGES}, {at}",
                f"copy_block.shared.global ur{TO}, ur{FROM}, {size // BANK_BYTES}, b{RECORDS_BARRIER}",
                f"umov ur{TO + 1}, {self.width if self.parted is None else self.shape.channels}",
                f"umov ur{FROM + 1}, {self.shape.channels}", f"umov ur{SIZE}, {part.channels // BANK_BYTES}",
                f"uadd ur{_FILL}, ur{PACKAGES}, {zeros}", f"umov ur{_FILL + 1}, 0",
                f"umov ur{STORE_TO + 1}, {self.shape.channels * self.item}", f"umov ur{STORE_FROM + 1}, {self.width * self.item}",
                f"umov ur{STORE_SIZE}, {part.channels * self.item // BANK_BYTES}"]

    def _chunk_copy(self, part: Round, chunk: Block, slot: int) -> list[str]:
        """A chunk of each strip to a slot: the pixels of the image, and zero points above and below it, which are rows of their own."""
        barrier, pixels = CHUNK_BARRIERS + slot, self.inner * self.shape.size[0]
        lines, count, nbytes = [], None, 0
        for strip in range(self.strips):
            first = self.first(strip, part) + chunk.first
            cuts = [first, *(min(max(end, first), first + chunk.rows) for end in (0, pixels)), first + chunk.rows]
            for number, (start, stop) in enumerate(zip(cuts, cuts[1:])):
                if start == stop or (number != 1 and self.strips == 1 and stop - start < chunk.rows):
                    continue            # with one strip nobody reads them, but a chunk is never empty
                rows, inside = stop - start, number == 1
                nbytes += rows * part.channels
                place = self._place_in(self.chunks_at[slot], Block(start - first, chunk.rows), strip, part.channels, 1)
                lines.append(f"umov ur{TO}, {place}")
                if inside:
                    lines.append(f"uadd ur{FROM}, ur{_X}, {start * self.shape.channels + part.channel}")
                if inside and self.parted is not None:
                    lines.append(f"copy_block.shared.global ur{TO}, ur{FROM}, {rows * part.channels // BANK_BYTES}, b{barrier}")
                    continue
                if rows != count:
                    count = rows
                    lines.append(f"umov ur{SIZE + 1}, {count}")
                lines.append(f"copy_rows.shared.global ur{TO}, ur{FROM if inside else _FILL}, ur{SIZE}, b{barrier}")
        return [f"barrier.expect b{barrier}, {nbytes}", *lines]

    def _store(self, part: Round, block: Block, slot: int) -> list[str]:
        """The results of a block to those of each strip, as one group."""
        lines, count = [], None
        for strip in range(self.strips):
            rows = min(max(self.valid(strip, part) - block.first, 0), block.rows)
            if not rows:
                continue
            pixel, size = (strip * self.band + part.row) * self.inner_result + block.first, part.channels * self.item
            lines += [f"uadd ur{STORE_TO}, ur{_Y}, {(pixel * self.shape.channels + part.channel) * self.item}",
                      f"umov ur{STORE_FROM}, "
                      f"{self._place_in(self.results_at[slot], Block(0, block.rows), strip, part.channels, self.item)}"]
            if self.parted is not None:
                lines.append(f"copy_block.global.shared ur{STORE_TO}, ur{STORE_FROM}, {rows * size // BANK_BYTES}")
                continue
            if rows != count:
                count = rows
                lines.append(f"umov ur{STORE_SIZE + 1}, {rows}")
            lines.append(f"copy_rows.global.shared ur{STORE_TO}, ur{STORE_FROM}, ur{STORE_SIZE}")
        return [*lines, "commit_group"]

    def _place_in(self, area: int, rows: Block, strip: int, channels: int, item: int) -> int:
        """Shared address of row ``rows.first`` of a strip in an area with ``rows.rows`` rows of each. Strips lie one behind the other or
        side by side; ``item``: bytes of a channel."""
        if self.parted is not None:
            return area + (strip * rows.rows + rows.first) * channels * item
        return area + (rows.first * self.width + strip * channels) * item
