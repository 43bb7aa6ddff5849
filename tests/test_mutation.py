"""The mutation tool: mutants are noticed by a bench, equivalent ones are recognised, a waived one is not counted."""

import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out
from heddle.datapath.reduction_tree import ReductionTree
from heddle_verif.mutants import differs, make_mutants
from heddle_verif.mutate import UNITS, describe, mutate_unit, waivers


def test_sample():
    result = mutate_unit("reduction_tree", 3)
    assert (result["run"], result["killed"], result["survivors"]) == (3, 3, [])


def test_differs():
    commands, _ = make_mutants(lambda: ReductionTree(4, 1), 3)
    assert [differs(lambda: ReductionTree(4, 1), command) for command in commands] == [True] * 3
    harmless = "mutate -mode none"
    assert differs(lambda: ReductionTree(4, 1), harmless) is False


class Half(Component):
    """A register for one of two bits; in a unit of its own, which has the other bit too."""

    i: In(2)
    o: Out(1)

    def __init__(self, inner=True):
        self.inner = inner
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        if self.inner:
            m.submodules.half = half = Half(False)
            m.d.comb += [half.i.eq(self.i), self.o.eq(half.o)]
        else:
            m.d.sync += self.o.eq(self.i[0])
        return m


@pytest.mark.parametrize("bit, expected", [(0, True), (1, False)])
def test_what_nothing_reads_is_equivalent(bit, expected):
    assert differs(Half, f"mutate -mode inv -module mutated -cell half -port i -portbit {bit}") is expected


def test_description():
    command = ("mutate -ctrl mut_sel 3 1 -mode inv -module mutated.tree -cell $6 -port A -portbit 6 -src /x/lib/wiring.py:1 "
               "-src /x/hdl/heddle/stream.py:65")
    assert describe(command) == "hdl/heddle/stream.py:65 in tree: inv port A[6]"
    assert describe("mutate -mode inv -module mutated.tree -cell $6 -port A -portbit 6") == "cell $6 in tree: inv port A[6]"


@pytest.mark.parametrize("unit", UNITS)
def test_waivers_have_reasons(unit):
    assert all(len(reason) > 20 for reason in waivers(unit).values())
