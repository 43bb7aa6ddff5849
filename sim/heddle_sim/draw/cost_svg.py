"""Cycles and bytes of convolutions by several methods as a drawing (SVG): a panel for each figure, a group of bars for each layer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .svg_text import svg_text

__all__ = ["COST_FIELDS", "cost_svg"]

# Fields of rows of ``heddle bench conv`` and what they are.
COST_FIELDS = {
    "cycles": "cycles",
    "read_bytes": "bytes read from global memory",
    "line_lookups": "lines looked up in the L2 cache",
    "shared_bytes": "bytes of shared memory",
}
_COLOURS = ("#3b6fb0", "#d08a2e", "#7a9a3c")
_BAR, _GAP, _WIDTH, _LABEL, _NUMBER, _TOP, _MARGIN = 13, 12, 190, 210, 80, 64, 14


def cost_svg(rows: Sequence[Mapping[str, Any]]) -> str:
    """Text of an SVG file. ``rows``: of a layer and a method each, with ``COST_FIELDS``; what is None has no bar."""
    layers = list(dict.fromkeys(map(_layer, rows)))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    group = len(methods) * _BAR + _GAP
    panel = _WIDTH + _NUMBER
    width, height = 2 * _MARGIN + _LABEL + len(COST_FIELDS) * panel, _TOP + len(layers) * group + _MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="monospace" font-size="12">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for number, method in enumerate(methods):
        x = _MARGIN + 120 * number
        out += [f'<rect x="{x}" y="12" width="12" height="12" fill="{_COLOURS[number % len(_COLOURS)]}"/>', svg_text(x + 18, 22, method)]
    out += [svg_text(_MARGIN, _TOP + group * number + _BAR * len(methods) // 2 + 4, layer) for number, layer in enumerate(layers)]
    for number, (field, title) in enumerate(COST_FIELDS.items()):
        out += _panel(rows, field, title, _MARGIN + _LABEL + number * panel, layers, methods)
    return "\n".join([*out, "</svg>", ""])


def _layer(row: Mapping[str, Any]) -> str:
    stride = f", stride {row['stride']}" if row["stride"] != 1 else ""
    return f"{row['image']}, {row['filters']}{stride}"


def _panel(rows: Sequence[Mapping[str, Any]], field: str, title: str, left: int, layers: list[str], methods: list[str]) -> Iterator[str]:
    yield svg_text(left, _TOP - 12, title)
    most = max((row[field] for row in rows if row.get(field)), default=1)
    for row in rows:
        value = row.get(field)
        if value is None:
            continue
        method = methods.index(row["method"])
        y = _TOP + layers.index(_layer(row)) * (len(methods) * _BAR + _GAP) + method * _BAR
        length = _WIDTH * value / most
        yield f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{_BAR - 2}" fill="{_COLOURS[method % len(_COLOURS)]}"/>'
        yield svg_text(left + length + 4, y + 10, f"{value:,}")
