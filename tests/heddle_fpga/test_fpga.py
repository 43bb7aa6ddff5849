"""FPGA flow: registers of multipliers, sites as constraints, placing and routing."""

import copy
import itertools
import json
import random

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from heddle import ConfigError, load_config
from heddle.emit import emit_rtlil
from heddle.yosys import run_yosys
from heddle_fpga.carry_constants import fold_carry_constants
from heddle_fpga.multiplier_registers import pack_multiplier_registers
from heddle_fpga.place_and_route import NextpnrError, place_and_route
from heddle_fpga.sites import Placement, assign_sites, load_sites, sites_of
from heddle_fpga.synthesis import TARGETS, synthesise
from heddle_sim.cli import main

CLOCK, ENABLE, RESET = 2, 3, 4


class Netlist:
    """A 9 x 9 bit signed multiplier between flip-flops, as Yosys writes it."""

    def __init__(self, enable="1", reset="0"):
        self.bits = 10
        self.cells = {}
        self.ports = {}
        self.operands = {}
        pins = {"SIGNEDA": ["1"], "SIGNEDB": ["1"]}
        for letter in "AB":
            sources = [self.new() for _ in range(9)]
            values = [self.flip_flop(source, enable, reset) for source in sources]
            self.operands[letter] = sources
            pins |= {f"{letter}{index}": [values[min(index, 8)]] for index in range(18)}
        product = [self.new() for _ in range(18)]
        pins |= {f"P{index}": [product[index]] if index < 18 else [self.new()] for index in range(36)}
        self.result = [self.flip_flop(bit, "1", "0") for bit in product]
        self.cells["multiplier"] = {
            "type": "MULT18X18D", "parameters": {}, "attributes": {}, "connections": pins,
            "port_directions": {pin: "output" if pin[0] == "P" else "input" for pin in pins},
        }

    def new(self):
        self.bits += 1
        return self.bits

    def flip_flop(self, source, enable, reset):
        value = self.new()
        connections = {"CLK": [CLOCK], "DI": [source], "LSR": [reset], "Q": [value]} | ({"CE": [enable]} if enable != "1" else {})
        self.cells[f"flip_flop_{value}"] = {
            "type": "TRELLIS_FF", "attributes": {}, "connections": connections,
            "port_directions": {pin: "output" if pin == "Q" else "input" for pin in connections},
            "parameters": {"CLKMUX": "CLK", "CEMUX": "1 " if enable == "1" else "CE", "LSRMUX": "LSR", "REGSET": "RESET",
                           "SRMODE": "LSR_OVER_CE" if reset != "0" else "ASYNC"},
        }
        return value

    def pack(self):
        return pack_multiplier_registers({"modules": {"top": {"cells": self.cells, "ports": self.ports}}})


@pytest.mark.parametrize(("enable", "reset"), [("1", "0"), (ENABLE, "0"), ("1", RESET), (ENABLE, RESET)])
def test_registers_move_into_the_multiplier(enable, reset):
    netlist = Netlist(enable, reset)
    assert netlist.pack() == 1
    assert list(netlist.cells) == ["multiplier"]
    cell = netlist.cells["multiplier"]
    pins, parameters = cell["connections"], cell["parameters"]
    for number, letter in enumerate("AB"):
        assert [pins[f"{letter}{index}"][0] for index in range(18)] == ["0"] * 9 + netlist.operands[letter]
        assert pins.get(f"CE{number}", ["1"]) == [enable] and pins[f"RST{number}"] == [reset]
        assert parameters[f"REG_INPUT{letter}_CE"] == f"CE{number}" and parameters[f"REG_INPUT{letter}_RST"] == f"RST{number}"
    assert [pins[f"P{index}"][0] for index in range(18, 36)] == netlist.result and "P0" not in pins
    assert pins["CLK0"] == [CLOCK] and pins["RST2"] == ["0"] and "CE2" not in pins
    assert {parameters[f"REG_{name}_CLK"] for name in ("INPUTA", "INPUTB", "OUTPUT")} == {"CLK0"}


def test_operand_that_is_read_elsewhere_stays_outside():
    netlist = Netlist()
    cells = len(netlist.cells)
    netlist.ports["q"] = {"bits": netlist.cells["multiplier"]["connections"]["A3"]}
    assert netlist.pack() == 0 and len(netlist.cells) == cells


def test_asynchronous_reset_stays_outside():
    netlist = Netlist(reset=RESET)
    for cell in netlist.cells.values():
        if "SRMODE" in cell["parameters"]:
            cell["parameters"]["SRMODE"] = "ASYNC"
    assert netlist.pack() == 0


