"""Output of a tile of sums: bias, requantisation, and its place in a staging area, from where rows are copied to global memory [S2.3].

Lanes hold filters, registers pixels. Results of 32 bits are stored as they are, or with a bias. Bytes come from the output stage of the
thread unit (``requant``), which has bias and multiplier of each lane: four pixels of a filter in a word where these are neighbours in
memory, else four filters of a pixel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, ROW_BYTES
from heddle.errors import UsageError

from ...compiled.geometry import Geometry
from ...compiled.layout import ImageLayout
from ...golden.requantise import Requantise
from .output_stage import OutputStage, bias_words
from .planes import Planes
from .tiling import round_up

__all__ = ["OutputTile"]

# Cycles of a group of threads, as measured on ``base``.
_STORE_WORD, _STORE_BLOCK, _REQUANT, _REQUANT_GROUPS = 2.9, 4.5, 3.35, 3.75        # the last one: ``.g``
# Of a word of 32 bits where lanes share filters; the rest of it where all pixels of a tile are stored together.
_STORE_SHARED, _WHOLE = 2.75, 0.9
_STORES = 14        # of a tile beside its stores


class OutputTile:
    """Tile of ``threads`` filters by up to ``threads`` pixels of the result of a convolution.

    Parameters
    ----------
    cfg : Config
    geometry : Geometry
        Of all images.
    layout : ImageLayout
        Of the result.
    outputs : int
        Filters of the group.
    bias : bool
        Each filter has a bias.
    requantise : Requantise or None
        What becomes of the sums; without it they are the result.
    ka : int
        Lanes that have the same filters and different pixels, every ``ka``-th one.
    parts : int
        With ``ka``: filters of a lane, those of a part ``threads`` / ``ka`` apart, in registers of their own.

    Raises ``ValueError`` where the configuration has no output stage, or too few threads for the bytes of a row.
    """

    def __init__(self, cfg: Config, geometry: Geometry, layout: ImageLayout, outputs: int, bias: bool,
                 requantise: Requantise | None, ka: int = 1, parts: int = 1) -> None:
        self.cfg, self.outputs, self.bias, self.layout = cfg, outputs, bias, layout
        self.spec, self.images, self.size = requantise, geometry.images, geometry.result
        # ``part_size``: filters of a part, and its registers: the pixels of a lane.
        self.ka, self.parts, self.part_size = ka, parts, cfg.threads // ka
        self.stage = None if requantise is None else OutputStage(requantise)
        self.dtype = np.dtype(np.int32 if requantise is None else requantise.dtype)
        if requantise is not None:
            if not cfg.output_stage:
                raise UsageError(f"configuration {cfg.name} must have output_stage for requantise")
            if cfg.threads < BANK_BYTES:
                raise UsageError(f"threads must be at least {BANK_BYTES} for requantise, not {cfg.threads}")
        threads, item = cfg.threads, self.dtype.itemsize
        planes = Planes.of(layout, geometry.images, outputs, geometry.result, item)
        self.pixel_rows = layout.channels_last or planes.vector >= threads
        if layout.channels_last:        # rows of pixels begin at multiples of 16 bytes
            self.pixel_pitch = round_up(item * outputs, BANK_BYTES)
            plane = self.pixel_pitch * prod(self.size)
            planes = replace(planes, pitch=plane, image=plane)
        else:
            self.pixel_pitch = item * planes.vector
        self.planes = planes
        filters = round_up(item * parts * self.part_size, BANK_BYTES)
        self.pixel_bytes = filters if self.pixel_rows else self.pixel_pitch        # of a pixel in a block of the staging area
        # Pixels that lanes store at once begin in different banks.
        self.stage_pitch = self.pixel_bytes + (2 * BANK_BYTES if parts > 1 and item == 4 else 0)
        # Pixels of the result lie together, without other filters between them.
        self.contiguous = (layout.channels_last and self.stage_pitch == self.pixel_pitch and outputs <= parts * self.part_size
                           and self.pixel_pitch.bit_count() == 1)
        # Blocks of channels begin in different banks.
        self.block_pitch = threads * self.stage_pitch + (0 if self.pixel_rows else max(self.pixel_bytes, BANK_BYTES))
        self.nbytes = round_up(self.block_pitch * (1 if self.pixel_rows else threads // planes.vector), ROW_BYTES)
        self.has_channels = bias or requantise is not None
        # Four pixels of a filter lie in a word; else four filters of a pixel.
        self.packs_pixels = requantise is not None and self.pixel_bytes == 1

    @property
    def tile_step(self) -> int:
        """Numbers of pixels of a tile are multiples of this: those of the registers that are stored together."""
        return BANK_BYTES if self.packs_pixels else 4 * self.ka

    def cycles(self, pixels: int) -> float:
        """Cycles of the thread unit for a tile, roughly."""
        words = self.parts * (pixels // self.ka) * (1 if self.spec is None else 0.25)
        if self.pixel_bytes == self.dtype.itemsize:
            store = _STORE_BLOCK / 4
        elif self.ka == 1:
            store = _STORE_WORD
        elif self.spec is None:
            store = _STORE_SHARED + _WHOLE * (pixels == self.cfg.threads)
        else:       # words of a bank, one after the other
            store = max(_STORE_WORD, min(self.part_size, BANK_BYTES) / 4)
        if self.spec is None:
            store += 2 * self.bias
        else:
            store += _REQUANT if self.ka == 1 else _REQUANT_GROUPS
        return _STORES + self.cfg.thread_groups * words * store

    # -- lanes ------------------------------------------------------------------------------

    @cached_property
    def filter_of_lane(self) -> np.ndarray:
        """Filter of each lane, within a tile. The threads of a group that store at once store to different banks where they can."""
        cfg, lanes = self.cfg, np.arange(self.cfg.threads)
        group, slot = np.divmod(lanes, cfg.threads // cfg.thread_groups)
        if self.ka > 1:         # of a part; lanes of a filter are neighbours, of two groups where these are small
            return lanes // self.ka if cfg.threads // cfg.thread_groups < self.ka else slot // self.ka * cfg.thread_groups + group
        if self.spec is not None:
            return lanes if self.packs_pixels else slot // 4 * 4 * cfg.thread_groups + 4 * group + slot % 4
        if self.pixel_bytes > 4 and cfg.thread_groups % 4 == 0:
            return 4 * slot + group % 4 + 4 * cfg.thread_slots * (group // 4)
        return lanes

    def places(self) -> np.ndarray:
        """Byte in the staging area where each thread stores its first word, uint32."""
        filters, pixels = self.filter_of_lane, np.zeros(self.cfg.threads, np.int64)
        if self.ka > 1:
            group, slot = np.divmod(np.arange(self.cfg.threads), self.cfg.threads // self.cfg.thread_groups)
            if self.spec is None:
                return (np.arange(self.cfg.threads) % self.ka * self.stage_pitch + 4 * filters).astype(np.uint32)
            return ((self.ka * group + slot % self.ka) * self.stage_pitch + slot // self.ka * self.cfg.thread_groups).astype(np.uint32)
        if self.spec is not None and not self.packs_pixels:         # the words of a group: pixel by pixel
            slots = self.cfg.threads // self.cfg.thread_groups
            lane, slot = np.arange(self.cfg.threads), np.arange(self.cfg.threads) % slots
            pixels = slot // (slots // 4)
            filters = filters[lane - slot + 4 * (slot % (slots // 4))]
        vector = self.cfg.threads if self.pixel_rows else self.planes.vector
        places = filters // vector * self.block_pitch + filters % vector * self.dtype.itemsize + pixels * self.pixel_bytes
        return places.astype(np.uint32)

    def channels(self, bias: np.ndarray) -> np.ndarray:
        """Bias and multiplier of each lane of all parts of the tiles of filters, int32 (tiles and parts, threads, 2); ``bias`` int64
        (outputs,), with room for shifts where these belong to it."""
        table = np.zeros((round_up(self.outputs, self.part_size * self.parts), 2), np.int32)
        table[:self.outputs, 0] = (bias_words(self.spec, bias) & 0xFFFF_FFFF).astype(np.uint32).view(np.int32)
        if self.stage is not None:
            table[:self.outputs, 1] = self.stage.multipliers
        return table.reshape(-1, self.part_size, 2)[:, self.filter_of_lane]

    # -- program ----------------------------------------------------------------------------

    def set_channels(self, pair: int, zero: int) -> Iterator[str]:
        """Bias and multiplier of the lanes, from two registers a part from ``pair`` on, to the output stage. ``zero``: a register that is
        0."""
        if self.stage is not None:
            for part in range(self.parts):
                yield self.stage.channel(pair + 2 * part, pair + 2 * part + 1, zero, part)

    def stores(self, pixels: int, first: int, address: str, start: int, pair: int, packed: int) -> Iterator[str]:
        """Lines that store a tile of ``pixels`` pixels, a multiple of ``tile_step``, in the registers from ``first`` on at ``address``,
        plus ``start`` bytes. ``pair``: as above; ``packed``: the first of ``threads`` / 4 registers, a multiple of four, for bytes."""
        if self.pixel_bytes == self.dtype.itemsize:
            yield from self._stores_of_planes(pixels, first, address, start, pair, packed)
            return
        order, earlier = ".g" if self.ka > 1 else ".t", ""
        for part in range(self.parts):
            for register in range(0, pixels // self.ka, 1 if self.stage is None else 4):
                number = first + part * self.part_size + register
                place = start + part * self.part_size * self.dtype.itemsize + register * self.ka * self.stage_pitch
                if self.stage is None:
                    yield from self._biased(number, 1, pair + 2 * part)
                    yield f"    st.b32 {address}:{place}, r{number}"
                    continue
                yield from self.stage.word(number, packed, pair + 2 * part, order, part)
                yield from [earlier] * bool(earlier)        # behind the next word, for which it does not wait
                earlier, packed = f"    st.b32 {address}:{place}, r{packed}", packed + 1
        yield from [earlier] * bool(earlier)

    def _stores_of_planes(self, pixels: int, first: int, address: str, start: int, pair: int, packed: int) -> Iterator[str]:
        """``stores`` where the pixels of a filter are neighbours: 16 bytes at a time."""
        earlier = ""
        for quad in range(pixels // 4):
            register = first + 4 * quad
            if self.stage is None:
                yield from self._biased(register, 4, pair)
                yield f"    st.v4 {address}:{start + 16 * quad}, r{register}"
                continue
            yield from self.stage.word(register, packed + quad, pair)
            yield from [earlier] * bool(earlier)
            earlier = f"    st.v4 {address}:{start + 4 * (quad - 3)}, r{packed + quad - 3}" if quad % 4 == 3 else ""
        yield from [earlier] * bool(earlier)

    def _biased(self, register: int, count: int, pair: int) -> Iterator[str]:
        if self.bias:
            yield from (f"    add r{register + part}, r{register + part}, r{pair}" for part in range(count))

    # -- result -----------------------------------------------------------------------------

    def array(self, memory: np.ndarray) -> np.ndarray:
        """The result of all images, of the layout, from the bytes of all its planes."""
        vector, pixels, item = self.planes.vector, prod(self.size), self.dtype.itemsize
        planes = memory.view(self.dtype).reshape(-1, self.planes.plane // item)
        if self.layout.channels_last:
            rows = planes[:, :pixels * self.pixel_pitch // item].reshape(len(planes), pixels, -1)[..., :self.outputs]
            return rows.reshape(self.images, *self.size, self.outputs).copy()
        rows = planes[:, :pixels * vector]
        return rows.reshape(self.layout.shape(self.images, self.outputs, self.size)).copy()
