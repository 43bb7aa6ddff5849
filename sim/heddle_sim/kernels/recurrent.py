"""Recurrent networks: weights and an image are copied in, the engine runs, its outputs go out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER
from heddle.errors import UsageError

from .kernel import Kernel
from .parts.launch import Launch
from .parts.text import KernelText
from .problem import Problem

if TYPE_CHECKING:
    from ..rnn.task import EngineImage

__all__ = ["EngineKernel", "EngineOperands", "EngineRun", "FactorKernel", "FactorLoad", "factor_table"]

_REGISTERS = BANK_BYTES // 4
_SHARED, _CORE, _WEIGHTS, _IMAGE, _BYTES, _BLOCKS = (f"ur{number}" for number in range(40, 46))
_SEGMENT = "ur15"
_SLOTS = 4                  # pieces of the weights in shared memory: one is moved to registers while others arrive
_PIECES = 32                # a large one costs cycles at the end, when the bus is idle; each has instructions of its own
_LEAST_ROWS = 2
_IMAGE_BARRIER = f"b{_SLOTS}"


def factor_table(cfg: Config, words: np.ndarray) -> np.ndarray:
    """Words int8 [threads, n, dot] as the loads want them in memory: uint8 [loads, threads, 16], the last words zero."""
    per_load = BANK_BYTES // cfg.dot
    loads = -(-words.shape[1] // per_load)
    padded = np.zeros((cfg.threads, loads * per_load, cfg.dot), np.int8)
    padded[:, :words.shape[1]] = words
    return np.ascontiguousarray(padded.reshape(cfg.threads, loads, BANK_BYTES).transpose(1, 0, 2)).view(np.uint8)


class _Loading:
    """Loads ``first`` to ``first + count`` of a factor table: pieces of it go through slots of shared memory from ``room`` on.

    ``apart``: the slots lie beside the image, which may be copied meanwhile; otherwise shared memory has no place for both at once.
    """

    def __init__(self, cfg: Config, first: int, count: int, room: int) -> None:
        self.first, self.row = first, cfg.threads * BANK_BYTES
        self.apart = cfg.shared_bytes - room >= min(count, 2) * self.row
        self.room = room if self.apart else 0
        rows = (cfg.shared_bytes - self.room) // self.row
        self.slots = min(_SLOTS, rows)
        size = max(1, min(rows // self.slots, max(_LEAST_ROWS, count // _PIECES)))
        self.size, self.pieces = size, [min(size, count - start) for start in range(0, count, size)]

    def lines(self, image: list[str]) -> list[str]:
        """Text; ``image`` is that of the copy of the image, which follows the last piece on the bus."""
        copies = [self._copy(number) for number in range(len(self.pieces))]
        copies[-1:] = [[*copies[-1], *image]] if self.apart else copies[-1:]
        lines = ["mov r0, %tid", f"shl r1, r0, {BANK_BYTES.bit_length() - 1}", f"segment.shared.b8.d1 {_SEGMENT}, 0"]
        for copy in copies[:self.slots]:
            lines += copy
        register = FIRST_FACTOR_REGISTER + _REGISTERS * self.first
        for number, size in enumerate(self.pieces):
            lines.append(f"barrier.wait b{number % self.slots}")
            for index in range(size):
                lines.append(f"ld.v4 r{register}, {_SEGMENT}:r1:{self._place(number) + index * self.row}")
                register += _REGISTERS
            if number + self.slots < len(copies):       # the slot must have been read
                lines += ["wait.thread", *copies[number + self.slots]]
        return lines if self.apart else [*lines, "wait.thread", *image]

    def _place(self, number: int) -> int:
        return self.room + number % self.slots * self.size * self.row

    def _copy(self, number: int) -> list[str]:
        nbytes = self.pieces[number] * self.row
        return [f"umov {_SHARED}, {self._place(number)}", f"barrier.expect b{number % self.slots}, {nbytes}",
                f"copy_block.shared.global {_SHARED}, {_WEIGHTS}, {nbytes // BANK_BYTES}, b{number % self.slots}",
                f"uadd {_WEIGHTS}, {_WEIGHTS}, {nbytes}"]


def _count(lines: list[str]) -> int:
    """Instructions of a text."""
    return KernelText.of(lines).instructions


def _load_only(cfg: Config, first: int, count: int) -> list[str]:
    return [*_Loading(cfg, first, count, 0).lines([]), "wait.thread", "halt"]


def _pieces(cfg: Config, loads: int, last: Callable[[int, int], list[str]]) -> list[int]:
    """How many loads each program does, so that all fit the instruction memory: a list. ``last`` makes the text of the last one, of a
    first load and a number of loads; those before it do nothing but load."""
    counts, first = [], 0
    while _count(last(first, loads - first)) > cfg.instruction_words:
        most = min(loads - first, cfg.instruction_words)
        fitting = next((count for count in range(most, 0, -1) if _count(_load_only(cfg, first, count)) <= cfg.instruction_words), 0)
        if not fitting:
            raise UsageError(f"instruction_words must be at least {_count(last(first, loads - first))} for this network (configuration "
                             f"{cfg.name}), not {cfg.instruction_words}")
        counts.append(fitting)
        first += fitting
    return [*counts, loads - first]


@dataclass(frozen=True)
class EngineOperands:
    """Where the operands of the engine lie in global memory.

    ``source``: address of a ``factor_table``, or None where none is loaded. ``cores``: for each core addresses of what is loaded of all
    its images and of the room for their outputs, or nothing.
    """

    source: int | None = None
    cores: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class FactorLoad(Problem):
    """Load factor registers from word 0 on from a ``factor_table`` of ``loads`` rows."""

    loads: int


@dataclass(frozen=True, eq=False)
class EngineRun(Problem):
    """Run a list of ``EngineImage``s on each core, an empty one on those that have nothing to do [S3.7].

    ``loads``: rows of the ``factor_table`` to be loaded before. None: the factor registers and biases of the run before are there.
    """

    images: list[list[EngineImage]]
    loads: int | None = None


class _LoadingKernel(Kernel):
    """Programs of which the first load factor registers and do nothing else; ``lines`` makes the last.

    Several only where the instruction memory is too small for one.
    """

    @cached_property
    def counts(self) -> list[int]:
        """Loads of each program. Raises ``ValueError`` where the last fits the instruction memory with no number of them."""
        return _pieces(self.cfg, self.problem.loads or 0, self.lines)

    @abstractmethod
    def lines(self, first: int, count: int) -> list[str]:
        """Lines of the last program, which loads ``count`` rows of the table from ``first`` on."""

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        *counts, last = self.counts
        firsts = [sum(counts[:number]) for number in range(len(counts))]
        loading = [_load_only(self.cfg, first, count) for first, count in zip(firsts, counts)]
        return [KernelText.of(lines) for lines in (*loading, self.lines(sum(counts), last))]

    def _launches(self, source: int | None, uniform: dict[int, int], macs: int) -> list[Launch]:
        """``uniform`` and ``macs`` are those of the last launch."""
        row, first, launches = self.cfg.threads * BANK_BYTES, 0, []
        for program, count in zip(self.programs, self.counts):
            launches.append(Launch(program, {} if source is None or not count else {int(_WEIGHTS[2:]): source + first * row}))
            first += count
        last = launches.pop()
        return [*launches, Launch(last.program, last.uniform | uniform, macs)]


class FactorKernel(_LoadingKernel):
    """Load of factor registers: pieces of the table pass through slots of shared memory.

    Those to come are on the bus while one is moved to registers. A load of 16 bytes a thread takes fewer cycles than its bytes on the bus.
    So the bus is the bound: bytes / (``axi_data_bits`` / 8) cycles. Registers r0 and r1 of all threads are used.
    """

    def lines(self, first: int, count: int) -> list[str]:
        return _load_only(self.cfg, first, count)

    def launches(self, operands: EngineOperands = EngineOperands()) -> list[Launch]:
        """``Launch``es; ``operands``: ``EngineOperands``."""
        return self._launches(operands.source, {}, 0)


class EngineKernel(_LoadingKernel):
    """Recurrent engine run: weights, then the image are on the bus while weights go to registers.

    Of several images of a core the next one is loaded, and the outputs of the one before are stored, while the engine runs. Every other
    one has the same places, what is loaded never lies where another one has outputs, and biases are alike.
    """

    def lines(self, first: int, count: int) -> list[str]:
        return _engine_lines(self.cfg, self.problem.images, first, count, self.problem.loads is not None)

    def launches(self, operands: EngineOperands = EngineOperands()) -> list[Launch]:
        """``Launch``es; ``operands``: ``EngineOperands``."""
        uniform = {2 * core + index: address for core, pair in enumerate(operands.cores) if pair for index, address in enumerate(pair)}
        return self._launches(operands.source, uniform, sum(image.macs for of_core in self.problem.images for image in of_core))


def _engine_lines(cfg: Config, images: list[list[EngineImage]], first: int, count: int, biases: bool) -> list[str]:
    lines = [] if len(images) == 1 else [f"umov {_CORE}, %core"]
    for core, of_core in enumerate(images):
        guard = "" if len(images) == 1 else "@up0 "
        lines += [f"usetp.eq up0, {_CORE}, {core}"] if guard else []
        lines += _select_image(core, of_core[0], guard) if of_core else [f"{guard}halt"]
    copy = [f"umov {_SHARED}, 0", f"barrier.expect {_IMAGE_BARRIER}, {_BYTES}",
            f"copy_block.shared.global {_SHARED}, {_IMAGE}, {_BLOCKS}, {_IMAGE_BARRIER}"]
    lines += _Loading(cfg, first, count, max(of_core[0].outputs_address for of_core in images if of_core)).lines(copy) if count else copy
    lines.append(f"barrier.wait {_IMAGE_BARRIER}")
    for core in range(1, len(images)):
        lines += [f"usetp.eq up0, {_CORE}, {core}", f"@up0 bra core_{core}"] if images[core] else []
    for core, of_core in enumerate(images):
        lines += [f"core_{core}:", *_run_images(core, of_core, biases)] if of_core else []
    return lines


def _select_image(core: int, image: EngineImage, guard: str) -> list[str]:
    return [f"{guard}umov {_IMAGE}, ur{2 * core}", f"{guard}umov {_BYTES}, {len(image.loaded)}",
            f"{guard}umov {_BLOCKS}, {len(image.loaded) // BANK_BYTES}"]


def _run_images(core: int, images: list[EngineImage], biases: bool) -> list[str]:
    """From the first image in shared memory to outputs of all in global memory."""
    lines, (first, *further) = [], images
    if biases and first.bias_registers is not None:
        lines += _load_biases(first, first.bias_registers)
    if further:                             # weights in shared memory have been read
        lines += ["wait.thread", *_next_image(images, 1)]
    if biases and first.bias_registers is None and first.bias_address is not None:
        lines += [f"umov {_SHARED}, {first.bias_address}", f"rnn {_SHARED}"]
    output = f"ur{2 * core + 1}"
    for number, image in enumerate(images):
        lines += [f"umov {_SHARED}, {image.address}", f"rnn {_SHARED}"]
        lines += ["wait.copy"] if further else []           # outputs of the image before are stored, the next image is there
        lines += [f"umov {_SHARED}, {image.outputs_address}",
                  f"copy_block.global.shared {output}, {_SHARED}, {image.output_bytes // BANK_BYTES}"]
        if number + 1 < len(images):
            lines.append(f"uadd {output}, {output}, {image.output_bytes}")
        if number + 2 < len(images):
            lines += _next_image(images, number + 2)
    return [*lines, "wait.copy", "halt"]


def _next_image(images: list[EngineImage], number: int) -> list[str]:
    """The copy of an image; those before it have been copied."""
    image = images[number]
    return [f"uadd {_IMAGE}, {_IMAGE}, {len(images[number - 1].loaded)}", f"umov {_SHARED}, {image.origin}",
            f"copy_block.shared.global {_SHARED}, {_IMAGE}, {len(image.loaded) // BANK_BYTES}"]


def _load_biases(image: EngineImage, registers: Iterable[int]) -> list[str]:
    """Biases from their table into product registers of all threads; r0, of a sum that is not yet made, is used."""
    row = 4 * image.words.shape[0]
    loads = [f"ld.b32 r{register}, {_SEGMENT}:r0:{image.bias_address + index * row}" for index, register in enumerate(registers)]
    return ["mov r0, %tid", "shl r0, r0, 2", f"segment.shared.b8.d1 {_SEGMENT}, 0", *loads, "wait.thread"]
