"""Constant inputs of adders of the ECP5: zeros move into the truth tables, so that no wire carries them."""

__all__ = ["fold_carry_constants"]


def fold_carry_constants(netlist):
    """Moves zeros at the inputs of the CCU2C of the top module into their truth tables; returns the number of inputs.

    The netlist is the dictionary that ``write_json`` of Yosys writes; it is changed in place. Yosys ties the carry-in selection of each
    adder to zero, and nextpnr routes all these zeros from one cell. An input whose value the table does not depend on may stay open.
    """
    cells = netlist["modules"]["top"]["cells"].values()
    return sum(_fold(cell, half) for cell in cells if cell["type"] == "CCU2C" for half in "01")


def _fold(cell, half):
    """Moves the zeros of one half of a CCU2C into its table. Bit A + 2B + 4C + 8D of the table is its value at these inputs."""
    table, folded = int(cell["parameters"][f"INIT{half}"], 2), 0
    for number, letter in enumerate("ABCD"):
        pins = cell["connections"].get(letter + half)
        if pins == ["0"]:
            table = sum((table >> (index & ~(1 << number)) & 1) << index for index in range(16))
            del cell["connections"][letter + half], cell["port_directions"][letter + half]
            folded += 1
    cell["parameters"][f"INIT{half}"] = f"{table:016b}"
    return folded
