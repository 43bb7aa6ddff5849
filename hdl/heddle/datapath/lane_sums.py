"""Sums over neighbouring lanes: the levels of the reduction tree above the lanes' roots."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from .gates import any_of

__all__ = ["GROUP_LEVELS", "LaneSums"]

GROUP_LEVELS = 2        # pairs, then quads


class LaneSums(Component):
    """Adds the roots of pairs or of quads of neighbouring lanes [S0.6, S0.7].

    ``o[j]`` is the sum of lanes 2j and 2j + 1 (``pairs``), or of the four lanes from ``4 * (j // 2)`` on (``quads``),
    or zero; exact. Latency 2 cycles in both modes, one register a level; ``pairs`` and ``quads`` belong to the cycle
    between. Throughput one set of roots a cycle, nothing is held back, no register is reset. ``3 * threads / 4``
    adders.

    Parameters
    ----------
    threads : int
        Lanes, a multiple of 4.
    width : int
        Bits of a root.

    Members
    -------
    i : In(signed(width)).array(threads)
    pairs, quads : In(1)
        At most one of them.
    total : In(1)
        In the cycle of the result: ``first`` is the sum over all quads, of which only one may differ from zero.
    o : Out(signed(width + 2)).array(threads // 2)
    first : Out(signed(width + 2))
        For lane 0: like ``o[0]``, or the sum over all lanes.
    """

    def __init__(self, threads, width):
        if threads < 4 or threads % 4:
            raise ValueError(f"threads must be a multiple of 4, not {threads!r}")
        self.threads = threads
        self.width = width
        super().__init__({
            "i": In(signed(width)).array(threads),
            "pairs": In(1),
            "quads": In(1),
            "total": In(1),
            "first": Out(signed(width + GROUP_LEVELS)),
            "o": Out(signed(width + GROUP_LEVELS)).array(threads // 2),
        })

    def elaborate(self, platform):
        m = Module()

        def register(name, width, value):
            total = Signal(signed(width), name=name, reset_less=True)
            m.d.sync += total.eq(value)
            return total

        pairs = [register(f"pair_{j}", self.width + 1, self.i[2 * j] + self.i[2 * j + 1])
                 for j in range(self.threads // 2)]
        kept = [register(f"pair_kept_{j}", self.width + 1, pair) for j, pair in enumerate(pairs)]
        quads = [register(f"quad_{j}", self.width + 2, pairs[2 * j] + pairs[2 * j + 1])
                 for j in range(self.threads // 4)]
        with m.If(~self.pairs):
            m.d.sync += [total.eq(0) for total in kept]
        with m.If(~self.quads):
            m.d.sync += [total.eq(0) for total in quads]
        m.d.comb += [output.eq(kept[j] | quads[j // 2]) for j, output in enumerate(self.o)]
        others = any_of(quads[1:]) if len(quads) > 1 else 0
        m.d.comb += self.first.eq(kept[0] | quads[0] | Mux(self.total, others, 0))
        return m
