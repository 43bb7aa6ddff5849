"""What pages of the documentation print is what the commands and the code in them give."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from heddle_sim.cli import main
from heddle_sim.docgen.timing import diagrams

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TIMING = DOCS / "images/timing"
PAGES = sorted(str(path.relative_to(ROOT)) for path in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
COMMAND = re.compile(r"```\n\$ heddle (.*)\n((?:.*\n)*?)```")
SHOWN = [(page.name, match[1], match[2]) for page in sorted(DOCS.glob("*.md")) for match in COMMAND.finditer(page.read_text())]
PICTURES = re.findall(r"^heddle_svg (\S+) (.*)$", (ROOT / "scripts" / "docs.sh").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page, command, output", SHOWN, ids=[f"{page}: {command}" for page, command, _ in SHOWN])
def test_output_of_commands(page, command, output, capsys):
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out == output, f"docs/{page}: $ heddle {command}"


def test_pictures(tmp_path):
    assert PICTURES
    for name, command in PICTURES:
        assert main([*shlex.split(command), "--svg", str(tmp_path / "picture.svg")]) == 0
        assert (tmp_path / "picture.svg").read_text() == (ROOT / name).read_text(), "run make docs"


def test_timing_diagrams():
    drawn = diagrams()
    assert sorted(drawn) == sorted(path.stem for path in TIMING.glob("*.svg")) and len(drawn) >= 11
    for name, text in drawn.items():
        assert (TIMING / f"{name}.svg").read_text() == text, f"{name}: run make docs"


@pytest.mark.parametrize("page", ["convolution.md", "models.md", "pooling.md", "recurrent.md", "sparse.md", "tensor-copies.md",
                                  "tutorial-convolution.md", "tutorial-sparse.md"])
def test_examples(page):
    """Blocks of Python with prompts, one after the other in one session."""
    blocks = re.findall(r"```python\n(>>> .*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page, page, 0)
    report = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    """Files of links and pictures exist; pages that the site generates are named on the index only."""
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page):
    """Files that a page names from the root of the repository; ``*`` stands for any of several."""
    folders = "hdl|sim|verif|tests|examples|configs|scripts|constraints|docs"
    for name in re.findall(rf"`((?:{folders})/[\w./*-]+\.(?:py|toml|sh|json|md))(?:::[\w\[\]]+)?`", (ROOT / page).read_text()):
        assert list(ROOT.glob(name)), name
