"""Choices among kernel families and variants of a problem, by their estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from heddle.config import Config

from .kernel import Kernel
from .parts.fitting import Unfit
from .problem import Problem

__all__ = ["Choice", "choices", "preferred"]


@dataclass(frozen=True)
class Choice:
    """A variant of a problem, the family that takes it, and the cycles that this expects."""

    problem: Problem
    family: type[Kernel]
    cycles: int


def choices(cfg: Config, problem: Problem, families: Sequence[type[Kernel]]) -> list[Choice]:
    """``Choice``s for the variants of a problem that are legal and that shared memory has room for, in the order of ``variants``. The first
    of ``families`` that fits a variant takes it.

    Raises ``Unfit`` where there is no room for any, ``ValueError`` where none is legal.
    """
    found: list[Choice] = []
    illegal: Exception | None = None
    unfit: Unfit | None = None
    for variant in problem.variants():
        try:
            family = next(family for family in families if family.fits(cfg, variant))
            found.append(Choice(variant, family, family.estimate(cfg, variant)))
        except ValueError as error:     # without its frames, which would keep the arrays of all callers
            illegal = error.with_traceback(None)
        except Unfit as error:
            unfit = error.with_traceback(None)
    if not found:
        raise cast(Exception, unfit or illegal)
    return found


def preferred(choices: list[Choice]) -> Choice:
    """The choice with the fewest cycles; an earlier one where the gain is small."""
    best = choices[0]
    for choice in choices:
        if choice.cycles < choice.family.gain * best.cycles:
            best = choice
    return best
