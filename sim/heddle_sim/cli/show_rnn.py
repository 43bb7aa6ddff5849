"""Draw which thread of a recurrent layer has the lanes and the tail in which cycles, by the cycle model.

A line for the lanes: the number of the thread whose sweep they multiply, a dot where nobody has them. Below, two lines for each thread. The
first has its sweeps, a letter each. The second has its jobs in the tail as the last digit of their step, then - until their last result can
be read. Loading of weights and images is left out.
"""

import argparse
import os
import shutil
import sys

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError

from ..draw.timeline_svg import svg
from ..draw.timeline_text import draw, heading
from ..rnn.image import check_fit
from ..rnn.timeline import Timeline, model_timeline
from .bench_rnn import CELLS, drawn_network
from .common import add_config, configuration, elements, positive, print_json, steps, variant_name
from .files import write_text

__all__ = ["add_arguments", "execute"]

COLUMNS = 110
STRETCHES = 6               # of the picture in a terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cell", choices=CELLS, default="lstm", help="kind of layer (default lstm)")
    parser.add_argument("--hidden", type=elements, default=16, help="elements of the layer (default 16)")
    parser.add_argument("--inputs", type=elements, help="elements of the input (default: as many as the layer has)")
    parser.add_argument("--threads", type=positive, default=1, help="sequences that take turns, 1 to 8 (default 1)")
    parser.add_argument("--steps", type=steps, default=6, help="of each sequence (default 6)")
    parser.add_argument("--cat", type=int, choices=(1, 2, 4), help="dot products of a lane (default: chosen by the cycle model)")
    parser.add_argument("--scale", type=positive, default=1, help="cycles of a place of the text (default 1)")
    parser.add_argument("--lines", type=positive, help=f"stretches of the text to draw (default {STRETCHES})")
    parser.add_argument("--svg", metavar="FILE", help="write the drawing as SVG")
    add_config(parser)


def _timeline(options: argparse.Namespace) -> tuple[Config, Timeline]:
    contexts = 1 << (options.threads - 1).bit_length()
    if contexts > 8:
        raise UsageError(f"--threads must be at most 8, not {options.threads}")
    cfg = configuration(options)
    cfg = cfg.replace(rnn=True, rnn_contexts=max(cfg.rnn_contexts, contexts))
    inputs = options.inputs or options.hidden
    network = drawn_network(cfg, np.random.default_rng(0), options.cell, options.hidden, inputs, options.cat)
    if network is None:
        raise UsageError(f"weights must fit {cfg.factor_words} (factor_words of configuration {cfg.name}) words of "
                         f"{cfg.threads * cfg.dot}, not be those of --hidden {options.hidden} with {inputs} inputs")
    try:
        model = network.model(cfg)
        try:
            check_fit(cfg, [model] * options.threads, options.threads)
        except ValueError:
            model = network.model(cfg, plain=True)
            check_fit(cfg, [model] * options.threads, options.threads)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return cfg, model_timeline(cfg, model, options.threads, options.steps)


def execute(options: argparse.Namespace) -> None:
    cfg, timeline = _timeline(options)
    count = "1 thread" if options.threads == 1 else f"{options.threads} threads"
    title = f"{options.cell} of {options.hidden} elements, {options.inputs or options.hidden} inputs, {options.steps} steps, {count}"
    lines = heading(timeline, title)
    if options.svg:
        write_text(options.svg, svg(timeline, lines))
    if options.json:
        about = {"kind": "timeline", "cell": options.cell, "hidden": options.hidden, "inputs": options.inputs or options.hidden,
                 "threads": options.threads, "steps": options.steps, "cycles": timeline.cycles, "lanes_busy": timeline.busy,
                 "tail_busy": timeline.tail_busy, "cycles_per_step": timeline.pace, "gaps": [list(gap) for gap in timeline.gaps()]}
        print_json("show rnn", variant_name(cfg, configuration(options)), [about, *timeline.rows()])
        return
    terminal = sys.stdout.isatty()
    columns = shutil.get_terminal_size().columns if terminal else COLUMNS
    colour = terminal and not os.environ.get("NO_COLOR")
    print("\n".join([*lines, "", *draw(timeline, columns, colour, options.lines or STRETCHES, options.scale)]))
    if options.svg:
        print(f"wrote {options.svg}")
