"""Synthesise for an FPGA and count what it takes.

With --pnr, nextpnr places and routes the design as well (a unit: minutes), with --seeds several times. A row then has the clock frequency
that nextpnr estimates after placing, the frequency that it reached, and the path that limits it. Where the time ends before the design is
routed, it has the number of overused wires. Without --pnr fmax_mhz is null. Units that others have published figures of have those in
``peers``.
"""

import argparse
from collections.abc import Callable
from typing import Any

from heddle.config import Config
from heddle.errors import UsageError
from heddle.units import make_unit, unit_config
from heddle_fpga.sites import load_sites, sites_of
from heddle_fpga.synthesis import CLOCK_MHZ, SEED, TARGETS, count_parts, synthesise

from .common import add_config, add_json, configuration, megahertz, positive, print_rows, progress_for, seconds, seed, variant_name
from .peers import peers

__all__ = ["add_arguments", "execute"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser, default=None, said="small, or base for unit tmau, which small does not have")
    parser.add_argument("--target", default="ecp5", choices=TARGETS, help="family (default ecp5)")
    parser.add_argument("--unit", action="append", metavar="NAME", help="a unit alone (see heddle show units); repeatable, a row for each")
    parser.add_argument("--parts", action="store_true", help="also what each part takes, with what is in it; borders are kept, so that the "
                        "sum is a little more than the whole")
    parser.add_argument("--pnr", action="store_true", help="place and route too")
    parser.add_argument("--clock", type=megahertz, default=CLOCK_MHZ, metavar="MHZ", help=f"that is asked for (default {CLOCK_MHZ})")
    parser.add_argument("--sites", metavar="FILE", help="where multipliers and block RAMs go (default: "
                        "constraints/CONFIG-ecp5.toml for a whole device, if it exists)")
    parser.add_argument("--seed", type=seed, default=SEED, help=f"of placement (default {SEED})")
    parser.add_argument("--seeds", type=positive, default=1, metavar="N", help="with --pnr: a row for each of N seeds, from --seed on")
    parser.add_argument("--time-limit", type=seconds, default=3600, metavar="SECONDS", help="of each tool (default 3600)")
    parser.add_argument("--quiet", action="store_true", help="no progress bars")
    add_json(parser)


def execute(options: argparse.Namespace) -> None:
    units = options.unit or ["heddle"]
    options.config = options.config or ("base" if units == ["tmau"] else "small")
    cfg = configuration(options)
    if options.seeds > 1 and not options.pnr:
        raise UsageError(f"--seeds must be 1 without --pnr, not {options.seeds}")
    names = {unit: variant_name(unit_config(unit, cfg), cfg) for unit in units}       # of all units, before the first is synthesised
    with progress_for(options) as progress:
        def stage(name: str) -> None:
            progress.step()
            progress.stage(name)

        rows = [row | {"config": names[unit]} for unit in names for row in _rows(options, cfg, unit, stage)]
        progress.step()
    columns = dict.fromkeys(("unit", "target", "lut", "carry", "ff", "dsp", "bram",
                             *(("seed", "placed_mhz", "overused_wires") if options.pnr else ()), "fmax_mhz"))
    print_rows(options, "synth", names[units[0]] if len(names) == 1 else cfg.name, rows, columns)
    if not options.json:
        for other in (other for unit in names for other in peers(unit, options.target)):
            figures = ", ".join(f"{name} {other[name]:,}" for name in columns if name in other and name != "unit")
            print(f"beside it: {other['unit']}: {figures}; {other['source']}")


def _rows(options: argparse.Namespace, cfg: Config, unit: str, stage: Callable[[str], None]) -> list[dict[str, Any]]:
    """Rows of a unit, and of its parts where they are asked for."""
    sites = options.sites or sites_of(cfg, unit)
    rows = synthesise(
        cfg, unit, options.target, pnr=options.pnr, seeds=range(options.seed, options.seed + options.seeds),
        clock_mhz=options.clock, sites=load_sites(sites) if sites else [], time_limit_s=options.time_limit, stage=stage)
    others = peers(unit, options.target)
    rows = [row | ({"peers": others} if others else {}) for row in rows]
    if options.parts:
        counts = count_parts(make_unit(unit, cfg), options.target, options.time_limit, options.clock)
        rows += [{"unit": f"{unit}.{path}" if path else f"{unit} (parts)", "target": options.target} | part
                 for path, part in counts.items()]
    return rows
