"""Multiplier registers of the ECP5: moves flip-flops around multipliers, which Yosys leaves outside, into the multipliers."""

from collections import defaultdict

__all__ = ["pack_multiplier_registers"]

WIDTH = 18      # bits of an operand; a product has twice as many
SHARED = ("CLKMUX", "CEMUX", "LSRMUX", "SRMODE", "REGSET")


def pack_multiplier_registers(netlist):
    """Moves registers around multipliers into the multipliers of the top module; returns the number of changed multipliers.

    The netlist is the dictionary that ``write_json`` of Yosys writes; it is changed in place.

    A MULT18X18D takes in the operand registers if both operands are driven by flip-flops that drive nothing else. These flip-flops must
    share clock, enable and synchronous reset. The product registers follow if they have neither enable nor reset.

    A sign-extended operand moves to the upper end of its port, with zeros below, and the product moves with it. An 18-bit port then
    takes as many wires as the operand has bits. Behaviour is the same from power-up on: all these registers start at zero.
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
    """(clock, enable, reset) that the flip-flops ``names`` share; None where the multiplier has no such register."""
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
    # Asynchronous resets and resets that depend on the enable cannot be packed.
    return (clock, enable, reset) if usual and (reset == "0" or mode == "LSR_OVER_CE") else None


def _operand(cells, multiplier, letter, readers, drivers):
    """(bits without copies of the sign, (clock, enable, reset), flip-flops of the bits or None) of an operand; None where it cannot be
    packed.
    """
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
    """Flip-flop of each used bit of the product; None where these cannot be registers of the multiplier."""
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
    for number, (letter, (bits, (clock, enable, reset), registers)) in enumerate(zip("AB", operands, strict=True)):
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
        if enable != "1":       # an unconnected enable is 1
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