def test_product_that_is_read_at_once_stays_in_place():
    netlist = Netlist()
    product = netlist.cells["multiplier"]["connections"]["P4"][0]
    netlist.ports["p"] = {"bits": [product]}
    assert netlist.pack() == 1
    pins = netlist.cells["multiplier"]["connections"]
    assert pins["P4"] == [product] and len(netlist.cells) == 19
    assert [pins[f"A{index}"][0] for index in range(18)] == [*netlist.operands["A"], *netlist.operands["A"][-1:] * 9]


# -- constants at adders --------------------------------------------------------------------


def adder(tables, zeros):
    """A netlist with one CCU2C; ``zeros`` are the inputs that are tied to zero."""
    inputs = [letter + half for half in "01" for letter in "ABCD"]
    return {"modules": {"top": {"cells": {"adder": {
        "type": "CCU2C", "parameters": {f"INIT{half}": f"{table:016b}" for half, table in enumerate(tables)},
        "connections": {pin: ["0"] if pin in zeros else [number + 2] for number, pin in enumerate(inputs)},
        "port_directions": dict.fromkeys(inputs, "input")}}}}}


def halves(cell, values, missing):
    """(sum before the carry, generated carry) of each half, as the cell library defines them; inputs that are open read ``missing``."""
    for half in "01":
        table = int(cell["parameters"][f"INIT{half}"], 2)
        a, b, c, d = (values.get(letter + half, 0) if letter + half in cell["connections"] else missing for letter in "ABCD")
        yield table >> (a + 2 * b + 4 * c + 8 * d) & 1, table >> (a + 2 * b) & 1


@pytest.mark.parametrize("seed", range(20))
def test_zeros_at_adders_move_into_their_tables(seed):
    """Whatever an open input reads, sum and generated carry of both halves are as before."""
    rng = random.Random(seed)
    pins = [letter + half for half in "01" for letter in "ABCD"]
    zeros = set(rng.sample(pins, rng.randrange(9)))
    netlist = adder([rng.randrange(1 << 16) for _ in range(2)], zeros)
    cell = netlist["modules"]["top"]["cells"]["adder"]
    before = copy.deepcopy(cell)
    assert fold_carry_constants(netlist) == len(zeros)
    assert set(cell["connections"]) == set(cell["port_directions"]) == set(pins) - zeros
    for bits in itertools.product((0, 1), repeat=len(pins) - len(zeros)):
        values = dict(zip(sorted(set(pins) - zeros), bits, strict=True))
        for missing in (0, 1):
            assert list(halves(cell, values, missing)) == list(halves(before, values, missing))


# -- sites ----------------------------------------------------------------------------------

SITES = sites_of(load_config("small"), "heddle")


def blocks(lanes=16, multipliers=8):
    names = [(f"unit.core.lanes.lane_{lane}.i__{index}", "MULT18X18D") for lane in range(lanes) for index in range(multipliers)]
    names += [(f"unit.core.lanes.lane_{lane}.words.{index}", "DP16KD") for lane in range(lanes) for index in range(6)]
    names += [(f"unit.core.shared_memory.bank_{bank}.words.{index}", "DP16KD") for bank in range(8) for index in range(4)]
    names += [(f"unit.core.front_end.words.{index}", "DP16KD") for index in range(4)]
    names += [(f"unit.core.thread.{index}", "MULT18X18D") for index in range(4)]
    return {name: {"type": kind, "attributes": {}} for name, kind in names}


def test_every_block_of_small_has_a_site_of_its_own():
    cells = blocks()
    assert assign_sites(cells, load_sites(SITES)) == len(cells) == 264
    sites = {name: cell["attributes"]["BEL"] for name, cell in cells.items()}
    assert len(set(sites.values())) == 264
    assert all(("MULT18_" in site) == ("i__" in name or "thread" in name) for name, site in sites.items())
    row = {name: site.split("/")[1] for name, site in sites.items()}
    assert len({row[f"unit.core.lanes.lane_10.i__{index}"] for index in range(8)}) == 1


def test_paths_are_whole_and_numbers_count():
    cells = {f"{path}.i_{index}": {"type": "MULT18X18D", "attributes": {}} for path in ("a.lane_1", "lane_1", "lane_11", "alane_1")
             for index in (10, 9)}
    assert assign_sites(cells, [Placement("lane_1.", "MULT18X18D", ["A", "B", "C"]), Placement("", "DP16KD", ["D"])]) == 3
    given = {name: cell["attributes"]["BEL"] for name, cell in cells.items() if cell["attributes"]}
    assert given == {"a.lane_1.i_9": "A", "a.lane_1.i_10": "B", "lane_1.i_9": "C"}


