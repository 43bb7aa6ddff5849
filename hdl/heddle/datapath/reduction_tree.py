"""The adder tree of one lane: products of bytes, with the weights that 16-bit elements need."""

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..lib.adder_tree import AdderTree

__all__ = ["PRODUCT_BITS", "ReductionTree", "element_product_bits", "product_bits"]

PRODUCT_BITS = 18       # of 9 x 9 bit, signed


def element_product_bits(cfg):
    """Bits of a product of a signed byte and an element of the engine for recurrent networks; the other factors give less."""
    return 8 + cfg.engine_element_bits


def product_bits(cfg):
    """Bits of a product; with ``wide_lanes`` those of even ones are modulo 2^32."""
    return 32 if cfg.wide_lanes else element_product_bits(cfg) if cfg.rnn else PRODUCT_BITS


class ReductionTree(Component):
    """Adds the ``dot`` products of a lane: exact, with ``mm16`` modulo 2^32.

    With ``mm16`` even and odd products are added apart up to the last addition; the number of adders is the same. Where
    16-bit elements take two passes, odd products count 2^16 times with ``odd_high``: those of the high bytes, in the pass
    that multiplies low with low and high with high bytes.

    Latency log2(dot) cycles, throughput one set of products a cycle; ``odd_high`` goes with the cycle log2(dot) - 2 after
    the products. Nothing is held back, no register is reset.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(signed(product_bits(cfg))).array(dot)
    odd_high : In(1)
        With ``two_passes`` only.
    root : Out(signed(sum_bits))
    """

    def __init__(self, cfg):
        self.cfg = cfg
        members = {"i": In(signed(product_bits(cfg))).array(cfg.dot), "root": Out(signed(cfg.sum_bits))}
        if cfg.two_passes:
            members["odd_high"] = In(1)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        depth = exact_log2(self.cfg.dot)
        products = list(self.i)
        if not self.cfg.mm16:
            m.d.comb += self.root.eq(self._tree(m, "tree", PRODUCT_BITS, depth, products))
            return m
        even = self._tree(m, "even", product_bits(self.cfg), depth - 1, products[::2])
        odd = self._odd(m, depth, products[1::2])
        root = Signal(signed(self.cfg.sum_bits), name="total", reset_less=True)
        m.d.sync += root.eq(even + odd)
        m.d.comb += self.root.eq(root)
        return m

    def _tree(self, m, name, width, depth, values):
        m.submodules[name] = tree = AdderTree(width, depth)
        m.d.comb += [element.eq(value) for element, value in zip(tree.i, values, strict=True)]
        return tree.root

    def _odd(self, m, depth, values):
        """The sum of the odd products with its weight. One of two registers is held at zero, so that an OR selects."""
        if self.cfg.wide_lanes:
            return self._tree(m, "odd", PRODUCT_BITS, depth - 1, values)
        total = (self._tree(m, "odd_first", PRODUCT_BITS, depth - 2, values[::2])
                 + self._tree(m, "odd_second", PRODUCT_BITS, depth - 2, values[1::2]))
        low = Signal(total.shape(), name="odd_low", reset_less=True)
        high = Signal(16, name="odd_high_s", reset_less=True)
        m.d.sync += [low.eq(total), high.eq(total)]
        with m.If(self.odd_high):
            m.d.sync += low.eq(0)
        with m.Else():
            m.d.sync += high.eq(0)
        return low | Cat(Const(0, 16), high).as_signed()
