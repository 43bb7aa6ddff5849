"""A report as one self-contained HTML page: layers, roofline, where the cycles went, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from ..device.recording import Recorder
from .advice import Advice, advice
from .figures import LOSSES, LayerFigures, layer_figures, total_figures
from .roofline import roofline

__all__ = ["report"]

_COLOURS = {"useful": "#2f855a", "unfilled": "#9ae6b4", "pipeline": "#f6e05e", "bus": "#c53030", "copies": "#fc8181", "threads": "#6b46c1",
            "control": "#718096", "drain": "#cbd5e0"}
_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1a202c; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } th, td { padding: .2rem .5rem; text-align: right; white-space: nowrap; }
th { border-bottom: 1px solid #718096; font-weight: 600; } tr.whole td { border-top: 1px solid #718096; font-weight: 600; }
td.text, th.text { text-align: left; } td.name { max-width: 15rem; overflow: hidden; text-overflow: ellipsis; }
.bar { display: flex; height: .9rem; width: 18rem; background: #edf2f7; } .bar span { display: block; height: 100%; }
.key { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; vertical-align: -.1rem; }
.figures { display: flex; flex-wrap: wrap; gap: 2rem; } .figures b { display: block; font-size: 1.3rem; }
svg { max-width: 100%; height: auto; } .host { color: #718096; }
"""


def report(recorder: Recorder, name: str, command: str) -> str:
    """The text of the page.

    ``name``: of what ran; ``command``: how it was asked for. Everything is within the page: it loads nothing. Raises ``MissingPackage``
    without matplotlib.
    """
    cfg, layers = recorder.cfg, layer_figures(recorder)
    whole = total_figures(layers, name)
    parts = [
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">', '<link rel="icon" href="data:,">',
        f"<title>{escape(name)}: where its cycles went</title>", f"<style>{_STYLE}</style>", "</head>", "<body>",
        f"<h1>{escape(name)}: where its cycles went</h1>",
    ]
    if cfg is None or not whole.cycles:
        parts.append("<p>Nothing ran on a device with a clock.</p>")
    else:
        peak = max(run.stats.peak_macs_per_cycle for layer in recorder.layers for run in layer.runs)
        parts += [f"<p>Configuration {escape(cfg.name)}: <code>{escape(command)}</code></p>", *_summary(whole),
                  "<h2>Layers</h2>", *_table(layers, whole), "<h2>Roofline</h2>",
                  "<p>Each point is a layer, with its number in the table. Below a roof lies what the multipliers or the bus could still "
                  "do.</p>", roofline(cfg, layers, whole, peak), "<h2>Where the rest went</h2>", *_key(), *_losses(layers, whole),
                  "<h2>What would help</h2>", *_advice(advice(cfg, layers))]
    return "\n".join([*parts, "</body>", "</html>", ""])


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _summary(whole: LayerFigures) -> Iterator[str]:
    yield '<div class="figures">'
    for value, text in ((f"{whole.cycles:,}", "cycles"), (f"{whole.macs:,}", "multiply-accumulates"),
                        (_percent(whole.utilization), "of the peak of the multipliers"), (f"{whole.bytes:,}", "bytes on the bus"),
                        (f"{whole.runs:,}", "runs of the device"), (f"{1000 * whole.seconds:.1f} ms", "wall time of nodes on the host")):
        yield f"<div><b>{value}</b>{text}</div>"
    yield "</div>"


def _table(layers: Sequence[LayerFigures], whole: LayerFigures) -> Iterator[str]:
    heads = ("", "operator", "layer", "where", "cycles", "share", "utilisation", "bound", "bound by", "of its bound", "runs")
    yield "<table>"
    yield "<tr>" + "".join(f'<th{_text(index)}>{head}</th>' for index, head in enumerate(heads)) + "</tr>"
    for number, layer in enumerate(layers):
        yield _row(str(number), layer, whole.cycles)
    yield _row("", whole, whole.cycles, "whole")
    yield "</table>"


def _text(index: int) -> str:
    return ' class="text"' if index in (1, 2, 3, 8) else ""


def _row(number: str, layer: LayerFigures, total: int, kind: str = "") -> str:
    cells: tuple[str, ...]
    if layer.cycles:
        bound = f"{layer.bound:,.0f}", layer.bound_by, _percent(layer.bound / layer.cycles)
        cells = (f"{layer.cycles:,}", _percent(layer.cycles / total), _percent(layer.utilization), *bound, f"{layer.runs:,}")
    else:
        cells = (f"{1000 * layer.seconds:.1f} ms", *["-"] * 5, "-")
    kind = kind or ("" if layer.cycles else "host")
    texts = (escape(layer.op), escape(layer.name), escape(layer.where))
    found = [f"<td>{number}</td>", f'<td class="text">{texts[0]}</td>', f'<td class="text name" title="{texts[1]}">{texts[1]}</td>',
             f'<td class="text">{texts[2]}</td>']
    found += [f"<td{_text(index)}>{cell}</td>" for index, cell in enumerate(cells, 4)]
    return f'<tr class="{kind}">' + "".join(found) + "</tr>"


def _key() -> Iterator[str]:
    yield "<p>"
    for loss, text in {"useful": "products", **LOSSES}.items():
        yield f'<span class="key" style="background: {_COLOURS[loss]}"></span><b>{loss}</b>: {escape(text)}<br>'
    yield "</p>"


def _losses(layers: Sequence[LayerFigures], whole: LayerFigures) -> Iterator[str]:
    yield "<table>"
    heads = "".join(f"<th>{loss}</th>" for loss in ("useful", *LOSSES))
    yield f'<tr><th></th><th class="text">layer</th><th class="text">parts of its cycles</th>{heads}</tr>'
    for number, layer in [*((str(number), layer) for number, layer in enumerate(layers) if layer.cycles), ("", whole)]:
        parts = {"useful": layer.ideal, **layer.losses}
        bar = "".join(f'<span style="width: {100 * cycles / layer.cycles:.2f}%; background: {_COLOURS[loss]}" '
                      f'title="{loss}: {cycles:,.0f} cycles"></span>' for loss, cycles in parts.items() if cycles)
        cells = "".join(f"<td>{_percent(cycles / layer.cycles)}</td>" for cycles in parts.values())
        kind = ' class="whole"' if layer is whole else ""
        yield (f'<tr{kind}><td>{number}</td><td class="text name">{escape(layer.op)}</td><td><div class="bar">{bar}</div></td>'
               f"{cells}</tr>")
    yield "</table>"


def _advice(lines: Sequence[Advice]) -> Iterator[str]:
    if not lines:
        yield "<p>No loss of a layer is 2 % of all cycles.</p>"
        return
    yield ('<table><tr><th>cycles</th><th>share</th><th class="text">layer</th><th class="text">loss</th>'
           '<th class="text">what lowers it</th></tr>')
    for line in lines:
        yield (f'<tr><td>{line.cycles:,.0f}</td><td>{_percent(line.share)}</td><td class="text name">{escape(line.layer)}</td>'
               f'<td class="text">{line.loss}</td><td class="text" style="white-space: normal">{escape(line.text)}</td></tr>')
    yield "</table>"
