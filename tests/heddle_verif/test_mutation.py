"""The mutation tool: mutants are noticed by a bench, equivalent ones are recognised, a waived one is not counted."""

import time

import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out
from heddle.lib.adder_tree import AdderTree
from heddle_verif.mutation import mutate, results, sources
from heddle_verif.mutation.module_proof import equal_module
from heddle_verif.mutation.mutants import describe, differs, equal_registers, make_mutants, unit_texts
from heddle_verif.mutation.mutate import run_units
from heddle_verif.mutation.sources import source_texts
from heddle_verif.mutation.targets import UNITS, unit_key, waivers
from heddle_verif.mutation.unit_mutants import STEPS, UnitMutants


@pytest.fixture
def build(monkeypatch, tmp_path):
    """An empty folder of builds, and nothing stored in the repository."""
    monkeypatch.setenv("HEDDLE_BUILD", str(tmp_path))
    monkeypatch.setattr(results, "STORE", tmp_path / "verif" / "stored.json")
    monkeypatch.setattr(results, "PAGE", tmp_path / "mutation.md")
    return tmp_path


@pytest.fixture
def judged(monkeypatch):
    """Steps that were done, without doing them: no test notices mutant 0 of three, whose proof ends at ``all_cycles``."""
    done = []

    def judge(unit, step, number):
        done.append((unit.name, step, number))
        outcomes = {"first_tests": "killed" if number else "registers", "registers": "other_tests", "other_tests": "all_cycles"}
        unit.outcomes[number] = outcomes.get(step, "equivalent")

    monkeypatch.setattr(UnitMutants, "judge", judge)
    return done


def test_sample(build):
    result = run_units(["adder_tree"], 3, 5)["adder_tree"]
    assert (result["run"], result["killed"], result["survivors"]) == (3, 3, [])


def test_a_step_of_all_mutants_before_the_next(build, judged):
    results = run_units(["adder_tree", "pe"], 2, 1)
    first = [(unit, "first_tests", number) for number in (0, 1) for unit in ("adder_tree", "pe")]
    assert judged == first + [(unit, step, 0) for step in STEPS[1:] for unit in ("adder_tree", "pe")]
    assert all((result["killed"], result["equivalent"], result["score"]) == (1, 1, 1) for result in results.values())


def test_what_has_not_changed_is_not_run_again(build, judged):
    said = []
    for expected in (3 + 3, 0):
        before = len(judged)
        run_units(["adder_tree"], 3, 1, report=said.append)
        assert len(judged) - before == expected
    assert not said[0].endswith("unchanged") and said[1].endswith("unchanged")
    for change in ({"count": 4}, {"count": 3, "seed": 2}, {"count": 3, "again": True}):
        run_units(["adder_tree"], minutes=1, report=said.append, **change)
        assert not said[-1].endswith("unchanged"), change
    (build / "mutation.json").write_text("{")       # cut off
    run_units(["adder_tree"], 3, 1, report=said.append)
    assert not said[-1].endswith("unchanged")


def test_the_next_run_goes_on_where_the_time_was_over(build, judged, monkeypatch):
    commands = ["mutate -mode inv -module mutated -cell one -port A -portbit 0"] * 3
    monkeypatch.setattr(UnitMutants, "_mutants", lambda unit: (commands, "", ()))
    for steps, survivors in ((STEPS[:2], []), (STEPS[:3], [describe(commands[0])])):
        with monkeypatch.context() as patch:
            patch.setattr(mutate, "STEPS", steps)
            first = run_units(["adder_tree"], 3, 1)["adder_tree"]
        assert first["survivors"] == survivors and (first["killed"], first["run"]) == (2, 2 + len(survivors))
    assert first["score"] == 0.667 and [step for _, step, number in judged if not number] == list(STEPS[:3])
    judged.clear()
    second = run_units(["adder_tree"], 3, 1)["adder_tree"]
    assert judged == [("adder_tree", "all_cycles", 0)] and (second["equivalent"], second["score"], second["unchanged"]) == (1, 1, False)
    assert run_units(["adder_tree"], 3, 0)["adder_tree"]["unchanged"]


