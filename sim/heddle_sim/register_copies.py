"""Copies of the registers that all lanes read, one for each part of the chip.

Yosys makes one register of equal ones, whatever the source says. A net to all lanes then goes all over the chip and takes longer than a
cycle; each copy only goes to the lanes around it.
"""

import re
from collections import defaultdict

__all__ = ["LANE", "copy_registers"]

LANE = re.compile(r"\blanes\.lane_(\d+)\.")        # the tail of the engine for recurrent networks has lanes of its own
FEWEST = 3          # parts with lanes that read it; what neighbours share are their sums


def copy_registers(netlist, places):
    """Change the top module of a netlist (see ``pack_multiplier_registers``) in place; returns how many cells were added.

    ``places``: lists of lanes, those of each part of the chip. A register is copied when lanes of several parts read it and nothing else
    does; so is a look-up table that stands between a register and lanes (an inverter of a reset), before the registers. Registers keep
    their enables and resets, so that all copies always hold the same.
    """
    part = {lane: number for number, lanes in enumerate(places) for lane in lanes}
    return sum(_copy_cells(netlist, kind, output, part) for kind, output in (("LUT4", "Z"), ("TRELLIS_FF", "Q")))


def _copy_cells(netlist, kind, output, part):
    module = netlist["modules"]["top"]
    cells = module["cells"]
    readers = defaultdict(list)
    for name, cell in cells.items():
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "input":
                for index, bit in enumerate(bits):
                    readers[bit].append((name, port, index))
    outside = {bit for port in module["ports"].values() for bit in port["bits"]}
    bits = [bit for net in module["netnames"].values() for bit in net["bits"] if isinstance(bit, int)]
    following, added = max(bits) + 1, 0
    for name in [name for name, cell in cells.items() if cell["type"] == kind]:
        bit = cells[name]["connections"][output][0]
        lanes = [LANE.search(reader) for reader, _, _ in readers[bit]]
        of_part = defaultdict(list)
        if bit in outside or not all(lanes) or len({part[int(lane[1])] for lane in lanes}) < FEWEST:
            continue
        for lane, reader in zip(lanes, readers[bit]):
            of_part[part[int(lane[1])]].append(reader)
        for number, group in list(of_part.items())[1:]:
            copy = cells[name] | {"connections": {port: list(bits) for port, bits in cells[name]["connections"].items()},
                                  "attributes": dict(cells[name]["attributes"])}
            copy["connections"][output] = [following]
            # As if it were in the lane: a register in front of it then has its readers there.
            cells[f"{LANE.search(group[0][0])[0]}{name}$copy_{number}"] = copy
            module["netnames"][f"{name}$copy_{number}_{output}"] = {"hide_name": 1, "bits": [following], "attributes": {}}
            for reader, port, index in group:
                cells[reader]["connections"][port][index] = following
            following, added = following + 1, added + 1
        if kind == "LUT4":
            first = next(iter(of_part.values()))
            cells[f"{LANE.search(first[0][0])[0]}{name}"] = cells.pop(name)
    return added
