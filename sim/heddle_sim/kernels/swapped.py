"""Streaming matrix product of few columns, as that of the transposes: C^T = B^T x A^T.

In columns B lies as A does: rows of k. So B can stay in the factor registers while the rows of A stream past it, for any number of them.
What is different is C: a thread holds sums of one column. It stores them one by one, those of a row of C side by side, and whole rows go
to global memory.
"""

from __future__ import annotations

from dataclasses import replace

from heddle.config import Config
from heddle.constants import BANK_BYTES

from .parts.cost import storing_cycles
from .parts.fitting import Unfit
from .parts.launch import Launch
from .parts.shares import Share
from .parts.stream_tiling import StreamTiling
from .parts.tiling import round_up
from .problem import Elements, MatmulProblem, Operands
from .streaming import StreamingKernel
from .tiled import TiledKernel

__all__ = ["SwappedKernel"]

_GAIN = 0.9             # a swap that is expected to gain less is not chosen


def _swapped(problem: MatmulProblem) -> MatmulProblem:
    """The product of the transposes."""
    elements = problem.elements
    return replace(problem, m=problem.n, n=problem.m, elements=Elements(elements.nbytes, elements.b_signed, elements.a_signed))


class SwappedKernel(StreamingKernel):
    """Streaming product of the transposes of a ``MatmulProblem`` in global memory; merges are those of rows of B^T and columns of A^T."""

    def __init__(self, cfg: Config, problem: MatmulProblem, tiling: StreamTiling) -> None:
        super().__init__(cfg, _swapped(problem), tiling)
        self.problem, self.c_pitch = problem, round_up(4 * problem.n, BANK_BYTES)

    @staticmethod
    def _tiling(cfg: Config, problem: MatmulProblem) -> StreamTiling | None:
        return StreamTiling.choose(cfg, problem.n, problem.m, problem.k_bytes, problem.merge(cfg), True)

    @classmethod
    def fits(cls, cfg: Config, problem: MatmulProblem) -> bool:
        """Products of one core that are expected to be faster than in tiles."""
        if cfg.cores > 1 or not super().fits(cfg, problem):
            return False
        try:
            return cls.estimate(cfg, problem) < _GAIN * TiledKernel.estimate(cfg, problem)
        except Unfit:
            return True

    @staticmethod
    def storing(cfg: Config, tiling: StreamTiling) -> int:
        """See ``StreamingKernel``: a store for each register."""
        return storing_cycles(cfg, tiling.merge, tiling.columns) * tiling.merge.vector

    def result_arguments(self, operands: Operands, share: Share, last: int) -> dict[str, int]:
        """See ``StreamingKernel``: the rows of C that the columns of a tile are."""
        blocks = self.c_pitch // BANK_BYTES
        return {
            "c_blocks": blocks, "c_rows": self.tiling.columns, "c_blocks_last": blocks, "c_rows_last": last,
            "c_bytes": self.tiling.columns * self.c_pitch, "c_bytes_last": last * self.c_pitch, "c_to": operands.c, "c_pitch": self.c_pitch,
        }

    def launches(self, operands: Operands = None) -> list[Launch]:
        """See ``StreamingKernel``; ``operands`` are those of the problem."""
        return super().launches(replace(operands, a=operands.b, b=operands.a))

    def write_result_offset(self) -> None:
        """See ``StreamingKernel``."""
        self.merge.write_result_offset(self.text, self.offset_c, self.thread_number, 4, self.scratch, self.tiling.c_pitch)

    def result_stores(self) -> list[tuple[str, int, int]]:
        """See ``StreamingKernel``: register by register."""
        return [("b32", (column + number) * self.tiling.c_pitch, register + number)
                for register, column in self.merge.stores(self.tiling.columns) for number in range(self.merge.vector)]

    @property
    def result_step(self) -> int:
        """See ``StreamingKernel``."""
        return self.tiling.columns * self.c_pitch
