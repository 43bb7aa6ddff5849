"""Entries of a list of compiled offsets in a memory that need not hold all of them [S2.2]."""

from __future__ import annotations

from collections.abc import Iterator

from heddle.config import Config

from .tiling import MAX_SLICES

__all__ = ["ENTRY_BYTES", "OffsetWindow", "offset_lines"]

ENTRY_BYTES = 4
_WORD, _DRAIN = 1.5, 18       # cycles of a word of a refill, and of a refill beside its words, as measured on ``base``


def offset_lines(cfg: Config, words: int, address: str, start: int, place: int = 0) -> Iterator[str]:
    """Lines that load ``words`` words of entries, ``start`` bytes behind ``address``, into the memory from its word ``place`` on."""
    for word in range(0, words, MAX_SLICES):
        yield f"    offsets.k{min(MAX_SLICES, words - word)} {place + word}, {address}:{start + word * cfg.dot}"


class OffsetWindow:
    """Places of the entries of a list in the compiled-offset memory. The first ones stay; where the memory does not hold all, the others
    pass through a window behind these, which is refilled between the ``mm`` of each tile.

    Parameters
    ----------
    cfg : Config
    entries : int
        Of the list, a multiple of those of a word.
    chunk : int
        Entries of an ``mm``, which divide the depth of the memory.
    none_stay : bool
        All entries pass through the window.

    ``window``: entries of the window, those with the fewest cycles; 0 where the memory holds all. ``resident``: entries that stay.
    """

    def __init__(self, cfg: Config, entries: int, chunk: int, none_stay: bool = False) -> None:
        self.cfg, self.entries, depth = cfg, entries, cfg.compiled_offsets
        self.window, self.resident = 0, entries
        if none_stay:
            self.window, self.resident = min(entries, depth), 0
        elif entries > depth:
            self.window = min(range(chunk, depth + 1, chunk), key=lambda size: self._cycles(size, depth - size))
            self.resident = depth - self.window

    def _cycles(self, window: int, resident: int) -> float:
        """Of the refills of a list."""
        passing = self.entries - resident
        return _WORD * ENTRY_BYTES * passing / self.cfg.dot + _DRAIN * -(-passing // window)

    @property
    def cycles(self) -> float:
        """Of the refills of a list, during which ``mm`` multiplies nothing."""
        return self._cycles(self.window, self.resident) if self.window else 0

    def place(self, first: int) -> int:
        """Number in the memory of entry ``first`` of the list."""
        return first if first < self.resident else self.resident + (first - self.resident) % self.window

    def refill(self, first: int) -> int:
        """Entries to load in front of the ``mm`` that begins with entry ``first``."""
        if first < self.resident or (first - self.resident) % self.window:
            return 0
        return min(self.window, self.entries - first)

    def lines(self, first: int, count: int, address: str, start: int) -> Iterator[str]:
        """Lines that load ``count`` entries; the list begins ``start`` bytes behind ``address``."""
        words, place = ENTRY_BYTES * count // self.cfg.dot, ENTRY_BYTES * self.place(first) // self.cfg.dot
        return offset_lines(self.cfg, words, address, start + ENTRY_BYTES * first, place)
