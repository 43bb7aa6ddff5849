"""Split matrix product: rows that fill no tile have a product of their own, with merges.

A tile has as many rows as there are threads. A product of 100 rows on 32 threads would take four blocks of rows, of which the last has
four rows: three quarters of the cycles for 96 % of the result, one quarter for the rest. With merges the lanes share these rows out, and
the last block takes a part of that time. Both products are runs of their own; their figures are added up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

from heddle.config import Config
from heddle.constants import BANK_BYTES

from ..isa.program import Program
from .choices import Choice, choices
from .kernel import Kernel
from .parts.fitting import Unfit
from .parts.launch import Launch
from .parts.text import KernelText
from .parts.tiling import round_up
from .problem import MatmulProblem, Operands, Schedule
from .streaming import StreamingKernel
from .tiled import TiledKernel

__all__ = ["SplitKernel"]

_GAIN = 0.96            # a split that is expected to gain less is not worth a second run
_SECOND_RUN = 100       # cycles from one run to the next, beyond the estimates


def _fastest(cfg: Config, part: MatmulProblem) -> Choice:
    """The choice with the fewest cycles for a part. Raises ``Unfit`` where there is none."""
    return min(choices(cfg, part, (StreamingKernel, TiledKernel)), key=lambda choice: choice.cycles)


class SplitKernel(Kernel):
    """Split product of a ``MatmulProblem`` from global memory: a product of the rows that fill blocks, and one of the rows behind them.

    ``problem`` has no merges, which holds for the first product; merges and family of the second are those of the least estimate.
    """

    def __init__(self, cfg: Config, problem: MatmulProblem) -> None:
        super().__init__(cfg, problem)
        first, rest = self._parts(cfg, problem)
        self.rows = first.m
        self.kernels = [choice.family.planned(cfg, choice.problem) for choice in (_fastest(cfg, first), _fastest(cfg, rest))]

    @staticmethod
    def _parts(cfg: Config, problem: MatmulProblem) -> tuple[MatmulProblem, MatmulProblem]:
        """The product of the blocks that are full, and that of the rows behind them."""
        rest = problem.m % cfg.threads
        return replace(problem, m=problem.m - rest), replace(problem, m=rest, schedule=Schedule(order=problem.schedule.order))

    @classmethod
    def fits(cls, cfg: Config, problem: MatmulProblem) -> bool:
        """Products of one core from global memory, B in columns, without merges, that are expected to be faster in two parts."""
        rest, merges = problem.m % cfg.threads, problem.schedule.merges
        if cfg.cores > 1 or problem.layout.resident or problem.layout.b_in_rows or not 0 < rest < problem.m or set(merges.values()) != {1}:
            return False
        try:
            return cls.estimate(cfg, problem) < _GAIN * TiledKernel.estimate(cfg, problem)
        except Unfit:
            return False

    @classmethod
    def estimate(cls, cfg: Config, problem: MatmulProblem) -> int:
        """Cycles of both parts."""
        return sum(_fastest(cfg, part).cycles for part in cls._parts(cfg, problem)) + _SECOND_RUN

    @classmethod
    def cuts(cls, cfg: Config, problem: MatmulProblem) -> Iterator[Kernel]:     # type: ignore[override]    # the whole product behind it
        """The split, then the whole product as ``TiledKernel`` cuts it."""
        with suppress(Unfit):   # a program is too long
            yield cls(cfg, problem)
        yield from TiledKernel.cuts(cfg, problem)

    @cached_property
    def programs(self) -> list[Program]:
        """Those of both kernels."""
        return [program for kernel in self.kernels for program in kernel.programs]

    def write(self) -> list[KernelText]:
        """None: ``programs`` are those that the parts have written."""
        return []

    def launches(self, operands: Operands = None) -> list[Launch]:
        """Those of both products, the second with its rows of A and C."""
        pitch = round_up(self.problem.k_bytes, BANK_BYTES)
        rest = replace(operands, a=operands.a + self.rows * pitch, c=operands.c + self.rows * round_up(4 * self.problem.n, BANK_BYTES))
        return [launch for kernel, places in zip(self.kernels, (operands, rest)) for launch in kernel.launches(places)]
