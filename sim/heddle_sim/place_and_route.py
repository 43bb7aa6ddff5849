"""Placing and routing a synthesised netlist for an ECP5-85F of the slowest speed grade."""

import json
import tempfile
from pathlib import Path

from .constant_inputs import fold_zero_inputs
from .floorplan import LANE_PARTS, keep_rows_empty, place_blocks
from .global_reset import globalise_reset
from .multiplier_registers import pack_multiplier_registers
from .nextpnr import place_again, run_nextpnr
from .placed_copies import count_copies
from .placement import improve_placement
from .register_copies import copy_registers

__all__ = ["place_and_route"]

# Of a whole device. Weights as nextpnr does by itself: what is late then moves afterwards, at the cost of less wire (docs/frequency.md).
DEVICE_PLACER = ["--placer", "heap", "--placer-heap-timingweight", "10", "--placer-heap-critexp", "2"]
# The router goes on until all paths keep a clock: so many times that of the longest placed path, one after the other, until it gets through
# with one within so many passes, and in time.
DEVICE_CLOCKS = (0.93, 0.91, 0.87, 0.83)
DEVICE_PASSES = 150
DEVICE_SETTINGS = {
    # Tiles by which a wire may leave the rectangle around the ends of its net: more than the three of nextpnr, to get past other wires.
    "router2/bbMargin/x": "6", "router2/bbMargin/y": "6",
    # What is left of a way counts so many times its estimate, which is near twice what routed wires take: with much more than one half the
    # first way that is found is seldom a short one, and the search ends with it. nextpnr's own is 1.25.
    "router2/estimateWeight": "0.6",
}


def place_and_route(netlist, seed, time_limit_s):
    """Place and route a netlist of Yosys (its top module is changed): ``fmax_mhz`` and the ``critical_path``, a line for each step.

    A whole device (``place_blocks``) gets a floorplan, and its router a clock to keep; ``copies`` counts the tables and flip-flops that
    were added when it was placed.
    Raises ``YosysError`` when nextpnr fails, or takes longer than ``time_limit_s`` to place or to route without a clock to keep.
    """
    pack_multiplier_registers(netlist)
    fold_zero_inputs(netlist)
    whole = place_blocks(netlist)
    if whole:
        globalise_reset(netlist)
        copy_registers(netlist, LANE_PARTS)
        keep_rows_empty(netlist)
    seeded = ["--seed", str(seed)]          # the router goes on from where the placer ended
    with tempfile.TemporaryDirectory(prefix="heddle-route-") as folder:
        folder = Path(folder)
        (folder / "top.json").write_text(json.dumps(netlist))
        if whole:
            run_nextpnr(folder, "top.json", [*seeded, "--no-route", "--write", "placed.json", *DEVICE_PLACER], time_limit_s)
            placed = json.loads((folder / "placed.json").read_text())
            longest = improve_placement(placed)
            added = {"copies": count_copies(placed["modules"]["top"]["cells"])}
            report = _route_device(folder, placed, [round(1000 / longest * clock, 1) for clock in DEVICE_CLOCKS], time_limit_s)
        else:
            report, added = run_nextpnr(folder, "top.json", seeded, time_limit_s), {}
    paths = [path["path"] for path in report["critical_paths"] if path["from"].startswith("posedge") and path["from"] == path["to"]]
    return {"fmax_mhz": _clock(report), "critical_path": [_step(step) for path in paths[:1] for step in path]} | added


def _route_device(folder, placed, clocks_mhz, time_limit_s):
    """The report of the first clock that the router gets through with, or of a run without one."""
    for clock in clocks_mhz:
        report = _route(folder, placed, clock, time_limit_s)
        if report:
            # Once more from where it ended: by now it is known how many wires hang on each switch, which makes some paths late.
            again = _route(folder, json.loads((folder / "routed.json").read_text()), clock, time_limit_s)
            return max((report, again or report), key=_clock)
    return _route(folder, placed, None, time_limit_s)


def _route(folder, placed, clock_mhz, time_limit_s):
    """The report of the router on a placed netlist, perhaps with wires, and ``routed.json``; None where it does not get through with a clock."""
    place_again(placed)
    # What stands in a netlist holds against the command line.
    placed["modules"]["top"]["settings"] |= DEVICE_SETTINGS | {"router/tmg_ripup": "1" if clock_mhz else "0"}
    if clock_mhz:
        placed["modules"]["top"]["settings"]["target_freq"] = f"{clock_mhz * 1e6:.6f}"
    (folder / "placed.json").write_text(json.dumps(placed))
    return run_nextpnr(folder, "placed.json", ["--no-pack", "--write", "routed.json"], time_limit_s, DEVICE_PASSES if clock_mhz else None)


def _clock(report):
    return min(clock["achieved"] for clock in report["fmax"].values())


def _step(step):
    """``delay ns kind: from -> to`` of one step of a path."""
    ends = " -> ".join(f"{step[end].get('cell', '')}.{step[end].get('port', '')}" for end in ("from", "to"))
    return f"{step['delay']:.2f} ns {step['type']}: {ends}"
