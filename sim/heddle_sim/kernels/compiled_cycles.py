"""Cycle model of a compiled convolution: what its tiles, bands and filters take, and what of that overlaps.

Matrix unit, thread unit and bus work side by side. A tile takes the longest of its products, its stores and its instructions. Between
tiles wait: at the first tile of some filters the instructions behind its loads of the next weights; where bands change the copy of the
next one. The numbers are measured on ``base``.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from heddle.constants import BANK_BYTES, BANKS, ROW_BYTES

if TYPE_CHECKING:
    from .compiled_plan import CompiledConvolutionPlan

__all__ = ["CompiledCycles", "gather_cycles"]

_START, _END = 65, 45               # of a run, beside its copies, loads and stores
_STEPS, _ISSUE, _BAND = 7, 91, 20   # of a tile beside its steps; of the instructions of a tile; between two bands
_CHANNELS = 40                      # of biases and multipliers of a part of some filters
_CONTENDED = 180                    # of a tile of planes, whose stores wait for banks
_BYTES = 0.2                        # of products by bytes, which meet all banks, as a part of what stores beside them wait
_ROW, _LATENCY = 0.8, 65            # of a row of a copy, beside its beats; of a copy
_LOAD, _BANK_LOAD = 2, 16           # of a word of weights; the same where products leave one of so many banks
_TURN = 30                          # of a slot of streamed weights, beside its copy and its loads
_HELD = 10                          # words of those that are loaded together, whose loads hold ``mm``
_SAMPLE = 64                        # pixels whose gathers are counted


class CompiledCycles:
    """Expected cycles of a plan with bands of ``rows`` rows and tiles of ``tile`` pixels. ``gather``: cycles of a step; ``split``: what the
    first tile does not need of the first band is copied later."""

    def __init__(self, kernel: CompiledConvolutionPlan, rows: int, tile: int, gather: float = 1, split: bool = True) -> None:
        self.kernel, self.rows, self.tile, self.gather = kernel, rows, tile, gather
        shape, cfg = kernel.problem.geometry, kernel.cfg
        shares = kernel.shares_of(-(-shape.result[0] // rows))      # the core with the most to do
        self.bands, self.filter_tiles = max(share.rows for share in shares), max(share.columns for share in shares)
        self.full_tiles, self.ragged = divmod(rows * prod(shape.result[1:]), tile)
        self.store = kernel.output.cycles(tile)
        self.band_bytes = kernel.slab_bytes_of(rows, tile)
        self.band_copy = self.band_bytes / cfg.axi_bytes
        self.rest_copy = kernel.rest_bytes(rows, tile) / cfg.axi_bytes if split else 0
        chunks = -(-kernel.words // kernel.chunk_words)
        self.chunks, self.chunk_copy = chunks, cfg.threads * (min(kernel.words, kernel.chunk_words) * cfg.dot / cfg.axi_bytes + _ROW)
        self.weights_copy = cfg.threads * (kernel.words * cfg.dot / cfg.axi_bytes + chunks * _ROW)

    def total(self) -> float:
        """From doorbell to done."""
        kernel, tables = self.kernel, self.kernel.table_bytes / self.kernel.cfg.axi_bytes
        loaded = max(kernel.words * (_LOAD + _BANK_LOAD / BANKS), self.weights_copy)
        start = _START + _LATENCY + tables + self.band_copy - self.rest_copy + kernel.entries.resident * 4 / kernel.cfg.dot
        if not kernel.streamed and not kernel.among:
            start += loaded
        if self.rest_copy:          # copied when the weights have come
            start += max(0, self.rest_copy + _LATENCY - self._tile(self.tile))
        return start + max(self.filter_tiles * self._filters(loaded), self._bus()) + self.store + _END

    def _bus(self) -> float:
        """Copies that a run makes behind its start."""
        bands = self.band_copy * self.bands * self.filter_tiles if self.bands > 1 else 0
        return self.weights_copy * (self.filter_tiles - 1) + bands

    def _products(self, pixels: int) -> float:
        """``mm`` of a tile, with the refills of the entries."""
        kernel = self.kernel
        planes = kernel.planes.vector == 1 and kernel.problem.geometry.group_channels > 1
        refills = kernel.entries.cycles * (kernel.stream_parts if kernel.streamed else kernel.parts)
        steps = pixels * kernel.parts * (kernel.words // kernel.parts if kernel.streamed else kernel.steps) / kernel.problem.ka
        return steps * self.gather + _STEPS + planes * _CONTENDED + refills

    def _tile(self, pixels: int) -> float:
        """A tile among others."""
        products = self._products(pixels)
        store = self.store + (0 if self.kernel.by_word else _BYTES * products)
        return max(products, store, _ISSUE, self._stream() if self.kernel.streamed else 0)

    def _stream(self) -> float:
        """Copies and loads of streamed weights for a tile: a slot is copied, waits for its turn, and is loaded."""
        kernel = self.kernel
        turn = self.chunk_copy + _LATENCY + kernel.chunk_words * self._load() + _TURN
        return max(self.weights_copy, kernel.words * self._load(), self.chunks * turn / (kernel.stream_slots - 1))

    def _load(self) -> float:
        """Of a word of weights while ``mm`` runs: pixels in few banks leave these to the threads seldom."""
        kernel = self.kernel
        places = np.arange(BANKS) * kernel.planes.vector * kernel.problem.geometry.stride[-1]
        banks = places // BANK_BYTES ^ (places // ROW_BYTES if kernel.swizzle else 0)
        return _LOAD + _BANK_LOAD / (len(np.unique(banks % BANKS)) if kernel.by_word else BANKS)

    def _filters(self, loaded: float) -> float:
        """All tiles of a tile of filters."""
        kernel = self.kernel
        first = min(self.tile, self.full_tiles * self.tile + self.ragged)
        band = self.full_tiles * self._tile(self.tile) + (self._tile(self.ragged) if self.ragged else 0)
        if self.bands > 1 and kernel.band_places == 1:
            band += self.band_copy + _LATENCY + _BAND
        elif self.bands > 1:        # the next band is copied behind the stores of the tile before
            band = max(band, self.store + self.band_copy + _LATENCY) + _BAND
        filters = self.bands * band
        if self.filter_tiles == 1 or kernel.streamed:
            return filters
        if kernel.halves:
            return filters + max(0, self._first_tile(first) - self._tile(first))
        if kernel.among:
            held = -(-self.chunks // kernel.together) * _HELD * self._load()
            return filters + max(held, max(self.weights_copy, kernel.words * (_LOAD + _BANK_LOAD / BANKS)) - self._tile(first))
        return filters + loaded

    def _first_tile(self, pixels: int) -> float:
        """The first tile of some filters: behind its stores the threads load the next weights, while ``mm`` goes on with what is issued."""
        kernel, products = self.kernel, self._products(pixels)
        ahead = min(products, (kernel.cfg.matrix_queue + 1) * kernel.slices * pixels * self.gather / kernel.problem.ka)
        begin = self.store + _ISSUE / 2 + _CHANNELS * kernel.parts * kernel.output.has_channels
        slow, fast = self._load(), _LOAD + _BANK_LOAD / BANKS
        beside = max(0, ahead - begin)
        loads = min(kernel.words * slow, beside + max(0, kernel.words - beside / slow) * fast)
        # The first copies begin in front of the tile, the others when a chunk has been loaded.
        there, behind = _LATENCY + self.weights_copy + min(kernel.words, kernel.chunk_words) * fast, self.chunks - len(kernel.slots) + 1
        if behind > 0:
            there = max(there, begin + kernel.chunk_words * slow + behind * self.chunk_copy + _LATENCY)
        return products - ahead + max(begin + loads, there)


def gather_cycles(kernel: CompiledConvolutionPlan) -> float:
    """Cycles of a step, on average: bytes in different rows of a bank are read one after the other."""
    if kernel.by_word:
        return 1
    made, dot = kernel.representation, kernel.cfg.dot
    offsets = made.group_offsets(kernel.problem.group or 0)
    offsets = offsets[:len(offsets) // dot * dot]
    if not len(offsets):
        return 1
    pixels = np.linspace(0, min(len(made.bases), kernel.band_pixels) - 1, _SAMPLE).astype(int)
    lines = ((made.bases[pixels, None] + offsets - kernel.start) // BANK_BYTES).reshape(len(pixels), -1, dot)
    most = np.zeros(lines.shape[:2], np.int64)
    for bank in range(BANKS):
        rows = np.sort(np.where(lines % BANKS == bank, lines // BANKS, -1), axis=-1)
        most = np.maximum(most, (np.diff(rows, axis=-1) > 0).sum(axis=-1) + (rows[..., 0] >= 0))
    return float(most.mean())
