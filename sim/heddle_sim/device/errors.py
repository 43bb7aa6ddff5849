"""Errors of a run, as a user sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heddle.errors import HeddleError, UsageError
from heddle.isa.error_codes import ErrorCode
from heddle.isa.error_messages import error_message

if TYPE_CHECKING:
    from .stats import Stats

__all__ = ["DeviceError", "OutOfMemory"]


class DeviceError(HeddleError, RuntimeError):
    """A run ended with an error; the device can be used again.

    Attributes
    ----------
    code : ErrorCode
        What went wrong.
    pc : int
        Number of the instruction.
    operand : int
        The offending value (address, register, opcode, barrier, cycles), 32 bits.
    dimension : int
        Of the tensor that the error is about, 0 the innermost; 0 where it has none.
    message : str
        The same in words.
    core : int or None
        The core that ran the instruction; None where the device has one core.
    source : str
        ``line N: text`` of the instruction, or "" when the program was not assembled from text.
    stats : Stats or None
        Counters of the run up to its end, where the hardware has them.
    """

    def __init__(self, code: ErrorCode | int, pc: int, operand: int, source: str = "", stats: Stats | None = None,
                 message: str | None = None, core: int | None = None, dimension: int = 0) -> None:
        self.code, self.pc, self.operand, self.source, self.stats = ErrorCode(code), pc, operand, source, stats
        self.core, self.dimension = core, dimension
        self.message = message or error_message(self.code, operand, dimension)
        where = f"instruction {pc}" + (f" ({source})" if source else "")
        where += "" if core is None else f" of core {core}"
        super().__init__(f"{self.code.name} at {where}: {self.message}")


class OutOfMemory(UsageError):
    """Global memory has no room for an allocation."""
