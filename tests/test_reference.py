"""Generated pages are what their tables say."""

from pathlib import Path

from heddle_sim.reference import host_page

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_registers_page_is_up_to_date():
    assert (DOCS / "registers.md").read_text() == host_page(), "run make docs"
