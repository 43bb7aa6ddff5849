"""Assembles the site and builds it: ``python -m heddle_sim.docgen.site``; the result is ``build/docs/html/index.html``.

The pages of ``docs/`` are copied to ``build/docs/source``. Pages of the reference, results and register files are generated there and not
committed.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from heddle.errors import UsageError

from .api_pages import api_pages, unit_sections
from .c_header import c_header
from .command_page import command_page
from .configuration_page import configuration_page
from .result_page import result_page
from .systemrdl import systemrdl

__all__ = ["assemble", "main"]

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "build/docs/source"
HTML = ROOT / "build/docs/html"
_NAME = re.compile(r"S\d\.\d+")
_CITED = re.compile(r"\[(S\d\.\d+(?:(?:, |-|–)S\d\.\d+)*)\](?!\()")


def assemble(source: Path = SOURCE) -> None:
    """Write the sources of the site: the committed pages, and everything that is generated."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source)
    pages = {f"api/{name}.md": text for name, text in api_pages().items()}
    pages |= {"commands.md": command_page(), "configuration.md": configuration_page(), "results.md": result_page(),
              "changes.md": _inside("CHANGELOG.md"), "contributing.md": _inside("CONTRIBUTING.md")}
    for name, text in pages.items():
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text(text)
    for name, text in unit_sections().items():
        page = source / f"units/{name}.md"
        page.write_text(page.read_text() + text)
    for page in source.rglob("*.md"):
        page.write_text(_linked(page.read_text(), page.relative_to(source)))
    _complete_index(source / "index.md")
    _register_files(source / "_files/registers")


def _complete_index(index: Path) -> None:
    """Names every tutorial on the index, also those that it does not list."""
    text = index.read_text()
    further = [page.stem for page in sorted(index.parent.glob("tutorial-*.md")) if page.stem not in text.split()]
    index.write_text(text.replace("\ntutorial-fpga\n", "\n".join(["", "tutorial-fpga", *further, ""])))


def _inside(name: str) -> str:
    """A page of the root of the repository, with its links as from ``docs/``."""
    return (ROOT / name).read_text().replace("](docs/", "](")


def _linked(text: str, page: Path) -> str:
    """A page whose cited requirements, ``[S1.13]``, lead to their rows; these rows get anchors, files of registers links."""
    if page.name == "requirements.md":
        return re.sub(r"^\| (S\d\.\d+) \|", lambda row: f"| [{row[1]}]{{#{_anchor(row[1])}}} |", text, flags=re.MULTILINE)
    if page.name == "registers.md":
        text = re.sub(r"`(heddle\.\w+)`", r'<a href="registers/\1"><code>\1</code></a>', text)
    place = "../" * (len(page.parts) - 1) + "requirements.md#"

    def link(name: re.Match[str]) -> str:
        return f"[{name[0]}]({place}{_anchor(name[0])})"

    parts = re.split(r"(^```.*?^```$|`[^`\n]+`)", text, flags=re.MULTILINE | re.DOTALL)
    for number in range(0, len(parts), 2):
        parts[number] = _CITED.sub(lambda cited: f"\\[{_NAME.sub(link, cited[1])}\\]", parts[number])
    return "".join(parts)


def _anchor(name: str) -> str:
    return name.lower().replace(".", "-")


def _register_files(folder: Path) -> None:
    """The register map as C header, SystemRDL and IP-XACT."""
    from peakrdl_ipxact import IPXACTExporter
    from systemrdl import RDLCompiler
    folder.mkdir(parents=True)
    (folder / "heddle.h").write_text(c_header())
    (folder / "heddle.rdl").write_text(systemrdl())
    compiler = RDLCompiler()
    compiler.compile_file(str(folder / "heddle.rdl"))
    IPXACTExporter(vendor="heddle", library="heddle").export(compiler.elaborate().top, str(folder / "heddle.xml"))


def main() -> int:
    """Build the site; returns the exit code of Sphinx, whose warnings are errors."""
    parser = argparse.ArgumentParser(prog="python -m heddle_sim.docgen.site", description="Builds the site.")
    parser.add_argument("--links", action="store_true", help="check the links that leave the site instead, over the network")
    options = parser.parse_args()
    try:
        assemble()
    except ImportError as error:
        raise UsageError(f"the site needs the packages of the extra docs (make docs installs them): {error}") from None
    builder, target = ("linkcheck", ROOT / "build/docs/links") if options.links else ("html", HTML)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-b", builder, str(SOURCE), str(target)]
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main())
