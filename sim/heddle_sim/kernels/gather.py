"""Gather of a tile of A from shared memory: every thread reads 16 bytes of its own row, from a plain or a swizzled tile.

Rows of 128 bytes lie one behind the other. In the plain layout the pieces that threads want at a time lie in one bank. With the
128-byte swizzle of the copy, piece p of row r lies at p XOR (r mod 8). Eight neighbouring threads then meet eight banks. The segment
has the swizzle of the copy, so that the threads read as from the plain layout.
"""

from __future__ import annotations

from dataclasses import dataclass

from heddle.config import Config, ConfigError
from heddle.constants import BANK_BYTES, BANKS, ROW_BYTES
from heddle.interfaces.swizzle import swizzles
from heddle.isa.encoding import Swizzle

from ..isa.features import lacking
from .kernel import Kernel
from .parts.fitting import Unfit
from .parts.launch import Launch
from .parts.text import KernelText
from .problem import Operands, Problem

__all__ = ["SLICES", "GatherKernel", "GatherProblem"]

SLICES = BANKS                  # pieces of 16 bytes in a row, each gathered by one load
_FIRST = 16                     # register of the first piece


@dataclass(frozen=True)
class GatherProblem(Problem):
    """Copy ``threads`` rows of 128 bytes to shared memory, plain or ``swizzled``, gather them, and store them as they were."""

    swizzled: bool = False

    @property
    def name(self) -> str:
        return "gather"


class GatherKernel(Kernel):
    """Gather of a ``GatherProblem``: ``a`` of the operands is the source, ``c`` the result, ``threads`` rows of 128 bytes each."""

    @classmethod
    def fits(cls, cfg: Config, problem: GatherProblem) -> bool:
        """All gathers. Raises ``ConfigError`` where the swizzle is missing."""
        if problem.swizzled and Swizzle.B128 not in swizzles(cfg):
            raise ConfigError(f"configuration {cfg.name} must have copy_swizzles for a swizzled copy ({lacking(cfg, 'copy_swizzles')})")
        return True

    @classmethod
    def estimate(cls, cfg: Config, problem: GatherProblem) -> int:
        """See ``Kernel``; 0."""
        if cfg.threads * ROW_BYTES > cfg.shared_bytes:
            raise Unfit("shared_memory_kib")
        return 0

    def launches(self, operands: Operands = None) -> list[Launch]:
        """One ``Launch``."""
        return [Launch(self.programs[0], {0: operands.a, 1: operands.c})]

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        nbytes, swizzle = self.cfg.threads * ROW_BYTES, ".128B" if self.problem.swizzled else ""
        text = KernelText(())
        text(
            f"barrier.expect b0, {nbytes}", "umov ur2, 0",
            f"copy_block.shared.global{swizzle} ur2, ur0, {nbytes // BANK_BYTES}, b0",
            "mov r0, %tid", f"shl r1, r0, {ROW_BYTES.bit_length() - 1}",
            f"segment.shared.b8.d1{swizzle} ur2, 0", "segment.global.b8.d1 ur3, ur1", "barrier.wait b0",
        )
        for piece in range(SLICES):
            text(f"ld.v4 r{_FIRST + 4 * piece}, ur2:r1:{BANK_BYTES * piece}")
        text(*(f"st.v4 ur3:r1:{BANK_BYTES * piece}, r{_FIRST + 4 * piece}" for piece in range(SLICES)), "halt")
        return [text]
