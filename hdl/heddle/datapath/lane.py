"""One thread's arithmetic and registers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..config import PRODUCT_BANKS
from .factor_file import FactorFile
from .gates import select_one_hot
from .lane_sums import GROUP_LEVELS, group_sum_bits
from .lane_tree import LaneTree, product_bits
from .layouts import accumulate_layout, bank_access_layout, capture_layout, factor_access_layout
from .product_file import ProductFile

__all__ = ["Lane"]


class Lane(Component):
    """Multiplies a factor word with a broadcast word and accumulates into a product register, once a cycle.

    With D = log2(dot), the cycles of a step are: 0 ``factor_address``; 1 ``a_signed`` and ``active``; 2 the operands
    are multiplied; 3 to 2 + D the tree adds; 3 + D ``root`` and ``access.read_row``; 4 + D ``accumulate``, ``clear``
    and ``merged``; 5 + D ``group_sum`` and ``receive``, the sum is formed and ``access.matrix_write`` stores it.
    ``word`` is taken in cycle 1, or before while other lanes still wait for theirs: it is kept until the next ``take``.
    Accumulation wraps modulo 2^32. A lane that is not ``active`` multiplies by zero and thus keeps its products;
    ``clear`` replaces the register instead of adding.

    16-bit elements [S0.15] in two passes: A is the same in both, its even bytes without sign (``a_signed``); in the first
    ``odd_high`` in cycle 1 + D gives products of high bytes their weight, in the second, with the bytes of each element of B
    swapped, ``scaled`` in cycle 4 + D multiplies the sum by 2^8 (``group_sum`` comes with its weight). With ``wide_lanes``
    in one pass: ``wide`` in cycle 1 lets even multipliers take whole elements, and odd ones nothing.

    The lane's own dot product counts unless the step is ``merged`` [S0.6]; then ``group_sum``, made of the roots of
    several lanes, counts in the lane that may ``receive`` it. ``group_sum`` must be zero when the step is not merged.

    The lane also keeps, for the thread unit, four operand words and an address, and, for the fetch of B, an offset and
    the offset of the next operation (``capture``, ``offset_load``). ``returned`` must be zero in words that are not
    returned.

    Throughput one step and one access of port B a cycle; nothing is ever held back. Every control comes from outside,
    one for all lanes; only ``take``, ``active``, ``clear``, ``receive``, ``write_lane`` and ``return_lane`` differ from
    lane to lane. No register is reset.

    Parameters
    ----------
    cfg : Config
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "factor_address": In(cfg.factor_address_bits),
            "word": In(signed(cfg.element_bits)).array(cfg.dot),
            "take": In(1),
            "a_signed": In(2),
            **({"odd_high": In(1), "scaled": In(1)} if cfg.two_passes else {}),
            **({"wide": In(1)} if cfg.wide_lanes else {}),
            "active": In(1),
            "root": Out(signed(cfg.sum_bits)),
            "merged": In(1),
            "group_sum": In(signed(group_sum_bits(cfg.sum_bits))),
            "receive": In(1),
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
        m.submodules.tree = tree = LaneTree(self.cfg)
        self._multiply(m, factors, tree)
        m.d.comb += self.root.eq(tree.root)
        total = self._accumulate(m, products, self._dot_product(m))
        words = [Signal(32, name=f"operand_{index}", reset_less=True) for index in range(4)]
        self._write(m, factors, products, total, words)
        self._capture(m, factors, products, words)
        m.d.comb += self.operand.eq(Cat(words))
        return m

    def _multiply(self, m, factors, tree):
        m.d.comb += factors.address_a.eq(self.factor_address)
        for index in range(self.cfg.dot):
            byte = factors.data_a[index // 4].word_select(index % 4, 8)
            value, active = Cat(byte, self.a_signed[index % 2] & byte[7]).as_signed(), self.active
            if self.cfg.wide_lanes and index % 2:
                active = active & ~self.wide
            elif self.cfg.wide_lanes:
                high = factors.data_a[index // 4].word_select(index % 4 + 1, 8)
                sign = self.a_signed[0] & Mux(self.wide, high[7], byte[7])
                value = Cat(byte, Mux(self.wide, high, sign.replicate(8)), sign).as_signed()
            a = Signal(value.shape(), name=f"a_{index}", reset_less=True)
            b = Signal(value.shape(), name=f"b_{index}", reset_less=True)
            product = Signal(signed(product_bits(self.cfg)), name=f"product_{index}", reset_less=True)
            with m.If(active):
                m.d.sync += a.eq(value)
            with m.Else():
                m.d.sync += a.eq(0)
            with m.If(self.take):
                m.d.sync += b.eq(self.word[index])
            m.d.sync += product.eq(a * b)
            m.d.comb += tree.i[index].eq(product)
        if self.cfg.two_passes:
            m.d.comb += tree.odd_high.eq(self.odd_high)

    def _dot_product(self, m):
        """The lane's own sum, delayed like that of its group, or the group's; the other is zero, so that an OR selects."""
        own = self.root
        for level in range(1, GROUP_LEVELS + 1):
            before, own = own, Signal(signed(self.cfg.sum_bits), name=f"own_{level}", reset_less=True)
            m.d.sync += own.eq(before)
        with m.If(self.merged | self.scaled if self.cfg.two_passes else self.merged):
            m.d.sync += own.eq(0)
        if not self.cfg.two_passes:
            return own | Mux(self.receive, self.group_sum, 0)
        scaled = Signal(24, name="own_scaled", reset_less=True)
        m.d.sync += scaled.eq(before)
        with m.If(self.merged | ~self.scaled):
            m.d.sync += scaled.eq(0)
        return own | Cat(Const(0, 8), scaled) | Mux(self.receive, self.group_sum, 0)

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
        chunks = 4 // parts
        for part in range(parts):
            choices = [words[chunk * parts + part] for chunk in range(chunks)]
            chunk = self.factor_access.chunk[:exact_log2(chunks)]
            data = choices[0] if chunks == 1 else Cat(choices).word_select(chunk, 32)
            m.d.comb += [
                factors.write_data[part].eq(data),
                factors.write_b[part].eq(self.factor_access.write[part] & self.write_lane),
            ]
        m.d.comb += [factors.address_b.eq(self.factor_access.word), factors.read_b.eq(self.factor_access.read)]

    def _capture(self, m, factors, products, words):
        factor, single, word_data = (Signal(32, name=name) for name in ("factor", "single", "word_data"))
        address, offset, offset_next = (
            Signal(32, name=f"{name}_s", reset_less=True) for name in ("address", "offset", "offset_next"))
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
