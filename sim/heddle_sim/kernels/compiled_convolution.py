"""Convolution by compiled offsets [S2.3]: one program for every layout and size, which only its tables tell apart.

Lanes hold filters, columns are pixels. A band of rows of x lies in shared memory as it lies in global memory. Fetching thread n has the
base address of pixel n in its offset register. With the list of offsets that all threads share, ``mm`` reads the elements of its window
where they are. The sums of a tile, ``threads`` filters by up to ``threads`` pixels, are stored while ``mm`` works on the next tile.

Loops, from outside: filters, bands, tiles of pixels. The weights of the next filters come to the other half of the factor registers behind
the first tile. Where a half is too small the first tile of some filters loads them, some chunks in front of their ``mm``, while those
before are multiplied. Bands come to two places in turn, where one does not hold all of x.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Self

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER, ROW_BYTES, TOKEN_GRANULES
from heddle.errors import UsageError
from heddle.isa.compiled_offsets import ALWAYS as NO_MASK_BIT
from heddle.isa.compiled_offsets import MASK_BITS, OFFSET_BITS, POSITIONS

from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout, ImageStrides
from ..compiled.representation import ALWAYS, Representation, compile_convolution
from ..golden.requantise import Requantise
from .kernel import Kernel
from .parts.fitting import Region, Unfit, check_regions
from .parts.launch import Launch
from .parts.merges import write_scaled
from .parts.output_tile import OutputTile
from .parts.planes import Planes
from .parts.text import KernelText
from .parts.tiling import MAX_SLICES, round_up
from .problem import Elements, Operands, Problem

__all__ = ["CompiledConvolutionKernel", "CompiledConvolutionProblem"]

_SLOTS = 4                                  # of chunks of weights in shared memory
_SLABS, _WEIGHTS, _TABLE = (0, 1), (2, 3, 4, 5), 6      # barriers
# Cycles of the cost model, as measured on ``base``.
_START, _LOAD = 500, 4                      # of a run; of a word of weights
_TILE, _BAND, _CONTENDED, _LATENCY = 20, 20, 180, 100       # of a tile beside its stores; between two bands; of a tile of planes; of a copy
_STEPS, _ISSUE, _COPY = 8, 110, 600         # of a tile beside its steps; of the instructions of a tile; of the copy of some weights
_FIRST_STORES = 4                           # of a tile, for the thread unit to work on while other instructions are issued
_WRAP = (1 << OFFSET_BITS) - 1
_ENTRIES, _BASES, _LOCAL = (0, 3, 4, 5), 1, 2       # segments: the band for each group, bases of its pixels, all of shared memory


@dataclass(frozen=True, eq=False)
class CompiledConvolutionProblem(Problem):
    """Convolution of one image and one group of channels, or all of them: y of x minus ``zero_point`` and of w, integers of 8 bits.

    ``geometry``: of all images with all channels. ``group``: number of the group; None: each tile of filters has a group of its own.
    ``zero_point``: what the padding reads as. ``bias``: each filter has one. ``requantise``: what becomes of the sums of this group;
    without it y is int32, modulo 2**32. ``merged``: groups that are one here, with zeros between them. ``addends``: filters are the
    sum of one or two of 8 bits. ``ka``: pixels that ``mm`` multiplies at once; with more than one a group has ``dot`` channels and
    ``threads`` / ``ka`` filters, and a tile of filters has up to ``ka`` groups, each with an ``mm`` of its own. ``filled``: how many
    of the channels are zeros, which make the others a word.
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


