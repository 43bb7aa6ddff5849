"""Where the multipliers and block RAMs of a whole device go on an ECP5-85F, and which rows of tiles stay empty.

The placer moves all cells at once and then puts these few hundred on the nearest free sites in any order, which makes its wires
two to three times as long. Here every lane gets neighbouring sites, shared memory the middle of the chip; the rest is left to the placer.
That fills tiles to 70 % or more where cells belong together and leaves the others empty: too many wires for those tiles. Rows
in between that nothing may use spread the cells, and their wires are free for the others.
"""

import itertools
import re

from .register_copies import LANE

__all__ = ["LANE_PARTS", "keep_rows_empty", "open_rows", "place_blocks"]

COLUMNS = (4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114)       # of blocks of four multipliers or block RAMs
MIDDLE = 6
MULTIPLIERS = tuple((offset, f"MULT18_{offset}") for offset in (0, 1, 4, 5))
MEMORIES = tuple((2 * index, f"EBR{index}") for index in range(4))
LOGIC_COLUMNS = range(2, 125)
LOGIC_ROWS = [row for row in range(2, 94) if row not in (10, 22, 34, 46, 58, 70, 82)]     # the others are those of blocks
EMPTY_ROWS = LOGIC_ROWS[2::3]       # of tiles, while placing
TABLES = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}     # that a cell takes
EMPTY = "empty_"        # begin the names of what keeps them so
FITS = 40_000           # of 83,640
LANE_MULTIPLIERS, LANE_MEMORIES = 8, 6

# (row, first of the two columns) of the multipliers of each lane, in an order in which neighbours add their sums.
LANE_SITES = [(row, column) for columns in ((0, 2, 4), (7, 9, 11)) for column in columns for row in (10, 34, 58)
              if row != 10 or column in (2, 4, 7, 9)]


# Lanes around the same column.
LANE_PARTS = [[lane for lane, (_, column) in enumerate(LANE_SITES) if column == wanted]
              for wanted in sorted({column for _, column in LANE_SITES})]


def _sites(rows, columns, kinds):
    return [f"X{COLUMNS[column] + offset}/Y{row}/{kind}" for row in rows for column in columns for offset, kind in kinds]


def _number(name):
    """Key that sorts names by their numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def place_blocks(netlist):
    """Give the multipliers and block RAMs of a netlist (see ``pack_multiplier_registers``) their sites; returns how many have one.

    Nothing is placed unless it is a core of 16 lanes with 8 multipliers and 6 block RAMs each, and at most 32 more block RAMs of shared
    memory. Of the others the first get the sites that are left beside those, and the rest is left to the placer.
    """
    cells = netlist["modules"]["top"]["cells"]
    lanes, others = {}, {"MULT18X18D": [], "DP16KD": []}
    for name in sorted(cells, key=_number):
        kind = cells[name]["type"]
        if kind in others:
            lane = LANE.search(name)
            (lanes.setdefault(int(lane[1]), {"MULT18X18D": [], "DP16KD": []}) if lane else others)[kind].append(name)
    shared = [name for name in others["DP16KD"] if "shared_memory" in name]
    rest = [name for name in others["DP16KD"] if "shared_memory" not in name]
    usual = {(LANE_MULTIPLIERS, LANE_MEMORIES)} == {(len(lane["MULT18X18D"]), len(lane["DP16KD"])) for lane in lanes.values()}
    if not usual or len(lanes) != len(LANE_SITES) or len(shared) > 32:
        return 0
    # Block RAMs of the lanes in rows 10 and 34 in row 22, those beside shared memory in its row, those of row 58 in row 70.
    memories = {
        (22, False): iter(_sites((22,), range(6), MEMORIES)), (22, True): iter(_sites((22,), range(7, 13), MEMORIES)),
        (46, False): iter(_sites((46,), (0, 1), MEMORIES)), (46, True): iter(_sites((46,), (11, 12), MEMORIES)),
        (70, False): iter(_sites((70,), range(5), MEMORIES)), (70, True): iter(_sites((70,), range(8, 13), MEMORIES)),
    }
    placed = []
    for lane, (row, column) in zip(sorted(lanes), LANE_SITES):
        placed += zip(lanes[lane]["MULT18X18D"], _sites((row,), (column, column + 1), MULTIPLIERS))
        row = 70 if row == 58 else 46 if (row, column) in ((34, 0), (34, 11)) else 22
        placed += zip(lanes[lane]["DP16KD"], [next(memories[row, column > MIDDLE]) for _ in range(LANE_MEMORIES)])
    placed += zip(shared, _sites((46,), range(4, 9), MEMORIES) + _sites((70,), (5, 6, 7), MEMORIES))
    placed += zip(rest, _sites((82,), (MIDDLE, MIDDLE + 1, MIDDLE - 1), MEMORIES))
    placed += zip(others["MULT18X18D"], _sites((34,), (MIDDLE,), MULTIPLIERS))
    for name, site in placed:
        cells[name]["attributes"]["BEL"] = site
    return len(placed)


def keep_rows_empty(netlist):
    """Fill every third row of tiles with look-up tables and flip-flops that are connected to nothing, if the design fits the others well;
    returns how many rows."""
    cells = netlist["modules"]["top"]["cells"]
    if sum(TABLES.get(cell["type"], 0) for cell in cells.values()) > FITS:
        return 0
    pins = dict.fromkeys("ABCD", "input") | {"Z": "output"}
    for y, x, part, half in itertools.product(EMPTY_ROWS, LOGIC_COLUMNS, "ABCD", "01"):
        for kind, site, parameters, ports in (("LUT4", "K", {"INIT": "0" * 16}, pins), ("TRELLIS_FF", "FF", {}, {})):
            cells[f"{EMPTY}{x}_{y}_{part}{half}_{site}"] = {
                "hide_name": 1, "type": kind, "parameters": parameters, "attributes": {"BEL": f"X{x}/Y{y}/SLICE{part}.{site}{half}"},
                "port_directions": ports, "connections": {pin: [] for pin in ports},
            }
    return len(EMPTY_ROWS)


def open_rows(netlist):
    """Take what ``keep_rows_empty`` filled rows with out of a netlist; returns these rows."""
    cells = netlist["modules"]["top"]["cells"]
    filled = [name for name in cells if name.startswith(EMPTY)]
    for name in filled:
        del cells[name]
    return EMPTY_ROWS if filled else []
