"""The page of results: the stored figures of all pages, each with the command that prints it and the commit at which it was measured."""

from collections.abc import Iterable

from ..cli.figures import Command, load_figures
from .tables import table

__all__ = ["result_page"]

_SUBJECTS = {
    "bench gemm": "Matrix products", "bench merge": "Merges", "bench transpose": "Transposed B", "bench conv": "Convolutions",
    "bench pool": "Pooling and sums", "bench copy": "Copies", "bench gather": "Gathers", "bench rnn": "Recurrent networks",
    "bench spmm": "Sparse products", "bench models": "Networks from files", "synth": "FPGA",
}


def result_page() -> str:
    """Text of the page, a section for each kind of command."""
    commands: dict[str, list[Command]] = {}
    for command in load_figures():
        commands.setdefault(command.command, []).append(command)
    parts = ["# Results\n\nFigures of the presets as they are shipped, each by the command above its table. `heddle bench check` "
             "measures all of them again and compares. What the fields mean: [Benchmarks](benchmarks.md).\n"]
    for subject, group in _grouped(commands).items():
        single = [entries for entries in group if len(_rows(entries)) == 1]
        parts.append(f"## {subject}")
        parts += [_single(single)] * (len(single) > 1)
        parts += [_command(entries) for entries in group if len(single) < 2 or entries not in single]
    return "\n\n".join(parts) + "\n"


def _grouped(commands: dict[str, list[Command]]) -> dict[str, list[list[Command]]]:
    groups: dict[str, list[list[Command]]] = {}
    for text, entries in commands.items():
        subject = next((title for start, title in _SUBJECTS.items() if text.startswith(start)), "Others")
        groups.setdefault(subject, []).append(entries)
    order = [*_SUBJECTS.values(), "Others"]
    return dict(sorted(groups.items(), key=lambda item: order.index(item[0])))


def _rows(entries: list[Command]) -> dict[tuple[tuple[str, str], ...], dict[str, str]]:
    """Fields of each row of the commands: where they stand, and what is shown."""
    rows: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    for command in entries:
        for figure in command.figures:
            place = tuple((name, _text(value)) for name, value in figure.where.items())
            row = rows.setdefault(place, {})
            row[figure.field] = max(row.get(figure.field, ""), figure.shown or _text(figure.expected), key=len)
    return rows


def _commits(entries: list[Command]) -> str:
    return ", ".join(sorted({f"`{command.commit}`" for command in entries if command.commit})) or "none"


def _single(commands: list[list[Command]]) -> str:
    """One table of the commands with one row each."""
    rows = [(entries, next(iter(_rows(entries).values()))) for entries in commands]
    fields = _ordered(field for _, row in rows for field in row)
    body = [[f"`heddle {entries[0].command}`", *(row.get(field, "") for field in fields), _commits(entries)] for entries, row in rows]
    return table(["command", *fields, "commit"], body)


def _command(entries: list[Command]) -> str:
    """The table of one command."""
    rows = _rows(entries)
    names = _ordered(name for place in rows for name, _ in place)
    fields = _ordered(field for row in rows.values() for field in row)
    body = [[*(dict(place).get(name, "") for name in names), *(row.get(field, "") for field in fields)]
            for place, row in rows.items()]
    shown = table([*names, *fields], body)
    return f"```text\nheddle {entries[0].command}\n```\n\n{shown}\n\nMeasured at commit {_commits(entries)}."


def _ordered(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _text(value: object) -> str:
    if isinstance(value, list):
        return " or ".join(map(_text, value))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
