"""What happens to a netlist between synthesis and placing."""

import itertools
import json

import pytest
from heddle_sim.cli import main
from heddle_sim.constant_inputs import fold_zero_inputs
from heddle_sim.floorplan import keep_rows_empty, open_rows, place_blocks
from heddle_sim.global_reset import globalise_reset
from heddle_sim.multiplier_registers import pack_multiplier_registers
from heddle_sim.register_copies import copy_registers

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


def blocks(lanes=16, multipliers=8):
    names = [(f"lanes.lane_{lane}.i__{index}", "MULT18X18D") for lane in range(lanes) for index in range(multipliers)]
    names += [(f"lanes.lane_{lane}.words.{index}", "DP16KD") for lane in range(lanes) for index in range(6)]
    names += [(f"shared_memory.bank_{bank}.words.{index}", "DP16KD") for bank in range(8) for index in range(4)]
    names += [(f"front_end.words.{index}", "DP16KD") for index in range(4)] + [(f"thread.{index}", "MULT18X18D") for index in range(4)]
    return {"modules": {"top": {"cells": {name: {"type": kind, "attributes": {}} for name, kind in names}}}}


def test_every_block_has_a_site_of_its_own():
    netlist = blocks()
    assert place_blocks(netlist) == 264
    sites = {name: cell["attributes"]["BEL"] for name, cell in netlist["modules"]["top"]["cells"].items()}
    assert len(set(sites.values())) == 264
    assert all(("MULT18_" in site) == ("i__" in name or "thread" in name) for name, site in sites.items())


@pytest.mark.parametrize("shape", [{"lanes": 8}, {"multipliers": 4}, {"lanes": 0}])
def test_other_shapes_are_left_to_the_placer(shape):
    netlist = blocks(**shape)
    assert place_blocks(netlist) == 0
    assert not any(cell["attributes"] for cell in netlist["modules"]["top"]["cells"].values())


def test_empty_rows_lie_between_those_of_blocks():
    netlist = blocks()
    place_blocks(netlist)
    cells = netlist["modules"]["top"]["cells"]
    before = dict(cells)
    assert keep_rows_empty(netlist) == 28
    filled = [cell["attributes"]["BEL"] for name, cell in cells.items() if name.startswith("empty_")]
    assert len(set(filled)) == len(filled) == 28 * 123 * 16
    rows = {int(site.split("/")[1][1:]) for site in filled}
    assert not rows & {10, 22, 34, 46, 58, 70, 82} and all(row + 1 not in rows for row in rows)
    assert open_rows(netlist) == sorted(rows) and cells == before


def test_reset_goes_over_the_clock_network():
    design = Netlist(reset=RESET)
    design.cells["table"] = {"type": "LUT4", "connections": {"A": [RESET]}, "port_directions": {"A": "input"}}
    netlist = {"modules": {"top": {"cells": design.cells, "ports": {"rst": {"bits": [RESET]}},
                                   "netnames": {"all": {"bits": list(range(design.bits))}}}}}
    without = [cell for cell in design.cells.values() if cell["connections"].get("LSR") == ["0"]]
    starts_at_one, has_another = without[:2]
    starts_at_one["parameters"]["REGSET"], has_another["connections"]["LSR"] = "SET", [ENABLE]
    flip_flops = [cell for cell in design.cells.values() if cell["type"] == "TRELLIS_FF"]
    assert globalise_reset(netlist) == len(flip_flops) - 2 == 34
    buffer = design.cells["global_reset"]["connections"]
    assert buffer["CLKI"] == design.cells["table"]["connections"]["A"] == [RESET]
    assert starts_at_one["connections"]["LSR"] == ["0"] and has_another["connections"]["LSR"] == [ENABLE]
    reset = [cell for cell in flip_flops if cell is not starts_at_one and cell is not has_another]
    assert all(cell["connections"]["LSR"] == buffer["CLKO"] and cell["parameters"]["SRMODE"] == "LSR_OVER_CE" for cell in reset)


