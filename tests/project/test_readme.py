"""What the pages for users show works: their Python is executed, the tests and files that they name exist."""

import re
from pathlib import Path

import pytest
from heddle import load_config
from heddle.config import preset_names

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/getting-started.md")


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("page, number", [(page, number) for page in PAGES for number in range(len(blocks(page)))])
def test_python_examples_run(page, number, capsys):
    """On the smallest configuration, which other tests build as well."""
    exec(blocks(page)[number].replace('"base"', '"tiny"'), {})


def test_there_are_examples():
    assert [len(blocks(page)) for page in PAGES] == [1, 3]
    assert len(blocks("README.md")[0].splitlines()) <= 10


def test_named_tests_exist():
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "README.md").read_text())
    assert len(named) > 10
    for path, name in named:
        text = (ROOT / path).read_text()
        assert not name or f"def {name}(" in text, f"{path}::{name}"


def test_presets_that_lack_a_feature():
    """The status names, for a parameter that a requirement needs, all presets without it."""
    status = (ROOT / "README.md").read_text().split("## Status")[1]
    said = re.findall(r"where `(\w+)` is\s+set(?: \(not in ([^)]*)\))?", status)
    assert {name for name, _ in said} == {"tensors", "rnn", "reductions", "multicast", "l2_kib", "copy_within", "transpose", "sparse"}
    for name, presets in said:
        assert re.findall(r"`(\w+)`", presets) == [preset for preset in preset_names() if not getattr(load_config(preset), name)], name


def test_every_requirement_has_a_state():
    rows = re.findall(r"^\| (S[^|]*) \|([^|]*)\|([^|]*)\|([^|]*)\|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    numbers = [re.findall(r"S(\d)\.(\d+)", place) for place, *_ in rows]
    found = [(int(first[0]), number) for first, *last in numbers
             for number in range(int(first[1]), int((last or [first])[0][1]) + 1)]
    assert found == [(part, number) for part, most in enumerate((18, 16, 6, 8, 9)) for number in range(1, most + 1)]
    for place, _, state, proof in rows:
        assert re.match(r" (done|partial: |planned)", state) and ("`tests/" in proof) == (not state.startswith(" planned")), place


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / target).exists(), target
