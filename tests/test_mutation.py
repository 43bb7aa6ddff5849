"""The mutation tool: mutants are noticed by a bench, equivalent ones are recognised, a waived one is not counted."""

import pytest
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


def test_description():
    command = ("mutate -ctrl mut_sel 3 1 -mode inv -module mutated.tree -cell $6 -port A -portbit 6 -src /x/lib/wiring.py:1 "
               "-src /x/hdl/heddle/stream.py:65")
    assert describe(command) == "hdl/heddle/stream.py:65 in tree: inv port A[6]"
    assert describe("mutate -mode inv -module mutated.tree -cell $6 -port A -portbit 6") == "cell $6 in tree: inv port A[6]"


@pytest.mark.parametrize("unit", UNITS)
def test_waivers_have_reasons(unit):
    assert all(len(reason) > 20 for reason in waivers(unit).values())
