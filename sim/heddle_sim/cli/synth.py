"""Synthesise for an FPGA and count what it takes.

With --pnr, nextpnr places and routes the design as well (minutes); the row then has the clock frequency that it reached and the
path that limits it. Without it fmax_mhz is null. Units that others have published figures of have those in ``peers``.
"""

from ..peers import peers
from ..synthesis import TARGETS, synthesise
from .common import add_config, add_json, configuration, print_rows, progress_for

__all__ = ["add_arguments", "execute"]


def add_arguments(parser):
    add_config(parser, default="small")
    parser.add_argument("--target", default="ecp5", choices=TARGETS, help="family (default ecp5)")
    parser.add_argument("--unit", default="heddle", metavar="NAME", help="a unit alone (see heddle show units)")
    parser.add_argument("--pnr", action="store_true", help="place and route too")
    parser.add_argument("--seed", type=int, default=1, help="of placement (default 1)")
    parser.add_argument("--time-limit", type=float, default=1800, metavar="SECONDS", help="of each tool (default 1800)")
    parser.add_argument("--quiet", action="store_true", help="no progress bars")
    add_json(parser)


def execute(options):
    cfg = configuration(options)
    with progress_for(options) as progress:
        row = synthesise(
            cfg,
            options.unit,
            options.target,
            pnr=options.pnr,
            seed=options.seed,
            time_limit_s=options.time_limit,
            progress=progress,
        )
    others = peers(options.unit, options.target)
    columns = dict.fromkeys(("unit", "target", "lut", "carry", "ff", "dsp", "bram", "fmax_mhz"))
    print_rows(options, "synth", cfg.name, [row | ({"peers": others} if others else {})], columns)
    if not options.json:
        for other in others:
            figures = ", ".join(f"{name} {other[name]:,}" for name in columns if name in other and name != "unit")
            print(f"beside it: {other['unit']}: {figures}; {other['source']}")
