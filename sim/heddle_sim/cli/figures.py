"""Figures that the pages give, as stored rows: which command prints a figure, which row of it, and what is expected."""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heddle.errors import UsageError

__all__ = ["FIGURES", "Command", "Figure", "load_figures", "printed_like", "printed_value", "store_figures"]

FIGURES = Path(__file__).with_name("figures.json")


@dataclass
class Figure:
    """``field`` of the rows of a command whose fields are those of ``where`` (a list: any of them); what the page prints is ``shown``.

    ``expected`` is None where it was never measured.
    """

    where: dict[str, Any]
    field: str
    expected: float | None
    shown: str | None = None
    tolerance: float = 0.0

    def rows(self, rows: list[dict[str, int | str]]) -> list[dict[str, Any]]:
        """Those of ``rows`` that the figure is about."""
        return [row for row in rows if all(row.get(name) in value if isinstance(value, list) else row.get(name) == value
                                           for name, value in self.where.items())]

    def agrees(self, value: object) -> bool:
        """Whether a measured value is the expected one, within ``tolerance`` of it."""
        if self.expected is None or not isinstance(value, int | float):
            return False
        return abs(value - self.expected) <= self.tolerance * abs(self.expected) + 1e-9

    def agrees_with_page(self) -> bool:
        """Whether the page prints the expected value, rounded."""
        value, step = printed_value(self.shown or "")
        return self.expected is not None and abs(value - self.expected) <= step / 2 * (1 + 1e-6)


@dataclass
class Command:
    """A command of ``heddle`` without ``--json``, the page that its figures stand on, and the commit at which they were measured."""

    page: str
    command: str
    commit: str | None
    seconds: float | None
    figures: list[Figure] = field(default_factory=list)
    measured_seconds = 0.0      # of the last measurement

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command)

    @property
    def synthesis(self) -> bool:
        """It synthesises or routes, which takes long."""
        return self.words[0] == "synth"


def printed_value(text: str) -> tuple[float, float]:
    """Value of a printed number (``1,774``, ``98.4 %``) and the step of its last digit."""
    match = re.fullmatch(r"([\d,]+)(\.\d+)?( %)?", text)
    if not match:
        raise UsageError(f"shown must be a number as the page prints it, not {text!r}")
    scale = 0.01 if match[3] else 1
    return float((match[1] + (match[2] or "")).replace(",", "")) * scale, scale * 10.0 ** -(len(match[2] or ".") - 1)


def printed_like(value: float, text: str) -> str:
    """A value, printed with as many digits as a number that a page prints."""
    match = re.fullmatch(r"[\d,]+(?:\.(\d+))?( %)?", text)
    if not match:
        raise UsageError(f"a number must be as a page prints it, not {text!r}")
    return f"{100 * value if match[2] else value:,.{len(match[1] or '')}f}{match[2] or ''}"


def load_figures(path: str | Path = FIGURES) -> list[Command]:
    """The commands of a file of figures.

    Raises ``ValueError`` when the file is not of that form.
    """
    try:
        entries = json.loads(Path(path).read_text())
        return [Command(**entry | {"figures": [Figure(**figure) for figure in entry["figures"]]}) for entry in entries]
    except (UnicodeDecodeError, json.JSONDecodeError, TypeError, KeyError) as error:
        raise UsageError(f"figures must be a list of commands with their figures in JSON ({path}): {error}") from None


def store_figures(commands: Sequence[Command], path: str | Path = FIGURES) -> None:
    """Write commands as ``load_figures`` reads them, a line for each figure."""
    lines = []
    for command in commands:
        head = {name: getattr(command, name) for name in ("page", "command", "commit", "seconds")}
        figures = ",\n".join("   " + json.dumps(vars(figure)) for figure in command.figures)
        lines.append(" " + json.dumps(head)[:-1] + ', "figures": [\n' + figures + "]}")
    Path(path).write_text("[\n" + ",\n".join(lines) + "\n]\n")
