"""Reduction tree of one PE, with the weights of 16-bit elements."""

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..lib.adder_tree import AdderTree
from ..parameters.matrix import DatapathParameters

__all__ = ["PRODUCT_BITS", "ReductionTree", "element_product_bits", "product_bits"]

PRODUCT_BITS = 18       # signed product of 9 x 9 bits


def element_product_bits(cfg):
    """Bits of a product of a signed byte and an element of the engine for recurrent networks; the products of ``mm`` have fewer."""
    return 8 + cfg.engine_element_bits


def product_bits(cfg):
    """Bits of a product; with ``wide_lanes`` the products of even multipliers are modulo 2^32."""
    return 32 if cfg.wide_lanes else element_product_bits(cfg) if cfg.rnn else PRODUCT_BITS


class ReductionTree(Component):
    """Reduction tree of a PE: adds ``dot`` products, exact, with ``mm16`` modulo 2^32 [S0.15].

    With ``mm16`` even and odd products are added apart up to the last level; the number of adders, ``dot`` - 1, is the same. Where 16-bit
    elements take two passes, ``odd_high`` gives odd products the weight 2^16 in the pass that multiplies bytes of equal weight.

    Parameters
    ----------
    cfg : DatapathParameters

    *Ports*:
    i : In(signed(product_bits(cfg))).array(dot)
        Products.
    odd_high : In(1)
        With ``two_passes``: the sum of odd products counts 2^16 times.
    root : Out(signed(sum_bits))
        Their sum; registered.

    *Latency*: log2(``dot``) cycles. ``odd_high`` comes log2(``dot``) - 2 cycles after its products.

    *Throughput*: one set of products a cycle, no back-pressure.

    *Reset*: none.
    """

    def __init__(self, cfg):
        self.cfg = cfg = DatapathParameters.of(cfg)
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
        """Sum of the odd products with its weight. One of two registers is zero, so that an OR selects."""
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
