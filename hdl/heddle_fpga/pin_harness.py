"""Pin harness: two pins around a unit, so that a unit with more ports than package pins can be placed and routed."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import Component, In, Out
from heddle.emit import component_ports

__all__ = ["PinHarness"]

FOLD = 16       # outputs that one XOR and register combine


class PinHarness(Component):
    """Pin harness: drives the inputs of ``unit`` from a shift register; registers its outputs and folds them by XOR.

    All paths of the unit begin and end in registers.

    Parameters
    ----------
    unit : wiring.Component
        Unit under test, not elaborated yet.

    *Ports*:
    serial_in : In(1)
        Input of the shift register.
    serial_out : Out(1)
        XOR of all registered outputs, a register stage for every factor of ``FOLD`` (16).
    """

    def __init__(self, unit):
        self.unit = unit
        super().__init__({"serial_in": In(1), "serial_out": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self.unit
        before, values = self.serial_in, []
        for name, is_output, port in component_ports(unit):
            register = Signal(len(port), name=f"pin_{name}")
            if is_output:
                m.d.sync += register.eq(port)
                values += [register[start : start + FOLD].xor() for start in range(0, len(port), FOLD)]
            else:
                m.d.sync += register.eq(Cat(before, register[:-1]))
                m.d.comb += port.eq(register)
                before = register[-1]
        level = 0
        while len(values) > 1 or not level:
            folded = Signal(-(-len(values) // FOLD), name=f"fold_{level}")
            m.d.sync += folded.eq(Cat(Cat(values[start : start + FOLD]).xor() for start in range(0, len(values), FOLD)))
            values, level = list(folded), level + 1
        m.d.comb += self.serial_out.eq(values[0])
        return m
