"""Which core does which block of rows when, as a drawing (SVG)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from .svg_text import svg_text

if TYPE_CHECKING:
    from ..kernels.parts.sparse_schedule import Block
    from ..sparse.hand_out import HandOut

__all__ = ["hand_out_svg"]

_COLOURS = ("#f6c98a", "#8fc7ec", "#8dd3b0", "#f0df6e", "#cda6d8", "#ef9f83", "#84bdba", "#b7d490")
_WIDTH, _MARGIN, _LABEL, _BAND, _GAP, _LINE = 1000, 14, 60, 26, 8, 18
_LEAST = 14         # of a box with a number in it


def hand_out_svg(dealt: HandOut, blocks: Sequence[Block], title: str) -> str:
    """Text of an SVG file: a band for each core, a box for each block, with its rows and cycles as its title."""
    pixel, top = _WIDTH / max(dealt.cycles, 1), _MARGIN + 2 * _LINE
    height = top + len(dealt.cores) * (_BAND + _GAP) + _LINE + _MARGIN
    width = _WIDTH + _LABEL + 2 * _MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="monospace" font-size="12">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           svg_text(_MARGIN, _MARGIN + 10, title)]
    for number, runs in enumerate(dealt.cores):
        y = top + number * (_BAND + _GAP)
        out.append(svg_text(_MARGIN, y + 17, f"core {number}"))
        for run in runs:
            x, wide, block = _MARGIN + _LABEL + run.start * pixel, (run.end - run.start) * pixel, blocks[run.tile]
            about = f"block {run.tile}: rows {block.first} to {block.first + block.rows - 1}, cycles {run.start:,} to {run.end:,}"
            out.append(f'<g><title>{escape(about)}</title><rect x="{x:.2f}" y="{y}" width="{wide:.2f}" height="{_BAND}" '
                       f'fill="{_COLOURS[run.tile % len(_COLOURS)]}" stroke="#ffffff" stroke-width="0.5"/>'
                       + (svg_text(x + 3, y + 17, str(run.tile)) if wide >= _LEAST + 6 * (len(str(run.tile)) - 1) else "") + "</g>")
    out.append(svg_text(_MARGIN + _LABEL, height - _MARGIN, f"0 to {dealt.cycles:,} cycles; a number: the block of rows"))
    return "\n".join([*out, "</svg>", ""])
