"""One thread's arithmetic and registers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from ..lib.onehot import select_one_hot
from .cat_tree import CatTree
from .cross_lane_tree import GROUP_LEVELS, group_sum_bits
from .factor_register_file import FactorRegisterFile
from .layouts import accumulate_layout, capture_layout, factor_access_layout, product_access_layout, tap_layout, tap_read_bits
from .product_register_file import ProductRegisterFile
from .reduction_tree import ReductionTree, product_bits

__all__ = ["PE"]


class PE(Component):
    """Multiplies a factor word with a broadcast word and accumulates into a product register, once a cycle.

    With D = log2(dot), the cycles of a step are: 0 ``factor_address``; 1 ``a_signed`` and ``active``; 2 the operands
    are multiplied; 3 to 2 + D the tree adds; 3 + D ``root`` and ``access.matrix_register``; 4 + D ``accumulate``, ``clear``
    and ``own``; 5 + D ``group_sum`` and ``receive``, the sum is formed and ``access.matrix_write`` stores it.
    ``word`` is taken in cycle 1, or before while other lanes still wait for theirs: it is kept until the next ``take``.
    Accumulation wraps modulo 2^32. A lane that is not ``active`` multiplies by zero and thus keeps its products;
    ``clear`` replaces the register instead of adding.

    16-bit elements [S0.15] in two passes: A is the same in both, its even bytes without sign (``a_signed``); in the first
    ``odd_high`` in cycle 1 + D gives products of high bytes their weight, in the second, with the bytes of each element of B
    swapped, ``scaled`` in cycle 4 + D multiplies the sum by 2^8 (``group_sum`` comes with its weight). With ``wide_lanes``
    in one pass: ``wide`` in cycle 1 lets even multipliers take whole elements, and odd ones nothing.

    The lane's own dot product counts with ``own``; in a merged step [S0.6] ``group_sum``, made of the roots of
    several lanes, counts in the lane that may ``receive`` it. ``group_sum`` must be zero when the step is not merged, and all of
    them are zero when there is no step: then the value of the thread unit passes the adder on its way to the register. With
    ``cfg.thread_overlap`` it has a way of its own, for cycles in which a sum is not written.

    Reads of the thread unit: with ``read_lane`` and ``capture`` one cycle after the access, the register is at
    ``thread_product`` or ``thread_factor`` in the cycle after that; both are zero in all other cycles, so that
    the values of several lanes can be joined by OR. Its writes: the factor file takes ``returned`` at once; for a product
    register the lane keeps the lowest word of it (``return_lane``) until ``access.thread_next``, and writes it in the cycle
    after. For the fetch of B the lane keeps an offset and the offset of the next operation (``capture``, ``offset_load``).

    With ``cfg.rnn`` a step of the engine for recurrent networks is the same up to cycle 1 + D, where ``taps`` says what the last two levels
    of the tree do (``CatTree``). Its sum does not wait for sums of lanes: ``access.matrix_register`` is due in cycle 1 + D, ``accumulate``
    in 2 + D, the sum is formed and stored in 3 + D. ``read_tap`` in the cycle of a read selects a bank of a tap, whose register is at
    ``thread_tap`` when a product register would be at ``thread_product``.

    Throughput one step and one access of port B a cycle; nothing is ever held back. Every control comes from outside,
    one for all lanes; only ``take``, ``active``, ``clear``, ``receive``, ``read_lane``, ``write_lane`` and ``return_lane`` differ
    from lane to lane. No register is reset.

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
            "own": In(1),
            "group_sum": In(signed(group_sum_bits(cfg.sum_bits))),
            "receive": In(1),
            "accumulate": In(accumulate_layout),
            "clear": In(1),
            "access": In(product_access_layout),
            "factor_access": In(factor_access_layout(cfg)),
            "capture": In(capture_layout(cfg)),
            "read_lane": In(1),
            "write_lane": In(1),
            "returned": In(cfg.word_bits),
            "return_lane": In(1),
            "offset_load": In(1),
            "thread_product": Out(32),
            "thread_factor": Out(32),
            **({"taps": In(tap_layout(cfg)), "read_tap": In(tap_read_bits(cfg)), "thread_tap": Out(32)} if cfg.rnn else {}),
            "offset": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.factors = factors = FactorRegisterFile(self.cfg)
        m.submodules.products = products = ProductRegisterFile()
        m.submodules.tree = tree = CatTree(self.cfg) if self.cfg.rnn else ReductionTree(self.cfg)
        self._multiply(m, factors, tree)
        m.d.comb += self.root.eq(tree.root)
        dot_product = self._dot_product(m)
        if self.cfg.rnn:
            dot_product |= tree.sum
            self._taps(m, tree)
        self._accumulate(m, products, dot_product)
        self._write_factors(m, factors)
        self._read(m, factors, products)
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
            b = Signal(self.word[index].shape() if self.cfg.rnn else value.shape(), name=f"b_{index}", reset_less=True)
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
        with m.If(~self.own | self.scaled if self.cfg.two_passes else ~self.own):
            m.d.sync += own.eq(0)
        if not self.cfg.two_passes:
            return own | Mux(self.receive, self.group_sum, 0)
        scaled = Signal(24, name="own_scaled", reset_less=True)
        m.d.sync += scaled.eq(before)
        with m.If(~(self.own & self.scaled)):
            m.d.sync += scaled.eq(0)
        return own | Cat(Const(0, 8), scaled) | Mux(self.receive, self.group_sum, 0)

    def _accumulate(self, m, products, dot_product):
        """The new value of the product register. All but one of its sources are held at zero, so that an OR selects."""
        old, forward_one, forward_two, last, returned, written = (
            Signal(32, name=name, reset_less=True)
            for name in ("old", "forward_one", "forward_two", "last", "returned_word", "written"))
        total = Signal(32)
        own_way = self.cfg.thread_overlap
        m.d.comb += total.eq((old | forward_one | forward_two | (0 if own_way else written)) + dot_product)
        m.d.sync += [
            last.eq(total),
            old.eq(products.matrix_data),
            forward_one.eq(total),
            forward_two.eq(last),
            written.eq(returned),
        ]
        with m.If(self.clear | ~self.accumulate.read):
            m.d.sync += old.eq(0)
        with m.If(self.clear | ~self.accumulate.forward_one):
            m.d.sync += forward_one.eq(0)
        with m.If(self.clear | ~self.accumulate.forward_two):
            m.d.sync += forward_two.eq(0)
        with m.If(~self.access.thread_next):
            m.d.sync += written.eq(0)
        with m.If(self.return_lane):
            m.d.sync += returned.eq(self.returned)
        m.d.comb += [
            products.matrix_register.eq(self.access.matrix_register),
            products.thread_register.eq(self.access.thread_register),
            products.write_register.eq(self.access.write_register),
            products.write_data.eq(Mux(self.access.thread_write, written, total) if own_way else total),
            products.write_enable.eq(self.access.matrix_write | (self.access.thread_write & self.write_lane)),
        ]

    def _taps(self, m, tree):
        read = Signal(32, name="tap_read", reset_less=True)
        m.d.comb += [
            tree.taps.eq(self.taps),
            tree.row.eq(self.access.thread_register),
            tree.bank.eq(self.read_tap),
            self.thread_tap.eq(read),
        ]
        m.d.sync += read.eq(tree.tap_data)
        with m.If(~self.read_lane):
            m.d.sync += read.eq(0)

    def _write_factors(self, m, factors):
        access = self.factor_access
        for part in range(self.cfg.numbers_per_word):
            m.d.comb += [
                factors.write_data[part].eq(self.returned.word_select(part, 32)),
                factors.write_b[part].eq(access.write[part] & self.write_lane),
            ]
        m.d.comb += [factors.address_b.eq(access.word), factors.read_b.eq(access.read)]

    def _read(self, m, factors, products):
        part = Signal(32)
        product, factor, offset, offset_next = (
            Signal(32, name=name, reset_less=True) for name in ("product_read", "factor_read", "offset_now", "offset_next"))
        m.d.comb += [
            part.eq(select_one_hot(self.capture.parts, factors.data_b)),
            self.thread_product.eq(product),
            self.thread_factor.eq(factor),
            self.offset.eq(offset),
        ]
        m.d.sync += [product.eq(products.thread_data), factor.eq(part)]
        with m.If(~(self.read_lane & self.capture.product)):
            m.d.sync += product.eq(0)
        with m.If(~(self.read_lane & self.capture.factor)):
            m.d.sync += factor.eq(0)
        with m.If(self.capture.offset):
            m.d.sync += offset_next.eq(part)
        with m.If(self.offset_load):
            m.d.sync += offset.eq(offset_next)
