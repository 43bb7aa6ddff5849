"""Look-up tables and registers of a netlist with those that read them."""

import re
from collections import defaultdict

__all__ = ["OUTPUTS", "Drivers", "by_number"]

OUTPUTS = {"LUT4": "Z", "TRELLIS_FF": "Q"}


def by_number(name):
    """Key that sorts names by the numbers in them."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


class Drivers:
    """The cells of the top module of a netlist (see ``pack_multiplier_registers``) by what reads them; ``copy`` changes it in place.

    Attributes
    ----------
    cells : dict
        Of the module.
    """

    def __init__(self, netlist):
        self._module = netlist["modules"]["top"]
        self.cells, self._readers = self._module["cells"], defaultdict(list)
        for name, cell in self.cells.items():
            for port, bits in cell["connections"].items():
                if cell["port_directions"][port] == "input":
                    for index, bit in enumerate(bits):
                        self._readers[bit].append((name, port, index))
        self._outside = {bit for port in self._module["ports"].values() for bit in port["bits"]}
        self._next = 1 + max(bit for net in self._module["netnames"].values() for bit in net["bits"] if isinstance(bit, int))

    def names(self, kind):
        """Cells of a kind of ``OUTPUTS`` that no port of the module shows, each with a list of what reads it: (cell, port, index)."""
        found = [(name, cell["connections"][OUTPUTS[kind]][0]) for name, cell in self.cells.items() if cell["type"] == kind]
        return [(name, self._readers[bit]) for name, bit in found if bit not in self._outside]

    def copy(self, name, copied, readers):
        """A copy ``copied`` of a cell takes over ``readers``; it reads what the cell does."""
        cell = self.cells[name]
        self.cells[copied] = copy = cell | {
            "connections": {port: list(bits) for port, bits in cell["connections"].items()}, "attributes": dict(cell["attributes"])}
        copy["connections"][OUTPUTS[cell["type"]]] = [self._next]
        net = f"{copied[copied.index(name):]}_{OUTPUTS[cell['type']]}"
        self._module["netnames"][net] = {"hide_name": 1, "bits": [self._next], "attributes": {}}
        for reader, port, index in readers:
            self.cells[reader]["connections"][port][index] = self._next
        self._next += 1
