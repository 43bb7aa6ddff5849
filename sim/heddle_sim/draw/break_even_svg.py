"""Cycles of a sparse product over the share of zeros, beside those of the dense product, as a drawing (SVG)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .svg_text import svg_text

__all__ = ["break_even_svg"]

_SPARSE, _DENSE, _PUBLISHED = "#3b6fb0", "#b04a3a", "#7a9a3c"
_WIDTH, _HEIGHT, _LEFT, _TOP, _MARGIN = 560, 300, 84, 66, 40
_LINES, _LETTER = 5, 7.3        # lines across; width of a letter


def break_even_svg(points: Sequence[tuple[float, int]], dense: int, break_even: float | None, published: float) -> str:
    """Text of an SVG file.

    Parameters
    ----------
    points : list of (float, int)
        Share of zeros and cycles of sparse products.
    dense : int
        Cycles of the dense product.
    break_even : float or None
        Share of zeros with which the sparse product takes as long; None: none does.
    published : float
        Share of zeros of a published break-even.
    """
    width, height = _LEFT + _WIDTH + _MARGIN, _TOP + _HEIGHT + _MARGIN
    step = _step(max(dense, *(cycles for _, cycles in points)))
    most = step * _LINES

    def x(share: float) -> float:
        return _LEFT + _WIDTH * share

    def y(cycles: float) -> float:
        return _TOP + _HEIGHT * (1 - cycles / most)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="monospace" font-size="12">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           svg_text(_LEFT, 20, "cycles over the share of zeros")]
    legend = [("sparse product", _SPARSE), (f"dense product: {dense:,}", _DENSE)]
    for number, (name, colour) in enumerate(legend):
        left = _LEFT + 170 * number
        out += [_line(left, 36, left + 18, 36, colour, 3), svg_text(left + 24, 40, name)]
    for number in range(_LINES + 1):
        top, label = y(step * number), f"{step * number:,}"
        out += [_line(_LEFT, top, _LEFT + _WIDTH, top, "#dddddd"), svg_text(_LEFT - 8 - _LETTER * len(label), top + 4, label)]
    for tenth in range(0, 11, 2):
        out.append(svg_text(x(tenth / 10) - 12, _TOP + _HEIGHT + 18, f"{10 * tenth} %"))
    out.append(_line(_LEFT, y(dense), _LEFT + _WIDTH, y(dense), _DENSE, 2))
    out += _mark(x(published), y(dense), f"published {100 * published:.0f} %", _PUBLISHED)
    if break_even is not None:
        out += _mark(x(break_even), y(dense), f"break-even {100 * break_even:.1f} %", "#333333")
    places = [(x(share), y(cycles)) for share, cycles in sorted(points)]
    line = " ".join(f"{left:.1f},{top:.1f}" for left, top in places)
    out.append(f'<polyline points="{line}" fill="none" stroke="{_SPARSE}" stroke-width="2"/>')
    out += [f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3.5" fill="{_SPARSE}"/>' for left, top in places]
    return "\n".join([*out, "</svg>", ""])


def _step(most: int) -> int:
    """Cycles between two lines across: 1, 2, 3 or 5 times a power of ten."""
    scale = 1
    while True:
        for factor in (1, 2, 3, 5):
            if factor * scale * _LINES >= most:
                return factor * scale
        scale *= 10


def _mark(left: float, top: float, text: str, colour: str) -> Iterator[str]:
    """A line from a place down to the axis, with a text beside it."""
    yield f'<line x1="{left:.1f}" y1="{top:.1f}" x2="{left:.1f}" y2="{_TOP + _HEIGHT}" stroke="{colour}" stroke-dasharray="4 3"/>'
    yield svg_text(left + 6, _TOP + _HEIGHT - 8, text)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: int = 1) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'
