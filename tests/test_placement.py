"""Moves of cells between placing and routing."""

import re
from collections import defaultdict

import pytest
from heddle_sim.placed_copies import copy_drivers, count_copies
from heddle_sim.placed_sites import PlacedSites
from heddle_sim.placed_timing import PlacedTiming, wire_delay
from heddle_sim.placement import improve_placement

SITE = re.compile(r"X(\d+)/Y(\d+)/SLICE([A-D])")
GOAL = 0.9          # of the longest path
OUTPUTS = {"F", "Q", "OFX", "FCO", "WADO0", "DOA0"}


def cell(kind, site, parameters=None, **nets):
    return {"type": kind, "parameters": parameters or {}, "attributes": {"NEXTPNR_BEL": site},
            "connections": {port: [net] for port, net in nets.items()},
            "port_directions": {port: "output" if port in OUTPUTS else "input" for port in nets}}


def table(site, **nets):
    return cell("TRELLIS_COMB", site, **nets)


def register(site, **nets):
    return cell("TRELLIS_FF", site, {"LSRMUX": "LSR"}, CLK=1, **nets)


def filled(columns, rows):
    """An unconnected table in each tile: so it is known that the tile has slices."""
    return {f"filled_{x}_{y}": table(f"X{x}/Y{y}/SLICED.K1") for x in columns for y in rows}


def given(cell):
    """With a site that was given to the placer."""
    cell["attributes"]["BEL_STRENGTH"] = f"{6:032b}"
    return cell


def stray():
    """A table half the chip away from the registers before and behind it, which stay."""
    return filled(range(2, 80), range(18, 23)) | {
        "before": given(register("X10/Y20/SLICEA.FF0", M=9, Q=10)), "stray": table("X70/Y20/SLICEA.K0", A=10, F=11),
        "behind": given(register("X14/Y20/SLICEA.FF0", M=11, Q=12)),
        "reader": given(register("X15/Y20/SLICEA.FF0", M=12, Q=13))}


def improve(cells):
    before = {name: of["attributes"]["NEXTPNR_BEL"] for name, of in cells.items()}
    sweeps = []
    reached = improve_placement({"modules": {"top": {"cells": cells, "netnames": {}}}}, sweeps.append, [GOAL * longest(cells)])
    after = {name: of["attributes"]["NEXTPNR_BEL"] for name, of in cells.items()}
    assert len(set(after.values())) == len(after), "two cells in one place"
    check_slices(cells)
    check_bonds(cells, before)
    assert reached == longest(cells)
    moves = sum(int(sweep.split()[-2]) for sweep in sweeps)
    return moves, {name for name in cells if before[name] != after[name]}


def check_slices(cells):
    """What the chip asks of the cells of a slice and of a tile, as its handbook and nextpnr have it."""
    drivers = {net: name for name, of in cells.items() for port, (net,) in of["connections"].items() if port in OUTPUTS}
    resets, controls = defaultdict(set), defaultdict(set)
    for of in cells.values():
        tile, _, place = of["attributes"]["NEXTPNR_BEL"].rpartition("/")
        inside = [of["connections"][port][0] for port in ("DI", "F1") if port in of["connections"]]
        assert all(cells[drivers[net]]["attributes"]["NEXTPNR_BEL"].startswith(f"{tile}/{place.split('.')[0]}.") for net in inside)
        if of["type"] == "TRELLIS_FF":
            resets[tile].add(str(of["connections"].get("LSR")))
            controls[tile, place.split(".")[0]].add(str([of["connections"].get(port) for port in ("CE", "LSR", "CLK")]))
    assert all(len(of_tile) == 1 for of_tile in (*resets.values(), *controls.values()))


def check_bonds(cells, before):
    """Wires from slice to slice and from tile to tile lead where they led."""
    drivers = {net: name for name, of in cells.items() for port, (net,) in of["connections"].items() if port in OUTPUTS}
    for name, of in cells.items():
        for port in ("FCI", "FXA", "FXB"):
            for net in of["connections"].get(port, ()):
                was, now = ([SITE.match(sites[one]).groups() for one in (drivers[net], name)]
                            for sites in (before, {one: at["attributes"]["NEXTPNR_BEL"] for one, at in cells.items()}))
                assert [slices for *_, slices in was] == [slices for *_, slices in now]
                assert all(int(one[axis]) - int(other[axis]) == int(first[axis]) - int(second[axis])
                           for (one, other), (first, second) in [(was, now)] for axis in range(2))


