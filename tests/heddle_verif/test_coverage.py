"""Functional coverage: the model, its storage, its report, and what devices are counted for."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys

import pytest
from heddle import load_config
from heddle.errors import UsageError
from heddle_sim import Device, DeviceError
from heddle_sim.device import observers
from heddle_verif import coverage
from heddle_verif.coverage import GROUPS, devices, errors, front_end, matrix, presets, streams
from heddle_verif.coverage.__main__ import main
from heddle_verif.coverage.model import Exclusion, Group
from heddle_verif.coverage.report import page, problems, summary, text
from heddle_verif.coverage.storage import merged, read, write


def fruit():
    """Two coverpoints, their cross, and an exclusion of each kind."""
    return Group("market.fruit", "A fruit.", {"kind": ("apple", "plum", "stone"), "colour": ("red", "blue")}, crosses=[("kind", "colour")],
                 exclude=[Exclusion("no apple is blue", kind="apple", colour="blue"), Exclusion("a stone is no fruit", kind="stone")])


def test_every_group_is_reported():
    """A group that a module declares, and that no table lists, would be sampled in vain."""
    declared = {value for module in pkgutil.iter_modules(coverage.__path__, f"{coverage.__name__}.") if not module.name.endswith("__main__")
                for value in vars(importlib.import_module(module.name)).values() if isinstance(value, Group)}
    assert declared == set(GROUPS.values())


def test_bins_and_crosses():
    group = fruit()
    group.sample(kind="apple", colour="red")
    group.sample(kind="apple", colour="red")
    group.sample(kind="plum", colour=None)          # does not apply: counts for the kind alone
    kind, colour, cross = group.tallies()
    assert kind.hit == {("apple",): 2, ("plum",): 1} and not kind.holes and kind.excluded == {("stone",): "a stone is no fruit"}
    assert colour.hit == {("red",): 2} and colour.holes == [("blue",)]
    assert cross.name == "kind × colour" and cross.hit == {("apple", "red"): 2}
    assert cross.holes == [("plum", "red"), ("plum", "blue")]
    assert cross.excluded == {("apple", "blue"): "no apple is blue", ("stone", "red"): "a stone is no fruit",
                              ("stone", "blue"): "a stone is no fruit"}
    assert summary(group.tallies()) == [3, 4, 1, 1, 3, 3]


def test_a_wrong_exclusion_is_found():
    group = fruit()
    group.sample(kind="apple", colour="blue")
    assert "Sampled although excluded:" in page({group.name: group}, {group.name: group.samples}, [])
    cross = group.tallies()[2]
    assert cross.refuted == [("apple", "blue")] and (cross.covered, cross.total) == (0, 3)
    assert "market.fruit: kind × colour: apple × blue was sampled although excluded: no apple is blue" in problems(
        {group.name: group}, {group.name: group.samples})


@pytest.mark.parametrize("values, says", [
    (dict(kind="pear", colour="red"), "kind of market.fruit must be one of apple, plum, stone, not 'pear'"),
    (dict(kind="plum", colour=3), "colour of market.fruit must be one of red, blue, not 3"),
    (dict(kind="plum"), "a sample of market.fruit must have kind, colour, not kind"),
    (dict(kind="plum", colour="red", size="big"), "a sample of market.fruit must have kind, colour, not kind, colour, size"),
])
def test_unknown_values(values, says):
    group = fruit()
    with pytest.raises(UsageError) as caught:
        group.sample(**values)
    assert str(caught.value) == says and not group.samples


@pytest.mark.parametrize("options, says", [
    (dict(points={"kind": ("a", "a")}), "must be different texts"),
    (dict(points={"kind": ()}), "must be different texts"),
    (dict(points={"kind": (1, 2)}), "must be different texts"),
    (dict(points={"kind": ("a",)}, crosses=[("kind", "colour")]), "different coverpoints of it"),
    (dict(points={"kind": ("a",)}, crosses=[("kind",)]), "different coverpoints of it"),
    (dict(points={"kind": ("a",)}, exclude=[Exclusion("why", kind="b")]), "must name bins of it"),
    (dict(points={"kind": ("a",)}, exclude=[Exclusion("why", size="a")]), "must name bins of it"),
])
def test_wrong_declarations(options, says):
    with pytest.raises(UsageError, match=says):
        Group("market.fruit", "A fruit.", **options)


def test_an_exclusion_has_a_reason():
    with pytest.raises(UsageError, match="^an exclusion must have a reason"):
        Exclusion("", kind="a")
    with pytest.raises(UsageError, match="^an exclusion must have a reason"):
        Exclusion("why")


def test_samples_of_several_processes_are_added(tmp_path):
    group = fruit()
    groups = {group.name: group}
    for colour in ("red", "red", "blue"):
        group.sample(kind="plum", colour=colour)
        group.sample(kind="plum", colour=None)
        assert write(groups, tmp_path).is_file() and not group.samples
    assert write(groups, tmp_path) is None          # nothing new
    samples, notes = merged(sorted(tmp_path.glob("*.json")), groups)
    assert samples == {group.name: {("plum", "red"): 2, ("plum", "blue"): 1, ("plum", None): 3}} and notes == [{}, {}, {}]
    assert not group.tallies(samples[group.name])[1].holes


def test_samples_of_other_declarations_are_refused(tmp_path):
    group = fruit()
    group.sample(kind="plum", colour="red")
    path = write({group.name: group}, tmp_path)
    fewer = Group("market.fruit", "A fruit.", {"kind": ("apple", "plum")})
    other = Group("market.fruit", "A fruit.", {"kind": ("apple",), "colour": ("red",)})
    for groups in ({}, {group.name: fewer}, {group.name: other}):
        with pytest.raises(UsageError):
            read(path, groups)


def test_nothing_is_written_without_a_folder(monkeypatch):
    monkeypatch.delenv("HEDDLE_COVERAGE", raising=False)
    group = fruit()
    group.sample(kind="plum", colour="red")
    assert write({group.name: group}) is None and group.samples


def test_a_process_writes_when_it_ends(tmp_path):
    code = "from heddle_verif.coverage.errors import sample_error; sample_error('matrix unit', 5)"
    subprocess.run([sys.executable, "-c", code], check=True,
                   env=os.environ | {"HEDDLE_COVERAGE": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    samples, _ = merged(tmp_path.glob("*.json"), GROUPS)
    assert samples["errors.reported"] == {("matrix unit", "MISALIGNED"): 1}


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_a_session_merges_what_its_processes_sample(workers, tmp_path):
    (tmp_path / "conftest.py").write_text("""
