"""Draw which elements of the image the threads of a convolution read by compiled offsets, or say how it would be done.

Without --plan: bases of the first pixels, and the list of offsets that all share. Lines that the threads fetch in this order and in
the natural one (channel, then filter position). For some threads also the first channel of the image: at
each element that the thread reads stands its place in the list. A p behind it: in the padding. Planes of three axes stand side by side.
With --plan: what each method would take by its cycle model, how the compiled method cuts the layer, and which method "auto" takes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from heddle.config import Config
from heddle.errors import UsageError

from ..compiled.geometry import Geometry
from ..compiled.layout import ImageLayout
from ..compiled.representation import compile_convolution
from ..device.convolution_choice import METHODS, expectations, fastest_method
from ..device.convolution_method import ConvolutionLayer
from ..draw.windows import draw, svg, windows
from ..golden.requantise import Requantise
from .common import add_config, configuration, print_json
from .files import write_text
from .layer_options import add_layer, layer_of

__all__ = ["add_arguments", "execute"]

_LISTED = 32        # bases and offsets


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_layer(parser)
    parser.add_argument("--threads", type=int, default=2, help="threads to draw, from the first pixel on (default 2)")
    parser.add_argument("--plan", action="store_true", help="how the layer would be done, and why")
    parser.add_argument("--requantise", action="store_true", help="of the plan: with biases and multipliers to int8")
    parser.add_argument("--svg", metavar="FILE", help="write the drawing as SVG")
    add_config(parser)


def execute(options: argparse.Namespace) -> None:
    geometry, layout = layer_of(options)
    cfg = configuration(options)
    if options.plan:
        if options.svg:
            raise UsageError("--svg must not be given with --plan")
        _plan(options, cfg, geometry, layout)
        return
    made = compile_convolution(geometry, layout, threads=cfg.threads)
    if not 1 <= options.threads <= len(made.bases):
        raise UsageError(f"--threads must be from 1 to the {len(made.bases)} pixels of the result, not {options.threads}")
    found = windows(made, range(options.threads))
    title = (f"{'x'.join(map(str, geometry.size))} with {_count(geometry.channels, 'channel')}, {_count(geometry.outputs, 'filter')} of "
             f"{'x'.join(map(str, geometry.filter))}, {layout.name}: result {'x'.join(map(str, geometry.result))}")
    lists = {"bases": made.bases.tolist(), "offsets": made.offsets.tolist()}
    texts = [title, *(f"{name}: {' '.join(map(str, values[:_LISTED]))}" + (f" … ({len(values)})" if len(values) > _LISTED else "")
                      for name, values in lists.items())]
    fetches = {"line_fetches": made.lines(cfg.threads), "line_fetches_natural": made.natural_lines(cfg.threads)}
    texts.append(f"line fetches of {cfg.threads} threads: {fetches['line_fetches']}, in natural order {fetches['line_fetches_natural']}")
    if options.svg:
        write_text(options.svg, svg(found, texts))
    if options.json:
        print_json("show conv", cfg.name, [{"kind": "windows", "layout": layout.name, "pixels": len(made.bases)} | fetches | lists])
        return
    print("\n".join([*texts, "", *draw(found)]))
    if options.svg:
        print(f"wrote {options.svg}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _plan(options: argparse.Namespace, cfg: Config, geometry: Geometry, layout: ImageLayout) -> None:
    spec = Requantise(1 << 30, 40) if options.requantise else None
    found = expectations(cfg, ConvolutionLayer(geometry, layout, bias=options.requantise, requantise=spec))
    taken = fastest_method(found)
    if taken is None:
        raise UsageError(f"a method must be able to do the layer: {'; '.join(method.why_not for method in found.values())}")
    rows = []
    for name, method in found.items():
        row = {"method": name, "cycles": method.cycles, "why_not": method.why_not}
        if method.problem is not None:
            row |= {"runs": method.runs} | METHODS[name].cuts(cfg, method.problem)
        rows.append(row | {"auto": name == taken})
    if options.json:
        print_json("show conv", cfg.name, rows)
        return
    for row in rows:
        print("\n".join(_lines(row)))


def _lines(row: dict[str, Any]) -> Iterator[str]:
    if row["why_not"]:
        yield f"{row['method']}: {row['why_not']}"
        return
    yield f"{row['method']}: {row['cycles']:,} cycles expected" + ", the method that auto takes" * row["auto"]
    for name, value in row.items():
        if name not in ("method", "cycles", "auto", "why_not"):
            yield f"  {name.replace('_', ' ')}: {value:,}" if isinstance(value, int) else f"  {name.replace('_', ' ')}: {value}"
