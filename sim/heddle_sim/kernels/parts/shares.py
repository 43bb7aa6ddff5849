"""How blocks of C are shared out to the cores of a device [S0.14]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .text import KernelText

__all__ = ["Share", "begin_share", "share_out"]


@dataclass(frozen=True)
class Share:
    """A rectangle of C that one core computes: first row and column, and their numbers, in elements."""

    row: int
    rows: int
    column: int
    columns: int


def _cut(length: int, block: int, parts: int) -> list[tuple[int, int]]:
    """``parts`` ranges (start, length) of whole blocks, the last block may be ragged; their numbers of blocks differ by at most one."""
    blocks = -(-length // block)
    starts = [min(length, block * (blocks * part // parts)) for part in range(parts + 1)]
    return [(start, end - start) for start, end in zip(starts, starts[1:])]


def share_out(cores: int, m: int, n: int, block: int, column_block: int | None = None) -> list[Share]:
    """At most ``cores`` shares that cover C (m x n), cut at multiples of ``block`` rows and of ``column_block`` (``block``) columns;
    none is empty, the first is that of core 0.

    C is cut into a grid of bands of rows and bands of columns. The time of a core goes with its blocks of rows, ragged ones included, times
    its columns. Of the grids with the shortest time of the busiest core the one with the fewest bands of columns is
    taken. Each block of A is then loaded by the fewest cores.
    """
    column_block = column_block or block
    row_blocks, column_blocks = -(-m // block), -(-n // column_block)
    best = None
    for bands in range(1, min(cores, column_blocks) + 1):
        rows = _cut(m, block, min(cores // bands, row_blocks))
        columns = _cut(n, column_block, bands)
        time = max(-(-length // block) for _, length in rows) * max(length for _, length in columns)
        if best is None or time < best[0]:
            best = time, [Share(*row, *column) for row in rows for column in columns]
    assert best, "there is always a band"
    return best[1]


def begin_share(text: KernelText, cores: int, arguments: list[dict[str, int]], addresses: Sequence[str], end: str) -> None:
    """Write the beginning of a kernel in which each core changes the arguments of core 0 to its own.

    Parameters
    ----------
    text : KernelText
        Has a uniform register for every argument, and ``core``; predicate up2 is used.
    cores : int
        Cores of the device; those without arguments branch to ``end``.
    arguments : list of dict of str to int
        Uniform register to value for each core; of ``addresses`` the distance to that of core 0 counts.
    addresses : collection of str
        Registers that move with the place of the matrices, which the program does not know.
    end : str
        Label.
    """
    text("    umov {core}, %core")
    if len(arguments) < cores:
        text(f"    usetp.ge up2, {{core}}, {len(arguments)}", f"    @up2 bra {end}")
    shared_out = text.label("shared_out")
    labels = [text.label("share") for _ in arguments[1:]]
    for core, label in enumerate(labels, 1):
        text(f"    usetp.eq up2, {{core}}, {core}", f"    @up2 bra {label}")
    text(f"    bra {shared_out}")
    for label, values in zip(labels, arguments[1:], strict=True):
        text(f"{label}:")
        for name, value in values.items():
            first, register = arguments[0][name], f"{{{name}}}"
            if name in addresses and value != first:
                text(f"    uadd {register}, {register}, {value - first}")
            elif value != first:
                text(f"    umov {register}, {value}")
        text(f"    bra {shared_out}")
    text(f"{shared_out}:")
