"""Observers of runs: who wants to know what devices ran, such as a measurement of what tests cover."""

from __future__ import annotations

from collections.abc import Callable

from heddle.config import Config
from heddle.isa.error_codes import ErrorCode

from ..isa.program import Program

__all__ = ["observe_runs", "report_run"]

Observer = Callable[[Config, str, Program, ErrorCode | None], None]
_OBSERVERS: list[Observer] = []


def observe_runs(observer: Observer) -> None:
    """Call ``observer(cfg, simulator, program, code)`` after every run of a device of this process; ``code`` is None without an error.

    An observer that is there already is not added again.
    """
    if observer not in _OBSERVERS:
        _OBSERVERS.append(observer)


def report_run(cfg: Config, simulator: str, program: Program, code: ErrorCode | None) -> None:
    """Tell the observers about a run."""
    for observer in _OBSERVERS:
        observer(cfg, simulator, program, code)
