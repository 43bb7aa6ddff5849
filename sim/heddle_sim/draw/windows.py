"""Which elements of an image the pixels of a convolution read: a grid of the image with its padding, for one channel; planes of three axes
stand side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from ..compiled.representation import Representation

__all__ = ["Window", "draw", "svg", "windows"]

_CELL, _LINE, _MARGIN, _GAP, _ACROSS = 26, 18, 14, 30, 4
_NOTHING, _BETWEEN = -1, -2         # of an order: nothing is read there, a column between two planes


@dataclass(frozen=True)
class Window:
    """What a pixel reads: ``order`` int (rows, columns) with the padding has the place in the list of offsets; -1 where nothing is read, -2
    in the column between two planes; ``image`` bool of the same shape is where x is."""

    pixel: int
    base: int
    order: np.ndarray
    image: np.ndarray


def windows(made: Representation, pixels: Sequence[int]) -> list[Window]:
    """Of pixels of the result, by number, in the first channel."""
    shape, found = made.geometry, []
    size = [before + count + after for count, (before, after) in zip(shape.size, shape.padding)]
    image = np.zeros(size, bool)
    image[tuple(slice(before, before + count) for count, (before, _) in zip(shape.size, shape.padding))] = True
    place = np.argsort(made.elements)[:shape.positions]     # of the positions of the first channel in the list
    for pixel in pixels:
        order = np.full(size, _NOTHING)
        result = np.unravel_index(pixel, shape.result)
        for number, position in enumerate(np.ndindex(*shape.filter)):
            at = tuple(int(index) * step + step_in * many for index, step, step_in, many in zip(
                result, shape.stride, position, shape.dilation))
            order[at] = place[number]
        found.append(Window(pixel, int(made.bases[pixel]), _plane(order, _BETWEEN), _plane(image, False)))
    return found


def _plane(array: np.ndarray, between: int) -> np.ndarray:
    """Of one to three axes as rows and columns: planes side by side, with a column of ``between`` in front of all but the first."""
    volume = array.reshape((1,) * (3 - array.ndim) + array.shape)
    spread = np.pad(volume, ((0, 0), (0, 0), (1, 0)), constant_values=between)
    return np.concatenate([*spread], axis=1)[:, 1:]


def draw(found: Sequence[Window]) -> Iterator[str]:
    """Lines of text: the place in the list of offsets where a pixel reads, a dot where it does not, p behind what lies in the padding. A
    bar stands between planes."""
    width = max(len(str(window.order.max())) for window in found) + 2
    for window in found:
        yield f"thread {window.pixel}: base {window.base}"
        for places, inside in zip(window.order, window.image):
            cells = ("|" if place == _BETWEEN else "" if place < 0 and not there else "." if place < 0 else f"{place}{'' if there else 'p'}"
                     for place, there in zip(places.tolist(), inside.tolist()))
            yield ("  " + "".join(cell.ljust(width) for cell in cells)).rstrip()


def svg(found: Sequence[Window], texts: Sequence[str]) -> str:
    """Text of an SVG file: the same, four windows side by side; the padding is grey."""
    rows, columns = found[0].order.shape
    wide, high = columns * _CELL + _GAP, rows * _CELL + _LINE + _GAP
    top = _MARGIN + _LINE * len(texts) + 10
    width = max(2 * _MARGIN + min(len(found), _ACROSS) * wide, 2 * _MARGIN + 7.3 * max(map(len, texts)))
    height = top + -(-len(found) // _ACROSS) * high + _MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}" '
           'font-family="monospace" font-size="12">', f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>']
    out += [_text(_MARGIN, _MARGIN + _LINE * number + 10, text) for number, text in enumerate(texts)]
    for number, window in enumerate(found):
        left, above = _MARGIN + number % _ACROSS * wide, top + number // _ACROSS * high
        out.append(_text(left, above + 12, f"thread {window.pixel}: base {window.base}"))
        for (row, column), place in np.ndenumerate(window.order):
            if place == _BETWEEN:
                continue
            inside = window.image[row, column]
            fill = "#a9d3ee" if place >= 0 and inside else "#f6d6a8" if place >= 0 else "#ffffff" if inside else "#e8e8e8"
            x, y = left + column * _CELL, above + _LINE + row * _CELL
            out.append(f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" fill="{fill}" stroke="#888888"/>')
            if place >= 0:
                out.append(_text(x + _CELL / 2, y + 17, str(place), "middle"))
    return "\n".join([*out, "</svg>", ""])


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" xml:space="preserve">{escape(text)}</text>'
