"""All SIMD lanes of the thread unit with their common controls."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out, flipped

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import ThreadKind, thread_operation_layout
from ..isa.encoding import Access, AluFunction
from ..lib.members import connect_members
from ..lib.shared_module import SharedModule
from ..parameters.thread import ThreadParameters
from .alu import AluDecode, alu_control_layout
from .operand_fetch import OPERAND_QUEUE
from .shared_lsu import placement_layout
from .simd_lane import SlotOperands, SlotResult, form_layout

__all__ = ["SimdLanes"]


class SimdLanes(Component):
    """SIMD lanes of the thread unit: lane j serves thread ``group * slots + j`` of the present micro-operation.

    Each lane has an operand queue, ALU, address adder and result buffer (``SlotOperands``, ``SlotResult``).

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    operation : In(thread_operation_layout)
        Operation in the SIMD lanes. The ALU result of any kind but ALU and TID is zero.
    arrive, write_place : In(1), In(range(16))
        Operands come, and their place in the operand queues.
    operand : In(32).array(slots)
        The operands.
    read_place : In(range(16))
        Place of the first operand.
    load : In(1)
        Last load of a micro-operation: b and the ALU controls; it also clears a where a does not count.
    load_a, load_address : In(1)
        The first operand becomes a; it makes the address.
    group : In(range(thread_groups))
        Group of the micro-operation.
    keep_buffer : In(1)
        Load data of the operation in write-back are in flight, so further data go to its half of the result buffer.
    keep_control : In(1)
        ``load`` leaves the controls of the ALUs, which late results in flight need.
    leave : In(1)
        ``operation`` goes to write-back in this cycle.
    buffer : In(1)
        Half of the result buffer for load data of ``operation``.
    store_buffer : In(1)
        Half for results that are stored with ``store_current``.
    address, data : Out(32).array(slots)
        Byte address, and store data in every place of the word.
    compare_result : Out(slots)
        Results of comparisons.
    banks : In(128).array(8)
        Words at the banks of shared memory.
    place : In(placement_layout).array(slots)
        Bank of the data for each lane and byte offset in its word.
    other, take_other : In(128), In(slots)
        16 bytes from global memory, and the lane that takes them.
    store : In(slots)
        Lanes that write their result buffer.
    store_group, store_words : In(range(thread_groups)), In(4)
        Group and 32-bit parts of the entry that they write.
    store_current : In(1)
        The result is of the ALU or late, so its half is ``store_buffer``.
    choose : In(slots)
        Guards of the threads, which SEL reads.
    scale : In(1)
        Products replace operand a in front of the ALUs.
    narrow_take, narrow_show : In(slots), In(1)
        Narrowing units that take a number; packed words are the results.
    amount, narrow_unsigned : In(5), In(1)
        Shift amount and signedness of the late results in flight.
    narrows : In(1)
        ``operation`` packs four numbers into one register.
    product : In(32).array(slot_multipliers)
        Products; lane j takes ``product[j mod slot_multipliers]``.
    a, b : Out(32).array(slots)
        Operands for the shared multipliers.
    entry, entry_ahead : In(range(2 * thread_groups))
        Entry of the result buffer, group and half, that is read; the entry of the next cycle.
    word : In(2)
        Its 32-bit part that is the lowest of ``o``.
    o : Out(8 * dot).array(slots)
        Results of ``entry`` of the cycle before.

    *Latency*: one cycle from ``load`` to ``address``, ``data`` and ``compare_result``, which remain up to the next load. The ALU result is
    stored by ``store`` in the cycle after ``load``, with ``registered_alu`` one later.

    *Throughput*: one micro-operation a cycle, no back-pressure.

    *Reset*: none; the owner controls validity.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
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
        """ALU controls, decoded once for all lanes and registered with the operands; and whether a counts."""
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
        """Form of the results in write-back, and the half of the result buffer for load data."""
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
