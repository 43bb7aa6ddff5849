"""A box in shared memory as text: a line for each row of 128 bytes, a cell for each bank, without and with the swizzle side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from heddle.constants import BANK_BYTES, BANKS, ROW_BYTES
from heddle.isa.encoding import Swizzle
from heddle.isa.tensor_descriptor import FORMAT_BYTES, Interleave, TensorMode

if TYPE_CHECKING:
    from ..golden.tensor_fields import TensorFields
    from ..tensor.box_image import Access, TensorImage

__all__ = ["Panel", "access_lines", "draw", "heading", "panels"]

_COLOURS = (223, 159, 157, 229, 183, 216, 152, 194)         # of the 256 of a terminal: light backgrounds under black text
_OUTSIDE = "\x1b[38;5;244m"
_ACCESSED = "\x1b[1;4m"
_END = "\x1b[0m"
_GAP = " " * 4


class Panel:
    """Which block of the box lies in each bank of each row of shared memory, -1 where none does.

    ``cells`` is an int array (rows of shared memory, banks), ``first`` the address of its first row.
    """

    def __init__(self, title: str, image: TensorImage, places: np.ndarray) -> None:
        self.title = title
        self.first = int(image.addresses[0]) // ROW_BYTES * ROW_BYTES
        rows = (int(image.addresses[-1]) - self.first) // ROW_BYTES + 1
        self.cells = np.full((rows, BANKS), -1)
        self.cells[(places - self.first) // ROW_BYTES, places // BANK_BYTES % BANKS] = np.arange(len(places))


def swizzle_name(image: TensorImage) -> str:
    return {Swizzle.NONE: "none", Swizzle.B32: "32B", Swizzle.B64: "64B", Swizzle.B128: "128B"}[image.map.fields.swizzle]


def panels(image: TensorImage) -> list[Panel]:
    """The pictures side by side: one without a swizzle, else before and after it."""
    before = Panel("without swizzle", image, image.addresses)
    if image.map.fields.swizzle == Swizzle.NONE:
        return [before]
    return [before, Panel(f"with swizzle {swizzle_name(image)}", image, image.places)]


def heading(image: TensorImage, coordinates: Sequence[int]) -> list[str]:
    """What is drawn, in numpy's order and in that of the descriptor."""
    fields = image.map.fields
    numpy_order, descriptor = _tuple(reversed(fields.sizes)), _tuple(fields.sizes)
    if fields.mode == TensorMode.TILE:
        moved = f", of which {_tuple(reversed(fields.counts))} are moved" if fields.counts != fields.box else ""
        box = f"box {_tuple(reversed(fields.box))}{moved}"
        inner_box = f", box {_tuple(fields.box)}"
        rows = f"{fields.rows} row{'s' * (fields.rows > 1)}"
    else:
        box = (f"column of {fields.pixels_per_column} pixels, corners {_tuple(reversed(fields.lower_corner))} and "
               f"{_tuple(reversed(fields.upper_corner))}")
        inner_box = f", corners {_tuple(fields.lower_corner)} and {_tuple(fields.upper_corner)}"
        rows = f"{fields.rows} row{'s' * (fields.rows > 1)}, one for each pixel,"
    unit = "slices" if fields.interleave != Interleave.NONE else fields.format.name.lower()
    outside = int((~image.walk.inside).sum())
    lines = [
        f"tensor {numpy_order} of {unit}; {box}, at {_tuple(coordinates)}",
        f"in the descriptor, innermost first: sizes {descriptor}{inner_box}, coordinates {_tuple(reversed(coordinates))}",
        f"{fields.bytes:,} bytes, what a barrier expects: {rows} of {fields.row_bytes} bytes"
        + (f", {fields.row_pitch} bytes apart" if fields.row_pitch != fields.row_bytes else "")
        + (f"; {outside:,} of {len(image.walk.inside):,} {'slices' if unit == 'slices' else 'elements'} outside the tensor are filled"
           if outside else ""),
        f"row.block: block {_block(fields)} of a row of the box" + ("; ~ all filled, - partly" if outside else ""),
    ]
    if fields.swizzle != Swizzle.NONE:
        mask = (1 << fields.swizzle.value) - 1
        first = int(image.addresses[0]) // ROW_BYTES & mask
        lines.append(f"swizzle {swizzle_name(image)}: what was in bank b moves to bank b XOR ((address / 128) mod {mask + 1}); "
                     f"the first row has {first}")
    return lines


