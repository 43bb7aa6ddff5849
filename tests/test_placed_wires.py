"""Moves of placed cells for less wire."""

from collections import Counter

import pytest
from heddle_sim.placed_sites import PlacedSites
from heddle_sim.placed_timing import PlacedTiming
from heddle_sim.placed_wires import INPUTS, PlacedWires

from .test_placement import adder, cell, check_bonds, check_slices, filled, given, register, stray, table

LIMIT_NS = 50.0


def shorten(cells, limit=LIMIT_NS, rows=()):
    """Names of the cells that moved, and where all of them stand."""
    before = {name: of["attributes"]["NEXTPNR_BEL"] for name, of in cells.items()}
    sites = PlacedSites(cells, rows)
    timing = PlacedTiming(cells, sites.place)
    timing.update()
    moves = PlacedWires(cells, sites, timing).shorten(limit)
    after = {name: of["attributes"]["NEXTPNR_BEL"] for name, of in cells.items()}
    moved = {name for name in cells if before[name] != after[name]}
    assert len(set(after.values())) == len(after), "two cells in one place"
    assert bool(moves) == bool(moved) and moves <= len(moved)
    check_slices(cells)
    check_bonds(cells, before)
    return moved, sites.place


def test_a_table_goes_to_what_it_is_connected_to():
    moved, place = shorten(stray())
    assert moved == {"stray"} and 10 <= place["stray"][0] <= 14 and place["stray"][1] == 20


def test_a_table_with_its_register_goes():
    cells = stray() | {"behind": register("X70/Y20/SLICEA.FF0", DI=11, Q=12)}
    moved, place = shorten(cells)
    assert moved == {"stray", "behind"} and place["stray"] == place["behind"] and 10 <= place["stray"][0] <= 15


def test_a_slice_goes_where_one_is_empty():
    cells = stray()
    del cells["stray"]
    cells |= {"low": table("X70/Y20/SLICEA.K0", A=10, F1=8, M=10, OFX=11), "high": table("X70/Y20/SLICEA.K1", A=10, F=8)}
    moved, place = shorten(cells)
    assert moved == {"low", "high"} and 10 <= place["low"][0] <= 14


def test_an_adder_stays():
    cells = adder()
    del cells["filled_70_20"], cells["filled_71_20"]
    assert not shorten(cells, rows=[24])[0]


def test_rows_that_were_empty_take_cells():
    """Every site of the others is taken near where a table should stand."""
    cells = stray() | {f"taken_{x}_{y}_{part}{half}": table(f"X{x}/Y{y}/SLICE{part}.K{half}") for x in range(2, 40) for y in range(18, 23)
                       for part in "ABCD" for half in (0, 1)}
    for name in [name for name in cells if name.startswith("filled") and int(name.split("_")[1]) < 40]:
        del cells[name]
    assert not shorten(cells)[0]
    moved, place = shorten(cells, rows=[24])
    assert moved == {"stray"} and place["stray"][1] == 24 and 8 <= place["stray"][0] <= 16


def test_paths_do_not_become_late():
    """Wires of a table take 180 tiles, 120 where the three registers before it are; but its longest path then goes the way twice."""
    def cells():
        return filled(range(2, 80), range(18, 23)) | {
            "stray": table("X70/Y20/SLICEA.K0", A=10, B=11, C=12, D=13, F=14),
            "behind": given(register("X70/Y21/SLICEA.FF0", M=14, Q=15)), "reader": given(register("X70/Y22/SLICEA.FF0", M=15, Q=16)),
            **{f"before_{number}": given(register(f"X10/Y{20 + number}/SLICEA.FF0", M=9, Q=10 + number)) for number in range(3)},
            "beside": given(register("X70/Y22/SLICEB.FF0", M=9, Q=13))}
    assert shorten(cells(), 8.0)[0] == set()
    moved, place = shorten(cells(), LIMIT_NS)
    assert moved == {"stray"} and place["stray"][0] <= 18


def test_tables_leave_a_tile_of_many_inputs():
    """Their wires take the same anywhere between the ends of four nets."""
    cells = filled(range(2, 80), range(18, 23)) | {
        f"from_{net}": given(register(f"X2/Y18/SLICE{'ABCD'[net]}.FF0", M=9, Q=10 + net)) for net in range(4)}
    cells |= {f"to_{net}": given(register(f"X79/Y22/SLICE{'ABCD'[net]}.FF0", M=10 + net, Q=20 + net)) for net in range(4)}
    cells |= {f"table_{part}{half}": table(f"X40/Y20/SLICE{part}.K{half}", A=10, B=11, C=12, D=13, F=30 + 2 * "ABCD".index(part) + half)
              for part in "ABCD" for half in (0, 1) if part + str(half) != "D1"}
    moved, place = shorten(cells)
    tiles = Counter(place[name] for name in cells if name.startswith("table"))
    assert len(moved) == 7 - INPUTS // 4 and max(tiles.values()) == tiles[40, 20] == INPUTS // 4


@pytest.mark.parametrize("part", ["before", "behind", "reader"])
def test_given_sites_and_what_is_no_logic_stay(part):
    cells = stray()
    given(cells["stray"])
    cells[part] = cell("DP16KD", "X12/Y22/EBR0", **{"DOA0": 10} if part == "before" else {"DIA0": 11 if part == "behind" else 12})
    assert not shorten(cells)[0]
