"""Result of a run of the functional simulator."""

from dataclasses import dataclass, field

from heddle.isa.error_codes import ErrorCode
from heddle.isa.error_messages import error_message

from ..isa.program import Program

__all__ = ["ProgramStop", "RunResult"]


class ProgramStop(Exception):
    """An error that ends the program."""

    def __init__(self, code: ErrorCode, operand: int, dimension: int = 0, pc: int | None = None) -> None:
        super().__init__(code, operand)
        self.code, self.operand, self.dimension, self.pc = code, operand & 0xFFFFFFFF, dimension, pc


@dataclass(frozen=True)
class RunResult:
    """Result of a run.

    Attributes
    ----------
    error : ErrorCode
        ``NONE``, the error that stopped the program, or ``PRODUCT_RANGE`` of a program that ended with ``halt``.
    pc, operand, dimension : int
        Program counter, operand and dimension of the error.
    instructions : int
        Executed instructions, those with a false guard included.
    counts : dict of str to int
        Instructions by opcode name, ``matrix_steps`` (of the PEs) and ``copied_bytes``.
    program : Program
        The program; provides source lines for messages.
    """

    error: ErrorCode
    pc: int
    operand: int
    instructions: int
    counts: dict[str, int] = field(repr=False)
    program: Program | None = field(repr=False, default=None)
    dimension: int = 0

    @property
    def ok(self) -> bool:
        """Whether the program ended by ``halt`` without any error."""
        return self.error is ErrorCode.NONE

    def message(self) -> str:
        """One line with the error and its place in the program."""
        text = error_message(self.error, self.operand, self.dimension)
        if self.ok:
            return text
        source = self.program.source_line(self.pc) if self.program else ""
        return f"instruction {self.pc}{f' ({source})' if source else ''}: {text}"
