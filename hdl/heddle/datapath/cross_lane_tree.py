"""Reduction tree across PEs: its levels above the roots of the PEs."""

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..errors import UsageError
from ..lib.adder_tree import AdderTree
from ..lib.onehot import any_of

__all__ = ["GROUP_LEVELS", "CrossLaneTree", "group_sum_bits"]

GROUP_LEVELS = 2        # pairs, then quads


def group_sum_bits(width):
    """Bits of the sum of four roots of ``width`` bits, at most the 32 of a product register."""
    return min(width + GROUP_LEVELS, 32)


class CrossLaneTree(Component):
    """Reduction tree across PEs: adds the roots of pairs or of quads of neighbouring PEs, modulo 2^32 [S0.6, S0.7].

    Area: ``3 * threads / 4`` adders, and one register for each of the two levels. With ``whole`` the sums over quads go through
    ``threads / 4 - 1`` further adders.

    Parameters
    ----------
    threads : int
        PEs: 2, which have no quads, or a multiple of 4.
    width : int
        Bits of a root, at most 32.
    scales : bool
        Whether there is ``scaled``.
    whole : bool
        Whether there is ``whole``; with a power of two of ``threads``, at least 4.

    *Ports*:
    i : In(signed(width)).array(threads)
        Roots of the PEs.
    pairs, quads : In(1)
        Sums over pairs, over quads; at most one of them. Without both all sums are zero.
    scaled : In(1)
        With ``scales``: sums count 2^8 times.
    total : In(1)
        With ``quads``: ``first`` is the sum over all quads, at most one of which is not zero.
    o : Out(signed(group_sum_bits(width))).array(threads // 2)
        ``o[j]``: sum of PEs 2j and 2j + 1, or of the four PEs from ``4 * (j // 2)`` on.
    first : Out(signed(group_sum_bits(width)))
        For PE 0: ``o[0]``, or the sum over all PEs.
    whole : Out(32)
        With the parameter ``whole``: sum over all PEs, without regard to the controls.

    *Latency*: two cycles from ``i`` to ``o`` and ``first``. The controls belong to the cycle between. 2 + log2(``threads`` / 4) cycles to
    ``whole``.

    *Throughput*: one set of roots a cycle, no back-pressure.

    *Reset*: none.

    *Errors*: UsageError when ``threads`` is neither 2 nor a multiple of 4.
    """

    def __init__(self, threads, width, scales=False, whole=False):
        if threads != 2 and (threads < 4 or threads % 4):
            raise UsageError(f"threads must be 2 or a multiple of 4, not {threads!r}")
        self.threads = threads
        self.width = width
        self.scales = scales
        self._adds_whole = whole
        super().__init__({
            **({"scaled": In(1)} if scales else {}),
            "i": In(signed(width)).array(threads),
            "pairs": In(1),
            "quads": In(1),
            "total": In(1),
            "first": Out(signed(group_sum_bits(width))),
            "o": Out(signed(group_sum_bits(width))).array(threads // 2),
            **({"whole": Out(32)} if whole else {}),
        })

    def elaborate(self, platform):
        m = Module()

        def registers(name, values, width, condition=None):
            """``values`` one cycle later, zero without the condition."""
            kept = [Signal(signed(width), name=f"{name}_{j}", reset_less=True) for j in range(len(values))]
            m.d.sync += [total.eq(value) for total, value in zip(kept, values, strict=True)]
            if condition is not None:
                with m.If(~condition):
                    m.d.sync += [total.eq(0) for total in kept]
            return kept

        pair_bits, quad_bits = min(self.width + 1, 32), group_sum_bits(self.width)
        pairs = registers("pair", [self.i[2 * j] + self.i[2 * j + 1] for j in range(self.threads // 2)], pair_bits)
        quads = [pairs[2 * j] + pairs[2 * j + 1] for j in range(self.threads // 4)]
        plain = ~self.scaled if self.scales else 1
        kept = registers("pair_kept", pairs, pair_bits, self.pairs & plain)
        totals = registers("quad", quads, quad_bits, self.quads & plain)
        # For PE 0 in further registers, because it may be far from the PEs of the other quads.
        others = [any_of(quads[1:])] if len(quads) > 1 else []
        rest = registers("rest", others, quad_bits, self.quads & self.total & plain)
        if self.scales:         # a register for each weight: all but one are zero
            for weighted, name, values, holds in ((kept, "pair", pairs, self.pairs), (totals, "quad", quads, self.quads),
                                                  (rest, "rest", others, self.quads & self.total)):
                scaled = registers(f"{name}_scaled", values, 24, holds & self.scaled)
                weighted[:] = [value | Cat(Const(0, 8), more).as_signed() for value, more in zip(weighted, scaled, strict=True)]
        sums = [value | totals[j // 2] if totals else value for j, value in enumerate(kept)]
        m.d.comb += [output.eq(value) for output, value in zip(self.o, sums, strict=True)]
        m.d.comb += self.first.eq(any_of([sums[0], *rest]))
        if self._adds_whole:
            m.submodules.adders = adders = AdderTree(quad_bits, exact_log2(self.threads // 4))
            m.d.comb += [*(total.eq(value) for total, value in zip(adders.i, registers("part", quads, quad_bits), strict=True)),
                         self.whole.eq(adders.root)]
        return m
