"""A timeline of the engine for recurrent networks as a drawing (SVG): the lanes above, each thread's sweeps and jobs below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..rnn.timeline import Span, Timeline

__all__ = ["svg"]

_COLOURS = ("#f6c98a", "#8fc7ec", "#8dd3b0", "#f0df6e", "#cda6d8", "#ef9f83", "#84bdba", "#b7d490")
_LINE, _MARGIN, _LABEL, _BAND, _GAP = 18, 14, 76, 22, 12
_WIDTH, _WIDEST = 1100, 14.0            # of the picture at most, unless it would be less than _LEAST a cycle; and of a cycle
_LEAST = 1.0
_TICKS = 12                             # numbers of the ruler at most, about


def svg(timeline: Timeline, texts: Sequence[str]) -> str:
    """Text of an SVG file; ``texts`` are the lines above the picture."""
    pixel = max(_LEAST, min(_WIDEST, _WIDTH / timeline.cycles))
    top = _MARGIN + _LINE * len(texts) + 10
    lanes = top + _LINE
    threads = [lanes + _BAND + _GAP + thread * (2 * _BAND + _GAP) for thread in range(timeline.threads)]
    bottom = threads[-1] + 2 * _BAND
    width = max(2 * _MARGIN + _LABEL + pixel * timeline.cycles, 2 * _MARGIN + 7.3 * max(map(len, texts)))
    height = bottom + 2 * _LINE + _MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}" '
        'font-family="monospace" font-size="12">',
        f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>',
    ]
    out += [_text(_MARGIN, _MARGIN + _LINE * number + 10, text) for number, text in enumerate(texts)]
    out += _ruler(timeline, pixel, top, bottom)
    out += [_text(_MARGIN, y + 15, label) for y, label in
            [(lanes, "lanes")] + [pair for n, y in enumerate(threads) for pair in ((y, f"thread {n}"), (y + _BAND, "  tail"))]]
    for begin, end in timeline.gaps():
        out.append(_box(pixel, begin, end, lanes, "#ffffff", "#d04040", f"nobody has the lanes: {end - begin} cycles"))
    for span in timeline.spans:
        out += _span(timeline, span, pixel, lanes, threads[span.context])
    legend = "lanes: colour of the thread, white where nobody has them; tail: number of the step, pale until the last result can be read"
    out.append(_text(_MARGIN, bottom + 2 * _LINE, legend))
    return "\n".join([*out, "</svg>", ""])


def _ruler(timeline: Timeline, pixel: float, top: int, bottom: int) -> Iterator[str]:
    step = next(size for power in range(9) for size in (1 * 10 ** power, 2 * 10 ** power, 5 * 10 ** power)
                if timeline.cycles / size <= _TICKS and size * pixel >= 50 or size >= timeline.cycles)
    for cycle in range(0, timeline.cycles + 1, step):
        x = _MARGIN + _LABEL + cycle * pixel
        yield f'<line x1="{x:g}" y1="{top + 14:g}" x2="{x:g}" y2="{bottom:g}" stroke="#dddddd"/>'
        yield _text(x, top + 10, f"{cycle:,}", "middle" if cycle else "start")


def _span(timeline: Timeline, span: Span, pixel: float, lanes: int, y: int) -> Iterator[str]:
    colour, symbol = _COLOURS[span.context % len(_COLOURS)], timeline.symbols()[span.sweep]
    vector = timeline.model.step.sweeps[span.sweep].vector
    about = f"thread {span.context}, step {span.step}, sweep {span.sweep} ({vector})"
    for begin, end in span.columns:
        yield _box(pixel, begin, end, lanes, colour, "#888888", about)
        yield _box(pixel, begin, end, y, colour, "#888888", f"{about}: cycles {begin} to {end - 1}", symbol)
    if span.job:
        begin, end, written = span.job
        yield _box(pixel, end, written, y + _BAND, colour, "none", f"{about}: results are written", opacity=0.3)
        yield _box(pixel, begin, end, y + _BAND, colour, "#888888", f"{about}: job, cycles {begin} to {end - 1}", str(span.step))


def _box(pixel: float, begin: int, end: int, y: int, fill: str, stroke: str, title: str, label: str = "", opacity: float = 1) -> str:
    x, width = _MARGIN + _LABEL + begin * pixel, (end - begin) * pixel
    pale = f' fill-opacity="{opacity}"' if opacity < 1 else ""
    text = _text(x + width / 2, y + 15, label, "middle") if label and width >= 8 * len(label) else ""
    return (f'<rect x="{x:g}" y="{y + 1:g}" width="{width:g}" height="{_BAND - 2}" fill="{fill}"{pale} stroke="{stroke}" '
            f'stroke-width="0.5"><title>{escape(title)}</title></rect>{text}')


def _text(x: float, y: int, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" xml:space="preserve">{escape(text)}</text>'
