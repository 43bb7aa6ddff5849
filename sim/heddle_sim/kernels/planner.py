"""Planner: which family solves a problem, and with which schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from heddle.config import Config

from .families import FAMILIES
from .kernel import Kernel
from .parts.fitting import Unfit, fitted
from .problem import Problem

__all__ = ["Choice", "candidates", "plan", "preferred"]


@dataclass(frozen=True)
class Choice:
    """A variant of a problem, the family that takes it, and the cycles that this expects."""

    problem: Problem
    family: type[Kernel]
    cycles: int


def plan(cfg: Config, problem: Problem) -> Kernel:
    """``Kernel`` for a problem, with its program: the choice that is expected to be the fastest of those that fit.

    ``kernel.problem`` is the problem with all choices made. Raises ``ConfigError``, naming the parameter that is too small, where nothing
    fits ``cfg``. Raises ``ValueError`` for what is illegal.
    """
    return fitted(cfg, problem.name, lambda cfg: _fastest(cfg, problem), **problem.settings)


def _fastest(cfg: Config, problem: Problem) -> Kernel:
    """See ``plan``; raises ``Unfit``."""
    choices = candidates(cfg, problem)
    while choices:
        choice = preferred(choices)
        try:
            return choice.family.planned(cfg, choice.problem)
        except Unfit:       # shared memory has room: the program is too long
            choices.remove(choice)
    raise Unfit("instruction_words")


def candidates(cfg: Config, problem: Problem) -> list[Choice]:
    """``Choice``s for the variants of a problem that are legal and that shared memory has room for, in the order of ``variants``.

    Raises ``Unfit`` where there is no room for any, ``ValueError`` where none is legal.
    """
    choices: list[Choice] = []
    illegal: Exception | None = None
    unfit: Unfit | None = None
    for variant in problem.variants():
        try:
            family = next(family for family in FAMILIES[type(problem)] if family.fits(cfg, variant))
            choices.append(Choice(variant, family, family.estimate(cfg, variant)))
        except ValueError as error:
            illegal = error
        except Unfit as error:
            unfit = error
    if not choices:
        raise cast(Exception, unfit or illegal)
    return choices


def preferred(choices: list[Choice]) -> Choice:
    """The choice with the fewest cycles; an earlier one where the gain is small."""
    best = choices[0]
    for choice in choices:
        if choice.cycles < choice.family.gain * best.cycles:
            best = choice
    return best
