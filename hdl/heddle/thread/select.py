"""Selecting one of many values."""

from amaranth import *

__all__ = ["select"]


def select(values, index):
    """The value with number ``index`` (bits beyond the last value are ignored); a tree of two-to-one multiplexers."""
    if len(values) == 1:
        return values[0]
    assert len(values) & (len(values) - 1) == 0, f"the number of values must be a power of two, not {len(values)}"
    level = list(values)
    bit = 0
    while len(level) > 1:
        level = [Mux(index[bit], high, low) for low, high in zip(level[::2], level[1::2])]
        bit += 1
    return level[0]
