"""The datapath of one slot: operands of a thread, their sum or address, and what comes back for the thread."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..config import BANK_BYTES, BANKS
from ..datapath.gates import select_one_hot
from ..isa.layout import Access
from .alu import AluDatapath, alu_control_layout
from .registers import OPERAND_QUEUE

__all__ = ["SlotOperands", "SlotResult", "form_layout"]

form_layout = data.StructLayout({
    "vector": 1,            # two or four words
    "four": 1,
    "byte": 1,
    "narrow": 1,            # 8 or 16 bits
    "signed": 1,
})


class SlotOperands(Component):
    """Operands and address of one thread of the group that has its turn, and the ALU on them.

    Registers that were read wait in a queue, whose control is common to all slots. The first of the queue becomes a with ``load_a``
    (zero with ``clear_a``), b with ``load_b`` (or the number of the thread, or ``value``), and with ``load_address`` the address
    becomes ``value`` plus it, shifted by ``element_shift``. All outputs follow from these registers, one cycle later.

    Members
    -------
    arrive, write_place, operand
        An operand for the queue, and where.
    read_place
        Place of the first operand.
    thread : In(cfg.thread_bits)
        Number of the slot's thread in the present group; taken as b with ``use_thread``.
    control
        Of the ALU, registered with the operands by the owner.
    address : Out(32)
    data : Out(32)
        Data of a store of ``access`` in every place of the word where it may go.
    result, compare_result
        Of the ALU.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "arrive": In(1),
            "write_place": In(range(OPERAND_QUEUE)),
            "operand": In(32),
            "read_place": In(range(OPERAND_QUEUE)),
            "load_a": In(1),
            "clear_a": In(1),
            "load_b": In(1),
            "load_address": In(1),
            "value": In(32),
            "element_shift": In(3),
            "b_is_register": In(1),
            "thread": In(cfg.thread_bits),
            "use_thread": In(1),
            "access": In(Access),
            "control": In(alu_control_layout),
            "address": Out(32),
            "data": Out(32),
            "result": Out(32),
            "compare_result": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.alu = alu = AluDatapath()
        m.submodules.queue = queue = Memory(shape=32, depth=OPERAND_QUEUE, init=[])
        arriving, first = queue.write_port(), queue.read_port(domain="comb")
        a = Signal(32, reset_less=True)
        b = Signal(32, reset_less=True)
        address = Signal(32, reset_less=True)
        m.d.comb += [
            arriving.addr.eq(self.write_place), arriving.data.eq(self.operand), arriving.en.eq(self.arrive),
            first.addr.eq(self.read_place),
        ]
        with m.If(self.load_a):
            m.d.sync += a.eq(first.data)
        with m.If(self.clear_a):
            m.d.sync += a.eq(0)
        with m.If(self.load_b):
            m.d.sync += b.eq(Mux(self.b_is_register, first.data, Mux(self.use_thread, self.thread, self.value)))
        with m.If(self.load_address):
            m.d.sync += address.eq(self.value + self._scaled(first.data))
        m.d.comb += [
            self.address.eq(address),
            alu.control.eq(self.control), alu.a.eq(a), alu.b.eq(b),
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
        shifted = offset
        for bit, distance in enumerate((1, 2, 4)):
            shifted = Mux(self.element_shift[bit], Cat(C(0, distance), shifted)[:32], shifted)
        return shifted


class SlotResult(Component):
    """What goes back to the lanes of a slot: parts of the words of banks, or results of the ALU, kept until they are written.

    With ``store``, entry ``store_entry`` takes the result of the ALU, or the part of the word that stood in ``banks[bank]`` one
    cycle before. Loads of 8 to 32 bits, extended, and results fill all four words of an entry; 8-byte vectors fill both halves.
    ``bank`` is zero when no data come; ``form`` is not ``four`` while results come. ``o`` are ``dot`` bytes of entry ``entry`` of the cycle
    before: the lowest word is the entry's word ``place``, the others follow the lowest multiple of ``dot`` bytes.

    Members
    -------
    banks : In(128).array(8)
    bank, offset : In(8), In(4)
        Bank (one-hot) and byte address within its word (naturally aligned) of the slot's thread.
    form
        Registered by the owner; constant while data of a load are under way.
    result : In(32)
        Result of the ALU, zero while data of a load are under way.
    store, store_entry, entry, place, o
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "banks": In(8 * BANK_BYTES).array(BANKS),
            "bank": In(BANKS),
            "offset": In(4),
            "form": In(form_layout),
            "result": In(32),
            "store": In(1),
            "store_entry": In(range(2 * cfg.thread_groups)),
            "entry": In(range(2 * cfg.thread_groups)),
            "place": In(2),
            "o": Out(cfg.word_bits),
        })

    def elaborate(self, platform):
        m = Module()
        word = Signal(128, reset_less=True)
        offset = Signal(4, reset_less=True)
        m.d.sync += [word.eq(select_one_hot(self.bank, self.banks)), offset.eq(self.offset)]
        form = self.form
        pair, low, high = Signal(64), Signal(64), Signal(64)
        m.d.comb += [
            pair.eq(Mux(offset[3], word[64:], word[:64])),      # the lower half of four words
            low.eq(Mux(form.vector, pair, 0) | (self._number(m, pair, offset) | self.result).replicate(2)),
            high.eq(Mux(form.four, word[64:], low)),
        ]
        self._keep(m, Cat(low, high))
        return m

    def _keep(self, m, value):
        m.submodules.entries = entries = Memory(shape=128, depth=2 * self.cfg.thread_groups, init=[])
        write, read = entries.write_port(), entries.read_port(domain="comb")
        m.d.comb += [write.addr.eq(self.store_entry), write.data.eq(value), write.en.eq(self.store), read.addr.eq(self.entry)]
        parts = self.cfg.numbers_per_word
        chunk = self.place[exact_log2(parts):]
        o = Signal(self.cfg.word_bits, reset_less=True)
        m.d.comb += self.o.eq(o)
        m.d.sync += o.eq(Cat(read.data.word_select(self.place, 32), read.data.word_select(chunk, 32 * parts)[32:]))

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
