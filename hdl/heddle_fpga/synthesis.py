"""Synthesis for FPGAs: cell counts, and clock frequency after place and route."""

import json

from heddle.config import ConfigError
from heddle.emit import emit_rtlil
from heddle.units import make_unit
from heddle.yosys import YosysError, run_yosys

from .pin_harness import PinHarness
from .place_and_route import place_and_route

__all__ = ["CLOCK_MHZ", "SEED", "TARGETS", "count_cells", "count_parts", "synthesise"]

# For each family: the Yosys commands, and for each field of a row the cell types with their weights.
TARGETS = {
    "ecp5": {
        "commands": ["synth_ecp5 -top top -json top.json"],
        # Yosys 0.70 can fail to reintegrate the mapped netlist (an assertion in ABC_OPS_REINTEGRATE): the same flow after a clean-up.
        "again": ["synth_ecp5 -top top -run begin:map_luts", "clean -purge", "opt -full",
                  "synth_ecp5 -top top -run map_luts: -json top.json"],
        "lut": {"LUT4": 1},
        "carry": {"CCU2C": 1},
        "ff": {"TRELLIS_FF": 1},
        "dsp": {"MULT18X18D": 1},
        "bram": {"DP16KD": 1},
        "lutram": {"TRELLIS_DPR16X4": 1},
    },
    "xilinx": {
        "commands": ["synth_xilinx -family xcup -flatten -top top"],     # UltraScale+
        "lut": {f"LUT{inputs}": 1 for inputs in range(1, 7)},
        "carry": {"CARRY4": 1, "CARRY8": 1},
        "ff": dict.fromkeys(("FDRE", "FDSE", "FDCE", "FDPE"), 1),
        "dsp": {"DSP48E2": 1},
        "bram": {"RAMB36E2": 1, "RAMB18E2": 0.5},
        "lutram": dict.fromkeys(("RAM32M16", "RAM64M8", "RAM32M", "RAM64M", "RAM32X1D", "RAM64X1D", "RAM128X1D", "SRL16E", "SRLC32E"), 1),
    },
}
COMMANDS = ("commands", "again")        # command lists of a target, in the order of attempts after an assertion of Yosys
SEED, CLOCK_MHZ = 1, 80


def synthesise(cfg, unit, target="ecp5", *, pnr=False, seeds=(SEED,), clock_mhz=CLOCK_MHZ, sites=(), time_limit_s=3600, stage=None):
    """Synthesise one unit and return its benchmark rows, with ``pnr`` one for each seed.

    A row has the counts ``lut carry ff dsp bram lutram`` and ``fmax_mhz``, None without ``pnr``. With ``pnr`` it also has
    ``placed_mhz`` and ``critical_path``, and ``overused_wires`` where the router did not finish in time.

    Parameters
    ----------
    cfg : Config
        Configuration.
    unit : str
        Name of the unit (``heddle.units``).
    target : str
        Key of ``TARGETS``.
    pnr : bool
        Whether the unit is placed and routed.
    seeds : sequence of int
        Seeds of nextpnr. All place the same netlist.
    clock_mhz : float
        Requested clock frequency in MHz. Yosys saves area where a path is shorter; nextpnr stops to improve paths that meet the clock.
    sites : list of Placement
        Sites of cells on the chip.
    time_limit_s : float
        Time limit of each tool in seconds.
    stage : callable, optional
        Called with the name of each stage when the stage begins.

    Raises
    ------
    YosysError, NextpnrError
        When a tool fails.
    ConfigError
        For ``pnr`` on a target other than ecp5.
    """
    if pnr and target != "ecp5":
        raise ConfigError(f"target must be ecp5 to place and route, not {target}")
    stage = stage or (lambda name: None)
    stage(f"synthesise {unit} ({cfg.name})")
    counts = count_cells(make_unit(unit, cfg), target, time_limit_s, clock_mhz) | {"fmax_mhz": None}
    rows = [{"unit": unit, "target": target, "seed": seed, "clock_mhz": clock_mhz} | counts for seed in (seeds if pnr else seeds[:1])]
    if pnr:
        netlist = _run(PinHarness(make_unit(unit, cfg)), target, [], "top.json", time_limit_s, clock_mhz)
        for row in rows:
            stage(f"place and route {unit}, seed {row['seed']}")
            row |= place_and_route(json.loads(netlist), seed=row["seed"], clock_mhz=clock_mhz, sites=sites, time_limit_s=time_limit_s)
    return rows


def count_cells(component, target, time_limit_s=1800, clock_mhz=CLOCK_MHZ):
    """Cells of a component after synthesis, by the fields of ``TARGETS``."""
    return _counts(_statistics(component, target, time_limit_s, clock_mhz)["design"]["num_cells_by_type"], target)


def count_parts(component, target, time_limit_s=1800, clock_mhz=CLOCK_MHZ):
    """Cells of each part of a component, as ``{path: counts}`` with the parts below included; "" is the whole.

    Module borders are preserved, so the whole takes slightly more than ``count_cells`` returns. The path of a part with several
    instances ends with ``*`` and their number.
    """
    modules = _statistics(component, target, time_limit_s, clock_mhz, flatten=False)["modules"]
    cells = {name.removeprefix("\\"): module["num_cells_by_type"] for name, module in modules.items()}
    parts = {}

    def add(module, path):
        """The counts of a module, which are recorded for one of its instances under the path of the first."""
        counts = _counts(cells[module], target)
        parts[path] = counts
        for below, number in cells[module].items():
            if below in cells:
                name = below.rsplit(".", 1)[-1] + (f"*{number}" if number > 1 else "")
                of_part = add(below, f"{path}.{name}".lstrip("."))
                for kind, count in of_part.items():
                    counts[kind] += number * count
        return counts

    add("top", "")
    return parts


def _statistics(component, target, time_limit_s, clock_mhz, *, flatten=True):
    statistics = _run(component, target, ["tee -q -o stat.json stat -json"], "stat.json", time_limit_s, clock_mhz, flatten=flatten)
    return json.loads(statistics)


def _counts(cells, target):
    return {name: sum(cells.get(cell, 0) * weight for cell, weight in kinds.items())
            for name, kinds in TARGETS[target].items() if name not in COMMANDS}


def _run(component, target, commands, output, time_limit_s, clock_mhz, *, flatten=True):
    """The file ``output`` that the commands of the target and ``commands`` write."""
    rtlil, first = emit_rtlil(component, "top"), f"scratchpad -set abc9.D {round(1e6 / clock_mhz)}"     # picoseconds

    def run(way):
        if not flatten:
            way = [command.replace(" -flatten", "").replace("synth_ecp5", "synth_ecp5 -noflatten") for command in way]
        return run_yosys(rtlil, [first, *way, *commands], outputs=[output], timeout_s=time_limit_s)[output]

    *others, last = [TARGETS[target][name] for name in COMMANDS if name in TARGETS[target]]
    for way in others:
        try:
            return run(way)
        except YosysError as error:
            if "ERROR: Assert" not in str(error):
                raise
    return run(last)
