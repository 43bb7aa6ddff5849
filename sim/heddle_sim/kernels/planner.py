"""Planner: which family solves a problem, and with which schedule."""

from __future__ import annotations

from typing import cast

from heddle.config import Config

from .choices import Choice, choices, preferred
from .families import FAMILIES
from .kernel import Kernel
from .parts.fitting import Unfit, fitted
from .plan_cache import cached_plan
from .problem import Problem

__all__ = ["Choice", "candidates", "plan", "preferred"]


def plan(cfg: Config, problem: Problem) -> Kernel:
    """``Kernel`` for a problem, with its program: the choice that is expected to be the fastest of those that fit.

    ``kernel.problem`` is the problem with all choices made. Raises ``ConfigError``, naming the parameter that is too small, where nothing
    fits ``cfg``. Raises ``ValueError`` for what is illegal.
    """
    return cached_plan("kernel", cfg, problem, lambda: fitted(cfg, problem.name, lambda cfg: _fastest(cfg, problem), **problem.settings))


def _fastest(cfg: Config, problem: Problem) -> Kernel:
    """See ``plan``; raises ``Unfit``."""
    left, unfit = candidates(cfg, problem), Unfit("instruction_words")
    while left:
        choice = preferred(left)
        try:
            return choice.family.planned(cfg, choice.problem)
        except Unfit as error:      # without its frames, which would keep the arrays of all callers
            unfit = cast(Unfit, error.with_traceback(None))
            left.remove(choice)
    raise unfit


def candidates(cfg: Config, problem: Problem) -> list[Choice]:
    """``choices`` among all families for this kind of problem."""
    return choices(cfg, problem, FAMILIES[type(problem)])