def _tuple(values: Iterable[int]) -> str:
    values = list(values)
    return f"({', '.join(map(str, values))}{',' * (len(values) == 1)})"


def _block(fields: TensorFields) -> str:
    if fields.interleave == Interleave.NONE:
        count = BANK_BYTES // FORMAT_BYTES[fields.format]
        return f"b has elements {count}b to {count}b + {count - 1}"
    return "b has slice b" if fields.interleave == Interleave.B16 else "b has half of slice b / 2"


def label(image: TensorImage, block: int) -> str:
    """Row of the box and block in it, marked when it is filled."""
    if block < 0:
        return ""
    mark = "~" if image.filled[block] == BANK_BYTES else "-" if image.filled[block] else ""
    return f"{block // image.row_blocks}.{block % image.row_blocks}{mark}"


def draw(image: TensorImage, accessed: Iterable[int] = (), colour: bool = False, limit: int | None = None,
         columns: int | None = None) -> list[str]:
    """Lines of the picture, ``limit`` rows of shared memory at most. Blocks in ``accessed`` are in brackets.

    Pictures stand side by side, or one below the other where that would take more than ``columns``.
    """
    accessed = {int(block) for block in accessed}
    pictures = panels(image)
    width = max(len(label(image, block)) for block in range(len(image.addresses))) + 2 * bool(accessed) + 1
    rows = len(pictures[0].cells)
    shown = rows if limit is None else min(rows, limit)
    address_width = len(f"{pictures[0].first + ROW_BYTES * rows:#06x}") + 2
    together = columns is None or address_width + len(pictures) * (BANKS * width + len(_GAP)) <= columns
    lines = []
    for group in [pictures] if together else [[picture] for picture in pictures]:
        lines.append((" " * address_width + _GAP.join(panel.title.ljust(BANKS * width) for panel in group)).rstrip())
        banks = "".join(f"b{bank}".center(width) for bank in range(BANKS))
        lines.append(("address".ljust(address_width)[:address_width] + _GAP.join([banks] * len(group))).rstrip())
        for row in range(shown):
            cells = _GAP.join("".join(_cell(image, block, block in accessed, width, colour) for block in panel.cells[row])
                              for panel in group)
            lines.append((f"{pictures[0].first + ROW_BYTES * row:#06x}".ljust(address_width) + cells).rstrip())
    if shown < rows:
        lines.append(f"and {rows - shown:,} more rows of {ROW_BYTES} bytes (--lines {rows} shows all)")
    return lines


def _cell(image: TensorImage, block: int, accessed: bool, width: int, colour: bool) -> str:
    text = label(image, block)
    text = (f"[{text}]" if accessed else text).center(width)
    if not colour or block < 0:
        return text
    outside = image.filled[block] == BANK_BYTES
    code = _OUTSIDE if outside else f"\x1b[38;5;16;48;5;{_COLOURS[block // image.row_blocks % len(_COLOURS)]}m"
    return (_ACCESSED if accessed else "") + code + text + _END


def access_lines(image: TensorImage, found: Access, slots: int) -> list[str]:
    """The cycles that an access takes, without and with the swizzle."""
    count = len(found.blocks)
    lines = [f"access {found.pattern}: {found.text}; {count} thread{'s' * (count != 1)}, {min(slots, count)} at a time"]
    results = [("without swizzle", found.banks, found.cycles)]
    if image.map.fields.swizzle != Swizzle.NONE:
        results.append((f"with swizzle {swizzle_name(image)}", found.swizzled_banks, found.swizzled_cycles))
    for title, banks, cycles in results:
        lines.append(f"  {title:<18} threads at banks b0 to b{BANKS - 1}: {' '.join(f'{n:>2}' for n in banks)}   "
                     f"{cycles} cycle{'s' * (cycles != 1)}")
    return lines
