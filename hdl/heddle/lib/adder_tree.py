"""A balanced adder tree, registered at every level, with every partial sum at hand."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from ..errors import UsageError

__all__ = ["AdderTree"]


class AdderTree(Component):
    """Adds ``2**depth`` signed numbers; one addition and one register per level [S3.4].

    Level l (1 to ``depth``) has ``2**(depth - l)`` sums of ``2**l`` neighbouring inputs each, exact, in ``width + l``
    bits. They are all outputs: a user that wants two or four partial results taps level ``depth - 1`` or ``depth - 2``.

    Latency l cycles at level l, throughput one set of inputs a cycle, no back-pressure. The registers have no reset and
    no enable: whoever feeds the tree keeps track of what is valid. ``2**depth - 1`` adders, unused taps cost nothing.

    Parameters
    ----------
    width : int
        Bits of a signed input.
    depth : int
        Levels, at least 0.

    Members
    -------
    i : In(signed(width)).array(2**depth)
    taps_1 … taps_<depth> : Out(signed(width + l)).array(2**(depth - l))
        The sums of level l; read them with ``taps(l)``.

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
        members = {"i": In(signed(width)).array(1 << depth)}
        for level in range(1, depth + 1):
            members[f"taps_{level}"] = Out(signed(width + level)).array(1 << (depth - level))
        super().__init__(members)

    def taps(self, level):
        """The sums of a level: a list of ``2**(depth - level)`` values; level 0 are the inputs."""
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
