"""Plan of a depthwise convolution on the sparse engine: how it is cut, places in shared memory, expected cycles, tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import NamedTuple, Self

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, ROW_BYTES
from heddle.errors import UsageError
from heddle.isa.sparse_job import JOB_BYTES, SCALE_ROWS, SUM_BYTES, PanelTarget

from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout
from ..golden.requantise import MAX_MULTIPLIER, Requantise
from ..isa.features import lacking
from ..sparse.compressed import Compressed
from ..sparse.job import depthwise_bytes, most_weights, panel_record, rows_package, scale_table, weight_rows
from .measured_kernel import Footprint, MeasuredKernel
from .parts.fitting import Region, Unfit, check_regions, check_tensors
from .parts.output_stage import bias_words
from .parts.sparse_schedule import Block
from .parts.tiling import round_up
from .problem import Elements, Problem

__all__ = ["CHUNK_SLOTS", "SLOTS", "DepthwisePlan", "DepthwiseProblem", "Round", "alike_weights", "filled_channels"]

SLOTS, CHUNK_SLOTS = 4, 3           # of packages and of results; of chunks
_CHUNKS, _CHUNK_ROWS = 16, 28       # of a round at most, where they have room; rows of one at least
_CHUNK_COPIES, _BLOCK_COPIES = 64, 128      # of all strips, of which each chunk and block has one: instructions of the program
_FIRST_CHUNKS = 2                   # in front of the first block
_BLOCKS, _BLOCK_ROWS = 24, 8        # the same of results
_SCALED_SUMS = 2                    # cycles for the sums of eight PEs that become bytes
# Of the cycle model: cycles of a round that nothing hides, and of each of its strips; of a row that is copied by itself; factors of steps
# and loads, which wait, and of beats.
_START, _STRIP, _ROW_COPY, _WAITS, _BUS = 420, 60, 1.15, 1.12, 1.03


@dataclass(frozen=True, eq=False)
class DepthwiseProblem(Problem):
    """Convolution of one image with one filter for each channel: y of x minus ``zero_point`` and of w, of 8 bits.

    ``geometry``: of all images. ``bias``: each filter has one. ``alike``: all weights of a filter are equal, as of an average, so that it
    may have more of them than the PEs hold. Without ``requantise`` y is int32. ``filled``: the last channels, that only fill up the others
    to a multiple of 16.
    """

    geometry: Geometry
    layout: ImageLayout
    elements: Elements = Elements()
    zero_point: int = 0
    bias: bool = False
    alike: bool = False
    requantise: Requantise | None = None
    filled: int = 0

    @property
    def name(self) -> str:
        return "a depthwise convolution"

    @property
    def macs(self) -> int:
        """Of one image, without channels that are filled up."""
        shape = self.geometry
        return shape.macs // (shape.images * shape.channels) * (shape.channels - self.filled)


def alike_weights(w: np.ndarray) -> bool:
    """Whether all weights of a filter are equal, of each of the filters (channels, …)."""
    weights = w.reshape(len(w), -1)
    return bool((weights == weights[:, :1]).all())


def filled_channels(geometry: Geometry) -> Geometry:
    """Geometry of a depthwise convolution with channels up to the next multiple of 16; others are left as they are."""
    if not geometry.depthwise:
        return geometry
    channels = round_up(geometry.channels, BANK_BYTES)
    return replace(geometry, channels=channels, outputs=channels, group=channels)


class Round(NamedTuple):
    """``channels`` from ``channel`` on, and in each strip ``rows`` rows of the result from ``row`` on."""

    channel: int
    channels: int
    row: int
    rows: int


class DepthwisePlan(MeasuredKernel):
    """What a ``DepthwiseProblem`` takes of a configuration, how it is cut, and its tables; the program is the kernel's.

    ``pieces``: rounds that the rows of a strip take, at least. Raises ``UsageError`` for what the method cannot do, ``Unfit`` where memory
    has no room.
    """

    problem: DepthwiseProblem

    def __init__(self, cfg: Config, problem: DepthwiseProblem, pieces: int = 1) -> None:
        super().__init__(cfg, problem)
        self._check(cfg, problem)
        shape = self.shape = problem.geometry
        self.width = cfg.sparse_columns
        self.inner, self.inner_result = prod(shape.size[1:]), prod(shape.result[1:])        # pixels of a row
        self.item = SUM_BYTES if problem.requantise is None else 1
        self.scaled = problem.requantise is not None
        # Rows of the result of a strip; the last one may have fewer.
        self.band = -(-shape.result[0] // min(max(self.width // shape.channels, 1), shape.result[0]))
        self.strips = -(-shape.result[0] // self.band)
        parts = self.width // shape.channels
        # Rows of a strip lie together where the strips are parts that the engine knows: then copies have no gaps.
        together = parts <= cfg.thread_groups and not self.width % shape.channels and parts & (parts - 1) == 0
        self.parted = (parts or 1).bit_length() - 1 if together else None
        self.pieces = min(max(pieces, -(-cfg.cores // -(-shape.channels // self.width))), self.band)
        while self.panel_rows(-(-self.band // self.pieces)) > cfg.sparse_rows:
            self.pieces += 1
            if self.pieces > self.band:
                raise UsageError(f"factor_words must be at least {-(-4 * self.panel_rows(1) // cfg.dot)} for method \"depthwise\", "
                                 f"not {cfg.factor_words}")
        self.rows = -(-self.band // self.pieces)
        self._place()

    @staticmethod
    def _check(cfg: Config, problem: DepthwiseProblem) -> None:
        shape, most = problem.geometry, most_weights(cfg) if cfg.sparse else 0
        rules = ((cfg.sparse, f"configuration {cfg.name} must have sparse ({lacking(cfg, 'sparse')})"),
                 (shape.depthwise,
                  f"group must be the {shape.channels} channels and {shape.outputs} outputs, not {shape.group},"),
                 (shape.channels % BANK_BYTES == 0, f"channels must be a multiple of {BANK_BYTES}, not {shape.channels},"),
                 (problem.alike or shape.positions <= most,
                  f"filters must have at most {most} positions, or the same weight at all of them, not {shape.positions},"),
                 (problem.layout.channels_last, f"layout must have channels last, not {problem.layout.name},"),
                 (problem.requantise is not None or not problem.zero_point, f"x_zero_point must be 0 without requantise, not "
                  f"{problem.zero_point},"),
                 (problem.requantise is not None or not problem.bias, "bias must be None without requantise"))
        for holds, rule in rules:
            if not holds:
                raise UsageError(f"{rule} for method \"depthwise\"")
        check_tensors(cfg, problem.name)
        if problem.requantise is not None:
            _scale(problem.requantise)

    def panel_rows(self, rows: int) -> int:
        """Rows of the panel for some rows of the result of each strip: the first one has zero points."""
        return 1 + self.inner * ((rows - 1) * self.shape.stride[0] + self.shape.reach[0] + 1)

    def _place(self) -> None:
        """Shared memory: records of jobs, weights with scales and zero points, packages, results, chunks of the image."""
        cfg, rows = self.cfg, self.rows * self.inner_result
        self.weights = min(self.shape.positions, most_weights(cfg))         # the engine begins again with the first one behind these
        self.weight_rows = int(weight_rows(cfg, self.weights)[-1]) + 1
        self.constant_rows = self.weight_rows + SCALE_ROWS * self.scaled + 1
        panel, whole = self.panel_rows(self.rows) - 1, Round(0, 0, 0, self.rows)
        chunks, blocks = (max(min(most, copies // self.strips), 1)
                          for most, copies in ((_CHUNKS, _CHUNK_COPIES), (_BLOCKS, _BLOCK_COPIES)))
        self.chunk_rows = max(_CHUNK_ROWS, -(-panel // chunks))
        self.block_rows = round_up(max(_BLOCK_ROWS, -(-rows // blocks)), max(1, ROW_BYTES // (self.width * self.item)))
        while True:
            records = round_up(JOB_BYTES * (2 + self.scaled + len(self.chunks(whole))), ROW_BYTES)
            constants = round_up(self.constant_rows * self.width, ROW_BYTES)
            package = round_up(self.package_bytes(self.block_rows), ROW_BYTES)
            results = round_up(self.block_rows * self.width * self.item, ROW_BYTES)
            chunk = round_up(self.chunk_rows * self.width, ROW_BYTES)
            sizes = [("records", records), ("constants", constants), *(("package", package),) * SLOTS, *(("results", results),) * SLOTS,
                     *(("chunk", chunk),) * CHUNK_SLOTS]
            if sum(size for _, size in sizes) <= cfg.shared_bytes:
                break
            if chunk >= results and self.chunk_rows > 1:
                self.chunk_rows //= 2
            elif self.block_rows > 1:
                self.block_rows //= 2
            else:
                raise Unfit("shared_memory_kib")
        starts = np.cumsum([0, *(size for _, size in sizes)]).tolist()
        check_regions(cfg, [Region(f"{name} {number}", start, size) for number, ((name, size), start) in enumerate(zip(sizes, starts))])
        self.constants_at = starts[1]
        self.packages_at, self.results_at = starts[2:2 + SLOTS], starts[2 + SLOTS:2 + 2 * SLOTS]
        self.chunks_at, self.shared_end = starts[2 + 2 * SLOTS:-1], starts[-1]

    @classmethod
    def cuts(cls, cfg: Config, problem: DepthwiseProblem) -> Iterator[Self]:
        """See ``Kernel``: more rounds have shorter programs."""
        kernel = cls(cfg, problem)
        while True:
            yield kernel
            if kernel.rows == 1:
                return
            kernel = cls(cfg, problem, 2 * kernel.pieces)

    @classmethod
    def estimate(cls, cfg: Config, problem: DepthwiseProblem) -> int:
        """Cycles of an image, of the cut whose programs fit."""
        return cls.fitting(cfg, problem).expected_cycles

    @property
    def expected_cycles(self) -> int:
        """Of an image: of each round the longest of steps with the loads of the panel, sums that leave, and copies."""
        cfg, (steps, drain), total = self.cfg, self.row_cycles, 0
        for part, *_ in self.turns:
            rows, panel = part.rows * self.inner_result, self.panel_rows(part.rows)
            bus = int(_BUS * self.strips * part.channels * max(panel, rows * self.item)) // cfg.axi_bytes
            copies = int(_ROW_COPY * self.strips * (panel + rows)) if self.parted is None else 0
            busy = int(_WAITS * (rows * steps + panel * cfg.thread_groups))
            total += _START + _STRIP * self.strips + max(busy, rows * drain, bus, copies)
        return total

    @property
    def row_cycles(self) -> tuple[int, int]:
        """Cycles of the steps of a pixel of the result, in all channels and strips, and of its sums on their way out."""
        return (-(-self.shape.positions // self.cfg.sparse_pairs), self.cfg.thread_groups * (_SCALED_SUMS if self.scaled else 1))

    @property
    def least_cycles(self) -> int:
        """Cycles of an image that nothing waits for."""
        return max(self.row_cycles) * self.inner_result * sum(max(part.rows for part in turn) for turn in self.turns)

    @property
    def footprint(self) -> Footprint:
        """See ``MeasuredKernel``."""
        return Footprint(self.shared_end, self.panel_rows(self.rows) * self.cfg.sparse_columns, 0)

    @property
    def lane_bound(self) -> float:
        """See ``MeasuredKernel``."""
        return self.problem.macs / self.least_cycles / self.cfg.peak_macs(1)

    @cached_property
    def rounds(self) -> list[Round]:
        """In the order of their launches."""
        return [Round(channel, min(self.width, self.shape.channels - channel), row, min(self.rows, self.band - row))
                for channel in range(0, self.shape.channels, self.width) for row in range(0, self.band, self.rows)]

    @property
    def turns(self) -> list[list[Round]]:
        """Rounds of each launch: one for each core."""
        return [self.rounds[first:first + self.cfg.cores] for first in range(0, len(self.rounds), self.cfg.cores)]

    # -- pixels and blocks ------------------------------------------------------------------

    def first(self, strip: int, part: Round) -> int:
        """Pixel of the image, which may lie outside, that is row 1 of the panel in a strip."""
        return self.inner * ((strip * self.band + part.row) * self.shape.stride[0] - self.shape.padding[0][0])

    def matrix(self, block: Block, part: Round) -> Compressed:
        """Rows of the panel that each pixel of a block of the result meets."""
        shape, pixels = self.shape, np.arange(block.first, block.first + block.rows)
        row = (pixels // self.inner_result * shape.stride[0])[:, None] + np.arange(shape.filter[0])[None] * shape.dilation[0]
        inside: np.ndarray = np.ones(row.shape, bool)       # several strips have their own rows of zero points in the panel
        if self.strips == 1:
            image_row = row + part.row * shape.stride[0] - shape.padding[0][0]
            inside = (image_row >= 0) & (image_row < shape.size[0])
        place, left = row * self.inner, pixels % self.inner_result
        for axis in range(1, shape.spatial):
            inner, size = prod(shape.result[axis + 1:]), prod(shape.size[axis + 1:])
            at = (left // inner % shape.result[axis])[:, None] * shape.stride[axis] - shape.padding[axis][0] \
                + np.arange(shape.filter[axis])[None] * shape.dilation[axis]
            there = (at >= 0) & (at < shape.size[axis])
            place = (place[:, :, None] + at[:, None] * size).reshape(len(pixels), -1)
            inside = (inside[:, :, None] & there[:, None]).reshape(len(pixels), -1)
        indices = np.where(inside, place + 1, 0)
        pointers = np.arange(len(pixels) + 1) * shape.positions
        return Compressed(pointers.astype(np.int32), indices.astype(np.int32).ravel(), np.zeros(indices.size, np.int8),
                          (len(pixels), self.panel_rows(part.rows)))

    def blocks(self, part: Round) -> list[Block]:
        """Pixels of the result of each strip, in order."""
        count = part.rows * self.inner_result
        return [Block(first, min(self.block_rows, count - first)) for first in range(0, count, self.block_rows)]

    def chunks(self, part: Round) -> list[Block]:
        """Pixels of each strip of the image, in order. The first block waits for the first ones, which are small: one is loaded while the
        next one arrives."""
        count, needed = self.panel_rows(part.rows) - 1, self.needed(self.blocks(part)[0])
        step = min(-(-needed // _FIRST_CHUNKS), self.chunk_rows)
        firsts = [*range(0, needed, step), *range(needed, count, self.chunk_rows)]
        return [Block(first, behind - first) for first, behind in zip(firsts, [*firsts[1:], count])]

    def needed(self, block: Block) -> int:
        """Pixels of each strip of the image that must be in the panel for a block."""
        last = (block.first + block.rows - 1) // self.inner_result
        return (last * self.shape.stride[0] + self.shape.reach[0] + 1) * self.inner

    # -- operands ---------------------------------------------------------------------------

    def tables(self, w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        """Records, weights, scales, zero points and packages of all rounds, as they are to lie in global memory; w (channels, 1, …)."""
        weights = w.reshape(len(w), -1)
        total = np.zeros(len(w), np.int64) if bias is None else np.asarray(bias, np.int64)
        total = bias_words(self.problem.requantise, total - self.problem.zero_point * weights.astype(np.int64).sum(axis=1))
        parts = []
        for part in self.rounds:
            own = slice(part.channel, part.channel + part.channels)
            parts += [*self._records(part), self._constants(weights[own], total[own], own), *self._packages(part)]
        return np.concatenate([array.ravel() for array in parts])

    def _records(self, part: Round) -> list[np.ndarray]:
        at = self.constants_at
        records = [panel_record(0, self.weight_rows, at, PanelTarget.WEIGHTS)]
        if self.scaled:
            records.append(panel_record(0, SCALE_ROWS, at + self.weight_rows * self.width, PanelTarget.SCALES))
        records.append(panel_record(0, 1, at + (self.constant_rows - 1) * self.width))
        records += [panel_record(1 + chunk.first, chunk.rows, self.chunks_at[number % CHUNK_SLOTS], strips=self.parted or 0)
                    for number, chunk in enumerate(self.chunks(part))]
        return [np.concatenate(records), np.zeros(self.constants_at - JOB_BYTES * len(records), np.uint8)]

    def _constants(self, weights: np.ndarray, bias: np.ndarray, own: slice) -> np.ndarray:
        """Rows of weights, scales and zero points."""
        def spread(values: np.ndarray) -> np.ndarray:
            """Values of the channels for all columns: those of each strip, then zeros."""
            columns = np.tile(values, self.strips)
            return np.pad(columns, (0, self.width - len(columns)))

        rows = np.zeros((self.constant_rows, self.width), np.uint8)
        for row, values in zip(weight_rows(self.cfg, self.weights), weights.T):
            rows[row] = spread(values).view(np.uint8)
        spec = self.problem.requantise
        if spec is not None:
            multipliers, shift = _scale(spec)
            minimum, maximum = spec.bounds
            factors = np.broadcast_to(multipliers, (self.shape.channels,))[own]
            rows[self.weight_rows:-1] = scale_table(
                self.cfg, spread(bias), spread(factors), shift=shift, unsigned=int(np.dtype(spec.dtype) == np.uint8),
                zero_point=int(spec.zero_point), minimum=minimum, maximum=maximum, own_shifts=spec.own_shifts,
                double_rounding=spec.double_rounding)
        rows[-1] = self.problem.zero_point & 0xFF
        return rows

    def _packages(self, part: Round) -> list[np.ndarray]:
        return [rows_package(self.matrix(block, part), 0, block.rows, self.packages_at[number % SLOTS], self.results_at[number % SLOTS],
                             self.panel_rows(part.rows), unsigned_panel=int(not self.problem.elements.a_signed),
                             unsigned_left=int(not self.problem.elements.b_signed), depthwise=1, scaled=int(self.scaled),
                             strips=self.parted or 0)
                for number, block in enumerate(self.blocks(part))]

    def bytes(self, part: Round) -> int:
        """Of the tables of a round."""
        return self.constants_end + sum(self.package_bytes(block.rows) for block in self.blocks(part))

    @property
    def constants_end(self) -> int:
        """Bytes of the records and constants of a round, in global and in shared memory."""
        return self.constants_at + self.constant_rows * self.width

    def package_bytes(self, rows: int) -> int:
        """Of a block of some pixels of the result."""
        return depthwise_bytes(rows, rows * self.shape.positions)

    def valid(self, strip: int, part: Round) -> int:
        """Pixels of the result of a strip in a round: the last strip has fewer rows than others."""
        rows = min(self.band, self.shape.result[0] - strip * self.band) - part.row
        return max(0, min(rows, part.rows)) * self.inner_result


def _scale(spec: Requantise) -> tuple[np.ndarray, int]:
    """Multipliers, as large as 31 bits hold, and what is left of the shift behind the upper half of the product: 1 to 31, or 0 where
    channels have shifts of their own.

    Raises ``UsageError`` where there is no such shift.
    """
    multipliers = np.asarray(spec.multiplier, np.int64)
    if spec.own_shifts:
        return multipliers, 0
    shift = int(spec.shift)
    while shift < 33 and 2 * multipliers.max() <= MAX_MULTIPLIER:
        multipliers, shift = 2 * multipliers, shift + 1
    if shift < 33:
        raise UsageError(f"multiplier / 2**shift must be below 1/4 for method \"depthwise\", not {multipliers.max()} / 2**{shift}")
    return multipliers, shift - 32
