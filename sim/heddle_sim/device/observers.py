"""Observers of runs: who wants to know what devices ran, such as a measurement of what tests cover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from heddle.config import Config
from heddle.isa.error_codes import ErrorCode

from ..isa.program import Program

if TYPE_CHECKING:
    from ..kernels.kernel import Kernel

__all__ = ["executed_kernels", "observe_runs", "report_kernel", "report_run"]

Observer = Callable[[Config, str, Program, ErrorCode | None], None]
_OBSERVERS: list[Observer] = []
_KERNELS: list[list[Kernel]] = []       # lists that are open


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


@contextmanager
def executed_kernels() -> Iterator[list[Kernel]]:
    """A list of the kernels that devices of this process execute within the context, in their order."""
    kernels: list[Kernel] = []
    _KERNELS.append(kernels)
    try:
        yield kernels
    finally:
        _KERNELS.pop()


def report_kernel(kernel: Kernel) -> None:
    """Tell those who asked for ``executed_kernels`` about a kernel."""
    for kernels in _KERNELS:
        kernels.append(kernel)
