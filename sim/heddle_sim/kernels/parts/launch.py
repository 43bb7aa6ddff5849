"""What a kernel hands to the device."""

from dataclasses import dataclass, field

from ...isa.program import Program

__all__ = ["Launch"]


@dataclass(frozen=True)
class Launch:
    """A program with its arguments.

    Attributes
    ----------
    program : Program
        What runs.
    uniform : dict of int to int
        Uniform register number to 32-bit value, set before the doorbell.
    macs : int
        Multiply-accumulates of the problem, without padding.
    element_bytes : int
        Of an operand of these: the peak depends on it.
    counted : bool
        Whether the figures of the run are those of the problem.
    """

    program: Program
    uniform: dict[int, int] = field(default_factory=dict)
    macs: int = 0
    element_bytes: int = 1
    counted: bool = True
