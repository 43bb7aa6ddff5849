"""One-hot logic: AND-OR selection, OR trees and a check for at most one bit."""

from amaranth.hdl import Mux

__all__ = ["any_of", "at_most_one", "select_one_hot"]


def any_of(values):
    """Bitwise OR of equally wide values, as a balanced tree."""
    values = list(values)
    while len(values) > 1:
        values = [values[i] | values[i + 1] if i + 1 < len(values) else values[i] for i in range(0, len(values), 2)]
    return values[0]


def select_one_hot(controls, values):
    """One-hot multiplexer: the value whose control bit is set, or zero.

    AND-OR logic takes half the LUTs of a tree of multiplexers.
    """
    return any_of(Mux(control, value, 0) for control, value in zip(controls, values, strict=True))


def at_most_one(value):
    """Whether an unsigned value has at most one bit set."""
    return (value & (value - 1)) == 0
