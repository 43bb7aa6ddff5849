"""All slots, with the controls that they share."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..config import BANK_BYTES, BANKS
from ..isa.layout import Access, AluFunction
from ..layouts import ThreadKind, thread_operation_layout
from ..once import Once
from .alu import AluDecode, alu_control_layout
from .gather import placement_layout
from .slots import SlotOperands, SlotResult, form_layout

__all__ = ["SlotArray"]


class SlotArray(Component):
    """Slot j serves thread ``group * slots + j``: operands, ALU and address on the way in, bank words and results on the way out.

    With ``load`` the slots take the operands of a group; ``address``, ``data``, ``compare_result`` and the results of the ALU follow
    from them in the next cycle and stay. Results are in ``o`` one cycle later, words of ``banks`` two cycles after they stand there.

    Members
    -------
    operation
        In the slot stage. Kinds other than ALU and TID leave the results of the ALU zero.
    operands, addresses
        From the lanes, by thread.
    load, group, word
        ``word`` is the number of the word of a store, or of the register of a function of four.
    keep_form : In(1)
        Data of the operation before are still under way.
    choose, narrow_take, narrow_show, product, a, b
        See ``AluDatapath`` and ``LateResults``.
    address, data, compare_result
        By slot.
    banks, place
        Words that stand at the banks, and where in them the data of each slot are.
    o : Out(128).array(slots)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        self.slots = slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "operation": In(thread_operation_layout),
            "operands": In(128).array(cfg.threads),
            "addresses": In(32).array(cfg.threads),
            "load": In(1),
            "group": In(range(cfg.thread_groups)),
            "word": In(2),
            "keep_form": In(1),
            "choose": In(slots),
            "narrow_take": In(1),
            "narrow_show": In(1),
            "product": In(32).array(cfg.slot_multipliers),
            "a": Out(32).array(slots),
            "b": Out(32).array(slots),
            "address": Out(32).array(slots),
            "data": Out(32).array(slots),
            "compare_result": Out(slots),
            "banks": In(8 * BANK_BYTES).array(BANKS),
            "place": In(placement_layout).array(slots),
            "o": Out(128).array(slots),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, operation = self.cfg, self.operation
        self._tid, self._store = Signal(name="is_tid"), Signal(name="is_store")
        self._computes = Signal(name="computes")
        m.d.comb += [
            self._tid.eq(operation.kind == ThreadKind.TID), self._store.eq(operation.kind == ThreadKind.STORE),
            self._computes.eq(self._tid | (operation.kind == ThreadKind.ALU)),
        ]
        operands = Once(f"heddle_thread_slot_operands_{cfg.thread_groups}_{cfg.thread_bits}", SlotOperands, cfg)
        results = Once("heddle_thread_slot_result", SlotResult)
        control = self._alu_control(m)
        group, place = self._place(m)
        form = self._form(m)
        for slot in range(self.slots):
            enter = operands.instantiate(m, f"operands_{slot}")
            leave = results.instantiate(m, f"result_{slot}")
            for number, thread in enumerate(range(slot, cfg.threads, self.slots)):
                m.d.comb += [enter.operands[number].eq(self.operands[thread]), enter.addresses[number].eq(self.addresses[thread])]
            m.d.comb += [
                enter.load.eq(self.load), enter.group.eq(group), enter.place.eq(place),
                enter.value.eq(operation.value), enter.element_shift.eq(operation.element_shift),
                enter.b_is_register.eq(operation.b_is_register & ~self._tid),
                enter.thread.eq(self.group * self.slots + slot), enter.use_thread.eq(self._tid),
                enter.access.eq(operation.access), enter.control.eq(control),
                self.address[slot].eq(enter.address), self.data[slot].eq(enter.data),
                self.compare_result[slot].eq(enter.compare_result),
                leave.bank.eq(self.place[slot].bank), leave.offset.eq(self.place[slot].offset),
                leave.form.eq(form), leave.result.eq(enter.result | self.product[slot % len(self.product)]),
                self.o[slot].eq(leave.o),
                enter.choose.eq(self.choose[slot]), enter.narrow_take.eq(self.narrow_take), enter.narrow_show.eq(self.narrow_show),
                enter.narrow_unsigned.eq(operation.unsigned), self.a[slot].eq(enter.a), self.b[slot].eq(enter.b),
            ]
            m.d.comb += [bank.eq(word) for bank, word in zip(leave.banks, self.banks)]
        return m

    def _alu_control(self, m):
        """Controls of the ALUs, decoded once for all slots and registered with their operands."""
        operation = self.operation
        m.submodules.alu_decode = decode = self._decode = AluDecode()
        control = Signal(alu_control_layout, name="alu_control", reset_less=True)
        m.d.comb += [
            decode.function.eq(Mux(self._tid, AluFunction.MOV, operation.function)),
            decode.compare.eq(operation.compare), decode.unsigned.eq(operation.unsigned),
            decode.comparing.eq(operation.kind == ThreadKind.COMPARE),
        ]
        with m.If(self.load):
            m.d.sync += control.eq(decode.control)
            with m.If(~self._computes):
                m.d.sync += [control[name].eq(0) for name in (
                    "take_sum", "take_logic", "take_shifted", "take_reversed", "minimum", "maximum")]
        return control

    def _place(self, m):
        """One-hot: the group to load; the operand word of a group, none for a zero."""
        operation, groups = self.operation, self.cfg.thread_groups
        group, place, word = Signal(groups, name="group_select"), Signal(4 * groups, name="operand_select"), Signal(2, name="word_number")
        pair = self._store & (operation.access == Access.V2)
        m.d.comb += word.eq(Mux(pair, Cat(self.word[0], operation.c[1]), self.word))
        keep = self._store | self._decode.control.keep_a
        m.d.comb += [
            group.eq(1 << self.group),
            place.eq(Cat(Mux(group[number] & keep, (1 << word)[:4], 0) for number in range(groups))),
        ]
        return group, place

    def _form(self, m):
        """How data of loads return: of the operation in the slot stage, or still of the one before it."""
        access = self.operation.access
        form = Signal(form_layout, name="form", reset_less=True)
        with m.If(~self.keep_form):
            m.d.sync += [
                form.vector.eq((access == Access.V2) | (access == Access.V4)),
                form.four.eq((access == Access.V4) & ~self._computes),
                form.byte.eq((access == Access.U8) | (access == Access.S8)),
                form.narrow.eq((access == Access.U8) | (access == Access.S8) | (access == Access.U16) | (access == Access.S16)),
                form.signed.eq((access == Access.S8) | (access == Access.S16)),
            ]
        return form
