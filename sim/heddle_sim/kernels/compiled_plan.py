"""Plan of a convolution by compiled offsets: features, sizes, expected cycles, places in shared memory, tables and weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Self

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER, ROW_BYTES
from heddle.errors import UsageError

from ..compiled.geometry import Geometry
from ..compiled.hardware import base_words, check_masks, entry_words
from ..compiled.layout import ImageLayout, ImageStrides
from ..compiled.representation import Representation, compile_convolution
from ..golden.requantise import Requantise
from ..isa.features import lacking
from .compiled_cycles import CompiledCycles, gather_cycles
from .measured_kernel import REGISTER_BYTES, Footprint, MeasuredKernel
from .parts.fitting import Region, Unfit, check_regions, check_tensors
from .parts.offset_window import ENTRY_BYTES, OffsetWindow
from .parts.output_tile import OutputTile
from .parts.planes import Planes
from .parts.register_groups import half_words, words_per_group
from .parts.shares import Share, share_out
from .parts.tiling import MAX_SLICES, full_part, round_up
from .problem import Elements, Problem

__all__ = ["CHUNK_SLOTS", "CompiledConvolutionPlan", "CompiledConvolutionProblem"]

CHUNK_SLOTS = 4             # of chunks of weights in shared memory
# Places of bands, slots of chunks, words of a chunk: the first row that fits, and of it the fastest.
_AREAS = (
    ((2, CHUNK_SLOTS, MAX_SLICES),),
    ((2, 2, MAX_SLICES), (1, CHUNK_SLOTS, MAX_SLICES), (1, 2, MAX_SLICES), (1, CHUNK_SLOTS, MAX_SLICES // 2)),
    ((1, 2, MAX_SLICES // 2),),
)
_COPY = 600                 # cycles of the copy of some weights
_LEAST_REST = 1024          # bytes of x behind the first tile
_STREAMED = 6               # the first ``whole`` whose filters are streamed


@dataclass(frozen=True, eq=False)
class CompiledConvolutionProblem(Problem):
    """Convolution of one image and one group of channels, or all of them: y of x minus ``zero_point`` and of w, integers of 8 bits.

    ``geometry``: of all images with all channels. ``group``: number of the group; None: each tile of filters has a group of its own.
    ``zero_point``: what the padding reads as. ``bias``: each filter has one. ``requantise``: what becomes of the sums of this group;
    without it y is int32, modulo 2**32. ``merged``: groups that are one here, with zeros between them. ``addends``: filters are the sum of
    one or two of 8 bits. ``ka``: pixels that ``mm`` multiplies at once. With more than one a group has ``dot`` channels and ``threads`` /
    ``ka`` filters. A tile of filters then has up to ``ka`` groups, each with an ``mm`` of its own. Without groups it has ``parts`` of
    ``threads`` / ``ka`` filters. ``filled``: how many of the channels are zeros, which make the others a word.
    """

    geometry: Geometry
    layout: ImageLayout
    group: int | None = 0
    elements: Elements = Elements()
    zero_point: int = 0
    bias: bool = False
    requantise: Requantise | None = None
    merged: int = 1
    addends: int = 1
    ka: int = 1
    filled: int = 0
    parts: int = 1

    @property
    def name(self) -> str:
        return "a compiled convolution"

    @property
    def outputs(self) -> int:
        """Filters of the group, or of all."""
        return self.geometry.outputs // (1 if self.group is None else self.geometry.group)

    @property
    def macs(self) -> int:
        """Of one image, without the zeros between ``merged`` groups and those that fill a word."""
        macs = self.geometry.macs // self.geometry.channels * (self.geometry.channels - self.filled)
        return macs // self.merged // self.geometry.images // (1 if self.group is None else self.geometry.group)


class CompiledConvolutionPlan(MeasuredKernel):
    """What a ``CompiledConvolutionProblem`` takes of a configuration, how it is cut, and its operands; the program is the kernel's.

    ``whole``: an odd one: one band has all rows; from 2 on the weights have one place; from 4 on they are loaded in front of the first
    tile; from 6 on they are streamed. Raises ``ValueError`` for what the method cannot do, ``Unfit`` where shared memory has no room.
    """

    def __init__(self, cfg: Config, problem: CompiledConvolutionProblem, whole: int = 0) -> None:
        super().__init__(cfg, problem)
        self._whole = whole
        self._check_features(cfg)
        shape, layout = problem.geometry, problem.layout
        self.pixels = prod(shape.result)
        self.filter_tiles = -(-problem.outputs // cfg.threads)
        self._choose_planes()
        self._choose_words()
        self._choose_entries()
        self._choose_factors()
        self.output = OutputTile(cfg, shape, layout, problem.outputs, problem.bias or problem.zero_point != 0, problem.requantise,
                                 problem.ka, self.parts)
        self._place()

    def _choose_planes(self) -> None:
        """Planes of x with the channels of the group, and how its rows are copied."""
        problem = self.problem
        shape, layout = problem.geometry, problem.layout
        self.planes = Planes.of(layout, shape.images, shape.channels, shape.size, 1)
        self.first_channel, last = 0, shape.channels - 1
        if problem.group is not None:
            self.first_channel, last = problem.group * shape.group_channels, (problem.group + 1) * shape.group_channels - 1
        self.first_plane = self.first_channel // self.planes.vector
        self.plane_count = last // self.planes.vector - self.first_plane + 1
        # Rows that filters of one row leave out are not copied.
        skips = layout.channels_last and shape.filter[0] == 1 and shape.padding[0] == (0, 0) and self.planes.row_bytes % BANK_BYTES == 0
        self.row_step = shape.stride[0] if skips and self.planes.row_bytes % shape.stride[0] == 0 else 1

    def _choose_words(self) -> None:
        """Whether entries stand for words, the words of a filter, and whether these are streamed."""
        cfg, shape, problem = self.cfg, self.problem.geometry, self.problem
        self.by_word = shape.group_channels % cfg.dot == 0 == self.first_channel % cfg.dot and self.planes.vector % cfg.dot == 0
        if not self.by_word and not cfg.byte_entries:
            raise UsageError(f"channels of a group must be a multiple of {cfg.dot} with layout {problem.layout.name} on {cfg.name} "
                             f"(fetch_words and threads must be at least dot for others), not {shape.group_channels}")
        # Words of neighbouring pixels lie in different banks, so that copies pass between them.
        self.swizzle = ".128B" if cfg.copy_swizzles and self.by_word else ""
        elements = shape.group_channels * shape.positions * problem.addends
        self.steps = -(-elements // cfg.dot)      # words that mm multiplies
        self.group_words = round_up(self.steps, max(BANK_BYTES // cfg.dot, 1))
        # Of a tile of filters: its groups, where there are some.
        self.parts = problem.parts if shape.group == 1 else min(problem.ka, shape.group) if problem.ka > 1 else 1
        # Filters that the factor registers do not hold are streamed: words of a part, of which two have a place, and parts of a filter.
        group = words_per_group(self.cfg)
        self.part_words = max(group, MAX_SLICES)
        self.stream_parts = -(-self.steps // self.part_words)
        self.streamed = self._whole >= _STREAMED or self.group_words * self.parts + 2 * group > cfg.factor_words
        if self.streamed:
            self._check_streamed(elements, 2 * group)
            self.group_words = self.stream_parts * self.part_words
        self.words = self.group_words * self.parts
        self.weight_pitch = self.words * cfg.dot

    def _choose_entries(self) -> None:
        """Entries of the list of offsets, which of them stay in the compiled-offset memory, and the words of an ``mm``."""
        cfg, of_word = self.cfg, 1 if self.by_word else self.cfg.dot
        self.entry_count = round_up(self.group_words * of_word, BANK_BYTES // ENTRY_BYTES)
        # Words of an ``mm``, whose entries the memory holds, and its entries.
        self.slices = min(MAX_SLICES, cfg.compiled_offsets // of_word)
        self.mm_entries = self.slices * of_word
        self.chunk_steps = [min(self.slices, self.steps - start) for start in range(0, self.steps, self.slices)]
        self.entries = OffsetWindow(cfg, self.entry_count, self.mm_entries)
        if self.streamed and self.entries.window:
            self.entries = OffsetWindow(cfg, self.part_words * of_word, self.mm_entries, none_stay=True)
        check_masks(self.problem.geometry)

    def _choose_factors(self) -> None:
        """Factor registers: places of the bases of pixels, and of weights."""
        cfg, group = self.cfg, words_per_group(self.cfg)
        # Bases in register groups of their own.
        self.offsets = [FIRST_FACTOR_REGISTER + (cfg.factor_words - parity * group) * cfg.numbers_per_word - 1
                        for parity in range(2)]
        self.zeros = [number - 1 for number in self.offsets]        # where refills find 0, beside the bases of the same tile
        # Two halves of the factor registers, each of whole register groups, where threads load four registers at once.
        self.half_words = half_words(cfg)
        aligned, several = self.half_words * cfg.numbers_per_word % 4 == 0, self.filter_tiles > 1
        self.halves = not self.streamed and aligned and self._whole < 2 and several and self.words <= self.half_words
        # The first tile of some filters loads their weights, each in front of its ``mm``; else all are loaded in front of it.
        self.among = not self.streamed and not self.halves and self._whole < 4 and several

    @classmethod
    def cuts(cls, cfg: Config, problem: CompiledConvolutionProblem) -> Iterator[Self]:
        """The fastest, and then those whose programs are shorter."""
        for whole in range(_STREAMED + 2):
            try:
                yield cls(cfg, problem, whole)
            except Unfit:
                if not whole:
                    raise

    @classmethod
    def estimate(cls, cfg: Config, problem: CompiledConvolutionProblem) -> int:
        """Cycles of the cut whose program fits, by the cycle model."""
        kernel = cls.fitting(cfg, problem)
        return int(CompiledCycles(kernel, kernel.rows, kernel.tile, gather_cycles(kernel)).total())

    @property
    def resident(self) -> bool:
        """Whether the memories hold what they are to: filters, the whole list of offsets, and bands beside each other."""
        return not self.streamed and not self.entries.window and self.band_places == 2 and len(self.slots) == CHUNK_SLOTS

    @property
    def early(self) -> bool:
        """Whether the second weights are copied before the first tile: ``mm`` of a tile is too short to hide a copy, which is worth to wait
        until the threads have read the first ones."""
        return self.tile * self.parts * self.steps / self.problem.ka < _COPY

    @property
    def footprint(self) -> Footprint:
        """See ``MeasuredKernel``; factor registers hold weights, of streamed filters two parts."""
        words = 2 * self.part_words if self.streamed else self.words * (2 if self.halves else 1)
        shared = self.slab + self.slab_bytes * min(self.bands, self.band_places)
        return Footprint(shared, self.cfg.threads * (self.cfg.dot * words + 2 * REGISTER_BYTES),
                         ENTRY_BYTES * (self.entries.resident + self.entries.window))

    @property
    def lane_bound(self) -> float:
        """See ``MeasuredKernel``; pixels are columns, a filter is a list of elements."""
        problem, shape = self.problem, self.problem.geometry
        lanes, useful = self.cfg.threads // problem.ka, 1 - problem.filled / shape.channels
        elements = shape.group_channels * shape.positions
        return full_part(shape.outputs // shape.group, lanes) * full_part(elements, self.cfg.dot) * useful / problem.merged

    def shares_of(self, bands: int) -> list[Share]:
        """Of each core: bands, of so many, as rows, and tiles of filters as columns."""
        return share_out(self.cfg.cores, bands, self.filter_tiles, 1)

    @property
    def shares(self) -> list[Share]:
        """Bands (rows) and tiles of filters (columns) of each core."""
        return self.shares_of(self.bands)

    def _cycles(self, rows: int, tile: int) -> float:
        """Expected cycles with bands of ``rows`` rows and tiles of ``tile`` pixels, which choose them: as if the first band came at once.
        What a split gains would else speak for few bands, whose other copies wait longer for each other than the model knows."""
        return CompiledCycles(self, rows, tile, split=False).total()

    @staticmethod
    def _check_features(cfg: Config) -> None:
        if not cfg.compiled_offsets:
            raise UsageError(f"configuration {cfg.name} must have compiled_offsets for method \"compiled\" "
                             f"({lacking(cfg, 'compiled_offsets')})")
        check_tensors(cfg, "method \"compiled\"")

    def _check_streamed(self, elements: int, kept: int) -> None:
        """Refuses filters of so many elements that cannot be streamed: there are two places of parts, beside ``kept`` words."""
        cfg, whole = self.cfg, self.group_words * self.parts + kept
        least = whole if self.parts > 1 else min(whole, 2 * self.part_words + kept)
        if self.parts > 1 or 2 * self.part_words + kept > cfg.factor_words:
            if whole <= cfg.factor_words:
                raise Unfit("instruction_words")
            raise UsageError(f"factor_words must be at least {least} for {elements} elements of a filter with "
                             f"layout {self.problem.layout.name}, not {cfg.factor_words}")

    def _place(self) -> None:
        """Shared memory: two places of bands, or where it has no room for these, one, or fewer and smaller slots of weights.

        Raises ``Unfit`` where it has no room for that.
        """
        for choices in _AREAS:
            fitting = []
            for areas in choices:
                try:
                    self._cut(*areas)
                except Unfit:
                    continue
                fitting.append((self._cycles(self.rows, self.tile), areas))
            if fitting:
                self._cut(*min(fitting, key=lambda choice: choice[0])[1])
                return
        raise Unfit("shared_memory_kib")

    def _cut(self, places: int, slots: int, chunk: int) -> None:
        """Shared memory with so many places of bands and slots of ``chunk`` words of weights; the rows of a band; the pixels of a tile.
        These are fewer than ``threads`` where that is faster: the last tile of a small image would be nearly empty."""
        cfg, shape = self.cfg, self.problem.geometry
        self.band_places, self.chunk_words = places, chunk
        self.chunks = [min(chunk, self.words - start) for start in range(0, self.words, chunk)]
        # Slots that streamed filters use: the chunks of two parts fill them some times.
        self.stream_slots = max(2, min(slots, self.part_words // chunk))
        # Chunks of weights that are loaded together.
        self.together = max(words_per_group(self.cfg) // chunk, 1) if self.among else 0
        self.chunk_pitch = chunk * cfg.dot + BANK_BYTES
        self.slot_bytes = cfg.threads * self.chunk_pitch
        # First the padding: a row, which no swizzle leaves. Then entries, places of the lanes, and their biases and multipliers.
        self.places = ROW_BYTES + ENTRY_BYTES * self.entry_count
        self.channels = self.places + 4 * cfg.threads
        self.table_bytes = self.channels + 8 * cfg.threads * self.parts * self.filter_tiles * self.output.has_channels
        self.stages, first = (0, self.output.nbytes), 2 * self.output.nbytes
        self.slots = tuple(first + number * self.slot_bytes for number in range(slots))
        self.table = round_up(first + slots * self.slot_bytes, ROW_BYTES)
        self.slab = round_up(self.table + self.table_bytes, ROW_BYTES)
        rows = self._fastest_rows(cfg.threads)
        tiles = [tile for tile in range(cfg.threads, 0, -self.output.tile_step) if self._fits(rows, tile)]
        self.tile = min(tiles, key=lambda tile: self._cycles(rows, tile))
        self.rows = self._fastest_rows(self.tile)
        self.bands = -(-shape.result[0] // self.rows)
        self.head = self.head_rows(self.rows, self.tile)
        self.waits = places == 1 < self.bands           # a band is copied when ``mm`` has left the one before
        self.slab_bytes, self.base_count = self.slab_bytes_of(self.rows, self.tile), self._base_count(self.rows, self.tile)
        self.band_pixels = self.rows * prod(shape.result[1:])
        self.band_tiles = -(-self.band_pixels // self.tile)
        check_regions(cfg, [
            *(Region(f"stage {number}", start, self.output.nbytes) for number, start in enumerate(self.stages)),
            *(Region(f"slot {number}", start, self.slot_bytes) for number, start in enumerate(self.slots)),
            Region("table", self.table, self.table_bytes), Region("slabs", self.slab, self.slab_bytes * min(self.bands, places))])

    def _fastest_rows(self, tile: int) -> int:
        """Rows of a band. Raises ``Unfit`` where none fit shared memory."""
        whole = self.problem.geometry.result[0]
        fitting = [rows for rows in (whole, *range(1, whole)) if self._fits(rows, tile)]
        if not fitting:
            raise Unfit("shared_memory_kib")
        return min(fitting, key=lambda rows: self._cycles(rows, tile))

    def _fits(self, rows: int, tile: int) -> bool:
        """Whether shared memory holds bands of so many rows: one of all rows, or bands in their places that
        begin at multiples of 16 bytes of x, and of y."""
        shape, room = self.problem.geometry, self.cfg.shared_bytes - self.slab
        if rows == shape.result[0]:
            return self.slab_bytes_of(rows, tile) <= room
        return (self._whole % 2 == 0 and self.band_places * self.slab_bytes_of(rows, tile) <= room
                and rows * shape.stride[0] * self.planes.row_bytes % BANK_BYTES == 0
                and rows * prod(shape.result[1:]) * self.output.pixel_pitch % BANK_BYTES == 0)

    @property
    def start(self) -> int:
        """Bytes from the beginning of a plane of x to that of the first band, which may lie in front of it."""
        shape = self.problem.geometry
        return -shape.padding[0][0] * self.planes.row_bytes // BANK_BYTES * BANK_BYTES

    @property
    def part_step(self) -> int:
        """Bytes from the channels of a part of a tile of filters to those of the next one: parts without groups have the same."""
        shape = self.problem.geometry
        return 0 if shape.group == 1 else shape.group_channels

    @property
    def group_step(self) -> int:
        """Bytes from the channels of a tile of filters to those of the next one, where each has its own."""
        shape, vector = self.problem.geometry, self.planes.vector
        if self.problem.group is not None or shape.group == 1:
            return 0
        channels = shape.group_channels * self.parts
        return channels if self.problem.layout.channels_last else channels // vector * self._piece_pitch(self.rows)

    def _piece_bytes(self, rows: int) -> int:
        """Of a plane of x that a band of ``rows`` rows of the result needs."""
        shape = self.problem.geometry
        if self.row_step > 1:
            return rows * self.planes.row_bytes
        inputs = (rows - 1) * shape.stride[0] + shape.reach[0] + 1
        return round_up(inputs * self.planes.row_bytes + BANK_BYTES - 1, BANK_BYTES)

    def head_rows(self, rows: int, tile: int) -> int:
        """Rows of the result whose pixels of x the first tile needs: of the first band they are copied first, where the others are worth a
        copy of their own. All ``rows`` where they are not, or where x has several planes."""
        first = -(-tile // prod(self.problem.geometry.result[1:]))
        if self.plane_count > 1 or first >= rows or self._piece_bytes(rows) - self._piece_bytes(first) < _LEAST_REST:
            return rows
        return first

    def rest_bytes(self, rows: int, tile: int) -> int:
        """Of x behind ``head_rows`` of a band."""
        return self._piece_bytes(rows) - self._piece_bytes(self.head_rows(rows, tile))

    def slab_bytes_of(self, rows: int, tile: int) -> int:
        return self._pieces_bytes(rows) + round_up(4 * self._base_count(rows, tile), ROW_BYTES)

    def _base_count(self, rows: int, tile: int) -> int:
        """Bases of a band: all threads load for its last tile."""
        return round_up(rows * prod(self.problem.geometry.result[1:]), tile) - tile + self.cfg.threads

    def _pieces_bytes(self, rows: int) -> int:
        """Of all pieces of a band, whole rows of shared memory; the bases lie behind them."""
        return round_up(self.plane_count * self._piece_pitch(rows), ROW_BYTES)

    def _piece_pitch(self, rows: int) -> int:
        """Planes lie an odd number of blocks apart, so that channels of neighbouring planes lie in different banks."""
        blocks = self._piece_bytes(rows) // BANK_BYTES
        return (blocks | 1) * BANK_BYTES

    @cached_property
    def representation(self) -> Representation:
        """Addresses in the first place of bands."""
        shape, problem = self.problem.geometry, self.problem
        axes: list[int] = []
        step = self.planes.vector
        for count in reversed(shape.size):
            axes.insert(0, step)
            step *= count
        axes[0] //= self.row_step
        block = 0 if problem.layout.channels_last else self._piece_pitch(self.rows)
        strides = ImageStrides(0, block, 1 if self.planes.vector > 1 else 0, tuple(axes), self.planes.vector)
        order = "position" if self.by_word else "memory"
        return compile_convolution(replace(shape, images=1), problem.layout, np.int8, order, strides, self.cfg.threads)

    # -- operands ---------------------------------------------------------------------------

    def bases(self) -> np.ndarray:
        """Offset registers of the pixels, uint32 (bands, pixels of a band), relative to the place of the band."""
        made = self.representation
        table = np.zeros((self.bands, self.base_count), np.uint32)
        for band in range(self.bands):
            part = slice(band * self.band_pixels, min((band + 1) * self.band_pixels, self.pixels))
            begin = self.start + band * self.rows * self.problem.geometry.stride[0] * self.planes.row_bytes // self.row_step
            words = base_words(made, part, begin)
            table[band, :len(words)] = words
        return table

    def table_data(self) -> np.ndarray:
        """Padding, entries and places of the lanes, uint8."""
        made, cfg = self.representation, self.cfg
        group, step = self.problem.group or 0, cfg.dot if self.by_word else 1
        if self.by_word:
            whole = made.group_offsets(group).reshape(-1, cfg.dot)
            assert (whole - whole[:, :1] == np.arange(cfg.dot)).all(), "a word must lie together"
        entries = entry_words(made, group, self.first_plane * made.strides.block)[::step]
        entries = np.tile(entries, self.problem.addends)
        table = np.full(self.entry_count, entries[-1])      # surplus elements have weights of zero
        table[:len(entries)] = entries
        padding = np.full(ROW_BYTES, self.problem.zero_point & 0xFF, np.uint8)
        return np.concatenate([padding, table.astype("<u4").view(np.uint8), self.output.places().astype("<u4").view(np.uint8)])

    @property
    def tail(self) -> int:
        """Bytes behind the planes of x that copies of the last band read."""
        return self._piece_bytes(self.rows) + self.problem.geometry.stride[0] * self.rows * self.planes.row_bytes

    @property
    def result_tail(self) -> int:
        """Bytes behind the planes of the result that stores of the last tile reach."""
        return BANK_BYTES

    def parameters(self, w: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
        """Table, channels and weights of the group, uint8; ``w`` (outputs, channels, positions…), ``bias`` int32 or None."""
        parts = [self.table_data()]
        if self.output.has_channels:
            # What padding and x have too much, each element of a filter has: one sum for each filter.
            excess = self.problem.zero_point * w.astype(np.int64).reshape(len(w), -1).sum(axis=1)
            parts.append(self.output.channels((0 if bias is None else bias.astype(np.int64)) - excess).reshape(-1).view(np.uint8))
        return np.concatenate([*parts, self.weights(w).reshape(-1)])

    def weights(self, w: np.ndarray) -> np.ndarray:
        """Filters of the group (outputs, channels, positions…) as rows in the order of the offsets, uint8."""
        rest, addends = w.astype(np.int16), []
        for _ in range(self.problem.addends - 1):
            addends.append(np.clip(rest, -128, 127))
            rest = rest - addends[-1]
        arranged = np.concatenate([self.representation.arranged(part) for part in (*addends, rest)], axis=1).astype(np.uint8)
        filters = np.zeros((self.filter_tiles * self.parts * self.output.part_size, self.group_words * self.cfg.dot), np.uint8)
        filters[:len(w), :arranged.shape[1]] = arranged
        # The filters of a lane, one of each part, lie one behind the other.
        parts = filters.reshape(self.filter_tiles, self.parts, self.output.part_size, -1)[:, :, self.output.filter_of_lane]
        return parts.transpose(0, 2, 1, 3).reshape(-1, self.weight_pitch)
