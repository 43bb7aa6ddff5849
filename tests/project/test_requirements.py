"""The page of requirements: 57 rows with state, limits and tests that exist; every identifier that is cited is one of its rows."""

import re
from pathlib import Path

import pytest
from heddle import load_config
from heddle.config import preset_names

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/requirements.md").read_text()
ROWS = re.findall(r"^\| (S\d\.\d+) \|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", PAGE, re.MULTILINE)
DEFINED = {name for name, *_ in ROWS}
FOLDERS = ("hdl", "sim", "verif", "tests", "docs", "examples", "configs")
CITED = re.compile(r"\[(S\d(?:\.\d+)?(?:(?:, |-|–)S\d(?:\.\d+)?)*)\]")
FEATURES = {"tensors", "rnn", "reductions", "multicast", "l2_kib", "copy_within", "transpose", "sparse", "compiled_offsets"}


def test_every_requirement_has_a_row():
    expected = [f"S{part}.{number}" for part, most in enumerate((18, 16, 6, 8, 9)) for number in range(1, most + 1)]
    assert [name for name, *_ in ROWS] == expected and len(expected) == 57


@pytest.mark.parametrize("name, text, state, limits, tests", ROWS, ids=[row[0] for row in ROWS])
def test_row(name, text, state, limits, tests):
    state = state.strip()
    assert text.strip() and state in ("done", "partial", "missing")
    assert limits.strip() and (limits.strip() != "none" or state == "done"), "what is missing"
    assert "`tests/" in tests
    for path, function in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+)(?:\[\w+\])?)?`", tests):
        source = (ROOT / path).read_text()
        assert not function or f"def {function}(" in source, f"{path}::{function}"


def test_presets_that_lack_a_feature():
    """For a parameter that a requirement needs the page names all presets without it."""
    said = re.findall(r"where `(\w+)` is\s+set(?: \(not in ([^)]*)\))?", PAGE)
    assert {name for name, _ in said} == FEATURES
    for name, presets in said:
        assert re.findall(r"`(\w+)`", presets) == [preset for preset in preset_names() if not getattr(load_config(preset), name)], name


def test_status_names_what_is_missing():
    """Every requirement that is not done stands under what does not work."""
    text = (ROOT / "docs/status.md").read_text()
    named = set()
    for part in re.split(r"^(?=## |Works|Does not work)", text, flags=re.MULTILINE):
        if part.startswith("Does not work"):
            named |= set(re.findall(r"S\d\.\d+", part))
    assert {name for name, _, state, _, _ in ROWS if state.strip() != "done"} <= named


def test_cited_identifiers_are_defined():
    cited = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".md", ".toml"):
                for group in CITED.findall(path.read_text()):
                    cited.update(dict.fromkeys(re.findall(r"S\d(?:\.\d+)?", group), path))
    assert len(cited) > 40
    wrong = {name: str(path) for name, path in cited.items() if name not in DEFINED and f"## {name}:" not in PAGE}
    assert not wrong
