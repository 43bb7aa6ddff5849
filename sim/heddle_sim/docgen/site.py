"""Assembles the site and builds it: ``python -m heddle_sim.docgen.site``; the result is ``build/docs/html/index.html``.

The pages of ``docs/`` are copied to ``build/docs/source``. Pages of the reference, results, register files and timing diagrams are generated
there and not committed.
"""

import argparse
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
    (source / "_static").mkdir(exist_ok=True)
    _register_files(source / "_files/registers")


def _inside(name: str) -> str:
    """A page of the root of the repository, with its links as from ``docs/``."""
    return (ROOT / name).read_text().replace("](docs/", "](")


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
    return subprocess.run([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-b", builder, str(SOURCE), str(target)]).returncode


if __name__ == "__main__":
    sys.exit(main())
