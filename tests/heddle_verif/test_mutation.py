"""The mutation tool: mutants are noticed by a bench, equivalent ones are recognised, a waived one is not counted."""

import time

import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out
from heddle.lib.adder_tree import AdderTree
from heddle_verif.mutation import mutate, sources
from heddle_verif.mutation.mutants import differs, make_mutants
from heddle_verif.mutation.mutate import UNITS, describe, mutate_unit, run_units, unit_key, waivers
from heddle_verif.mutation.sources import source_texts


def test_sample():
    result = mutate_unit("adder_tree", 3)
    assert (result["run"], result["killed"], result["survivors"]) == (3, 3, [])


def test_what_has_not_changed_is_not_run_again(monkeypatch, tmp_path):
    monkeypatch.setenv("HEDDLE_BUILD", str(tmp_path))
    said, runs = [], []
    result = {"run": 3, "killed": 3, "equivalent": 0, "waived": 0, "survivors": [], "score": 1.0, "seconds": 1}
    monkeypatch.setattr("heddle_verif.mutation.mutate.mutate_unit", lambda name, *arguments, **options: runs.append(name) or result)
    for _ in range(2):
        run_units(["adder_tree"], 3, 1, report=said.append)
    assert runs == ["adder_tree"] and not said[0].endswith("unchanged") and said[1].endswith("unchanged")
    for change in ({"count": 4}, {"count": 3, "seed": 2}, {"count": 3, "again": True}):
        run_units(["adder_tree"], minutes=1, report=said.append, **change)
        assert not said[-1].endswith("unchanged"), change
    (tmp_path / "mutation.json").write_text("{")        # cut off
    run_units(["adder_tree"], 3, 1, report=said.append)
    assert len(runs) == 5


def test_a_run_that_was_cut_short_is_not_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("HEDDLE_BUILD", str(tmp_path))
    result = {"run": 2, "killed": 2, "equivalent": 0, "waived": 0, "survivors": [], "score": 1.0, "seconds": 1}
    monkeypatch.setattr("heddle_verif.mutation.mutate.mutate_unit", lambda *arguments, **options: result)
    assert [run_units(["adder_tree"], 3, 1)["adder_tree"]["unchanged"] for _ in range(2)] == [False, False]


def test_a_unit_whose_time_was_over_has_no_score():
    result = {"run": 0, "count": 60, "killed": 0, "equivalent": 0, "waived": 0, "survivors": [], "score": 0, "seconds": 9,
              "unchanged": False}
    assert "score -  9 s" in mutate.row("pe", result) and "score 0%" in mutate.row("pe", result | {"run": 1, "survivors": ["one"]})


def test_a_run_that_is_ended_begins_no_further_mutant():
    begun = []

    def ended():
        with mutate.workers(1) as pool:
            for number in range(9):
                pool.submit(lambda one: begun.append(one) or time.sleep(0.1), number)
            raise SystemExit

    with pytest.raises(SystemExit):
        ended()
    assert len(begun) <= 2


def test_key_of_a_unit(monkeypatch):
    """It hangs on the unit and on what its bench imports, near and far."""
    before = unit_key("adder_tree", 3, 1)
    assert before == unit_key("adder_tree", 3, 1) != unit_key("adder_tree", 4, 1)
    names = dict(source_texts(["heddle_verif.bench.shared_lsu"]))
    assert "numpy" not in names and {
        "heddle_verif.bench.shared_lsu", "heddle_verif.bench.thread_workload", "heddle.config", "heddle.parameters.derived"} <= names.keys()
    read = sources._text
    changed = "heddle_verif.bench.adder_tree"
    monkeypatch.setattr(sources, "_text", lambda name: read(name) + "# changed" if name == changed else read(name))
    assert unit_key("adder_tree", 3, 1) != before


@pytest.mark.parametrize("name", [name for name in UNITS if name.endswith("_base")])
def test_variants_of_the_default_preset(name):
    cfg = UNITS[name].configuration
    assert not cfg.far_registers and cfg.dot == 8 and UNITS[name].count == 30


def test_differs():
    commands, _ = make_mutants(lambda: AdderTree(4, 1), 3)
    assert [differs(lambda: AdderTree(4, 1), command) for command in commands] == [True] * 3
    harmless = "mutate -mode none"
    assert differs(lambda: AdderTree(4, 1), harmless) is False


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
               "-src /x/hdl/heddle/lib/stream.py:65")
    assert describe(command) == "hdl/heddle/lib/stream.py:65 in tree: inv port A[6]"
    assert describe("mutate -mode inv -module mutated.tree -cell $6 -port A -portbit 6") == "cell $6 in tree: inv port A[6]"


@pytest.mark.parametrize("unit", UNITS)
def test_waivers_have_reasons(unit):
    assert all(len(reason) > 20 for reason in waivers(unit).values())
