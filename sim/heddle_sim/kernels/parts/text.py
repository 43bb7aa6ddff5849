"""Text of a kernel, written piece by piece."""

from collections.abc import Callable, Iterable, Sequence
from typing import Self

__all__ = ["KernelText"]


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

    @property
    def instructions(self) -> int:
        """Instructions so far."""
        return sum(not line.endswith(":") for line in self._lines)

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
        return "\n".join(self._lines) + "\n"
