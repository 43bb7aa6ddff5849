"""Cuts that let loads, ``mm`` and stores of a resident product overlap at its start and its end."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from heddle.config import Config
from heddle.constants import BANK_BYTES, BANKS, REGISTER_GROUPS

from .register_groups import HALF_GROUPS, words_per_group

if TYPE_CHECKING:
    from .merges import Merge

__all__ = ["aligned_groups", "first_groups", "last_parts", "store_accesses", "store_cycles"]

_START = 12                                 # from the issue of mm to its first step
_STARTED = 4                                # from the end of a load to that step, where mm was issued ahead of it
_PARTS = 5                                  # of the last tile at most: p2 to p6
_SHORT = 256                                # steps of a tile that are too few to hide the issue of its parts, if these have many mm


def _sizes(slices: int, block: int, start: tuple[int, ...], growth: float) -> list[int]:
    """Lengths of groups from ``start`` on, whole blocks but for single slices at the start."""
    sizes = list(itertools.takewhile(bool, start))
    while sum(sizes) < slices:
        sizes.append(max(block, round(growth * sizes[-1] / block) * block))
    while sum(sizes) > slices:
        excess = sum(sizes) - slices
        last = sizes.pop()
        if last > excess:
            sizes.append(last - excess)
    return sizes


def aligned_groups(cfg: Config, block: int) -> int:
    """Register groups of which a group begins at a multiple: ``block`` factor words that a vector load writes may be more than one."""
    return max(1, block * REGISTER_GROUPS // cfg.factor_words)


def first_groups(cfg: Config, merge: Merge, slices: int, passes: int = 1) -> list[int]:
    """Lengths of the groups of slices in which the first block of A is loaded; ``None`` when there are too few register groups.

    Each goes into register groups of its own, so that ``mm`` works on one while the next is loaded."""
    words = words_per_group(cfg)
    block = 1 if merge.kb > 1 else BANK_BYTES // cfg.dot        # slices of a load
    aligned = aligned_groups(cfg, block)
    load, mm = cfg.thread_groups + 7, passes * merge.registers * merge.step_cycles(cfg.fetch_slots)
    best = None
    # An mm that went ahead of its load begins so early that one word would not last until the next load is done.
    single = min(block, 2)
    starts = [(single, block - single), *((blocks * block,) for blocks in (1, 2, 3, 4, 6))]
    for start, growth in itertools.product(starts, (1, 1.2, 1.35, 1.5, 1.75, 2, 3)):
        sizes, first, used = _sizes(slices, block, start, growth), 0, 0
        loaded = done = 0
        for size in sizes:
            used = -(-used // aligned) * aligned + -(-(first % block + size) // words)
            # A vector load writes one factor word a cycle.
            loaded += load - block + size if size < min(3, block) else load * -(-(first % block + size) // block)
            done = max(done, loaded + (_START if first else _STARTED)) + size * mm
            first += size
        if used <= HALF_GROUPS and (best is None or (done, len(sizes)) < best[0]):
            best = (done, len(sizes)), sizes
    return best and best[1]


def store_accesses(merge: Merge, first: int, end: int) -> list[tuple[int, int]]:
    """(register, registers) of the vector stores of a range of registers."""
    accesses = []
    while first < end:
        width = next(width for width in (4, 2, 1) if width == 1 or (
            width <= merge.vector and first % width == 0 and first + width <= end))
        accesses.append((first, width))
        first += width
    return accesses


def store_cycles(cfg: Config, merge: Merge, first: int, end: int) -> int:
    """What they take, with the lanes of a row in the same banks."""
    groups = cfg.thread_groups
    passes = max(groups, cfg.threads // BANKS) * min(merge.lanes_a, 2)
    return sum(passes * width + groups + 6 for _, width in store_accesses(merge, first, end))


def last_parts(cfg: Config, merge: Merge, registers: int, slices: int, multiplies: int, places: int) -> list[tuple[int, int]]:
    """(first register, registers) of the parts in which the last tile is computed, one after the other.

    The stores of each are done when ``mm`` is done with the next, and little is left to store in the end.

    A part takes ``multiplies`` ``mm`` instructions; there are ``places`` ranges of product registers for parts besides the first.
    """
    steps = slices * max(1, -(-merge.ka * merge.kb // cfg.fetch_slots))
    if multiplies > 2 and registers * steps < _SHORT:
        return [(0, registers)]

    def end_of(cuts: Sequence[int]) -> tuple[int, int]:
        free = store_cycles(cfg, merge, 0, merge.registers)         # the tile before is stored first
        for first, end in itertools.pairwise([0, *cuts, registers]):
            free = max(free, end * steps) + store_cycles(cfg, merge, first, end)
        return free, len(cuts)

    near = range(max(1, registers - 16), registers)
    best = min((cuts for number in range(min(_PARTS, places + 1)) for cuts in itertools.combinations(near, number)), key=end_of)
    return [(first, end - first) for first, end in itertools.pairwise([0, *best, registers])]
