"""Ports of a component as they are in Verilog."""

from amaranth.hdl import Const, Value
from amaranth.lib.wiring import Out

__all__ = ["component_ports"]


def component_ports(component):
    """Yields (name, is_output, value) of each port; clock and reset are not among them.

    Members without bits, and ``ready`` or ``valid`` of streams that are always so, are no ports.
    """
    for path, member, value in component.signature.flatten(component):
        value = Value.cast(value)
        if len(value) and not isinstance(value, Const):
            yield "__".join(map(str, path)), member.flow == Out, value
