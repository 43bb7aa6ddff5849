"""Processing element (PE): arithmetic and registers of one thread."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out, Signature

from ..lib.onehot import select_one_hot
from ..parameters.matrix import DatapathParameters
from .cat_tree import CatTree
from .cross_lane_tree import GROUP_LEVELS, group_sum_bits
from .factor_register_file import FactorRegisterFile
from .layouts import TAPS, tap_layout
from .operand_rows import OperandRows
from .pipeline_control import AccumulatePort, MultiplyPort
from .product_register_file import ProductRegisterFile
from .reduction_tree import ReductionTree, product_bits
from .register_arbiter import RegisterFilePort

__all__ = ["PE", "LaneAccessPort"]


def LaneAccessPort(cfg):
    """Access of the thread unit to the registers of one PE, seen from the thread unit.

    *Ports*:
    read_lane : Out(1)
        This PE is read; one cycle after the access.
    write_lane : Out(1)
        This PE is written.
    return_data : Out(8 * dot)
        Data to write; the factor register file takes them at once.
    return_lane : Out(1)
        The lowest 32 bits of ``return_data`` are registered for a product register.
    product, factor : In(32)
        Product register, or 32-bit part of a factor word, that is read; zero in all other cycles. With ``register_pairs`` an odd product
        register is at ``factor``.
    tap : In(32)
        With ``rnn``, without ``sparse``: accumulator of a CAT tap, in the cycle in which a product register would be at ``product``.
    each_tap : In(32).array(3)
        With ``sparse``: accumulators of CAT taps 1 to 3, in that cycle; zero without a read of the tap.
    """
    return Signature({
        "read_lane": Out(1), "write_lane": Out(1), "return_data": Out(cfg.word_bits), "return_lane": Out(1),
        "product": In(32), "factor": In(32),
        **({"each_tap": In(32).array(TAPS - 1)} if cfg.sparse else {"tap": In(32)} if cfg.rnn else {}),
    })


class PE(Component):
    """Processing element: multiplies a factor word with a broadcast word of B and accumulates in a product register, one step a cycle.

    A PE without ``multiply.active`` multiplies by zero and so leaves its product register unchanged. Accumulation is modulo 2^32.

    16-bit elements [S0.15] take two passes with the same word of A, whose even bytes have no sign. In the first pass ``odd_high`` gives the
    products of high bytes their weight. In the second the bytes of each element of B are swapped, and ``accumulate.scaled`` multiplies the
    sum by 2^8; ``group_sum`` comes with its weight. With ``wide_lanes`` there is one pass: with ``multiply.wide`` even multipliers take
    whole elements and odd multipliers take zero.

    Merges [S0.6]: either the own dot product counts (``accumulate.own``), or ``group_sum``, which comes from the roots of several PEs.
    Without a step both are zero, so a value of the thread unit passes the adder on its path to the product register. With
    ``thread_overlap`` it has a path of its own, for cycles in which no sum is written.

    With ``rnn`` a step of the engine for recurrent networks is the same up to cycle 1 + D. From there ``taps`` controls the last two
    levels of the tree. The sum of such a step does not wait for sums over PEs.

    With ``sparse`` such a step may take 32-bit parts of two factor words: multipliers 0 to 3 one of port A, multipliers 4 to 7 one of port
    B of the factor register file. Multipliers of ``multiply.operand`` take a word of the operand rows of this PE in the place of
    ``word``. It has a part of a row of A, and the root is this PE's part of a sampled product. Or it has the weights of this PE's columns
    in a depthwise row.

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
    multiply : In(MultiplyPort(cfg))
        Control of the multipliers.
    odd_high : In(1)
        With ``two_passes``: odd products count 2^16 times.
    root : Out(signed(sum_bits))
        Dot product, for the sums over PEs.
    group_sum : In(signed(group_sum_bits(sum_bits)))
        Sum over PEs; zero unless the step is merged.
    accumulate : In(AccumulatePort(cfg))
        Control of the accumulator.
    files : In(RegisterFilePort(cfg))
        Accesses to the register files.
    thread : In(LaneAccessPort(cfg))
        Access of the thread unit.
    taps : In(tap_layout(cfg))
        With ``rnn``: control of the CAT tree.
    offset_load : In(1)
        The next offset becomes ``offset``.
    offset : Out(32)
        Offset of this thread's column of B.

    *Latency*: the cycles of a step, with D = log2(``dot``):

    - 0: ``factor_address``
    - 1: ``multiply``; the operands are registered
    - 2: multiplication
    - 3 to 2 + D: reduction tree, a register for each level; ``odd_high`` in cycle 1 + D
    - 3 + D: ``root`` is valid; ``files.products.matrix_register``
    - 4 + D: ``accumulate``, except ``receive``
    - 5 + D: ``group_sum``, ``accumulate.receive``; addition; ``files.products.matrix_write``

    A step of the engine has ``files.products.matrix_register`` in cycle 1 + D, ``accumulate`` in 2 + D, and addition and write in 3 + D. A
    read of the thread unit is at ``thread`` two cycles after the access. A product register is written one cycle after
    ``files.products.thread_next``.

    *Throughput*: one step and one access of port B a cycle, no back-pressure.

    *Reset*: none; the control is outside and common to all PEs. Only ``take``, ``multiply.active``, ``accumulate.clear``,
    ``accumulate.receive`` and ``thread`` differ between PEs.
    """

    def __init__(self, cfg):
        self.cfg = cfg = DatapathParameters.of(cfg)
        super().__init__({
            "factor_address": In(cfg.factor_address_bits),
            "word": In(signed(cfg.element_bits)).array(cfg.dot),
            "take": In(1),
            "multiply": In(MultiplyPort(cfg)),
            **({"odd_high": In(1)} if cfg.two_passes else {}),
            "root": Out(signed(cfg.sum_bits)),
            "group_sum": In(signed(group_sum_bits(cfg.sum_bits))),
            "accumulate": In(AccumulatePort(cfg)),
            "files": In(RegisterFilePort(cfg)),
            "thread": In(LaneAccessPort(cfg)),
            **({"taps": In(tap_layout(cfg))} if cfg.rnn else {}),
            "offset_load": In(1),
            "offset": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.factors = factors = FactorRegisterFile(self.cfg)
        m.submodules.products = products = ProductRegisterFile(self.cfg.register_pairs)
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
        control = self.multiply
        m.d.comb += factors.address_a.eq(self.factor_address)
        words, signed_bytes = list(factors.data_a), [control.a_signed] * self.cfg.numbers_per_word
        elements = list(self.word)
        if self.cfg.sparse:
            words, signed_bytes = self._operands(m, factors)
            elements = self._operand_row(m)
        for index in range(self.cfg.dot):
            word, a_signed = words[index // 4], signed_bytes[index // 4]
            byte = word.word_select(index % 4, 8)
            value, active = Cat(byte, a_signed[index % 2] & byte[7]).as_signed(), control.active
            if self.cfg.wide_lanes and index % 2:
                active = active & ~control.wide
            elif self.cfg.wide_lanes:
                high = word.word_select(index % 4 + 1, 8)
                sign = a_signed[0] & Mux(control.wide, high[7], byte[7])
                value = Cat(byte, Mux(control.wide, high, sign.replicate(8)), sign).as_signed()
            a = Signal(value.shape(), name=f"a_{index}", reset_less=True)
            b = Signal(self.word[index].shape() if self.cfg.rnn else value.shape(), name=f"b_{index}", reset_less=True)
            product = Signal(signed(product_bits(self.cfg)), name=f"product_{index}", reset_less=True)
            with m.If(active):
                m.d.sync += a.eq(value)
            with m.Else():
                m.d.sync += a.eq(0)
            with m.If(self.take):
                m.d.sync += b.eq(elements[index])
            m.d.sync += product.eq(a * b)
            m.d.comb += tree.i[index].eq(product)
        if self.cfg.two_passes:
            m.d.comb += tree.odd_high.eq(self.odd_high)

    def _operands(self, m, factors):
        """Parts of factor words that the multipliers take, four multipliers each, and which of their bytes are signed."""
        control, words = self.multiply, list(factors.data_a)
        signed_bytes = [Signal(2, name=f"a_signed_{number}") for number in range(len(words))]
        m.d.comb += [bits.eq(control.a_signed & ~control.unsigned.replicate(2)) for bits in signed_bytes]
        if len(words) == 1:
            return words, signed_bytes
        chosen = [Signal(32, name=f"operand_{number}") for number in range(2)]
        m.d.comb += [
            chosen[0].eq(select_one_hot(control.first, words)),
            chosen[1].eq(select_one_hot(control.second, [words[1], *factors.data_b])),
        ]
        return [*chosen, *words[2:]], signed_bytes

    def _operand_row(self, m):
        """Elements of the other operand: those of a word of B, or bytes of the operand row."""
        control, access, thread = self.multiply, self.files.factors, self.thread
        m.submodules.rows = rows = OperandRows(self.cfg)
        m.d.comb += [rows.word.eq(control.operand_word), rows.write_word.eq(access.operand_word)]
        for part in range(self.cfg.numbers_per_word):
            m.d.comb += [
                rows.write_data[part].eq(thread.return_data.word_select(part, 32)),
                rows.write[part].eq(access.operand_write[part] & thread.write_lane),
            ]
        chosen = []
        for index, element in enumerate(self.word):
            byte, value = rows.data[index // 4].word_select(index % 4, 8), Signal(element.shape(), name=f"element_{index}")
            own = Cat(byte, byte[7] & ~control.operand_unsigned).as_signed()
            m.d.comb += value.eq(Mux(control.operand[index // 4], own, element))
            chosen.append(value)
        return chosen

    def _dot_product(self, m):
        """The own dot product, delayed like the sums over PEs, or the sum over PEs. The other is zero, so that an OR selects."""
        own, control = self.root, self.accumulate
        for level in range(1, GROUP_LEVELS + 1):
            before, own = own, Signal(signed(self.cfg.sum_bits), name=f"own_{level}", reset_less=True)
            m.d.sync += own.eq(before)
        with m.If(~control.own | control.scaled if self.cfg.two_passes else ~control.own):
            m.d.sync += own.eq(0)
        if not self.cfg.two_passes:
            return own | Mux(control.receive, self.group_sum, 0)
        scaled = Signal(24, name="own_scaled", reset_less=True)
        m.d.sync += scaled.eq(before)
        with m.If(~(control.own & control.scaled)):
            m.d.sync += scaled.eq(0)
        return own | Cat(Const(0, 8), scaled) | Mux(control.receive, self.group_sum, 0)

    def _accumulate(self, m, products, dot_product):
        """The new value of the product register. All but one of its sources are zero, so that an OR selects."""
        old, forward_one, forward_two, last, returned, written = (
            Signal(32, name=name, reset_less=True)
            for name in ("old", "forward_one", "forward_two", "last", "returned_word", "written"))
        total = Signal(32)
        control, access, thread = self.accumulate, self.files.products, self.thread
        own_way = self.cfg.thread_overlap
        m.d.comb += total.eq((old | forward_one | forward_two | (0 if own_way else written)) + dot_product)
        m.d.sync += [
            last.eq(total),
            old.eq(products.matrix_data),
            forward_one.eq(total),
            forward_two.eq(last),
            written.eq(returned),
        ]
        with m.If(control.clear | ~control.source.read):
            m.d.sync += old.eq(0)
        with m.If(control.clear | ~control.source.forward_one):
            m.d.sync += forward_one.eq(0)
        with m.If(control.clear | ~control.source.forward_two):
            m.d.sync += forward_two.eq(0)
        with m.If(~access.thread_next):
            m.d.sync += written.eq(0)
        with m.If(thread.return_lane):
            m.d.sync += returned.eq(thread.return_data)
        m.d.comb += [
            products.matrix_register.eq(access.matrix_register),
            products.thread_register.eq(access.thread_register),
            products.write_register.eq(access.write_register),
            products.write_data.eq(Mux(access.thread_write, written, total) if own_way else total),
            products.write_enable.eq(access.matrix_write | (access.thread_write & thread.write_lane)),
        ]

    def _taps(self, m, tree):
        m.d.comb += [
            tree.taps.eq(self.taps),
            tree.row.eq(self.files.products.thread_register),
            tree.bank.eq(self.files.read_tap),
        ]
        taps = zip(self.thread.each_tap, tree.each_tap, strict=True) if self.cfg.sparse else ((self.thread.tap, tree.tap_data),)
        for number, (output, value) in enumerate(taps, 1):
            read = Signal(32, name=f"tap_read_{number}" if self.cfg.sparse else "tap_read", reset_less=True)
            m.d.comb += output.eq(read)
            m.d.sync += read.eq(value)
            with m.If(~self.thread.read_lane):
                m.d.sync += read.eq(0)

    def _write_factors(self, m, factors):
        access, thread = self.files.factors, self.thread
        for part in range(self.cfg.numbers_per_word):
            m.d.comb += [
                factors.write_data[part].eq(thread.return_data.word_select(part, 32)),
                factors.write_b[part].eq(access.write[part] & thread.write_lane),
            ]
        m.d.comb += [factors.address_b.eq(access.word), factors.read_b.eq(access.read)]

    def _read(self, m, factors, products):
        capture, thread = self.files.capture, self.thread
        part, factor_side, factor_counts = Signal(32), Signal(32), Signal()
        product, factor, offset, offset_next = (
            Signal(32, name=name, reset_less=True) for name in ("product_read", "factor_read", "offset_now", "offset_next"))
        m.d.comb += [
            part.eq(select_one_hot(capture.parts, factors.data_b)), factor_side.eq(part), factor_counts.eq(capture.factor),
            thread.product.eq(product),
            thread.factor.eq(factor),
            self.offset.eq(offset),
        ]
        if self.cfg.register_pairs:
            with m.If(capture.odd):
                m.d.comb += [factor_side.eq(products.thread_data[1]), factor_counts.eq(1)]
        m.d.sync += [product.eq(products.thread_data[0]), factor.eq(factor_side)]
        with m.If(~(thread.read_lane & capture.product)):
            m.d.sync += product.eq(0)
        with m.If(~(thread.read_lane & factor_counts)):
            m.d.sync += factor.eq(0)
        with m.If(capture.offset):
            m.d.sync += offset_next.eq(part)
        with m.If(self.offset_load):
            m.d.sync += offset.eq(offset_next)
