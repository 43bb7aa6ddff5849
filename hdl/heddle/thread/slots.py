"""The datapath of one slot: operands of a thread, their sum or address, and what comes back for the thread."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..config import BANK_BYTES, BANKS
from ..datapath.gates import select_one_hot
from ..isa.layout import Access
from .alu import AluDatapath, alu_control_layout
from .narrow import Narrow

__all__ = ["SlotOperands", "SlotResult", "form_layout"]

form_layout = data.StructLayout({
    "vector": 1,            # two or four words
    "four": 1,
    "byte": 1,
    "narrow": 1,            # 8 or 16 bits
    "signed": 1,
})


class SlotOperands(Component):
    """Operands and address of one thread of the group that is selected, and the ALU on them.

    With ``load`` the registers take the thread of the group in ``group`` (one-hot): the operand word of it that ``place`` selects
    (a; one-hot, bit 4 g + w for word w of group g; none for zero), its word 1 or ``value`` (b), and ``value`` plus its address shifted by
    ``element_shift``. All outputs follow from these registers, one cycle later; without
    ``load`` they hold.

    Members
    -------
    operands, addresses : In(128), In(32), one for each group
    thread : In(cfg.thread_bits)
        Number of the slot's thread in the selected group; taken as b with ``use_thread``.
    control
        Of the ALU, registered with the operands by the owner.
    address : Out(32)
    data : Out(32)
        Data of a store of ``access`` in every place of the word where it may go.
    choose
        Of the ALU.
    narrow_take, narrow_show, narrow_unsigned
        ``Narrow`` takes what the ALU has shifted; its word is the result; its signedness.
    a, b : Out(32)
        Operands, for the multiplier.
    result, compare_result
        Of the ALU, or of ``Narrow``.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "operands": In(128).array(cfg.thread_groups),
            "addresses": In(32).array(cfg.thread_groups),
            "load": In(1),
            "group": In(cfg.thread_groups),
            "place": In(4 * cfg.thread_groups),
            "value": In(32),
            "element_shift": In(3),
            "b_is_register": In(1),
            "thread": In(cfg.thread_bits),
            "use_thread": In(1),
            "access": In(Access),
            "control": In(alu_control_layout),
            "choose": In(1),
            "narrow_take": In(1),
            "narrow_show": In(1),
            "narrow_unsigned": In(1),
            "a": Out(32),
            "b": Out(32),
            "address": Out(32),
            "data": Out(32),
            "result": Out(32),
            "compare_result": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.alu = alu = AluDatapath()
        m.submodules.narrow = narrow = Narrow()
        a = Signal(32, reset_less=True)
        b = Signal(32, reset_less=True)
        address = Signal(32, reset_less=True)
        words = [operand.word_select(word, 32) for operand in self.operands for word in range(4)]
        offset = select_one_hot(self.group, self.addresses)
        with m.If(self.load):
            m.d.sync += [
                a.eq(select_one_hot(self.place, words)),
                b.eq(Mux(self.b_is_register, select_one_hot(self.group, words[1::4]),
                         Mux(self.use_thread, self.thread, self.value))),
                address.eq(self.value + self._scaled(offset)),
            ]
        m.d.comb += [
            self.address.eq(address),
            alu.control.eq(self.control), alu.a.eq(a), alu.b.eq(b),
            alu.choose.eq(self.choose), self.a.eq(a), self.b.eq(b),
            narrow.shifted.eq(alu.shifted), narrow.take.eq(self.narrow_take), narrow.unsigned.eq(self.narrow_unsigned),
            self.result.eq(alu.result | Mux(self.narrow_show, narrow.word, 0)), self.compare_result.eq(alu.compare_result),
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
        shifted = offset
        for bit, distance in enumerate((1, 2, 4)):
            shifted = Mux(self.element_shift[bit], Cat(C(0, distance), shifted)[:32], shifted)
        return shifted


class SlotResult(Component):
    """What goes back to the lane of a slot: a part of the word of a bank, or the result of the ALU.

    A word that stands in ``banks[bank]`` in a cycle appears as ``o`` two cycles later; ``result`` one cycle later.
    Loads of 8 to 32 bits, extended, and results fill all four words of ``o``; 8-byte vectors fill both halves. ``bank`` is zero
    when no data come; ``form`` is not ``four`` while results come.

    Members
    -------
    banks : In(128).array(8)
    bank, offset : In(8), In(4)
        Bank (one-hot) and byte address within its word (naturally aligned) of the slot's thread.
    form
        Registered by the owner; constant while data of a load are under way.
    result : In(32)
        Result of the ALU, or a late one; zero while data of a load are under way.
    """

    def __init__(self):
        super().__init__({
            "banks": In(8 * BANK_BYTES).array(BANKS),
            "bank": In(BANKS),
            "offset": In(4),
            "form": In(form_layout),
            "result": In(32),
            "o": Out(8 * BANK_BYTES),
        })

    def elaborate(self, platform):
        m = Module()
        word = Signal(128, reset_less=True)
        offset = Signal(4, reset_less=True)
        o = Signal(128, reset_less=True)
        m.d.sync += [word.eq(select_one_hot(self.bank, self.banks)), offset.eq(self.offset)]
        form = self.form
        pair, low, high = Signal(64), Signal(64), Signal(64)
        m.d.comb += [
            pair.eq(Mux(offset[3], word[64:], word[:64])),      # the lower half of four words
            low.eq(Mux(form.vector, pair, 0) | (self._number(m, pair, offset) | self.result).replicate(2)),
            high.eq(Mux(form.four, word[64:], low)),
            self.o.eq(o),
        ]
        m.d.sync += o.eq(Cat(low, high))
        return m

    def _number(self, m, pair, offset):
        """The 8-, 16- or 32-bit number at the offset in a pair of words, extended; zero for a vector.

        Aligned offsets have zeros in the bits that wider accesses do not use, so they need no multiplexer of their own.
        """
        form = self.form
        word, half, byte = Signal(32), Signal(16), Signal(8)
        sign, wide, middle = Signal(), Signal(), Signal()
        m.d.comb += [
            word.eq(Mux(offset[2], pair[32:], pair[:32])),
            half.eq(Mux(offset[1], word[16:], word[:16])),
            byte.eq(Mux(offset[0], half[8:], half[:8])),
            sign.eq(form.signed & Mux(form.byte, byte[7], half[15])),
            middle.eq(~form.byte & ~form.vector),
            wide.eq(~form.narrow & ~form.vector),
        ]
        return Cat(Mux(form.vector, 0, byte),
                   Mux(middle, half[8:], (sign & form.byte).replicate(8)),
                   Mux(wide, word[16:], (sign & form.narrow).replicate(16)))