def longest(cells):
    timing = PlacedTiming(cells, PlacedSites(cells).place)
    return timing.longest(timing.update()[0])


def test_a_stray_table_comes_back():
    cells = stray()
    assert improve(cells) == (1, {"stray"})
    assert 8 <= PlacedSites(cells).place["stray"][0] <= 16


def test_a_pair_moves_together():
    cells = stray() | {"behind": register("X70/Y20/SLICEA.FF0", DI=11, Q=12)}
    del cells["before"]
    cells["memory"] = cell("DP16KD", "X12/Y22/EBR0") | {"connections": {"DOA0": [10]}, "port_directions": {"DOA0": "output"}}
    assert improve(cells)[1] == {"stray", "behind"}
    sites = [cells[name]["attributes"]["NEXTPNR_BEL"] for name in ("stray", "behind")]
    assert sites[0].replace("K", "FF") == sites[1]


def test_a_table_of_five_inputs_moves_with_its_slice():
    cells = stray()
    del cells["stray"]
    cells |= {"low": table("X70/Y20/SLICEA.K0", A=10, F1=8, M=10, OFX=11), "high": table("X70/Y20/SLICEA.K1", A=10, F=8)}
    assert {"low", "high"} <= improve(cells)[1]
    assert 8 <= PlacedSites(cells).place["low"][0] <= 16


def test_tables_come_back_together():
    """One of them alone would gain nothing: the wire is as long before it as behind it."""
    cells = stray() | {"second": table("X70/Y20/SLICEB.K0", A=15, F=11), "stray": table("X70/Y20/SLICEA.K0", A=10, F=15)}
    before = longest(cells)
    assert {"stray", "second"} <= improve(cells)[1]
    assert longest(cells) <= GOAL * before


def adder():
    """A stray one of two bits a tile, with the register of its last bit and another one beside it."""
    cells = stray()
    del cells["stray"]
    return cells | {
        "low": cell("TRELLIS_COMB", "X70/Y20/SLICED.K1", {"MODE": "CCU2"}, A=10, FCO=20),
        "high": cell("TRELLIS_COMB", "X71/Y20/SLICEA.K0", {"MODE": "CCU2"}, FCI=20, F=11),
        "beside": register("X71/Y20/SLICEC.FF0", M=21, Q=22)}


def test_an_adder_comes_back_as_it_is():
    cells = adder()
    del cells["filled_70_20"]
    before = longest(cells)
    assert {"low", "high", "beside"} <= improve(cells)[1]
    assert longest(cells) <= GOAL * before


def test_an_adder_stays_with_what_has_to_stay():
    cells = adder()
    del cells["filled_70_20"]
    given(cells["beside"])
    assert not {"low", "high", "beside"} & improve(cells)[1]


def test_a_memory_comes_back_with_its_tile():
    cells = stray()
    del cells["stray"]
    cells |= {"write": cell("TRELLIS_RAMW", "X70/Y20/SLICEC.RAMW", A0=10, WADO0=24),
              "word": cell("TRELLIS_COMB", "X70/Y20/SLICEA.K0", {"MODE": "DPRAM"}, A=10, WAD0=24, F=11)}
    before = longest(cells)
    assert {"write", "word"} <= improve(cells)[1]
    assert longest(cells) <= GOAL * before
    sites = [SITE.match(cells[name]["attributes"]["NEXTPNR_BEL"]).groups() for name in ("write", "word")]
    assert sites[0][:2] == sites[1][:2] and [site[2] for site in sites] == ["C", "A"]


def test_what_never_changes_takes_no_time():
    cells = stray() | {"always": table("X2/Y18/SLICEA.K0", F=25), "behind": given(register("X14/Y20/SLICEA.FF0", M=11, CE=25, Q=12))}
    timing = PlacedTiming(cells, PlacedSites(cells).place)
    assert 25 not in timing.update()


def test_slices_change_places_where_no_site_is_free():
    cells = {f"filled_{x}_{y}_{part}": register(f"X{x}/Y{y}/SLICE{part}.FF0", M=7, Q=1000 + 100 * x + 10 * y + number, LSR=30, CE=500 + x)
             for x in range(2, 62) for y in (3, 4) for number, part in enumerate("ABCD")}
    cells |= {"before": register("X2/Y3/SLICEA.FF0", M=9, Q=10, LSR=30), "stray": register("X61/Y4/SLICED.FF0", M=10, Q=11, CE=20, LSR=30),
              "end": register("X2/Y3/SLICEB.FF0", M=11, Q=12, LSR=30)}
    replaced = ("filled_2_3_A", "filled_2_3_B", "filled_61_4_D")
    for name in replaced:
        del cells[name]
    moved = improve(cells)[1]
    assert "stray" in moved and any(name.startswith("filled") for name in moved)
    assert PlacedSites(cells).place["stray"][0] <= 20


