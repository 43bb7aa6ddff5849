"""What the pages for users show works: their Python is executed, the files that they name exist."""

import re
from pathlib import Path

import pytest

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
