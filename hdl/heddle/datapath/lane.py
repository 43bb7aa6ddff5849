"""One thread's arithmetic and registers."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..config import PRODUCT_BANKS
from .factor_file import FactorFile
from .gates import select_one_hot
from .layouts import accumulate_layout, bank_access_layout, capture_layout, factor_access_layout
from .product_file import ProductFile
from .reduction_tree import ReductionTree

__all__ = ["PRODUCT_BITS", "Lane"]

PRODUCT_BITS = 18       # of 9 x 9 bit, signed


class Lane(Component):
    """Multiplies a factor word with a broadcast word and accumulates into a product register, once a cycle.

    With D = log2(dot), the cycles of a step are: 0 ``factor_address``; 1 ``word``, ``a_signed`` and ``active``; 2 the
    operands are multiplied; 3 to 2 + D the tree adds; 1 + D ``access.read_row``; 2 + D ``accumulate`` and ``clear``; 3
    + D the sum is formed and ``access.matrix_write`` stores it. Accumulation wraps modulo 2^32. A lane that is not
    ``active`` multiplies by zero and thus keeps its products; ``clear`` replaces the register by the dot product
    instead of adding.

    The lane also keeps, for the thread unit, four operand words and an address, and, for the fetch of B, an offset and
    the offset of the next operation (``capture``, ``offset_load``). ``returned`` must be zero in words that are not
    returned.

    Throughput one step and one access of port B a cycle; nothing is ever held back. Every control comes from outside,
    one for all lanes; only ``active``, ``clear``, ``write_lane`` and ``return_lane`` differ from lane to lane. No
    register is reset.

    Parameters
    ----------
    cfg : Config
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "factor_address": In(cfg.factor_address_bits),
            "word": In(signed(9)).array(cfg.dot),
            "a_signed": In(1),
            "active": In(1),
            "accumulate": In(accumulate_layout),
            "clear": In(1),
            "access": In(bank_access_layout),
            "factor_access": In(factor_access_layout(cfg)),
            "write_lane": In(1),
            "capture": In(capture_layout(cfg)),
            "offset_load": In(1),
            "returned": In(128),
            "return_words": In(4),
            "return_lane": In(1),
            "operand": Out(128),
            "address": Out(32),
            "offset": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.factors = factors = FactorFile(self.cfg)
        m.submodules.products = products = ProductFile()
        m.submodules.tree = tree = ReductionTree(PRODUCT_BITS, exact_log2(self.cfg.dot))
        self._multiply(m, factors, tree)
        total = self._accumulate(m, products, tree.root)
        words = [Signal(32, name=f"operand_{index}", reset_less=True) for index in range(4)]
        self._write(m, factors, products, total, words)
        self._capture(m, factors, products, words)
        m.d.comb += self.operand.eq(Cat(words))
        return m

    def _multiply(self, m, factors, tree):
        m.d.comb += factors.address_a.eq(self.factor_address)
        for index in range(self.cfg.dot):
            byte = factors.data_a[index // 4].word_select(index % 4, 8)
            a = Signal(signed(9), name=f"a_{index}", reset_less=True)
            b = Signal(signed(9), name=f"b_{index}", reset_less=True)
            product = Signal(signed(PRODUCT_BITS), name=f"product_{index}", reset_less=True)
            with m.If(self.active):
                m.d.sync += a.eq(Cat(byte, self.a_signed & byte[7]).as_signed())
            with m.Else():
                m.d.sync += a.eq(0)
            m.d.sync += [b.eq(self.word[index]), product.eq(a * b)]
            m.d.comb += tree.i[index].eq(product)

    def _accumulate(self, m, products, dot_product):
        """The new value of the product register. All but one of its sources are held at zero, so that an OR selects."""
        low, high, forward_one, forward_two, last = (
            Signal(32, name=name, reset_less=True) for name in ("low", "high", "forward_one", "forward_two", "last"))
        total = Signal(32)
        banks = self.accumulate.banks
        m.d.comb += total.eq((low | high | forward_one | forward_two) + dot_product)
        m.d.sync += [
            last.eq(total),
            low.eq(select_one_hot(banks[:2], list(products.data)[:2])),
            high.eq(select_one_hot(banks[2:], list(products.data)[2:])),
            forward_one.eq(total),
            forward_two.eq(last),
        ]
        with m.If(self.clear):
            m.d.sync += [low.eq(0), high.eq(0)]
        with m.If(self.clear | ~self.accumulate.forward_one):
            m.d.sync += forward_one.eq(0)
        with m.If(self.clear | ~self.accumulate.forward_two):
            m.d.sync += forward_two.eq(0)
        return total

    def _write(self, m, factors, products, total, words):
        parts = self.cfg.numbers_per_word
        for bank in range(PRODUCT_BANKS):
            matrix = self.access.matrix_write[bank]
            m.d.comb += [
                products.read_row[bank].eq(self.access.read_row[bank]),
                products.write_row[bank].eq(self.access.write_row[bank]),
                products.write_data[bank].eq(Mux(matrix, total, words[bank])),
                products.write_enable[bank].eq(matrix | (self.access.thread_write[bank] & self.write_lane)),
            ]
        chunk = self.factor_access.chunk[:exact_log2(4 // parts)]
        for part in range(parts):
            m.d.comb += [
                factors.write_data[part].eq(Cat(words[part::parts]).word_select(chunk, 32)),
                factors.write_b[part].eq(self.factor_access.write[part] & self.write_lane),
            ]
        m.d.comb += [factors.address_b.eq(self.factor_access.word), factors.read_b.eq(self.factor_access.read)]

    def _capture(self, m, factors, products, words):
        factor, single, word_data = (Signal(32, name=name) for name in ("factor", "single", "word_data"))
        address, offset, offset_next = (
            Signal(32, name=f"{name}_kept", reset_less=True) for name in ("address", "offset", "offset_next"))
        m.d.comb += [
            factor.eq(select_one_hot(self.capture.parts, factors.data_b)),
            single.eq(select_one_hot(self.capture.banks, products.data) | factor),
            # An address or an offset may be captured in the cycle in which a result returns.
            word_data.eq(Mux(self.capture.words.any(), single, 0)),
            self.address.eq(address),
            self.offset.eq(offset),
        ]
        for index, word in enumerate(words):
            quad = Mux(self.capture.quad[index], products.data[index], 0)
            returns = self.return_words[index] & self.return_lane
            with m.If(self.capture.words[index] | self.capture.quad[index] | returns):
                m.d.sync += word.eq(word_data | quad | self.returned.word_select(index, 32))
        with m.If(self.capture.address):
            m.d.sync += address.eq(single)
        with m.If(self.capture.offset):
            m.d.sync += offset_next.eq(factor)
        with m.If(self.offset_load):
            m.d.sync += offset.eq(offset_next)