def test_given_sites_stay():
    cells = stray()
    given(cells["stray"])
    assert "stray" not in improve(cells)[1]


def test_nothing_moves_where_nothing_is_gained():
    cells = stray()
    for name in ("before", "behind", "reader"):
        del cells[name]["attributes"]["BEL_STRENGTH"]
    for name, site in {"before": "A.FF0", "stray": "B.K0", "behind": "C.FF0", "reader": "D.FF0"}.items():
        cells[name]["attributes"]["NEXTPNR_BEL"] = f"X12/Y20/SLICE{site}"
    assert improve(cells) == (0, set())


TILE = "X5/Y5/SLICE"
FULL = {f"{part}{half}": table(f"{TILE}{part}.K{half}") for part in "ABCD" for half in (0, 1)}


def found(present, table=None, flip_flop=None, moving=None):
    cells = present | filled([6], [5]) | {"moving": moving} if moving else present | filled([6], [5])
    return PlacedSites(cells).find((5, 5), table, flip_flop)


def test_a_table_finds_the_half_that_is_left():
    present = {name: of for name, of in FULL.items() if name != "C1"}
    assert found(present, "t") == ("C", 1) and found(FULL, "t") is None
    assert found(present | {"f": register(f"{TILE}C.FF1", DI=3)}, "t") is None, "its flip-flop is fed by another table"
    assert found(present | {"f": register(f"{TILE}C.FF1", M=3)}, "t") == ("C", 1)
    present["C0"]["parameters"] = {"MODE": "CCU2"}
    assert found(present, "t") is None, "half of an adder takes both"
    assert PlacedSites(present).find((40, 5), "t", None) is None, "no logic there"


def test_flip_flops_of_a_slice_share_their_controls():
    others = {f"{part}0": register(f"{TILE}{part}.FF0", M=3, CE=20, LSR=30) for part in "ABCD"}
    others |= {f"{part}1": register(f"{TILE}{part}.FF1", M=3, CE=20, LSR=30) for part in "ABD"}
    alike, other_enable = (register("X6/Y5/SLICEA.FF0", M=4, CE=enable, LSR=30) for enable in (20, 21))
    assert found(others, None, "moving", alike) == ("C", 1) and found(others, None, "moving", other_enable) is None


def test_a_tile_has_one_reset():
    present = {"A": register(f"{TILE}A.FF0", M=3, LSR=30)}
    alike, other = (register("X6/Y5/SLICEA.FF0", M=4, LSR=reset) for reset in (30, 31))
    assert found(present, None, "moving", alike) == ("A", 1) and found(present, None, "moving", other) is None


def test_slices_that_change_places_keep_one_reset_in_their_tiles():
    def fits(beside):
        cells = filled([6], [5]) | {"one": register(f"{TILE}A.FF0", M=3, LSR=30), "other": register("X6/Y5/SLICEA.FF0", M=4, LSR=31)}
        return PlacedSites(cells | beside).swap_fits(((5, 5), "A"), ((6, 5), "A"))

    assert fits({}) and fits({"beside": register(f"{TILE}B.FF0", M=5, LSR=31)})
    assert not fits({"beside": register(f"{TILE}B.FF0", M=5, LSR=30)})


def test_delays_add_up():
    cells = stray()
    timing = PlacedTiming(cells, PlacedSites(cells).place)
    nets = timing.update()
    assert nets[0] in (10, 11) and wire_delay((10, 20), (70, 20)) == pytest.approx(0.85 + 0.07 * 60)
    assert timing.arrival[11] == pytest.approx(0.52 + wire_delay((10, 20), (70, 20)) + 0.24)
    assert timing.remaining[10] == pytest.approx(wire_delay((10, 20), (70, 20)) + 0.24 + wire_delay((70, 20), (14, 20)))
    assert timing.arrival[12] == pytest.approx(0.52)


