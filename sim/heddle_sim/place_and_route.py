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
DEVICE_CLOCKS = (0.94, 0.92, 0.88, 0.84)
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
    return {"fmax_mhz": min(clock["achieved"] for clock in report["fmax"].values()),
            "critical_path": [_step(step) for path in paths[:1] for step in path]} | added


def _route_device(folder, placed, clocks_mhz, time_limit_s):
    """The report of the first clock that the router gets through with, or of a run without one."""
    place_again(placed)
    settings = placed["modules"]["top"]["settings"]         # they hold against those of the command line
    settings.update(DEVICE_SETTINGS)
    for clock in clocks_mhz:
        settings["target_freq"] = f"{clock * 1e6:.6f}"
        (folder / "placed.json").write_text(json.dumps(placed))
        report = run_nextpnr(folder, "placed.json", ["--no-pack", "--tmg-ripup"], time_limit_s, DEVICE_PASSES)
        if report:
            return report
    return run_nextpnr(folder, "placed.json", ["--no-pack"], time_limit_s)


def _step(step):
    """``delay ns kind: from -> to`` of one step of a path."""
    ends = " -> ".join(f"{step[end].get('cell', '')}.{step[end].get('port', '')}" for end in ("from", "to"))
    return f"{step['delay']:.2f} ns {step['type']}: {ends}"
