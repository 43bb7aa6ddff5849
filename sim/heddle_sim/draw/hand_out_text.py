"""Which core does which block of rows when, as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..sparse.hand_out import HandOut

__all__ = ["hand_out_lines"]

_SYMBOLS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def hand_out_lines(dealt: HandOut, width: int) -> list[str]:
    """A line for each core, ``width`` characters for all cycles: the symbol of the block that has the middle of the character's cycles.

    Symbols repeat after 62 blocks; "." where a core has nothing to do.
    """
    lines, cycles = [], max(dealt.cycles, 1)
    for number, runs in enumerate(dealt.cores):
        line = ["."] * width
        for run in runs:
            for place in range(width):
                if run.start <= (2 * place + 1) * cycles / (2 * width) < run.end:
                    line[place] = _SYMBOLS[run.tile % len(_SYMBOLS)]
        lines.append(f"core {number}  {''.join(line)}  {len(runs)} blocks, {sum(run.end - run.start for run in runs):,} cycles")
    return lines