class CompiledConvolutionKernel(Kernel):
    """``mm`` with compiled offsets for a ``CompiledConvolutionProblem``. Operands: ``a`` the first plane of the group's channels, ``b`` the
    ``table`` of the kernel with the weights behind it, ``c`` the first plane of the result.

    Uniform predicates: up0 parity of the tile, up1 parity of the band, up2 scratch, up3 a tile waits to be stored, up4 half of the factor
    registers, or weights are to be loaded, up5 a tile waits to be sent. Thread predicate p1: columns of the tile. ``whole``: an odd one:
    one band has all rows; from 2 on the weights have one place; from 4 on they are loaded in front of the first tile. Raises
    ``ValueError`` for what the method cannot do, ``Unfit`` where shared memory has no room.
    """

    def __init__(self, cfg: Config, problem: CompiledConvolutionProblem, whole: int = 0) -> None:
        super().__init__(cfg, problem)
        self._whole = whole
        self._check_features(cfg)
        shape, layout, threads = problem.geometry, problem.layout, cfg.threads
        self.pixels = prod(shape.result)
        self.planes = Planes.of(layout, shape.images, shape.channels, shape.size, 1)
        first, last = 0, shape.channels - 1
        if problem.group is not None:
            first, last = problem.group * shape.group_channels, (problem.group + 1) * shape.group_channels - 1
        self.first_plane = first // self.planes.vector
        self.plane_count = last // self.planes.vector - self.first_plane + 1
        # Rows that filters of one row leave out are not copied.
        skips = layout.channels_last and shape.filter[0] == 1 and shape.padding[0] == (0, 0) and self.planes.row_bytes % BANK_BYTES == 0
        self.row_step = shape.stride[0] if skips and self.planes.row_bytes % shape.stride[0] == 0 else 1
        self.by_word = shape.group_channels % cfg.dot == 0 == first % cfg.dot and self.planes.vector % cfg.dot == 0
        if not self.by_word and not cfg.byte_entries:
            raise UsageError(f"channels of a group must be a multiple of {cfg.dot} with layout {layout.name} on {cfg.name} (fetch_words "
                             f"and threads must be at least dot for others), not {shape.group_channels}")
        elements = shape.group_channels * shape.positions * problem.addends
        self.steps = -(-elements // cfg.dot)      # words that mm multiplies
        self.group_words = round_up(self.steps, max(BANK_BYTES // cfg.dot, 1))
        self.parts = min(problem.ka, shape.group) if problem.ka > 1 else 1          # groups of a tile of filters
        self.words = self.group_words * self.parts
        self.entry_count = round_up(self.group_words * (1 if self.by_word else cfg.dot), BANK_BYTES // 4)
        granule = cfg.factor_words // TOKEN_GRANULES
        for name, value, most in (("compiled_offsets", self.entry_count, cfg.compiled_offsets),
                                  ("factor_words", self.words + 2 * granule, cfg.factor_words)):
            if value > most:
                raise UsageError(f"{name} must be at least {value} for {elements} elements of a filter with "
                                 f"layout {layout.name}, not {most}")
        if shape.masked_positions > MASK_BITS:
            raise UsageError(f"padding must leave at most {MASK_BITS} filter positions that some pixel lacks, not {shape.masked_positions}")
        # Places of the bases of pixels, in granules of their own.
        self.offsets = [FIRST_FACTOR_REGISTER + (cfg.factor_words - parity * granule) * cfg.numbers_per_word - 1 for parity in range(2)]
        # Words of neighbouring pixels lie in different banks, so that copies pass between them.
        self.swizzle = ".128B" if cfg.copy_swizzles and self.by_word else ""
        self.filter_tiles = -(-problem.outputs // threads)
        self.chunks = [min(MAX_SLICES, self.words - start) for start in range(0, self.words, MAX_SLICES)]
        self.chunk_steps = [min(MAX_SLICES, self.steps - start) for start in range(0, self.steps, MAX_SLICES)]
        self.weight_pitch = self.words * cfg.dot
        # Two halves of the factor registers, each of whole granules.
        self.half_words = (TOKEN_GRANULES // 2 - 1) * granule
        self.halves = whole < 2 and self.filter_tiles > 1 and self.words <= self.half_words
        # Chunks of weights that are loaded together, each in front of its ``mm``; none: all in front of the first tile.
        self.together = max(granule // MAX_SLICES, 1) if not self.halves and whole < 4 and self.filter_tiles > 1 else 0
        self.output = OutputTile(cfg, shape, layout, problem.outputs, problem.bias or problem.zero_point != 0, problem.requantise,
                                 problem.ka, self.parts)
        self.tile = threads
        self._place()
        self._choose_tile()
        self.text = KernelText(self._names())

    @classmethod
    def cuts(cls, cfg: Config, problem: CompiledConvolutionProblem) -> Iterator[Self]:
        """The fastest, and then those whose programs are shorter."""
        for whole in range(6):
            try:
                yield cls(cfg, problem, whole)
            except Unfit:
                if not whole:
                    raise

    @classmethod
    def estimate(cls, cfg: Config, problem: CompiledConvolutionProblem) -> int:
        """Cycles, roughly."""
        kernel = cls(cfg, problem)
        return int(kernel._cycles(kernel.rows))

    def _choose_tile(self) -> None:
        """Pixels of a tile: fewer than ``threads`` where that is faster, as of small images, whose last tile would be nearly empty."""
        whole = self.output

        def cycles(tile: int) -> float:
            self.output, self.tile = whole.of(tile), tile
            return self._cycles(self.rows)

        best = min(range(self.cfg.threads, 0, -whole.tile_step), key=cycles)
        self.output, self.tile = whole.of(best), best
        self._place()

    @property
    def early(self) -> bool:
        """Whether the second weights are copied before the first tile: ``mm`` of a tile is too short to hide a copy, which is worth to wait
        until the threads have read the first ones."""
        return self.tile * self.parts * self.steps / self.problem.ka < _COPY

    def _cycles(self, rows: int) -> float:
        """Expected cycles with bands of ``rows`` rows: the start, and the longest of ``mm``, stores, and copies on the bus."""
        shape, cfg = self.problem.geometry, self.cfg
        bands = -(-shape.result[0] // rows)
        tiles, ragged = divmod(rows * prod(shape.result[1:]), self.tile)
        store = self.output.cycles
        # The elements of a word that lie in planes of their own take all banks in each step; stores and copies of results wait for them.
        shared = _CONTENDED if self.planes.vector == 1 and shape.group_channels > 1 else 0
        steps = self.parts * self.steps / self.problem.ka       # of a pixel
        least = max(store + _TILE, _ISSUE)
        of_band = (tiles * max(self.tile * steps + shared + _STEPS, least)
                   + (max(ragged * steps + shared + _STEPS, least) if ragged else 0))
        copied = self._slab_bytes(rows) / cfg.axi_bytes
        if bands > 1:       # the next band is copied behind the stores of the tile before
            of_band = max(of_band, store + copied + _LATENCY) + _BAND
        weights = self.filter_tiles * cfg.threads * self.weight_pitch / cfg.axi_bytes
        bus = weights + (copied * bands * self.filter_tiles if bands > 1 else 0)
        start = copied + self.words * _LOAD + self.entry_count / 2 + _START
        return start + max(self.filter_tiles * bands * of_band, bus) + store

    @staticmethod
    def _check_features(cfg: Config) -> None:
        if not cfg.compiled_offsets:
            raise UsageError(f"configuration {cfg.name} must have compiled_offsets for method \"compiled\", not 0")
        if not cfg.tensors:
            raise UsageError(f"configuration {cfg.name} must have tensors for method \"compiled\" (groups of stores)")
        if cfg.cores > 1:
            raise UsageError(f"cores must be 1 for method \"compiled\", not {cfg.cores}")

    def _place(self) -> None:
        """Shared memory, and the rows of a band."""
        cfg, shape = self.cfg, self.problem.geometry
        self.chunk_pitch = MAX_SLICES * cfg.dot + BANK_BYTES
        self.slot_bytes = cfg.threads * self.chunk_pitch
        # First the padding: a row, which no swizzle leaves. Then entries, places of the lanes, and their biases and multipliers.
        self.places = ROW_BYTES + 4 * self.entry_count
        self.channels = self.places + 4 * cfg.threads
        self.table_bytes = self.channels + 8 * cfg.threads * self.parts * self.filter_tiles * self.output.has_channels
        self.stages, slots = (0, self.output.nbytes), 2 * self.output.nbytes
        self.slots = tuple(slots + number * self.slot_bytes for number in range(_SLOTS))
        self.table = round_up(slots + _SLOTS * self.slot_bytes, ROW_BYTES)
        self.slab = round_up(self.table + self.table_bytes, ROW_BYTES)
        room = cfg.shared_bytes - self.slab
        whole = shape.result[0]
        fitting = [whole] if self._slab_bytes(whole) <= room else []
        if not self._whole % 2:
            fitting += [count for count in range(1, whole) if self._regular(count) and 2 * self._slab_bytes(count) <= room]
        if not fitting:
            raise Unfit("shared_memory_kib")
        rows = min(fitting, key=self._cycles)
        self.rows = rows
        self.bands = -(-shape.result[0] // rows)
        self.slab_bytes = self._slab_bytes(rows)
        self.band_pixels = rows * prod(shape.result[1:])
        self.band_tiles = -(-self.band_pixels // self.tile)
        check_regions(cfg, [
            *(Region(f"stage {number}", start, self.output.nbytes) for number, start in enumerate(self.stages)),
            *(Region(f"slot {number}", start, self.slot_bytes) for number, start in enumerate(self.slots)),
            Region("table", self.table, self.table_bytes), Region("slabs", self.slab, self.slab_bytes * min(self.bands, 2))])

    def _regular(self, rows: int) -> bool:
        """Whether bands of so many rows of the result begin at multiples of 16 bytes of x, and of y."""
        shape = self.problem.geometry
        return (rows * shape.stride[0] * self.planes.row_bytes % BANK_BYTES == 0
                and rows * prod(shape.result[1:]) * self.output.pixel_pitch % BANK_BYTES == 0)

    @property
    def start(self) -> int:
        """Bytes from the beginning of a plane of x to that of the first band, which may lie in front of it."""
        shape = self.problem.geometry
        return -shape.padding[0][0] * self.planes.row_bytes // BANK_BYTES * BANK_BYTES

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

    def _slab_bytes(self, rows: int) -> int:
        return self._pieces_bytes(rows) + round_up(4 * self._base_count(rows), ROW_BYTES)

    def _base_count(self, rows: int) -> int:
        """Bases of a band: all threads load for its last tile."""
        return round_up(rows * prod(self.problem.geometry.result[1:]), self.tile) - self.tile + self.cfg.threads

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
        table = np.zeros((self.bands, self._base_count(self.rows)), np.uint32)
        for band in range(self.bands):
            part = slice(band * self.band_pixels, min((band + 1) * self.band_pixels, self.pixels))
            begin = self.start + band * self.rows * self.problem.geometry.stride[0] * self.planes.row_bytes // self.row_step
            words = (made.bases[part] - begin) & _WRAP | made.masks[part] << OFFSET_BITS
            table[band, :len(words)] = words
        return table

    def table_data(self) -> np.ndarray:
        """Padding, entries and places of the lanes, uint8."""
        made, cfg = self.representation, self.cfg
        offsets = made.group_offsets(self.problem.group or 0) - self.first_plane * made.strides.block
        step = cfg.dot if self.by_word else 1
        if self.by_word:
            whole = offsets.reshape(-1, cfg.dot)
            assert (whole - whole[:, :1] == np.arange(cfg.dot)).all(), "a word must lie together"
        bits = np.full((len(offsets) // step, POSITIONS), NO_MASK_BIT, np.int64)
        given = made.mask_bits[::step]
        bits[:, :given.shape[1]] = np.where(given == ALWAYS, NO_MASK_BIT, given)
        entries = offsets[::step] & _WRAP
        for number in range(POSITIONS):
            entries = entries | bits[:, number] << OFFSET_BITS + 4 * number
        entries = np.tile(entries, self.problem.addends)
        table = np.full(self.entry_count, entries[-1], np.int64)        # surplus elements have weights of zero
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

    # -- program ----------------------------------------------------------------------------

    def _names(self) -> list[str]:
        """Pairs of copies of rows stand together; ``entry`` and those with a number have the numbers of the segments of ``mm``."""
        slots = [f"slot_{number}{part}" for number in range(_SLOTS) for part in ("", "_pitch")]
        return ["entry", "slab_to", "slab_pitch", "entry_1", "entry_2", "entry_3", "next_x", "x_pitch", "x_blocks", "x_count", *slots,
                "chunk", "chunk_pitch", "w_blocks", "w_rows", "y", "y_pitch", "from", "from_pitch", "blocks", "rows", "table", "bases",
                "bases_to", "next_bases", "w", "x", "filters", "filters_left", "prev_filters", "in_block", "bands", "next_band", "copies",
                "first_tile", "parity", "first_y", "row_y", "tile_y", "prev_y", "half", "load", "left", "tile_left", "this_left",
                "prev_left", "tile_bases", "fresh", "group_place", "group_offset", "columns"]

    def launches(self, operands: Operands | None = None) -> list[Launch]:
        """One ``Launch``; ``operands.table``: the bases."""
        operands = operands or Operands()
        problem, names = self.problem, self._names()
        values = {
            "x": operands.a + self.start, "next_x": operands.a + self.start, "bases": operands.table, "next_bases": operands.table,
            "table": operands.b,
            "w": operands.b + self.table_bytes, "chunk_pitch": self.weight_pitch, "w_rows": self.cfg.threads,
            "w_blocks": self.chunks[0] * self.cfg.dot // BANK_BYTES, "first_y": operands.c, "filters": self.filter_tiles,
            "filters_left": problem.outputs, "in_block": 0, "half": 0, "fresh": 1, "group_offset": 0,
            "next_band": self.bands, "copies": self.bands * self.filter_tiles - 1, "parity": 0}
        if self.row_step > 1:           # a row each
            row = self.planes.row_bytes
            values |= {"x_pitch": self.row_step * row, "x_blocks": row // BANK_BYTES, "x_count": self.rows, "slab_pitch": row}
        else:
            values |= {"x_pitch": self.planes.pitch, "x_blocks": self._piece_bytes(self.rows) // BANK_BYTES, "x_count": self.plane_count,
                       "slab_pitch": self._piece_pitch(self.rows)}
        values |= {f"slot_{number}": place for number, place in enumerate(self.slots)}
        values |= {f"slot_{number}_pitch": self.chunk_pitch for number in range(_SLOTS)}
        return [Launch(self.programs[0], {names.index(name): value & 0xFFFF_FFFF for name, value in values.items()}, problem.macs)]

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        self._prologue()
        text = self.text
        if self.halves:
            self._load_weights(False)
            if self.early:
                self._copy_ahead()
            text("    umov {load}, 1")
        text("filter:")
        if self.together:
            text("    usetp.eq up4, {x}, {x}", "    umov {load}, 1")
        elif not self.halves:
            self._load_weights(False)
        text(f"    umov {{bands}}, {self.bands}", f"    umov {{left}}, {self.pixels}", "    umov {row_y}, {first_y}", "band:")
        self._begin_band()
        text("tile:")
        text.select(("up0", *["up4"] * self.halves), self._tile)
        if self.halves or self.together:
            self._load_next()
        text("    usetp.gt up2, {tile_left}, 0", "    @up2 bra tile", "    uxor {parity}, {parity}, 1", "    usetp.ne up1, {parity}, 0",
             "    usub {bands}, {bands}, 1", "    usetp.gt up2, {bands}, 0", "    @up2 bra band", "    usub {filters}, {filters}, 1",
             f"    usub {{filters_left}}, {{filters_left}}, {self.cfg.threads}", "    usetp.le up2, {filters}, 0", "    @up2 bra last")
        self._next_filters()
        text("    bra filter", "last:")
        text.select(("up0",), lambda parity: self._store(not parity))
        self._send(0)
        text("    halt")
        if self.together:
            for number in range(0, len(self.chunks), self.together):
                self._load_together(number)
        return [text]

    def _place_of(self, parity: bool) -> int:
        """Shared address of a place of bands."""
        return self.slab + parity * self.slab_bytes

    def _copy_band(self, parity: bool) -> None:
        """Copies of the next band of x and of its bases to a place."""
        place, blocks = self._place_of(parity), self._base_count(self.rows) // 4
        nbytes = self.plane_count * self._piece_bytes(self.rows) + BANK_BYTES * blocks
        self.text(f"    umov {{slab_to}}, {place}", f"    umov {{bases_to}}, {place + self._pieces_bytes(self.rows)}",
                  f"    barrier.expect b{_SLABS[parity]}, {nbytes}",
                  f"    copy_rows.shared.global{self.swizzle} {{slab_to}}, {{next_x}}, {{x_blocks}}, b{_SLABS[parity]}",
                  f"    copy_block.shared.global {{bases_to}}, {{next_bases}}, {blocks}, b{_SLABS[parity]}")

    def _prologue(self) -> None:
        text, cfg = self.text, self.cfg
        # Registers behind those of two tiles: two for ``term``, pairs of bias and multiplier, then words of four bytes.
        first = 2 * cfg.threads
        self.tid, self.place, self.weight_place, self.base_place, self.term, _, self.channel_place, self.zero = range(first, first + 8)
        self.channel, self.packed = first + 8, first + 16
        text(f"    umov {{bases_to}}, {self.table}", f"    barrier.expect b{_TABLE}, {self.table_bytes}",
             f"    copy_block.shared.global {{bases_to}}, {{table}}, {self.table_bytes // BANK_BYTES}, b{_TABLE}")
        self._copy_first_chunks()
        self._copy_band(False)
        text(*(f"    usetp.ne {predicate}, {{x}}, {{x}}" for predicate in ("up0", "up1", "up3", "up4", "up5")),
             f"    segment.shared.b8.d1 ur{_LOCAL}, 0", f"    mov r{self.tid}, %tid", f"    shl r{self.base_place}, r{self.tid}, 2")
        write_scaled(text, self.weight_place, self.tid, 1, self.chunk_pitch, self.term)
        text(f"    mov r{self.zero}, 0", f"    shl r{self.channel_place}, r{self.tid}, 3", f"    mov r{self.offsets[0]}, 0",
             f"    barrier.wait b{_TABLE}", f"    ld.b32 r{self.place}, ur{_LOCAL}:r{self.base_place}:{self.table + self.places}")
        fills = 4 * self.entry_count // cfg.dot
        for word in range(0, fills, MAX_SLICES):
            text(f"    offsets.k{min(MAX_SLICES, fills - word)} {word}, ur{_LOCAL}:rf{self.offsets[0]}:"
                 f"{self.table + ROW_BYTES + word * cfg.dot}")

    # -- weights ----------------------------------------------------------------------------

    def _copy_chunk(self, number: int) -> None:
        """Copy of a chunk of the weights of the filters ``w`` to its slot; the last one may be shorter."""
        text, nbytes, slot = self.text, self.chunks[number] * self.cfg.dot, number % _SLOTS
        last = number and nbytes < self.chunks[0] * self.cfg.dot
        if last:
            text(f"    umov {{w_blocks}}, {nbytes // BANK_BYTES}")
        text(f"    uadd {{chunk}}, {{w}}, {number * MAX_SLICES * self.cfg.dot}",
             f"    barrier.expect b{_WEIGHTS[slot]}, {nbytes * self.cfg.threads}",
             f"    copy_rows.shared.global {{slot_{slot}}}, {{chunk}}, {{w_blocks}}, b{_WEIGHTS[slot]}")
        if last:
            text(f"    umov {{w_blocks}}, {self.chunks[0] * self.cfg.dot // BANK_BYTES}")

    def _copy_first_chunks(self) -> None:
        for number in range(min(_SLOTS - 1, len(self.chunks))):
            self._copy_chunk(number)

    def _factors(self, word: int, half: bool) -> int:
        """Factor register of a word of the filters."""
        return FIRST_FACTOR_REGISTER + (word + half * self.half_words) * self.cfg.numbers_per_word

    def _load_weights(self, half: bool) -> None:
        """All chunks of the filters, each when it has come; the copy three chunks ahead goes where the chunk before has been read."""
        for number in range(len(self.chunks)):
            self._load_chunk(number, half)

    def _load_chunk(self, number: int, half: bool) -> None:
        loads = self.chunks[number] * self.cfg.dot // BANK_BYTES
        slot, first = number % _SLOTS, self._factors(number * MAX_SLICES, half)
        self.text(f"    barrier.wait b{_WEIGHTS[slot]}",
                  *(f"    ld.v4 r{first + 4 * part}, ur{_LOCAL}:r{self.weight_place}:{self.slots[slot] + BANK_BYTES * part}"
                    for part in range(loads)))
        if number + _SLOTS - 1 < len(self.chunks):
            if number:
                self.text(f"    wait_thread {loads}")
            self._copy_chunk(number + _SLOTS - 1)

    def _load_together(self, first: int) -> None:
        """``together`` chunks from ``first`` on, for the first tile of some filters, which goes on behind it."""
        self.text(f"load_{first}:")
        for number in range(first, min(first + self.together, len(self.chunks))):
            self._load_chunk(number, False)
        self.text(f"    @up0 bra loaded_{first}_1", f"    bra loaded_{first}_0")

    def _load_next(self) -> None:
        """Behind the first tile of some filters: the weights of the next ones come to the other half of the factor registers, or the first
        of them to shared memory."""
        text = self.text
        text("    usetp.eq up2, {load}, 0", "    @up2 bra loaded", "    umov {load}, 0", "    usetp.le up2, {filters}, 1",
             "    @up2 bra loaded")
        if self.together:
            self._copy_ahead()
            text("loaded:")
            return
        if not self.early:
            text(f"    usetp.lt up2, {{filters}}, {self.filter_tiles}", "    @up2 bra ahead")
            self._copy_ahead()
            text("ahead:")
        text.select(("up4",), lambda half: self._load_weights(not half))
        text("loaded:")

    def _copy_ahead(self) -> None:
        """Copies of the first chunks of the filters behind ``w``, when the threads have read those before."""
        self.text(f"    uadd {{w}}, {{w}}, {self.cfg.threads * self.weight_pitch}", "    wait.thread")
        self._copy_first_chunks()

    def _next_filters(self) -> None:
        """Weights of the next filters, and where their results go."""
        text, threads, planes = self.text, self.cfg.threads, self.output.planes
        if self.halves:
            text("    uxor {half}, {half}, 1", "    usetp.ne up4, {half}, 0", "    umov {load}, 1",
                 "    usetp.le up2, {filters}, 1", "    @up2 bra last_filters")
            self._copy_ahead()
            text("last_filters:")
        elif not self.together:
            self._copy_ahead()
        if self.output.has_channels:
            text("    umov {fresh}, 1")
        if self.group_step:
            text(f"    uadd {{group_offset}}, {{group_offset}}, {self.group_step}")
        item = self.output.dtype.itemsize
        if not self.output.pixel_rows:
            text(f"    uadd {{first_y}}, {{first_y}}, {threads // planes.vector * planes.pitch}")
            return
        text(f"    uadd {{first_y}}, {{first_y}}, {item * threads}")
        if not self.problem.layout.channels_last:       # one or several tiles of filters in a block of channels
            text("    uadd {in_block}, {in_block}, 1", f"    usetp.eq up2, {{in_block}}, {planes.vector // threads}",
                 f"    @up2 uadd {{first_y}}, {{first_y}}, {planes.pitch - item * planes.vector}", "    @up2 umov {in_block}, 0")

    # -- tiles ------------------------------------------------------------------------------

    def _begin_band(self) -> None:
        """Wait for the band; its place becomes the segment of ``mm``."""
        text, pieces, shape = self.text, self._pieces_bytes(self.rows), self.problem.geometry

        def begin(parity: bool) -> None:
            place = self._place_of(parity)
            if self.bands == 1:         # it stays where it is
                text(f"    usetp.lt up2, {{filters}}, {self.filter_tiles}", "    @up2 bra there", f"    barrier.wait b{_SLABS[parity]}",
                     "there:")
            else:
                text(f"    barrier.wait b{_SLABS[parity]}")
            for part in range(self.parts):
                source = str(place + part * shape.group_channels)
                if self.group_step:
                    text(f"    uadd {{group_place}}, {{group_offset}}, {source}")
                    source = "{group_place}"
                text(f"    segment.shared.b8.d1{self.swizzle} ur{_ENTRIES[part]}, {source}")
            text(f"    umov {{tile_bases}}, {place + pieces}")

        if self.bands == 1:
            begin(False)
        else:
            text.select(("up1",), begin)
            text("    umov {first_tile}, 1")
        text(f"    umov {{tile_left}}, {self.band_pixels}", f"    usetp.lt up2, {{left}}, {self.band_pixels}",
             "    @up2 umov {tile_left}, {left}", f"    usub {{left}}, {{left}}, {self.band_pixels}", "    umov {tile_y}, {row_y}",
             f"    uadd {{row_y}}, {{row_y}}, {self.band_pixels * self.output.pixel_pitch}")
        text.select(("up0",), self._load_bases)

    def _load_bases(self, parity: bool) -> None:
        """Bases of the pixels of the next tile, and its columns."""
        self.text(f"    segment.shared.b8.d1 ur{_BASES}, {{tile_bases}}",
                  f"    ld.b32 r{self.offsets[parity]}, ur{_BASES}:r{self.base_place}:0",
                  f"    uadd {{tile_bases}}, {{tile_bases}}, {4 * self.tile}")
        columns = "tile_left"
        if self.tile < self.cfg.threads:
            columns = "columns"
            self.text("    umov {columns}, {tile_left}", f"    usetp.gt up2, {{tile_left}}, {self.tile}",
                      f"    @up2 umov {{columns}}, {self.tile}")
        self.text(f"    setp.lt p1, r{self.tid}, {{{columns}}}")

    def _tile(self, parity: bool, half: bool = False) -> None:
        """``mm`` of a tile, issued while that of the one before is under way; meanwhile the bases of the next one are loaded, and the last
        one is stored."""
        text, threads, offset = self.text, self.cfg.threads, self.offsets[parity]
        kind, step = ("ow", MAX_SLICES) if self.by_word else ("ob", MAX_SLICES * self.cfg.dot)
        merge = f".ka{self.problem.ka}i" if self.problem.ka > 1 else ""
        begun = 0       # chunks that are loaded
        for part, name in zip(range(self.parts), ("entry", "entry_1", "entry_2", "entry_3")):
            product = parity * threads + part * self.output.part_size
            for number, words in enumerate(self.chunk_steps):
                word = part * self.group_words + number * MAX_SLICES
                first = self._factors(word, half)
                while self.together and begun * MAX_SLICES < word + words:
                    text(f"    @up4 bra load_{begun}", f"loaded_{begun}_{int(parity)}:")
                    begun += self.together
                text(f"    umov {{{name}}}, {self.table}" if not number else f"    uadd {{{name}}}, {{{name}}}, {step << OFFSET_BITS}",
                     f"    @p1 mm8{merge}{self._signs()}.k{words}.{kind}{'' if number else '.z'} r{product}, "
                     f"ur{_ENTRIES[part]}:rf{offset}:0, r{first}")
        if self.together:
            text("    usetp.ne up4, {x}, {x}")
        last, stored = text.label("last_of_band"), text.label("stored")
        text("    umov {this_left}, {tile_left}", f"    usub {{tile_left}}, {{tile_left}}, {self.tile}",
             "    usetp.le up2, {tile_left}, 0", f"    @up2 bra {last}")
        self._load_bases(not parity)
        text(f"{last}:", f"    @!up3 bra {stored}")
        self._store(not parity)
        text(f"{stored}:")
        if self.output.has_channels:        # behind the last tile of the filters before
            same = text.label("same_filters")
            text("    usetp.eq up2, {fresh}, 0", f"    @up2 bra {same}", "    umov {fresh}, 0",
                 *(f"    ld.v2 r{self.channel + 2 * part}, ur{_LOCAL}:r{self.channel_place}:"
                   f"{self.table + self.channels + 8 * threads * part}" for part in range(self.parts)),
                 *self.output.set_channels(self.channel, self.zero),
                 f"    add r{self.channel_place}, r{self.channel_place}, {8 * threads * self.parts}", f"{same}:")
        if self.bands > 1:
            self._copy_next_band()
        text("    umov {prev_y}, {tile_y}", "    umov {prev_left}, {this_left}", "    umov {prev_filters}, {filters_left}",
             f"    uadd {{tile_y}}, {{tile_y}}, {self.tile * self.output.pixel_pitch}",
             "    usetp.eq up3, {x}, {x}", f"    usetp.{'ne' if parity else 'eq'} up0, {{x}}, {{x}}")

    def _signs(self) -> str:
        """``mm`` multiplies weights (A) by elements of x (B)."""
        elements = self.problem.elements
        return f".{'s' if elements.b_signed else 'u'}a.{'s' if elements.a_signed else 'u'}b"

    def _copy_next_band(self) -> None:
        """Behind the first tile of a band, when the tile before is stored: ``mm`` has left the band before, whose place is free."""
        text, shape = self.text, self.problem.geometry
        done = text.label("copied")
        text("    usetp.eq up2, {first_tile}, 0", f"    @up2 bra {done}", "    umov {first_tile}, 0", "    usetp.le up2, {copies}, 0",
             f"    @up2 bra {done}", "    usub {copies}, {copies}, 1", "    usub {next_band}, {next_band}, 1",
             f"    uadd {{next_x}}, {{next_x}}, {self.rows * shape.stride[0] * self.planes.row_bytes}",
             f"    uadd {{next_bases}}, {{next_bases}}, {4 * self._base_count(self.rows)}",
             "    usetp.le up2, {next_band}, 0", "    @up2 umov {next_x}, {x}", "    @up2 umov {next_bases}, {bases}",
             f"    @up2 umov {{next_band}}, {self.bands}")
        text.select(("up1",), lambda parity: self._copy_band(not parity))
        text(f"{done}:")

    def _store(self, parity: bool) -> None:
        """A tile from its registers to its staging area. When its first lines wait in the thread unit, the stores of the tile before are
        over: that one is sent, and what ``_send`` needs becomes that of this one."""
        text, threads, stage, output = self.text, self.cfg.threads, self.stages[parity], self.output
        block = BANK_BYTES // output.dtype.itemsize         # elements
        shift = block.bit_length() - 1
        limit, unsent = text.label("limited"), text.label("unsent")
        lines = list(output.stores(parity * threads, f"ur{_LOCAL}:r{self.place}", stage, self.channel, self.packed))
        first = min(_FIRST_STORES, len(lines) // 2)
        text("    wait_group.read 0", *lines[:first], f"    @!up5 bra {unsent}")
        self._send(first)
        text(f"{unsent}:", f"    umov {{from}}, {stage}", "    umov {y}, {prev_y}")
        text("    umov {rows}, {prev_left}", f"    usetp.le up2, {{prev_left}}, {self.tile}", f"    @up2 bra {limit}",
             f"    umov {{rows}}, {self.tile}", f"{limit}:")
        if output.contiguous:
            text(f"    ushl {{blocks}}, {{rows}}, {(output.pixel_pitch // BANK_BYTES).bit_length() - 1}", "    umov {rows}, 1")
        elif output.pixel_rows:
            text(f"    umov {{y_pitch}}, {output.pixel_pitch}", f"    umov {{from_pitch}}, {output.stage_pitch}",
                 f"    umov {{blocks}}, {threads // block}", f"    usetp.lt up2, {{prev_filters}}, {threads}",
                 f"    @up2 uadd {{blocks}}, {{prev_filters}}, {block - 1}", f"    @up2 ushr {{blocks}}, {{blocks}}, {shift}")
        else:
            vector = output.planes.vector
            places = vector.bit_length() - 1
            text(f"    umov {{y_pitch}}, {output.planes.pitch}", f"    umov {{from_pitch}}, {output.block_pitch}")
            if vector >= block:
                text(f"    ushl {{blocks}}, {{rows}}, {places - shift}")
            else:
                text(f"    uadd {{blocks}}, {{rows}}, {block // vector - 1}", f"    ushr {{blocks}}, {{blocks}}, {shift - places}")
            text(f"    umov {{rows}}, {threads // vector}", f"    usetp.lt up2, {{prev_filters}}, {threads}",
                 f"    @up2 uadd {{rows}}, {{prev_filters}}, {vector - 1}", f"    @up2 ushr {{rows}}, {{rows}}, {places}")
        text("    usetp.eq up5, {x}, {x}", *lines[first:])

    def _send(self, later: int) -> None:
        """The tile that was stored last, from its staging area to the result; ``later`` thread instructions came behind its stores."""
        self.text(f"    wait_thread {later}", "    copy_rows.global.shared {y}, {from}, {blocks}", "    commit_group")