def test_stored_results_are_known_without_a_build(build, judged):
    results.store_results(run_units(["adder_tree", "pe"], 2, 1), ["pe", "adder_tree"])
    (build / "mutation.json").unlink()
    judged.clear()
    again = run_units(["adder_tree"], 2, 1)
    assert again["adder_tree"]["unchanged"] and again["adder_tree"]["killed"] == 1 and not judged
    run_units(["adder_tree"], 3, 1)     # another sample
    assert judged
    results.store_results({}, ["adder_tree"])       # the other unit is no more
    assert list(results.read_results(results.STORE)) == ["adder_tree"]
    page = results.PAGE.read_text()
    assert "| `adder_tree` | 2 of 2 | 1 | 1 | 0 | 0 | 100 % |" in page and "Of 2 mutants of 1 units 2 are judged" in page


def test_the_page_is_of_the_stored_results():
    stored = results.read_results(results.STORE)
    assert results.PAGE.read_text() == results.page_text() and list(stored) == [name for name in UNITS if name in stored]
    assert stored, "nothing is stored"


@pytest.mark.parametrize("step", STEPS[1:])
def test_any_step_may_be_the_first_of_a_run(step, build):
    unit = UnitMutants("adder_tree", 1, outcomes=[step])
    unit.judge(step, 0)
    assert unit.outcomes == [{"registers": "other_tests", "other_tests": "all_cycles", "all_cycles": "survives"}[step]]


def test_a_unit_that_the_time_did_not_reach_has_no_score(build, judged):
    said = []
    assert run_units(["adder_tree"], 3, 0, report=said.append)["adder_tree"]["run"] == 0 and not judged
    assert "score -  0 s" in said[-1]


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
    assert not {"numpy", "heddle.thread.shared_lsu", "heddle.config", "heddle.isa.encoding"} & names.keys()      # Verilog in the key
    assert {"heddle_verif.bench.shared_lsu", "heddle_verif.bench.thread_workload", "heddle_verif.fixture"} <= names.keys()
    read = sources._text
    changed = "heddle_verif.bench.adder_tree"
    monkeypatch.setattr(sources, "_text", lambda name: read(name) + "# changed" if name == changed else read(name))
    assert unit_key("adder_tree", 3, 1) != before


def test_comments_and_docstrings_are_no_change(tmp_path, monkeypatch):
    path = tmp_path / "module.py"
    monkeypatch.setattr(sources, "_path", lambda name: path)
    texts = []
    function = '''"""{}"""\ndef two():{}\n    """{}"""\n    return {}\n'''
    for values in (("One.", "", "Three.", 4), ("Five.", "  # six", "Seven.", 4), ("One.", "", "Three.", 5)):
        path.write_text(function.format(*values))
        texts.append(sources._text("module"))
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("name", [name for name in UNITS if name.endswith("_base")])
def test_variants_of_the_default_preset(name):
    cfg = UNITS[name].configuration
    assert not cfg.far_registers and cfg.dot == 8 and UNITS[name].count == 30


def test_equal_module():
    (commands, _, texts), harmless = make_mutants(lambda: AdderTree(4, 1), 3), "mutate -mode none -module mutated"
    assert [equal_module(texts, command) for command in [*commands, harmless]] == [False] * 3 + [True]


def test_differs():
    (commands, _, texts), harmless = make_mutants(lambda: AdderTree(4, 1), 3), "mutate -mode none"
    assert [differs(texts, command) for command in [*commands, harmless]] == [True] * 3 + [False]
    assert [equal_registers(texts, command) for command in [*commands, harmless]] == [False] * 3 + [True]


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


@pytest.mark.parametrize("bit, equal", [(0, False), (1, True)])
def test_what_nothing_reads_is_equivalent(bit, equal):
    texts, command = unit_texts(Half()), f"mutate -mode inv -module mutated -cell half -port i -portbit {bit}"
    assert equal_registers(texts, command) is equal_module(texts, command) is equal


def test_description():
    command = ("mutate -ctrl mut_sel 3 1 -mode inv -module mutated.tree -cell $6 -port A -portbit 6 -src /x/lib/wiring.py:1 "
               "-src /x/hdl/heddle/lib/stream.py:65")
    assert describe(command) == "hdl/heddle/lib/stream.py:65 in tree: inv port A[6]"
    assert describe("mutate -mode inv -module mutated.tree -cell $6 -port A -portbit 6") == "cell $6 in tree: inv port A[6]"


@pytest.mark.parametrize("unit", UNITS)
def test_waivers_have_reasons(unit):
    assert all(len(reason) > 20 for reason in waivers(unit).values())