@pytest.mark.parametrize(("text", "message"), [
    ("place = 1", "must be tables"), ("[[place]]\ncells = ''", "must be tables"), ("[[place", "must be tables"), ("", "must be tables"),
    ("[[place]]\ncells = ''\ntype = 'DP16KD'\nsites = 3", "must be tables"),
    ("[[place]]\ncells = ''\ntype = 'DP16KD'\nsites = [['A'], ['A']]", "must be tables"),
    ("[[place]]\ncells = ''\ntype = 'DP16KD'\nsites = ['A', 'A']", "each site once .* not A"),
    ("other = 1\n[[place]]\ncells = ''\ntype = 'DP16KD'\nsites = ['A']", "not other")])
def test_wrong_sites(tmp_path, text, message, capsys):
    path = tmp_path / "sites.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_sites(path)
    assert main(["synth", "--unit", "alu", "--pnr", "--sites", str(path)]) == 2 and str(path) in capsys.readouterr().err


def test_only_whole_devices_have_sites_of_their_own():
    assert SITES.is_file() and sites_of(load_config("small"), "lane") is None and sites_of(load_config("base"), "heddle") is None


# -- nextpnr --------------------------------------------------------------------------------


class Sums(Component):
    """Carry chains, distributed memory and a multiplier with registers around it."""

    i: In(24)
    o: Out(24)

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Memory(shape=24, depth=16, init=[])
        write, read = words.write_port(), words.read_port(domain="comb")
        first, second, total, product = Signal(24), Signal(24), Signal(24), Signal(24)
        a, b = Signal(12), Signal(12)
        m.d.comb += [write.addr.eq(self.i[:4]), write.data.eq(total), write.en.eq(self.i[4]), read.addr.eq(self.i[5:9])]
        m.d.sync += [first.eq(self.i), second.eq(first ^ read.data), total.eq(total + Cat(second[7:], first[:7])), a.eq(~self.i[:12]),
                     b.eq(~self.i[12:]), product.eq(a * b), self.o.eq((total - second) ^ product)]
        return m


@pytest.fixture(scope="module")
def netlist():
    commands = TARGETS["ecp5"]["commands"]
    return run_yosys(emit_rtlil(Sums(), "top"), commands, outputs=["top.json"], timeout_s=120)["top.json"]


def test_a_design_is_placed_and_routed(netlist):
    design = json.loads(netlist)
    name, = [name for name, cell in design["modules"]["top"]["cells"].items() if cell["type"] == "MULT18X18D"]
    row = place_and_route(design, seed=2, clock_mhz=50, sites=[Placement("", "MULT18X18D", ["X4/Y34/MULT18_0"])], time_limit_s=300)
    assert row["fmax_mhz"] > 50 and row["placed_mhz"] > 50 and row["critical_path"] and all(" ns " in step for step in row["critical_path"])
    cell = design["modules"]["top"]["cells"][name]
    assert cell["attributes"]["BEL"] == "X4/Y34/MULT18_0" and cell["parameters"]["REG_INPUTA_CLK"] == "CLK0"
    adders = [cell["connections"] for cell in design["modules"]["top"]["cells"].values() if cell["type"] == "CCU2C"]
    assert adders and not [pin for pins in adders for pin, bits in pins.items() if pin[1:] in "01" and bits == ["0"]]


def test_a_site_that_does_not_exist_is_refused(netlist):
    with pytest.raises(NextpnrError, match="X4/Y34/NONE"):
        place_and_route(json.loads(netlist), sites=[Placement("", "MULT18X18D", ["X4/Y34/NONE"])], time_limit_s=300)


def test_time_is_over(netlist):
    with pytest.raises(NextpnrError, match="must place within 0.1 s"):
        place_and_route(json.loads(netlist), time_limit_s=0.1)


def test_what_is_not_routed_in_time_has_its_overused_wires(netlist, monkeypatch):
    log = ["Info: Max frequency for clock '$glbnet$clk': 39.71 MHz (FAIL at 80.00 MHz)",
           "Info: Running main router loop...", "Info:     iter=1 wires=90 overused=41 overuse=50 tmgfail=0 archfail=NA",
           "Info:     iter=2 wires=90 overused=7 overuse=8 tmgfail=0 archfail=NA"]
    monkeypatch.setattr("heddle_fpga.place_and_route.run_nextpnr", lambda *arguments: (None, log))
    assert place_and_route(json.loads(netlist)) == {
        "placed_mhz": 39.71, "fmax_mhz": None, "critical_path": None, "passes": 2, "overused_wires": 7}


@pytest.mark.nightly
def test_a_row_for_each_seed():
    rows = synthesise(load_config("tiny"), "alu", pnr=True, seeds=range(3, 5), clock_mhz=50, time_limit_s=300)
    assert [row["seed"] for row in rows] == [3, 4] and len({row["lut"] for row in rows}) == 1
    assert all(row["fmax_mhz"] > 20 and row["placed_mhz"] > 20 for row in rows)
    assert rows[0]["critical_path"] != rows[1]["critical_path"]
