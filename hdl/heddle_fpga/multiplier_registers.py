"""Registers around multipliers of an ECP5 become those inside the multiplier: Yosys leaves them in flip-flops."""

from collections import defaultdict

__all__ = ["pack_multiplier_registers"]

WIDTH = 18      # bits of an operand; a product has twice as many
SHARED = ("CLKMUX", "CEMUX", "LSRMUX", "SRMODE", "REGSET")


def pack_multiplier_registers(netlist):
    """Change the top module of a netlist (what ``write_json`` of Yosys gives, as a dictionary) in place; returns how many multipliers.

    A MULT18X18D takes in the registers of its operands when both come from flip-flops that nothing else reads and that share their clock,
    enable and synchronous reset; then also those of its product, when they have neither enable nor reset. An operand that is extended by
    its sign moves to the upper end of its port instead, with zeros below, and the product with it: an 18-bit port then takes as many
    wires as the operand has bits. Behaviour is the same, from power-up on: all these registers start at zero.
    """
    module = netlist["modules"]["top"]
    cells = module["cells"]
    readers, drivers = defaultdict(list), {}
    for name, cell in cells.items():
        for port, bits in cell["connections"].items():
            for bit in bits:
                if cell["port_directions"][port] == "output":
                    drivers[bit] = name
                else:
                    readers[bit].append((name, port))
    for port in module["ports"].values():
        for bit in port["bits"]:
            readers[bit].append((None, None))
    packed = 0
    for name in [name for name, cell in cells.items() if cell["type"] == "MULT18X18D"]:
        operands = [_operand(cells, name, letter, readers, drivers) for letter in "AB"]
        if all(operands) and len({clock for _, (clock, *_), _ in operands}) == 1:
            _pack(cells, name, operands, _product(cells, name, readers, operands[0][1][0]))
            packed += 1
    return packed


def _registers(cells, bits, names):
    """(clock, enable, reset) that the flip-flops ``names`` of an operand share; None unless the multiplier can have such a register."""
    kinds = set()
    for cell in (cells[name] for name in names):
        if cell["type"] != "TRELLIS_FF":
            return None
        pins, parameters = cell["connections"], cell["parameters"]
        enable, reset = pins.get("CE", ["1"])[0], pins.get("LSR", ["0"])[0]
        if parameters.get("CEMUX", "1").strip() == "1":
            enable = "1"
        kinds.add((pins["CLK"][0], enable, reset, *(parameters.get(key, "").strip() for key in SHARED)))
        if "DI" not in pins or "M" in pins:
            return None
    if len(kinds) != 1:
        return None
    clock, enable, reset, clock_kind, enable_kind, reset_kind, mode, value = kinds.pop()
    usual = (clock_kind, reset_kind, value) == ("CLK", "LSR", "RESET") and enable_kind in ("1", "CE") and enable != "0" and reset != "1"
    # An asynchronous reset stays outside, and so does one that waits for the enable.
    return (clock, enable, reset) if usual and (reset == "0" or mode == "LSR_OVER_CE") else None


def _operand(cells, multiplier, letter, readers, drivers):
    """(bits without the copies of the sign, (clock, enable, reset), flip-flops of the bits or None) of an operand, or None."""
    pins = cells[multiplier]["connections"]
    bits = [pins[f"{letter}{index}"][0] for index in range(WIDTH)]
    is_signed = pins[f"SIGNED{letter}"] == ["1"]
    while is_signed and len(bits) > 1 and bits[-1] == bits[-2]:
        bits.pop()
    wires = [bit for bit in bits if bit not in ("0", "x")]
    own = {(multiplier, f"{letter}{index}") for index in range(WIDTH)}
    if "1" in wires or not wires or not all(bit in drivers and set(readers[bit]) <= own for bit in wires):
        return None
    controls = _registers(cells, bits, [drivers[bit] for bit in wires])
    return controls and (bits, controls, [drivers.get(bit) for bit in bits])


def _product(cells, multiplier, readers, clock):
    """Flip-flop of each bit of the product that is used; None when they cannot be those of the multiplier."""
    registers = {}
    for index in range(2 * WIDTH):
        bits = cells[multiplier]["connections"].get(f"P{index}", [])
        for reader, port in (reader for bit in bits for reader in readers[bit]):
            if reader is None or port != "DI" or index in registers:
                return None
            registers[index] = reader
    if not registers or _registers(cells, None, registers.values()) != (clock, "1", "0"):
        return None
    return registers


def _pack(cells, name, operands, product):
    cell = cells[name]
    pins, parameters = cell["connections"], cell["parameters"]
    used = [index for index in range(2 * WIDTH) if product is None or index in product]
    shift = 0
    parameters["GSR"] = "DISABLED"
    for number, (letter, (bits, (clock, enable, reset), registers)) in enumerate(zip("AB", operands)):
        move = WIDTH - len(bits) if product is not None and max(used) + shift + WIDTH - len(bits) < 2 * WIDTH else 0
        sources = [cells[register]["connections"]["DI"][0] if register else "0" for register in registers]
        if not move:
            sources += sources[-1:] * (WIDTH - len(sources))
        for index, bit in enumerate(["0"] * move + sources):
            pins[f"{letter}{index}"] = [bit]
        shift += move
        parameters |= {f"REG_INPUT{letter}_CLK": "CLK0", f"REG_INPUT{letter}_CE": f"CE{number}", f"REG_INPUT{letter}_RST": f"RST{number}"}
        _connect(cell, "CLK0", clock)
        _connect(cell, f"RST{number}", reset)
        if enable != "1":       # open, an enable is 1
            _connect(cell, f"CE{number}", enable)
    for register in {register for _, _, registers in operands for register in registers if register}:
        del cells[register]
    if product is None:
        return
    parameters |= {"REG_OUTPUT_CLK": "CLK0", "REG_OUTPUT_CE": "CE2", "REG_OUTPUT_RST": "RST2"}
    _connect(cell, "RST2", "0")
    outputs = {index + shift: cells.pop(register)["connections"]["Q"] for index, register in product.items()}
    for index in range(2 * WIDTH):
        pins.pop(f"P{index}", None)
    for index, bits in outputs.items():
        pins[f"P{index}"] = bits


def _connect(cell, pin, bit):
    cell["connections"][pin] = [bit]
    cell["port_directions"][pin] = "input"
