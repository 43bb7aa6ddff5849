"""Docstrings as the site shows them: labelled lines and tables become sections and lists of reStructuredText."""

import itertools
import re
from collections.abc import Iterator

__all__ = ["sections"]

_SECTION = re.compile(r"\*(Ports|Fields)\*:$")
_ITEM = re.compile(r"\*[A-Z][\w -]*\*:? ?")


def sections(lines: list[str]) -> None:
    """Change the lines of a docstring in place.

    ``*Ports*:`` alone in its line heads a section like ``Parameters``. A line that begins with another label, as ``*Latency*:``, begins a
    paragraph. Tables of Markdown become tables of reStructuredText, paragraphs with lines of boxes literal blocks.
    """
    found: list[str] = []
    rows: list[str] = []
    for line in [*_drawings(lines), ""]:
        if line.startswith("|"):
            rows.append(line)
            continue
        found += _table(rows)
        rows = []
        section = _SECTION.match(line)
        if section:
            found += ["", section[1], "-" * len(section[1])]
            continue
        if _ITEM.match(line) and found and found[-1].strip() and not found[-1].startswith(" "):
            found.append("")
        found.append(line)
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
