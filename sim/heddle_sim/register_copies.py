"""Copies of the registers that all lanes read, one for each part of the chip.

Yosys makes one register of equal ones, whatever the source says. A net to all lanes then goes all over the chip and takes longer than a
cycle; each copy only goes to the lanes around it.
"""

import re
from collections import defaultdict

from .drivers import OUTPUTS, Drivers

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
    return sum(_copy_cells(Drivers(netlist), kind, part) for kind in OUTPUTS)


def _copy_cells(drivers, kind, part):
    added = 0
    for name, readers in drivers.names(kind):
        lanes = [LANE.search(reader) for reader, _, _ in readers]
        of_part = defaultdict(list)
        if not all(lanes) or len({part[int(lane[1])] for lane in lanes}) < FEWEST:
            continue
        for lane, reader in zip(lanes, readers):
            of_part[part[int(lane[1])]].append(reader)
        for number, group in list(of_part.items())[1:]:
            # As if it were in the lane: a register in front of it then has its readers there.
            drivers.copy(name, f"{LANE.search(group[0][0])[0]}{name}$copy_{number}", group)
            added += 1
        if kind == "LUT4":
            first = next(iter(of_part.values()))
            drivers.cells[f"{LANE.search(first[0][0])[0]}{name}"] = drivers.cells.pop(name)
    return added