def test_the_two_tables_of_a_larger_one_are_no_loop():
    """``F1`` and ``M`` lead to ``OFX`` only: the table whose ``F`` goes there may read what that makes."""
    cells = {"low": table("X5/Y5/SLICEA.K0", A=10, F1=12, M=10, OFX=13), "high": table("X5/Y5/SLICEA.K1", A=10, FXA=13, F=12),
             "start": register("X5/Y5/SLICEA.FF0", Q=10), "end": register("X5/Y5/SLICEB.FF0", M=13, Q=14)}
    timing = PlacedTiming(cells, PlacedSites(cells).place)
    timing.update()
    near = wire_delay((5, 5), (5, 5))
    assert timing.arrival[13] == pytest.approx(0.52 + near + 0.24 + 0.2)


def large_net(**driver):
    """A table or flip-flop in the middle, with fifty registers on either side of the chip that it enables, two in each slice, and a path
    of 14 ns."""
    cells = filled(range(2, 121), (20, 21)) | {"start": register("X60/Y20/SLICEA.FF0", Q=10)} | (
        driver or {"driver": table("X60/Y20/SLICEB.K0", A=10, F=11)})
    cells |= {"late": table("X118/Y20/SLICEA.K0", A=11, F=98), "behind": register("X2/Y20/SLICEA.FF0", M=98, Q=99)}
    for number in range(100):
        tile, half = (4 if number < 50 else 100) + number % 50 // 8, number % 2
        cells[f"end_{number}"] = register(f"X{tile}/Y20/SLICE{'ABCD'[number % 8 // 2]}.FF{half}", M=12, CE=11, Q=100 + number)
        cells[f"end_{number}"]["parameters"]["CEMUX"] = "CE"
    return cells


@pytest.mark.parametrize("driver", [{}, {"before": table("X60/Y20/SLICEB.K0", A=10, F=9),
                                         "driver": register("X60/Y20/SLICEB.FF0", DI=9, Q=11)}], ids=["table", "register"])
def test_drivers_of_large_nets_get_copies(driver):
    cells = large_net(**driver)
    module = {"cells": cells, "netnames": {"all": {"bits": list(range(200))}}}
    sites = PlacedSites(cells)
    timing = PlacedTiming(cells, sites.place)
    timing.update()
    original, nets = dict(cells), {f"end_{number}": cells[f"end_{number}"]["connections"]["CE"][0] for number in range(100)}
    added = copy_drivers(module, sites, timing, 8.0)
    assert added >= 2 and set(nets.values()) == {11}
    copies = {name for name in cells if name not in original}
    assert len(copies) == added and count_copies(cells) == {"lut": 0, "ff": 0} | {"ff" if driver else "lut": added}
    output = "Q" if driver else "F"
    drivers = {cells[name]["connections"][output][0]: name for name in (*copies, "driver")}
    assert len(drivers) == added + 1 and all(any(net in of["bits"] for of in module["netnames"].values()) for net in drivers)
    readers = defaultdict(set)
    for name in nets:
        readers[drivers[cells[name]["connections"]["CE"][0]]].add(PlacedSites(cells).place[name])
    assert set(readers) == set(drivers.values()), "each has readers"
    for name, tiles in readers.items():
        assert max(column for column, _ in tiles) - min(column for column, _ in tiles) < 10
        if name != "driver":
            inputs = {port: bits for port, bits in cells[name]["connections"].items() if port not in (output, "M", "DI")}
            expected = {port: bits for port, bits in cells["driver"]["connections"].items() if port not in (output, "M", "DI")}
            assert inputs == expected and cells[name]["parameters"].get("SD", "0 ") == "0 "
            assert cells[name]["connections"].get("M") == cells["driver"]["connections"].get("DI")
            assert min(abs(sites.place[name][0] - column) for column, _ in tiles) < 5
    for name in nets:       # one enable in a slice
        site = cells[name]["attributes"]["NEXTPNR_BEL"]
        beside = [other for other in nets if cells[other]["attributes"]["NEXTPNR_BEL"][:-1] == site[:-1]]
        assert len({cells[other]["connections"]["CE"][0] for other in beside}) == 1
    check_slices(cells)


def test_small_nets_and_short_paths_get_no_copies():
    for over, cells in ((0.0, stray()), (50.0, large_net())):
        sites = PlacedSites(cells)
        timing = PlacedTiming(cells, sites.place)
        timing.update()
        assert copy_drivers({"cells": cells, "netnames": {"all": {"bits": list(range(200))}}}, sites, timing, over) == 0
