"""Synthesis for FPGAs: cell counts, and the clock frequency after placing and routing."""

import json

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import Component, In, Out
from heddle.emit import emit_rtlil
from heddle.units import make_unit
from heddle.yosys import YosysError, run_yosys

from .place_and_route import place_and_route
from .ports import component_ports
from .progress import Progress

__all__ = ["SEED", "TARGETS", "PinHarness", "count_cells", "count_parts", "synthesise"]

# Field of a row: cell types and what each counts as.
TARGETS = {
    "ecp5": {
        # Mapping saves area where a path stays below this delay (picoseconds, wires 0.3 ns each); without, below the longest path's.
        "commands": ["scratchpad -set abc9.D 5000", "synth_ecp5 -top top -json top.json"],
        # Where Yosys 0.70 fails to bring the mapped netlist back (an assertion in ABC_OPS_REINTEGRATE): the same behind a clean-up.
        "again": ["scratchpad -set abc9.D 5000", "synth_ecp5 -top top -run begin:map_luts", "clean -purge", "opt -full",
                  "synth_ecp5 -top top -run map_luts: -json top.json"],
        # A whole device, whose wires are long: 1.3 ns each, and as much more delay below which area is saved.
        "device": ["scratchpad -set abc9.D 10200", "scratchpad -copy abc9.script.flow3mfs abc9.script",
                   "synth_ecp5 -top top -run begin:map_luts", "techmap -map +/lattice/latches_map.v", "abc9 -W 1300", "clean",
                   "synth_ecp5 -top top -run map_cells: -json top.json"],
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
FLOWS = ("device", "commands", "again")         # of a target: the next one where Yosys fails with an assertion
DEVICE = "heddle"
SEED = 1         # of placement: the better one of 1 and 2 for small
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


def synthesise(cfg, unit, target="ecp5", *, pnr=False, seed=SEED, time_limit_s=3600, progress=None):
    """A benchmark row of one unit: ``lut carry ff dsp bram lutram`` and ``fmax_mhz`` (None without ``pnr``, with it also
    ``critical_path``).

    Raises ``YosysError`` when a tool fails or takes longer than ``time_limit_s``.
    """
    progress, device = progress or Progress(), unit == DEVICE
    progress.stage(f"synthesise {unit} ({cfg.name})")
    row = (
        {"unit": unit, "target": target, "seed": seed}
        | count_cells(make_unit(unit, cfg), target, time_limit_s, device=device)
        | {"fmax_mhz": None}
    )
    progress.step()
    if pnr:
        if target != "ecp5":
            raise YosysError(f"target must be ecp5 to place and route, not {target}")
        progress.stage(f"place and route {unit}")
        harness = PinHarness(make_unit(unit, cfg))
        netlist = json.loads(_run(harness, target, [], "top.json", time_limit_s, device=device))
        row |= place_and_route(netlist, seed, time_limit_s)
        progress.step()
    return row


def count_cells(component, target, time_limit_s=1800, *, device=False):
    """Cells of a component after synthesis, by the fields of ``TARGETS``; ``device``: it is a whole one."""
    return _counts(_statistics(component, target, time_limit_s, device=device)["design"]["num_cells_by_type"], target)


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


def _statistics(component, target, time_limit_s, **options):
    return json.loads(_run(component, target, ["tee -q -o stat.json stat -json"], "stat.json", time_limit_s, **options))


def _counts(cells, target):
    return {
        name: sum(cells.get(cell, 0) * weight for cell, weight in kinds.items())
        for name, kinds in TARGETS[target].items()
        if name not in FLOWS
    }


def _run(component, target, commands, output, time_limit_s, *, flatten=True, device=False):
    """The file ``output`` that the commands of the target and ``commands`` write."""
    rtlil, flow = emit_rtlil(component, "top"), TARGETS[target]

    def run(way):
        if not flatten:
            way = [command.replace(" -flatten", "").replace("synth_ecp5", "synth_ecp5 -noflatten") for command in way]
        return run_yosys(rtlil, [*way, *commands], outputs=[output], timeout_s=time_limit_s)[output]

    *others, last = [flow[name] for name in FLOWS if name in flow and (device or name != "device")]
    for way in others:
        try:
            return run(way)
        except YosysError as error:
            if "ERROR: Assert" not in str(error):
                raise
    return run(last)
