"""Text of a kernel, written piece by piece."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

__all__ = ["KernelText", "shortened"]

_BRANCH = re.compile(r"(?:@(!?)(up\d+) )?bra ([A-Za-z_]\w*)")


def shortened(lines: Sequence[str]) -> list[str]:
    """The same program with fewer branches taken: a branch to a branch goes to its target; one to the next line is left out; a branch
    around another one becomes that one with the opposite guard."""
    while (better := _shorter(lines)) != lines:
        lines = better
    return list(lines)


def _shorter(lines: Sequence[str]) -> list[str]:
    lines = [line.strip() for line in lines]
    behind = {}             # labels: the first line behind them
    for index, line in enumerate(lines):
        if line.endswith(":"):
            behind[line[:-1]] = next((other for other in lines[index:] if not other.endswith(":")), "")
    kept, index = [], 0
    while index < len(lines):
        line = lines[index]
        branch = _BRANCH.fullmatch(line)
        if branch:
            following = _labels(lines, index + 1)
            onward = _BRANCH.fullmatch(behind.get(branch[3], ""))
            around = _BRANCH.fullmatch(lines[index + 1]) if index + 1 < len(lines) else None
            if branch[3] in following:
                index += 1
                continue
            if onward and not onward[2] and onward[3] != branch[3]:
                line = line[:branch.start(3)] + onward[3]
            elif branch[2] and around and not around[2] and branch[3] in _labels(lines, index + 2):
                line = f"@{'' if branch[1] else '!'}{branch[2]} bra {around[3]}"
                index += 1
        kept.append(line)
        index += 1
    return [line if line.endswith(":") else f"    {line}" for line in kept]


def _labels(lines: Sequence[str], index: int) -> set[str]:
    """Labels from a line up to the next instruction."""
    found = set()
    for line in lines[index:]:
        if not line.endswith(":"):
            break
        found.add(line[:-1])
    return found


class KernelText:
    """Assembly text that grows: calling it adds lines, in which ``{name}`` stands for a uniform register.

    Parameters
    ----------
    names : list of str
        Names of ur0, ur1 …
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._registers = {name: f"ur{number}" for number, name in enumerate(names)}
        self._lines: list[str] = []
        self._labels = 0

    @classmethod
    def of(cls, lines: Iterable[str]) -> Self:
        """Text of some lines, without names."""
        text = cls(())
        text(*lines)
        return text

    def __call__(self, *lines: str) -> None:
        self._lines += [line.format_map(self._registers) for line in lines]

    def values(self, values: Mapping[str, int]) -> dict[int, int]:
        """Uniform register number to 32-bit value, from values by name."""
        return {int(self._registers[name][2:]): value & 0xFFFF_FFFF for name, value in values.items()}

    @property
    def instructions(self) -> int:
        """Instructions so far."""
        return sum(not line.endswith(":") for line in shortened(self._lines))

    def label(self, stem: str) -> str:
        """A label that is used nowhere else."""
        self._labels += 1
        return f"{stem}_{self._labels}"

    def select(self, predicates: Sequence[str], emit: Callable[..., object], chosen: tuple[bool, ...] = ()) -> None:
        """Run ``emit(*values)`` for the present values of uniform predicates, then go on behind it."""
        end = self.label("selected")
        self._select(predicates, emit, chosen, end)
        self(f"{end}:")

    def _select(self, predicates: Sequence[str], emit: Callable[..., object], chosen: tuple[bool, ...], end: str) -> None:
        if not predicates:
            emit(*chosen)
            self(f"    bra {end}")
            return
        true = self.label("case")
        self(f"    @{predicates[0]} bra {true}")
        self._select(predicates[1:], emit, (*chosen, False), end)
        self(f"{true}:")
        self._select(predicates[1:], emit, (*chosen, True), end)

    def __str__(self) -> str:
        return "\n".join(shortened(self._lines)) + "\n"
