"""Docstrings as the site shows them: labelled lines and tables become sections and lists of reStructuredText."""

import itertools
import re
from collections.abc import Iterator

__all__ = ["sections"]

_HEADS = ("Parameters", "Attributes", "Returns", "Raises", "Ports", "Fields")
_ENTRY = re.compile(r"\*{0,2}[\w<>*]+(?:, \*{0,2}[\w<>*]+)*(?: : .*)?$")         # names of an entry of a section, with their type
_SECTION = re.compile(r"\*(Ports|Fields)\*:$")
_CITED = re.compile(r"(?<=[\[ -])S(\d)\.(\d+)(?=[\],-])")        # within brackets
_LINK = r"`S\1.\2 <../requirements.html#s\1-\2>`__"
_ITEM = re.compile(r"\*[A-Z][\w -]*\*:? ?")


def sections(lines: list[str]) -> None:
    """Change the lines of a docstring in place.

    ``*Ports*:`` alone in its line heads a section like ``Parameters``. A line that begins with another label, as ``*Latency*:``, begins a
    paragraph. Prose behind the entries of a section ends it. Tables of Markdown become tables of reStructuredText. Paragraphs with lines
    of boxes become literal blocks. Cited requirements become links to their rows.
    """
    found: list[str] = []
    rows: list[str] = []
    inside = False
    for line in [*_drawings(lines), ""]:
        if line.startswith("|"):
            rows.append(line)
            continue
        found += _table(rows)
        rows = []
        section = _SECTION.match(line)
        inside = inside or bool(section) or line in _HEADS
        if inside and found and not found[-1] and line and not line.startswith(" ") and not _ENTRY.match(line):
            found.append("")        # two empty lines end a section
            inside = False
        if section:
            found += ["", section[1], "-" * len(section[1])]
            continue
        if _ITEM.match(line) and found and found[-1].strip() and not found[-1].startswith(" "):
            found.append("")
        found.append(re.sub(r"\[S\d\.[^\]]*\]", lambda cited: _CITED.sub(_LINK, cited[0]), line))
    lines[:] = found


def _drawings(lines: list[str]) -> Iterator[str]:
    """The lines, with paragraphs that are drawings marked as literal."""
    for empty, paragraph in itertools.groupby(lines, key=lambda line: not line.strip()):
        text = list(paragraph)
        if empty or not any(character in line for line in text for character in "─│┌└"):
            yield from text
        else:
            yield from ("::", "", *(f"    {line}" for line in text))


def _table(rows: list[str]) -> Iterator[str]:
    if not rows:
        return
    yield from ("", ".. list-table::", "   :header-rows: 1", "")
    for row in rows:
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
        if set("".join(cells)) <= set("-: "):
            continue
        yield from (f"   {'* -' if first else '  -'} {cell}".rstrip() for cell, first in zip(cells, [True] + [False] * len(cells)))
    yield ""