def test_zeros_at_adders_become_part_of_their_tables():
    table = "1001011010101010"      # of an adder: A ^ B ^ C for D = 1, A for D = 0

    def value(table, **inputs):
        return table[::-1][sum(bit << "ABCD".index(letter) for letter, bit in inputs.items())]

    pins = {"A0": [5], "B0": ["0"], "C0": ["0"], "D0": ["1"], "A1": [6], "B1": [7], "C1": ["1"], "D1": ["1"]}
    cell = {"type": "CCU2C", "connections": pins, "parameters": {"INIT0": table, "INIT1": table}}
    assert fold_zero_inputs({"modules": {"top": {"cells": {"sum": cell}}}}) == 2
    assert pins["B0"] == pins["C0"] == [] and pins["D0"] == pins["C1"] == ["1"] and cell["parameters"]["INIT1"] == table
    folded = cell["parameters"]["INIT0"]
    for a, b, c, d in itertools.product((0, 1), repeat=4):
        assert value(folded, A=a, B=b, C=c, D=d) == value(table, A=a, B=0, C=0, D=d)


def shared_register(readers, inverter=False):
    """A register, or one behind which an inverter stands, that lanes read."""
    cells = {"register": ("TRELLIS_FF", {"CLK": CLOCK, "DI": 10, "Q": 11})}
    if inverter:
        cells["inverter"] = ("LUT4", {"A": 11, "Z": 12})
    cells |= {name: ("TRELLIS_FF", {"DI": 11 + inverter, "Q": 20 + number}) for number, name in enumerate(readers)}
    return {"modules": {"top": {"ports": {}, "netnames": {"all": {"bits": [CLOCK, *range(10, 60)]}}, "cells": {
        name: {"type": kind, "attributes": {}, "parameters": {}, "connections": {pin: [bit] for pin, bit in pins.items()},
               "port_directions": {pin: "output" if pin in "QZ" else "input" for pin in pins}} for name, (kind, pins) in cells.items()}}}}


@pytest.mark.parametrize("inverter", [False, True])
def test_each_part_of_the_chip_has_its_own_copy(inverter):
    netlist = shared_register([f"lanes.lane_{lane}.x" for lane in range(8)], inverter)
    assert copy_registers(netlist, [[0, 1, 2], [3, 4], [5, 6, 7]]) == 2 + 2 * inverter
    cells = netlist["modules"]["top"]["cells"]
    drivers = {cell["connections"][pin][0]: cell for cell in cells.values() for pin in "QZ" if pin in cell["connections"]}
    assert len(drivers) == len(cells)
    found = []
    for lane in range(8):
        driver = drivers[cells[f"lanes.lane_{lane}.x"]["connections"]["DI"][0]]
        if inverter:
            assert driver["type"] == "LUT4"
            driver = drivers[driver["connections"]["A"][0]]
        assert driver["connections"]["DI"] == [10] and driver["connections"]["CLK"] == [CLOCK]
        found.append(driver["connections"]["Q"][0])
    assert len(set(found)) == 3 and found[0] == found[2] != found[3] == found[4] != found[5] == found[7]


@pytest.mark.parametrize("readers", [
    [f"lanes.lane_{lane}.x" for lane in range(4)], [*(f"lanes.lane_{lane}.x" for lane in range(8)), "other"]])
def test_registers_of_few_lanes_or_others_are_not_copied(readers):
    netlist = shared_register(readers)
    assert copy_registers(netlist, [[0, 1, 2], [3, 4], [5, 6, 7]]) == 0 and len(netlist["modules"]["top"]["cells"]) == len(readers) + 1


@pytest.mark.soak
@pytest.mark.once
@pytest.mark.timeout(5400)
def test_whole_device_routes(capsys):
    assert main(["synth", "--config", "small", "--target", "ecp5", "--pnr", "--json", "--quiet"]) == 0
    row, = json.loads(capsys.readouterr().out)["rows"]
    assert row["dsp"] == 132 and row["bram"] == 132 and row["fmax_mhz"] >= 80 and row["critical_path"] and row["copies"]["lut"] < 600
