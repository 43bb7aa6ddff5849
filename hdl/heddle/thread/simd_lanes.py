"""All slots, with the controls that they share."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out, flipped

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import ThreadKind, thread_operation_layout
from ..isa.encoding import Access, AluFunction
from ..lib.members import connect_members
from ..lib.shared_module import SharedModule
from .alu import AluDecode, alu_control_layout
from .operand_fetch import OPERAND_QUEUE
from .shared_lsu import placement_layout
from .simd_lane import SlotOperands, SlotResult, form_layout

__all__ = ["SimdLanes"]


class SimdLanes(Component):
    """Slot j serves thread ``group * slots + j``: operands, ALU and address on the way in, bank words and results on the way out.

    ``address``, ``data``, ``compare_result`` and the results of the ALU follow from the registers that ``load_a``, ``load_address`` and
    ``load`` fill, in the next cycle, and stay. ``load`` comes last, once for each step.

    Members
    -------
    operation
        In the slot stage. Kinds other than ALU and TID leave the results of the ALU zero.
    arrive, write_place, operand, read_place
        The queues of operands; see ``OperandReader``. ``operand`` by slot.
    load, load_a, load_address, group
    keep_buffer : In(1)
        Data of the operation before are still under way.
    keep_control : In(1)
        ``load`` does not change what the ALUs do: late results need them.
    leave : In(1)
        Results of ``operation`` are written next.
    buffer, store_buffer : In(1)
        Half of the entries that data of loads of ``operation`` go to; that results of ``store_current`` do.
    address, data, compare_result
        By slot.
    banks, place
        Words that stand at the banks, and where in them the data of each slot are.
    other, take_other
        A word of global memory for these slots, instead of one of the banks.
    store, store_group, store_words, store_current
        See ``Returns``.
    choose, scale, narrow_take, narrow_show, product, a, b
        See ``AluDatapath`` and ``LateResults``.
    amount, narrow_unsigned
        Of the late results that are on their way; see ``SlotOperands``.
    narrows
        ``operation`` makes one register out of several.
    entry, entry_ahead, word, o
        ``o`` is word ``word`` of ``entry`` (group and buffer) of the cycle before, which was ``entry_ahead`` before that; see
        ``SlotResult``.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        self.slots = slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "operation": In(thread_operation_layout),
            "arrive": In(1),
            "write_place": In(range(OPERAND_QUEUE)),
            "operand": In(32).array(slots),
            "read_place": In(range(OPERAND_QUEUE)),
            "load": In(1),
            "load_a": In(1),
            "load_address": In(1),
            "group": In(range(cfg.thread_groups)),
            "keep_buffer": In(1),
            "keep_control": In(1),
            "leave": In(1),
            "buffer": In(1),
            "store_buffer": In(1),
            "address": Out(32).array(slots),
            "data": Out(32).array(slots),
            "compare_result": Out(slots),
            "banks": In(8 * BANK_BYTES).array(BANKS),
            "place": In(placement_layout).array(slots),
            "other": In(8 * BANK_BYTES),
            "take_other": In(slots),
            "store": In(slots),
            "store_group": In(range(cfg.thread_groups)),
            "store_words": In(4),
            "store_current": In(1),
            "choose": In(slots),
            "scale": In(1),
            "narrow_take": In(slots),
            "narrow_show": In(1),
            "amount": In(5),
            "narrow_unsigned": In(1),
            "narrows": In(1),
            "product": In(32).array(cfg.slot_multipliers),
            "a": Out(32).array(slots),
            "b": Out(32).array(slots),
            "entry": In(range(2 * cfg.thread_groups)),
            "entry_ahead": In(range(2 * cfg.thread_groups)),
            "word": In(2),
            "o": Out(cfg.word_bits).array(slots),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, operation = self.cfg, self.operation
        self._tid = Signal(name="is_tid")
        self._computes = Signal(name="computes")
        m.d.comb += [
            self._tid.eq(operation.kind == ThreadKind.TID),
            self._computes.eq(self._tid | (operation.kind == ThreadKind.ALU)),
        ]
        operands = SharedModule(f"heddle_thread_slot_operands_{cfg.thread_bits}", SlotOperands, cfg)
        results = SharedModule(f"heddle_thread_slot_result_{cfg.thread_groups}_{cfg.dot}", SlotResult, cfg)
        control, keep_a = self._alu_control(m)
        form, buffer = self._form(m)
        entry = Cat(self.store_group, Mux(self.store_current, self.store_buffer, buffer))
        for slot in range(self.slots):
            enter = operands.instantiate(m, f"operands_{slot}")
            leave = results.instantiate(m, f"result_{slot}")
            m.d.comb += [
                enter.arrive.eq(self.arrive), enter.write_place.eq(self.write_place), enter.operand.eq(self.operand[slot]),
                enter.read_place.eq(self.read_place),
                enter.load_a.eq(self.load_a), enter.clear_a.eq(self.load & ~keep_a), enter.load_b.eq(self.load),
                enter.load_address.eq(self.load_address),
                enter.value.eq(operation.value), enter.element_shift.eq(operation.element_shift),
                enter.b_is_register.eq(operation.b_is_register & ~self._tid),
                enter.thread.eq(self.group * self.slots + slot), enter.use_thread.eq(self._tid),
                enter.access.eq(operation.access), enter.control.eq(control),
                self.address[slot].eq(enter.address), self.data[slot].eq(enter.data),
                self.compare_result[slot].eq(enter.compare_result),
                leave.bank.eq(self.place[slot].bank), leave.offset.eq(self.place[slot].offset),
                leave.other.eq(self.other), leave.take_other.eq(self.take_other[slot]),
                leave.form.eq(form), leave.result.eq(enter.result | Mux(self.scale, 0, enter.product)),
                leave.store.eq(self.store[slot]), leave.store_words.eq(self.store_words), leave.store_entry.eq(entry),
                enter.choose.eq(self.choose[slot]), enter.scale.eq(self.scale), enter.product.eq(self.product[slot % len(self.product)]),
                enter.amount.eq(self.amount), enter.narrow_take.eq(self.narrow_take[slot]), enter.narrow_show.eq(self.narrow_show),
                enter.narrow_unsigned.eq(self.narrow_unsigned), self.a[slot].eq(enter.a), self.b[slot].eq(enter.b),
                leave.entry.eq(self.entry), leave.entry_ahead.eq(self.entry_ahead), leave.place.eq(self.word),
                self.o[slot].eq(leave.o),
            ]
            connect_members(m, flipped(self), leave, ("banks",))
        return m

    def _alu_control(self, m):
        """Controls of the ALUs, decoded once for all slots and registered with their operands; whether a counts."""
        operation = self.operation
        m.submodules.alu_decode = decode = AluDecode()
        control = Signal(alu_control_layout, name="alu_control", reset_less=True)
        m.d.comb += [
            decode.function.eq(Mux(self._tid, AluFunction.MOV, operation.function)),
            decode.compare.eq(operation.compare), decode.unsigned.eq(operation.unsigned),
            decode.comparing.eq(operation.kind == ThreadKind.COMPARE),
        ]
        with m.If(self.load & ~self.keep_control):
            m.d.sync += control.eq(decode.control)
            with m.If(~self._computes):
                m.d.sync += [control[name].eq(0) for name in (
                    "take_sum", "take_logic", "take_shifted", "take_reversed", "minimum", "maximum")]
        return control, decode.control.keep_a | (operation.kind == ThreadKind.STORE)

    def _form(self, m):
        """How data of loads are written; and where they are kept: for the operation in the slot stage, or still for the one before."""
        access = self.operation.access
        form = Signal(form_layout, name="form", reset_less=True)
        buffer = Signal(name="arriving_buffer", reset_less=True)
        with m.If(self.leave):
            m.d.sync += [
                form.vector.eq(~self.narrows & ((access == Access.V2) | (access == Access.V4))),
                form.four.eq(~self.narrows & (access == Access.V4)),
                form.byte.eq(~self._computes & ((access == Access.U8) | (access == Access.S8))),
                form.narrow.eq(~self._computes & (
                    (access == Access.U8) | (access == Access.S8) | (access == Access.U16) | (access == Access.S16))),
                form.signed.eq((access == Access.S8) | (access == Access.S16)),
            ]
        with m.If(~self.keep_buffer):
            m.d.sync += buffer.eq(self.buffer)
        return form, buffer
