"""A box in shared memory as a drawing (SVG): rows of 128 bytes, a cell for each bank, without and with the swizzle side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from heddle.constants import BANK_BYTES, BANKS, ROW_BYTES

from .box_text import Panel, access_lines, heading, label, panels

if TYPE_CHECKING:
    from ..tensor.box_image import Access, TensorImage

__all__ = ["svg"]

_COLOURS = ("#f6d6a8", "#a9d3ee", "#a6dcc4", "#f7eea0", "#d9bfe0", "#f4b9a3", "#9fc6c4", "#cfe3b4")
_CELL_HEIGHT, _LINE, _MARGIN, _ADDRESS, _GAP = 22, 18, 14, 58, 34


def svg(image: TensorImage, coordinates: Sequence[int], found: Access | None = None, slots: int = 8, limit: None = None) -> str:
    """Text of an SVG file. Blocks that ``found``, an ``Access``, reads have a thick border; filled ones are hatched."""
    pictures = panels(image)
    rows = len(pictures[0].cells)
    shown = rows if limit is None else min(rows, limit)
    cell = max(36, 9 + 8 * max(len(label(image, block)) for block in range(len(image.addresses))))
    accessed = set() if found is None else {int(block) for block in found.blocks}
    texts = heading(image, coordinates) + (access_lines(image, found, slots) if found else [])
    panel_width = _ADDRESS + BANKS * cell
    width = max(2 * _MARGIN + len(pictures) * panel_width + (len(pictures) - 1) * _GAP, 2 * _MARGIN + 7.3 * max(map(len, texts)))
    top = _MARGIN + _LINE * len(texts) + 10
    height = top + 2 * _LINE + _CELL_HEIGHT * shown + (_LINE if shown < rows else 0) + _MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}" '
        'font-family="monospace" font-size="12">',
        '<defs><pattern id="filled" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="6" height="6" fill="#ffffff"/><line x1="0" y1="0" x2="0" y2="6" stroke="#b0b0b0" stroke-width="2"/></pattern></defs>',
        f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>',
    ]
    for number, text in enumerate(texts):
        out.append(_text(_MARGIN, _MARGIN + _LINE * number + 10, text))
    for number, panel in enumerate(pictures):
        out += _panel(image, panel, _MARGIN + number * (panel_width + _GAP), top, cell, accessed, shown)
    if shown < rows:
        out.append(_text(_MARGIN, height - _MARGIN, f"and {rows - shown:,} more rows of {ROW_BYTES} bytes"))
    return "\n".join([*out, "</svg>", ""])


def _panel(image: TensorImage, panel: Panel, left: int, top: int, cell: int, accessed: set[int], shown: int) -> Iterator[str]:
    yield _text(left + _ADDRESS, top + 12, panel.title, bold=True)
    for bank in range(BANKS):
        yield _text(left + _ADDRESS + (bank + 0.5) * cell, top + _LINE + 12, f"b{bank}", anchor="middle")
    for row in range(shown):
        y = top + 2 * _LINE + _CELL_HEIGHT * row
        yield _text(left, y + 15, f"{panel.first + ROW_BYTES * row:#06x}")
        for bank in range(BANKS):
            block = int(panel.cells[row, bank])
            if block >= 0:
                yield from _cell(image, block, left + _ADDRESS + bank * cell, y, cell, block in accessed)


def _cell(image: TensorImage, block: int, x: int, y: int, width: int, accessed: bool) -> Iterator[str]:
    fill = "url(#filled)" if image.filled[block] == BANK_BYTES else _COLOURS[block // image.row_blocks % len(_COLOURS)]
    inset, stroke = (2, 'stroke="#000000" stroke-width="3"') if accessed else (0.5, 'stroke="#888888" stroke-width="1"')
    yield (f'<rect x="{x + inset:g}" y="{y + inset:g}" width="{width - 2 * inset:g}" height="{_CELL_HEIGHT - 2 * inset:g}" '
           f'fill="{fill}" {stroke}/>')
    yield _text(x + width / 2, y + 15, label(image, block), anchor="middle")


def _text(x: float, y: int, text: str, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{weight} xml:space="preserve">{escape(text)}</text>'
