"""Adder tree: pipelined, one register a level, with every partial sum as an output."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from ..errors import UsageError

__all__ = ["AdderTree"]


class AdderTree(Component):
    """Adder tree: adds ``2**depth`` signed numbers; one addition and one register a level [S3.4].

    Level l (1 to ``depth``) has ``2**(depth - l)`` sums of ``2**l`` neighbouring inputs each, exact in ``width + l`` bits. All levels
    are outputs: two or four partial sums are the taps of level ``depth - 1`` or ``depth - 2``.

    Parameters
    ----------
    width : int
        Bits of a signed input, at least 1.
    depth : int
        Levels, at least 0.

    Members
    -------
    i : In(signed(width)).array(2**depth)
        Numbers.
    taps_1 … taps_<depth> : Out(signed(width + l)).array(2**(depth - l))
        Sums of level l; ``taps(l)`` returns them.

    Raises
    ------
    ValueError
        When ``width`` is less than 1 or ``depth`` is negative.

    *Latency*: l cycles from ``i`` to the sums of level l.

    *Throughput*: one set of inputs a cycle.

    *Back-pressure*: none. The registers have no enable; the user of the tree tracks valid sums.

    *Reset*: the registers have no reset.

    *Area*: ``2**depth - 1`` adders; unused taps cost nothing.
    """

    def __init__(self, width, depth):
        if width < 1:
            raise UsageError(f"width must be at least 1, not {width!r}")
        if depth < 0:
            raise UsageError(f"depth must not be negative, not {depth!r}")
        self.width = width
        self.depth = depth
        members = {"i": In(signed(width)).array(1 << depth)}
        for level in range(1, depth + 1):
            members[f"taps_{level}"] = Out(signed(width + level)).array(1 << (depth - level))
        super().__init__(members)

    def taps(self, level):
        """Sums of a level: a list of ``2**(depth - level)`` values. Level 0 is the inputs."""
        return list(self.i if level == 0 else getattr(self, f"taps_{level}"))

    @property
    def root(self):
        """The sum of all inputs, ``depth`` cycles later."""
        return self.taps(self.depth)[0]

    def elaborate(self, platform):
        m = Module()
        values = self.taps(0)
        for level in range(1, self.depth + 1):
            sums = []
            for index, tap in enumerate(self.taps(level)):
                total = Signal(signed(self.width + level), name=f"sum_{level}_{index}", reset_less=True)
                m.d.sync += total.eq(values[2 * index] + values[2 * index + 1])
                m.d.comb += tap.eq(total)
                sums.append(total)
            values = sums
        return m
