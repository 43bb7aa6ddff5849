"""Processing element (PE): arithmetic and registers of one thread."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from ..lib.onehot import select_one_hot
from ..parameters.matrix import DatapathParameters
from .cat_tree import CatTree
from .cross_lane_tree import GROUP_LEVELS, group_sum_bits
from .factor_register_file import FactorRegisterFile
from .layouts import accumulate_layout, capture_layout, factor_access_layout, product_access_layout, tap_layout, tap_read_bits
from .product_register_file import ProductRegisterFile
from .reduction_tree import ReductionTree, product_bits

__all__ = ["PE"]


class PE(Component):
    """Processing element: multiplies a factor word with a broadcast word of B and accumulates in a product register, one step a cycle.

    A PE that is not ``active`` multiplies by zero and so leaves its product register unchanged. Accumulation is modulo 2^32.

    16-bit elements [S0.15] take two passes with the same word of A, whose even bytes have no sign. In the first pass ``odd_high`` gives the
    products of high bytes their weight. In the second the bytes of each element of B are swapped, and ``scaled`` multiplies the sum by 2^8;
    ``group_sum`` comes with its weight. With ``wide_lanes`` there is one pass: with ``wide`` even multipliers take whole elements and odd
    multipliers take zero.

    Merges [S0.6]: either the own dot product counts (``own``), or ``group_sum``, which comes from the roots of several PEs. Without a step
    both are zero, so a value of the thread unit passes the adder on its path to the product register. With ``thread_overlap`` it has a
    path of its own, for cycles in which no sum is written.

    With ``rnn`` a step of the engine for recurrent networks is the same up to cycle 1 + D. From there ``taps`` controls the last two
    levels of the tree. The sum of such a step does not wait for sums over PEs.

    Parameters
    ----------
    cfg : DatapathParameters

    *Ports*:
    factor_address : In(factor_address_bits)
        Word of the factor register file.
    word : In(signed(element_bits)).array(dot)
        Word of B.
    take : In(1)
        Takes ``word`` in cycle 1, or earlier while other PEs wait for theirs; the word is held up to the next ``take``.
    a_signed : In(2)
        Even bytes of the factor word are signed; odd bytes are.
    odd_high, scaled : In(1)
        With ``two_passes``: weights of 16-bit elements.
    wide : In(1)
        With ``wide_lanes``: elements of 16 bits.
    active : In(1)
        The PE takes part in the step.
    root : Out(signed(sum_bits))
        Dot product, for the sums over PEs.
    own : In(1)
        The own dot product counts.
    group_sum : In(signed(group_sum_bits(sum_bits)))
        Sum over PEs; zero unless the step is merged.
    receive : In(1)
        ``group_sum`` counts in this PE.
    accumulate : In(accumulate_layout)
        Source that is added to: product register, last sum or the sum before; none without a step.
    clear : In(1)
        Nothing is added to: the sum replaces the product register.
    access : In(product_access_layout)
        Accesses to the product register file.
    factor_access : In(factor_access_layout(cfg))
        Access to port B of the factor register file.
    capture : In(capture_layout(cfg))
        Destination of the values read in the cycle before.
    read_lane : In(1)
        The thread unit reads this PE; one cycle after the access.
    write_lane : In(1)
        The thread unit writes this PE.
    returned : In(8 * dot)
        Data from the thread unit; the factor register file takes them at once.
    return_lane : In(1)
        The lowest 32 bits of ``returned`` are registered for a product register.
    offset_load : In(1)
        The next offset becomes ``offset``.
    thread_product, thread_factor : Out(32)
        Product register, or 32-bit part of a factor word, that the thread unit reads; zero in all other cycles.
    taps : In(tap_layout(cfg))
        With ``rnn``: control of the CAT tree.
    read_tap : In(tap_read_bits(cfg))
        With ``rnn``: bank of a CAT tap that is read, in the cycle of the access.
    thread_tap : Out(32)
        With ``rnn``: its register, in the cycle in which a product register would be at ``thread_product``.
    offset : Out(32)
        Offset of this thread's column of B.

    *Latency*: the cycles of a step, with D = log2(``dot``):

    - 0: ``factor_address``
    - 1: ``a_signed``, ``active``, ``wide``; the operands are registered
    - 2: multiplication
    - 3 to 2 + D: reduction tree, a register for each level; ``odd_high`` in cycle 1 + D
    - 3 + D: ``root`` is valid; ``access.matrix_register``
    - 4 + D: ``accumulate``, ``clear``, ``own``, ``scaled``
    - 5 + D: ``group_sum``, ``receive``; addition; ``access.matrix_write``

    A step of the engine has ``access.matrix_register`` in cycle 1 + D, ``accumulate`` in 2 + D, and addition and write in 3 + D. A read of
    the thread unit is at its output two cycles after the access. A product register is written one cycle after ``access.thread_next``.

    *Throughput*: one step and one access of port B a cycle, no back-pressure.

    *Reset*: none; the control is outside and common to all PEs. Only ``take``, ``active``, ``clear``, ``receive``, ``read_lane``,
    ``write_lane`` and ``return_lane`` differ between PEs.
    """

    def __init__(self, cfg):
        self.cfg = cfg = DatapathParameters.of(cfg)
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
        """The own dot product, delayed like the sums over PEs, or the sum over PEs. The other is zero, so that an OR selects."""
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
        """The new value of the product register. All but one of its sources are zero, so that an OR selects."""
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
