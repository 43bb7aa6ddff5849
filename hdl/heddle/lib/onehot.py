"""One-hot logic: AND-OR selection, OR trees, comparison with several numbers, and a check for at most one bit."""

from amaranth.hdl import Cat, Mux, Value

__all__ = ["any_of", "at_most_one", "is_one_of", "select_one_hot"]


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


def is_one_of(value, members):
    """Whether ``value`` is one of ``members`` of an enumeration; combinational, 1 bit.

    The numbers are sorted, so a Python set of members gives the same hardware in every process.
    """
    return Cat(Value.cast(value) == number for number in sorted(member.value for member in members)).any()