from heddle_verif.coverage.plugin import SessionCoverage
def pytest_configure(config):
    config.pluginmanager.register(SessionCoverage())
""")
    (tmp_path / "test_some.py").write_text("""
import pytest
from heddle_verif.coverage.errors import sample_error
@pytest.mark.parametrize("code", [5, 6, 7])
def test_error(code):
    sample_error("matrix unit", code)
    assert code < 7
""")
    environment = {name: value for name, value in os.environ.items() if name not in ("HEDDLE_COVERAGE", "PYTEST_XDIST_WORKER")}
    environment |= {"HEDDLE_BUILD": str(tmp_path / "build"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    "HEDDLE_COVERAGE_RUN": "some"}
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path), *workers,
                    str(tmp_path)], env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL)
    assert [path.name for path in (tmp_path / "build" / "coverage").iterdir()] == ["some.json"]
    samples, notes = read(tmp_path / "build" / "coverage" / "some.json", GROUPS)
    assert sum(samples["errors.reported"].values()) == 3
    assert notes == {"run": "some", "failed": 1, "tests": {"test_some.py": 3}}


def test_report():
    group = fruit()
    group.sample(kind="apple", colour="red")
    groups, samples = {group.name: group}, {group.name: group.samples}
    assert "market.fruit: kind: 1 of 2 not sampled: plum" in text(groups, samples)
    written = page(groups, samples, [{"run": "test", "failed": 1, "tests": {"tests/test_a.py": 3}}])
    for line in ("- `test`: 3 tests, 1 failed.", "  - `tests/test_a.py`: 3", "| kind × colour | 1 of 3 | plum × red; plum × blue |",
                 "- kind apple, colour blue: no apple is blue."):
        assert line in written.splitlines(), line


def test_command_line(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    (tmp_path / "empty.json").write_text(json.dumps({"groups": {}}))
    assert main(["report", str(tmp_path), "--markdown", str(tmp_path / "page.md")]) == 0
    assert main(["report", str(tmp_path), "--check"]) == 1
    assert "streams.queue" in capsys.readouterr().out and (tmp_path / "page.md").read_text().startswith("# Functional coverage\n")
    (tmp_path / "wrong.json").write_text(json.dumps({"groups": {"no.group": []}}))
    assert main(["report", str(tmp_path)]) == 2


def test_a_run_of_other_declarations_is_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HEDDLE_BUILD", str(tmp_path))
    folder = tmp_path / "coverage"
    folder.mkdir()
    (folder / "nightly.json").write_text(json.dumps({"groups": {"no.group": []}}))
    assert main(["report"]) == 2
    (folder / "test.json").write_text(json.dumps({"groups": {"front_end.stall": [["hazard", 2]]}}))
    assert main(["report"]) == 0
    said = capsys.readouterr()
    assert "left out" in said.err and "front_end.stall: reason: 5 of 6 not sampled" in said.out


@pytest.mark.parametrize("name", GROUPS)
def test_declarations(name):
    """Every coverpoint has a bin that is not excluded, every exclusion excludes something."""
    group = GROUPS[name]
    tallies = group.tallies({})
    assert name == group.name and group.title.endswith(".")
    for tally in tallies:
        assert tally.holes, tally.name
    reasons = {reason for tally in tallies for reason in tally.excluded.values()}
    assert reasons == {exclusion.reason for exclusion in group.exclude}


# -- sampling -------------------------------------------------------------------------------

@pytest.fixture
def counted():
    """What a test samples, by group; what was there before is kept."""
    before = {name: group.samples.copy() for name, group in GROUPS.items()}
    for group in GROUPS.values():
        group.samples.clear()
    yield {name: group.samples for name, group in GROUPS.items()}
    for name, group in GROUPS.items():
        group.samples.clear()
        group.samples.update(before[name])


def test_streams(counted):
    sampler = streams.StreamSampler("L2", "i__1__read_request")
    for cycle in ((0, 0), (1, 1), (1, 1), (1, 0), (1, 1), (0, 1), (1, 1)):
        sampler.step(*map(bool, cycle))
    sampler.restart()
    sampler.step(True, True)        # of what was before a reset nothing is known
    assert counted["streams.transfer"] == {("L2.i.read_request", event): 1 for event in streams.EVENTS}
    assert not streams.StreamSampler("Unknown", "i").counts


def test_devices(counted):
    cfg = load_config("tiny")
    with Device(cfg, "golden", memory_bytes=1 << 16) as device:
        device.run("mov r3, 5\n@p0 add r4, r3, r3\nmm8.sa.ub.k2.ka2 r16, ur12:rf300:0, r256\nhalt")
        with pytest.raises(DeviceError):
            device.run("trap 7")
    assert counted["errors.run"] == {("TRAP", "golden"): 1}
    (merge, *_), = counted["matrix.instruction"]
    assert merge == "ka 2"
    assert ("THREAD_ALU", "where it holds", "register", "ADD", None, "golden") in counted["front_end.instruction"]
    assert {key[1] for key in counted["presets.run"]} == {"thread unit", "matrix unit"}


def test_only_presets_as_they_ship_count():
    tiny = load_config("tiny")
    assert presets.preset_of(tiny) == "tiny" and presets.preset_of(tiny.replace(axi_reads=4)) is None


def test_observers_are_told_once(monkeypatch):
    monkeypatch.setattr(observers, "_OBSERVERS", [])
    told = []
    for _ in range(2):
        observers.observe_runs(told.append)
    assert len(observers._OBSERVERS) == 1
    devices.watch_devices()
    assert [told.append, devices.sample_device_run] == observers._OBSERVERS


def test_bins_of_words():
    assert matrix.MERGES[0] == "none" and matrix.merge_name(3, 1) == "ka 4, kb 2" and len(matrix.MERGES) == 17
    assert front_end.instruction_values(0) is None
    assert set(errors.UNITS["TMAU"]) > set(errors.TENSOR_CODES)
