"""Tables of the pages whose numbers are stored figures: ``python -m heddle_sim.docgen.figure_tables`` writes the numbers again.

Such a table stands between two comments, and a line with its commands and commits behind it is made too::

    <!-- figures
    2 bench spmm: cycles
    3 bench spmm: utilization
    -->
    | 512 x 512 | cycles | utilization |
    ...
    <!-- end of figures -->

A line of the first comment says which figures are in a column: its number, a command, the field of its rows. Row i of the table has
figure i of these. ``4.2`` is the second number in the cells of column 4. ``threads=1|2`` behind the field chooses figures by their
place, `` / `` between two such texts is a ratio. `` + `` between two commands takes the figures of both, one after the other. Several
fields are those of as many columns, from the named one on.
Everything else in a cell, and how many digits a number has, stays as it is on the page.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from heddle.errors import UsageError

from ..cli.figures import Command, load_figures, printed_like

__all__ = ["main", "with_figures"]

DOCS = Path(__file__).resolve().parents[3] / "docs"
_TABLE = re.compile(r"(<!-- figures\n)(.*?)(-->\n)(.*?)(<!-- end of figures -->)", re.DOTALL)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?: %)?")


def with_figures(text: str, page: str, commands: Sequence[Command]) -> str:
    """The text of a page whose tables give the stored figures of this page."""
    named = {command.command: command for command in commands if command.page == page}
    return _TABLE.sub(lambda found: found[1] + found[2] + found[3] + _table(found[2], found[4], named) + found[5], text)


def _table(columns: str, table: str, commands: dict[str, Command]) -> str:
    rows = [line.split("|") for line in table.splitlines() if line.startswith("|")]
    used: dict[str, Command] = {}
    for number, source in (column for line in columns.splitlines() for column in _columns(line)):
        values, *divisors = [_values(text, commands, used) for text in source.split(" / ")]
        if divisors:
            values = [value / divisor for value, divisor in zip(values, divisors[0], strict=True)]
        if len(values) != len(rows) - 2:
            raise UsageError(f"rows of the table must be {len(values)}, one for each figure of {source!r}, not {len(rows) - 2}")
        column, _, place = number.partition(".")
        for row, value in zip(rows[2:], values, strict=True):
            row[int(column)] = _with_number(row[int(column)], column, int(place or 1), value)
    said = ",\n".join(f"`heddle {name}` at commit `{command.commit}`" for name, command in used.items())
    return "\n".join(["|".join(row) for row in rows]) + f"\n\nBy {said}.\n"


def _columns(line: str) -> list[tuple[str, str]]:
    """Column and source of each field that a line of the comment names."""
    number, source = line.split(maxsplit=1)
    names, _, rest = source.partition(": ")
    fields, places = [word for word in rest.split() if "=" not in word], [word for word in rest.split() if "=" in word]
    if " / " in source or len(fields) < 2:
        return [(number, source)]
    return [(str(int(number) + index), f"{names}: {' '.join([field, *places])}") for index, field in enumerate(fields)]


def _with_number(cell: str, column: str, place: int, value: float) -> str:
    """A cell of a column with another value for one of its numbers, from 1."""
    numbers = list(_NUMBER.finditer(cell))
    if len(numbers) < place:
        wanted = "a number" if place == 1 else f"{place} numbers"
        raise UsageError(f"cells of column {column} must have {wanted}, not {cell!r}")
    old = numbers[place - 1]
    return cell[:old.start()] + printed_like(value, old[0]) + cell[old.end():]


def _values(text: str, commands: dict[str, Command], used: dict[str, Command]) -> list[float]:
    """The figures of commands and a field, in their order."""
    names, _, field = text.partition(": ")
    field, *places = field.split()
    where = dict(place.split("=") for place in places)
    for name in names.split(" + "):
        if name not in commands:
            raise UsageError(f"figures must be of a command that is stored for their page, not {name!r}")
        used[name] = commands[name]
    return [figure.expected for name in names.split(" + ") for figure in commands[name].figures
            if figure.expected is not None and figure.field == field
            and all(str(figure.where.get(key)) in values.split("|") for key, values in where.items())]


def main() -> None:
    """Write the tables of all pages."""
    commands = load_figures()
    for page in sorted({command.page for command in commands}):
        path = DOCS.parent / page
        path.write_text(with_figures(path.read_text(), page, commands))


if __name__ == "__main__":
    main()
