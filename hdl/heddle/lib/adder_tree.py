"""Adder tree: balanced, one register a level."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from ..errors import UsageError

__all__ = ["AdderTree"]


class AdderTree(Component):
    """Balanced adder tree: the exact sum of ``2**depth`` signed integers [S3.4].

    Level l (1 to ``depth``) adds neighbours in pairs, into ``2**(depth - l)`` registers of ``width + l`` bits. There are
    ``2**depth - 1`` adders.

    *Latency*: ``depth`` cycles, 0 with one input. *Throughput*: one set of inputs a cycle. *Back-pressure*: none; whoever
    feeds the tree keeps track of what is valid. *Reset*: none, and no enable.

    Parameters
    ----------
    width : int
        Bits of a signed input, at least 1.
    depth : int
        Levels, at least 0.

    *Ports*:
    i : In(signed(width)).array(2**depth)
        The addends.
    root : Out(signed(width + depth))
        Their sum.

    Raises
    ------
    ValueError
        When ``width`` is less than 1 or ``depth`` is negative.
    """

    def __init__(self, width, depth):
        if width < 1:
            raise UsageError(f"width must be at least 1, not {width!r}")
        if depth < 0:
            raise UsageError(f"depth must not be negative, not {depth!r}")
        self.width = width
        self.depth = depth
        super().__init__({"i": In(signed(width)).array(1 << depth), "root": Out(signed(width + depth))})

    def elaborate(self, platform):
        m = Module()
        values = list(self.i)
        for level in range(1, self.depth + 1):
            sums = [Signal(signed(self.width + level), name=f"sum_{level}_{index}", reset_less=True) for index in range(len(values) // 2)]
            m.d.sync += [total.eq(values[2 * index] + values[2 * index + 1]) for index, total in enumerate(sums)]
            values = sums
        m.d.comb += self.root.eq(values[0])
        return m
