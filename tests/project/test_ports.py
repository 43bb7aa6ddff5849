"""Ports of the hardware: streams and signatures, and few loose members beside them."""

import warnings

import pytest
from amaranth.hdl import Fragment, UnusedElaboratable
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from heddle import load_config
from heddle.control.axi_lite import AxiLite
from heddle.control.control_registers import ControlRegisters
from heddle.core import Core
from heddle.l2.unit import L2
from heddle.memory.axi_master import AxiMaster
from heddle.top import Top

MOST = 12
PINS = (AxiLite, AxiMaster, Top)     # pins with the names of AXI


def loose_members(component):
    """Names of the members that are neither streams nor signatures; an array counts once."""
    return [name for name, member in component.signature.members.items() if member.is_port]


def components_of(monkeypatch, top):
    """One component of each class that stands in ``top``, the one with the most loose members."""
    found, plain = {}, Component.__init__

    def recorded(self, *arguments, **options):
        plain(self, *arguments, **options)
        if len(loose_members(self)) >= len(found.get(type(self), ())):
            found[type(self)] = loose_members(self)

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        patch.setattr(Component, "__init__", recorded)
        Fragment.get(top(), None).prepare(ports=())
    return found


@pytest.mark.parametrize("name, part", [
    ("tiny", Top), ("small", Core), *(pytest.param(name, part, marks=pytest.mark.nightly) for name, part in (
        ("tiny", Core), ("tiny", L2), ("tiny", AxiMaster), ("tiny", ControlRegisters), ("base", Core)))])
def test_a_dozen_loose_members_at_most(monkeypatch, name, part):
    found = components_of(monkeypatch, lambda: part(load_config(name)))
    assert len(found) > 50 or part is not Core
    assert part in found
    assert not {unit.__name__: members for unit, members in found.items() if len(members) > MOST and unit not in PINS}


def test_loose_members_are_counted(monkeypatch):
    class Many(Component):
        def __init__(self):
            super().__init__({f"a{index}": In(1) for index in range(13)} | {"b": Out(2).array(4), "c": In(stream.Signature(8))})

        def elaborate(self, platform):
            return Fragment()

    assert len(components_of(monkeypatch, Many)[Many]) == 14
