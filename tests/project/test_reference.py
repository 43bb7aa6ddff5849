"""Generated pages are what their tables say."""

from pathlib import Path

from heddle_sim.docgen.host_interface import host_page
from heddle_sim.docgen.tensor_rules import errors_page

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_registers_page_is_up_to_date():
    assert (DOCS / "registers.md").read_text() == host_page(), "run make docs"


def test_tensor_errors_page_is_up_to_date():
    assert (DOCS / "tensor-errors.md").read_text() == errors_page(), "run make docs"
