"""nextpnr: cells of a placed netlist that it routes."""

import json
import re

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from heddle.emit import emit_rtlil
from heddle.yosys import YosysError, run_yosys
from heddle_sim.nextpnr import place_again, run_nextpnr
from heddle_sim.synthesis import TARGETS

INPUT = re.compile(r"(X\d+/Y\d+)/0_0_([A-D])(\d)->0_0_([A-D])\d_SLICE$")     # input of a tile to input of a table


class Sums(Component):
    """Carry chains, distributed memory and logic, small and crowded enough that the router exchanges inputs of tables."""

    i: In(24)
    o: Out(24)

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Memory(shape=24, depth=16, init=[])
        write, read = words.write_port(), words.read_port(domain="comb")
        first, second, total = Signal(24), Signal(24), Signal(24)
        m.d.comb += [write.addr.eq(self.i[:4]), write.data.eq(total), write.en.eq(self.i[4]), read.addr.eq(self.i[5:9])]
        m.d.sync += [first.eq(self.i), second.eq(first ^ read.data), total.eq(total + Cat(second[7:], first[:7])),
                     self.o.eq((total - second) ^ (first & second.rotate_left(5)))]
        return m


def exchanged(netlist):
    """Inputs of each kind of table that come from another input of the tile: {mode: {(of the tile, of the table), ...}}."""
    module = netlist["modules"]["top"]
    modes = {cell["attributes"]["NEXTPNR_BEL"]: cell["parameters"].get("MODE", "LOGIC") for cell in module["cells"].values()}
    found = {mode: set() for mode in modes.values()}
    for net in module["netnames"].values():
        for switch in net["attributes"]["ROUTING"].split(";")[1::3]:
            names = INPUT.match(switch)
            if names:
                tile, source, table, target = names.groups()
                mode = modes[f"{tile}/SLICE{'ABCD'[int(table) // 2]}.K{int(table) % 2}"]
                found[mode] |= {(source, target)} if source != target else set()
    return found


@pytest.fixture(scope="module")
def placed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("route")
    (folder / "top.json").write_text(
        run_yosys(emit_rtlil(Sums(), "top"), TARGETS["ecp5"]["commands"], outputs=["top.json"], timeout_s=120)["top.json"])
    run_nextpnr(folder, "top.json", ["--no-route", "--write", "placed.json"], 120)
    return folder, (folder / "placed.json").read_text()


def test_router_exchanges_inputs_of_logic_only(placed):
    folder, text = placed
    netlist = json.loads(text)
    sites = {name: cell["attributes"]["NEXTPNR_BEL"] for name, cell in netlist["modules"]["top"]["cells"].items()}
    place_again(netlist)
    (folder / "again.json").write_text(json.dumps(netlist))
    run_nextpnr(folder, "again.json", ["--no-pack", "--write", "routed.json"], 120)
    routed = json.loads((folder / "routed.json").read_text())
    assert {name: cell["attributes"]["NEXTPNR_BEL"] for name, cell in routed["modules"]["top"]["cells"].items()} == sites
    found = exchanged(routed)
    assert found.keys() == {"LOGIC", "CCU2", "DPRAM", "RAMW_BLOCK"}
    assert found["LOGIC"] & {("A", "C"), ("A", "D"), ("B", "C"), ("B", "D")} and not found["DPRAM"] | found["RAMW_BLOCK"]
    assert found["CCU2"] <= {("A", "B"), ("B", "A"), ("C", "D"), ("D", "C")}        # one half of an adder's table each


def test_site_that_cannot_be_is_refused(placed):
    folder, text = placed
    netlist = json.loads(text)
    place_again(netlist)
    sites = [cell["attributes"] for cell in netlist["modules"]["top"]["cells"].values() if cell["type"] == "TRELLIS_FF"]
    sites[1]["BEL"] = sites[0]["BEL"]
    (folder / "twice.json").write_text(json.dumps(netlist))
    with pytest.raises(YosysError, match="already bound"):
        run_nextpnr(folder, "twice.json", ["--no-pack", "--no-route"], 120)


def test_missing_controls_of_multipliers_are_there():
    cell = {"type": "MULT18X18D", "attributes": {"NEXTPNR_BEL": "X1/Y1/MULT18_0", "BEL_STRENGTH": "101"},
            "connections": {"CLK0": [2], "CE1": []}, "port_directions": {"CLK0": "input", "CE1": "input"}}
    place_again({"modules": {"top": {"settings": {"place": "1"}, "cells": {"multiplier": cell}}}})
    assert cell["attributes"] == {"BEL": "X1/Y1/MULT18_0"}
    pins = {f"{kind}{number}" for kind in ("CLK", "CE", "RST") for number in range(4)}
    assert set(cell["connections"]) == set(cell["port_directions"]) == pins
    assert cell["connections"] == dict.fromkeys(pins, ["x"]) | {"CLK0": [2]}
