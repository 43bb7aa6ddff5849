"""The datapath of one slot: operands of a thread, their sum or address, and what comes back for the thread."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..config import BANK_BYTES, BANKS
from ..isa.layout import Access, AluFunction, CompareFunction
from .alu import Alu
from .select import select

__all__ = ["SlotOperands", "SlotResult"]


class SlotOperands(Component):
    """Operands and address of one thread of the group that is selected, and the ALU on them.

    With ``load`` the registers take the thread of group ``group``: its operand word ``word`` (a), its word 1 or ``value`` (b), and
    ``value`` plus its address shifted by ``element_shift``. All outputs follow from these registers, one cycle later; without
    ``load`` they hold.

    Members
    -------
    operands, addresses : In(128), In(32), one for each group
    thread : In(cfg.thread_bits)
        Number of the slot's thread in the selected group; taken as b with ``use_thread``.
    address : Out(32)
    data : Out(32)
        Data of a store of ``access`` in every place of the word where it may go.
    result, compare_result
        Of the ALU.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "operands": In(128).array(cfg.thread_groups),
            "addresses": In(32).array(cfg.thread_groups),
            "load": In(1),
            "group": In(range(cfg.thread_groups)),
            "word": In(2),
            "value": In(32),
            "element_shift": In(3),
            "b_is_register": In(1),
            "thread": In(cfg.thread_bits),
            "use_thread": In(1),
            "access": In(Access),
            "function": In(AluFunction),
            "compare": In(CompareFunction),
            "unsigned": In(1),
            "address": Out(32),
            "data": Out(32),
            "result": Out(32),
            "compare_result": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.alu = alu = Alu(one_adder=True)
        a = Signal(32, reset_less=True)
        b = Signal(32, reset_less=True)
        address = Signal(32, reset_less=True)
        words = [operand.word_select(word, 32) for operand in self.operands for word in range(4)]
        offset = select([value for value in self.addresses], self.group)
        with m.If(self.load):
            m.d.sync += [
                a.eq(select(words, Cat(self.word, self.group))),
                b.eq(Mux(self.b_is_register, select(words[1::4], self.group),
                         Mux(self.use_thread, self.thread, self.value))),
                address.eq(self.value + self._scaled(offset)),
            ]
        m.d.comb += [
            self.address.eq(address),
            alu.function.eq(self.function), alu.compare.eq(self.compare), alu.unsigned.eq(self.unsigned),
            alu.a.eq(a), alu.b.eq(b),
            self.result.eq(alu.result), self.compare_result.eq(alu.compare_result),
        ]
        with m.Switch(self.access):
            with m.Case(Access.U8, Access.S8):
                m.d.comb += self.data.eq(a[:8].replicate(4))
            with m.Case(Access.U16, Access.S16):
                m.d.comb += self.data.eq(a[:16].replicate(2))
            with m.Default():
                m.d.comb += self.data.eq(a)
        return m

    def _scaled(self, offset):
        """offset << element_shift for shifts of 0 to 4."""
        near = select([offset, Cat(C(0, 1), offset)[:32], Cat(C(0, 2), offset)[:32], Cat(C(0, 3), offset)[:32]],
                      self.element_shift[:2])
        return Mux(self.element_shift[2], Cat(C(0, 4), offset)[:32], near)


class SlotResult(Component):
    """What goes back to the lane of a slot: a part of the word of a bank, or the result of the ALU.

    A word that stands in ``banks[bank]`` in a cycle appears as ``o`` two cycles later; ``result`` with ``computed`` one cycle later.
    Loads of 8 to 32 bits, extended, and results fill all four words of ``o``; 8-byte vectors fill both halves.

    Members
    -------
    banks : In(128).array(8)
    bank, offset
        Bank and byte address within its word (naturally aligned) of the slot's thread.
    access : In(Access)
        Constant while data of a load are under way.
    computed, result
        ``o`` takes ``result`` instead.
    """

    def __init__(self):
        super().__init__({
            "banks": In(8 * BANK_BYTES).array(BANKS),
            "bank": In(3),
            "offset": In(4),
            "access": In(Access),
            "computed": In(1),
            "result": In(32),
            "o": Out(8 * BANK_BYTES),
        })

    def elaborate(self, platform):
        m = Module()
        data = Signal(128, reset_less=True)
        offset = Signal(4, reset_less=True)
        o = Signal(128, reset_less=True)
        m.d.sync += [data.eq(select([word for word in self.banks], self.bank)), offset.eq(self.offset)]
        vector = Signal()
        four = Signal()
        m.d.comb += [
            four.eq(self.access == Access.V4),
            vector.eq(~self.computed & (four | (self.access == Access.V2))),
            self.o.eq(o),
        ]
        low, high = Signal(64), Signal(64)
        m.d.comb += [
            low.eq(Mux(offset[3] & ~four, data[64:], data[:64])),
            high.eq(Mux(offset[3] | four, data[64:], data[:64])),
        ]
        number = Signal(32)
        m.d.comb += number.eq(Mux(self.computed, self.result, self._number(m, low, offset)))
        m.d.sync += o.eq(Mux(vector, Cat(low, high), number.replicate(4)))
        return m

    def _number(self, m, pair, offset):
        """The 8-, 16- or 32-bit number at the offset in a pair of words, extended.

        Aligned offsets have zeros in the bits that wider accesses do not use, so they need no multiplexer of their own.
        """
        word = Mux(offset[2], pair[32:], pair[:32])
        half = Mux(offset[1], word[16:], word[:16])
        byte = Mux(offset[0], half[8:], half[:8])
        is_byte, is_half, sign = Signal(), Signal(), Signal()
        m.d.comb += [
            is_byte.eq((self.access == Access.U8) | (self.access == Access.S8)),
            is_half.eq((self.access == Access.U16) | (self.access == Access.S16)),
            sign.eq(((self.access == Access.S8) & byte[7]) | ((self.access == Access.S16) & half[15])),
        ]
        middle = Mux(is_byte, sign.replicate(8), half[8:])
        return Cat(byte, middle, Mux(is_byte | is_half, sign.replicate(16), word[16:]))
