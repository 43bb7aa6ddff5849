"""Constant zeros at adders become part of their tables: each would be a sink of one net that goes all over the chip."""

__all__ = ["fold_zero_inputs"]

TABLE_BITS = 16


def fold_zero_inputs(netlist):
    """Change the top module of a netlist (see ``pack_multiplier_registers``) in place; returns how many inputs of carry cells were opened.

    The table of an input that is zero gets the same values for one, so that it does not matter what stands at the open input. The carry
    takes its value from the entries for C = D = 0, which stay as they are.
    """
    folded = 0
    for cell in netlist["modules"]["top"]["cells"].values():
        if cell["type"] != "CCU2C":
            continue
        for half in "01":
            table = cell["parameters"][f"INIT{half}"]
            values = list(reversed(table))
            for place, letter in enumerate("ABCD"):
                if cell["connections"].get(letter + half) == ["0"]:
                    values = [values[index & ~(1 << place)] for index in range(TABLE_BITS)]
                    cell["connections"][letter + half] = []
                    folded += 1
            cell["parameters"][f"INIT{half}"] = "".join(reversed(values))
    return folded
