"""Utilisation over EP for vector sizes as a drawing (SVG), a panel for each number of multipliers [S3.8]."""

import math
from collections.abc import Sequence

from ..rnn.plan import LATENCY, evaluate
from .svg_text import svg_text

__all__ = ["plan_svg"]

_COLOURS = ("#b04a3a", "#d08a2e", "#7a9a3c", "#2f8f83", "#3b6fb0", "#7a4fa0", "#555555", "#a0527d")
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP, _LEGEND = 380, 240, 52, 40, 60, 96
_GATES = 4


def curve(multipliers: int, hidden: int, latency: int = LATENCY) -> list[tuple[int, float]]:
    """[(EP, utilisation)] of an LSTM with as many inputs as hidden elements, VP = N_PE / EP being at most 4·h."""
    points = []
    for exponent in range(multipliers.bit_length()):
        ep = 1 << exponent
        if multipliers // ep <= _GATES * hidden:
            points.append((ep, evaluate(_GATES, hidden, hidden, multipliers, ep, multipliers // ep, latency=latency).utilization))
    return points


def plan_svg(multipliers: Sequence[int], sizes: Sequence[int], latency: int = LATENCY) -> str:
    """Text of an SVG file."""
    width = _LEFT + len(multipliers) * (_WIDTH + _GAP) + _LEGEND
    height = _TOP + _HEIGHT + 44
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="monospace" font-size="12">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    largest = max(sizes)
    for number, count in enumerate(multipliers):
        out += _panel(_LEFT + number * (_WIDTH + _GAP), count, sizes, largest, latency)
    left = width - _LEGEND
    out.append(svg_text(left, _TOP + 4, "elements"))
    for index, size in enumerate(sizes):
        y, colour = _TOP + 24 + 18 * index, _COLOURS[index % len(_COLOURS)]
        out += [f'<line x1="{left}" y1="{y - 4}" x2="{left + 18}" y2="{y - 4}" stroke="{colour}" stroke-width="3"/>',
                svg_text(left + 24, y, f"{size:,}")]
    return "\n".join([*out, "</svg>", ""])


def _panel(left: int, multipliers: int, sizes: Sequence[int], largest: int, latency: int) -> list[str]:
    steps = math.ceil(math.log2(largest))

    def x(ep: int) -> float:
        return left + _WIDTH * math.log2(ep) / steps

    def y(utilization: float) -> float:
        return _TOP + _HEIGHT * (1 - utilization)

    out = [svg_text(left, _TOP - 16, f"{multipliers:,} multipliers: utilisation over EP")]
    for tenth in range(0, 11, 2):
        out += [f'<line x1="{left}" y1="{y(tenth / 10):.1f}" x2="{left + _WIDTH}" y2="{y(tenth / 10):.1f}" stroke="#dddddd"/>',
                svg_text(left - 46, y(tenth / 10) + 4, f"{10 * tenth:3} %")]
    out += [svg_text(x(1 << exponent) - 6, _TOP + _HEIGHT + 18, str(1 << exponent)) for exponent in range(0, steps + 1, 2)]
    for index, size in enumerate(sizes):
        points = [(ep, value) for ep, value in curve(multipliers, size, latency) if ep <= 1 << steps]
        colour = _COLOURS[index % len(_COLOURS)]
        line = " ".join(f"{x(ep):.1f},{y(value):.1f}" for ep, value in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x(ep):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>' for ep, value in points]
    return out
