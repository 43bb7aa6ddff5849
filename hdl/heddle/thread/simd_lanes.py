"""All SIMD lanes of the thread unit with their common controls."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import ThreadKind, thread_operation_layout
from ..isa.encoding import Access, AluFunction, OutputUse, output_bounds_layout
from ..lib.alu import AluDecode, alu_control_layout
from ..lib.members import connect_members
from ..lib.shared_module import SharedModule
from ..parameters.thread import ThreadParameters
from .lsu import LaneAddressPort, LoadDataPort
from .micro_op_issue import StepLoadPort
from .operand_fetch import OperandQueuePort
from .result_bus import MultiCycleOperationPort, MultiCycleUsePort
from .result_routing import ResultWritePort
from .simd_lane import MultiplierOperandPort, ResultReadPort, SlotOperands, SlotResult, form_layout

__all__ = ["SimdLanes"]


class SimdLanes(Component):
    """SIMD lanes of the thread unit: lane j serves thread ``group * slots + j`` of the present micro-operation.

    Each lane has an operand queue, ALU, address adder and result buffer (``SlotOperands``, ``SlotResult``).

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    operation : In(thread_operation_layout(cfg))
        Operation in the SIMD lanes. The ALU result of any kind but ALU and TID is zero.
    queue : In(OperandQueuePort())
        Pointers of the operand queues.
    operand : In(32).array(slots)
        Operands from the register files.
    operand_second : In(32).array(slots)
        With ``register_pairs``: the other registers of pairs.
    load : In(StepLoadPort(cfg))
        Loads of the operands of a micro-operation.
    keep_control : In(1)
        ``load.step`` leaves the controls of the ALUs, which multi-cycle results in flight need.
    keep_buffer : In(1)
        Load data of the operation in write-back are in flight, so further data go to its half of the result buffer.
    leave : In(1)
        ``operation`` goes to write-back in this cycle.
    buffer : In(1)
        Half of the result buffer for load data of ``operation``.
    access : Out(LaneAddressPort(cfg))
        Byte addresses and store data.
    compare_result : Out(slots)
        Results of comparisons.
    banks : In(128).array(8)
        Words at the banks of shared memory.
    load_data : In(LoadDataPort(cfg))
        Where the load data of each lane are.
    store : In(ResultWritePort(cfg))
        Writes of the result buffers.
    choose : In(slots)
        Guards of the threads, which SEL reads.
    multi_cycle : In(MultiCycleUsePort(cfg))
        Products and packed words.
    multi_cycle_operation : In(MultiCycleOperationPort(cfg))
        Shift amount and signedness of the multi-cycle results in flight.
    narrows : In(1)
        ``operation`` packs four numbers into one register.
    multiplier_operands : Out(MultiplierOperandPort(cfg)).array(slots)
        Operands for the shared multipliers.
    read : In(ResultReadPort(cfg))
        Reads of the result buffers.
    o : Out(8 * dot).array(slots)
        Results of ``read.entry`` of the cycle before.

    *Latency*: one cycle from ``load`` to ``access`` and ``compare_result``, which remain up to the next load. The ALU result is stored by
    ``store`` two cycles after ``load.step``.

    *Throughput*: one micro-operation a cycle, no back-pressure.

    *Reset*: none; the owner controls validity.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        self.slots = slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "operation": In(thread_operation_layout(cfg)),
            "queue": In(OperandQueuePort()),
            "operand": In(32).array(slots),
            **({"operand_second": In(32).array(slots)} if cfg.register_pairs else {}),
            "load": In(StepLoadPort(cfg)),
            "keep_control": In(1),
            "keep_buffer": In(1),
            "leave": In(1),
            "buffer": In(1),
            "access": Out(LaneAddressPort(cfg)),
            "compare_result": Out(slots),
            "banks": In(8 * BANK_BYTES).array(BANKS),
            "load_data": In(LoadDataPort(cfg)),
            "store": In(ResultWritePort(cfg)),
            "choose": In(slots),
            "multi_cycle": In(MultiCycleUsePort(cfg)),
            "multi_cycle_operation": In(MultiCycleOperationPort(cfg)),
            "narrows": In(1),
            "multiplier_operands": Out(MultiplierOperandPort(cfg)).array(slots),
            "read": In(ResultReadPort(cfg)),
            "o": Out(cfg.word_bits).array(slots),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, operation = self.cfg, self.operation
        self._tid = Signal(name="is_tid")
        self._computes, self._stores = Signal(name="computes"), Signal(name="stores")
        m.d.comb += [
            self._stores.eq(operation.kind == ThreadKind.STORE),
            self._tid.eq(operation.kind == ThreadKind.TID),
            self._computes.eq(self._tid | (operation.kind == ThreadKind.ALU)),
        ]
        operands = SharedModule(f"heddle_thread_slot_operands_{cfg.thread_bits}", SlotOperands, cfg)
        results = SharedModule(f"heddle_thread_slot_result_{cfg.thread_groups}_{cfg.dot}", SlotResult, cfg)
        control, keep_a = self._alu_control(m)
        form, buffer = self._form(m)
        entry = Cat(self.store.group, Mux(self.store.current, self.store.buffer, buffer))
        lanes = []
        for slot in range(self.slots):
            enter = operands.instantiate(m, f"operands_{slot}")
            lanes.append(enter)
            leave = results.instantiate(m, f"result_{slot}")
            self._connect_operands(m, enter, slot, keep_a)
            self._connect_result(m, leave, slot, entry)
            m.d.comb += [
                enter.control.eq(control), leave.form.eq(form),
                leave.result.eq(enter.result | Mux(self.multi_cycle.scale, 0, enter.multi_cycle.product)),
            ]
        if cfg.output_stage:
            self._show(m, lanes)
        return m

    def _connect_operands(self, m, lane, slot, keep_a):
        """Connects the operand stage of a lane, but for its ALU controls."""
        operation, load, source, multi_cycle, number = self.operation, self.load, lane.source, self.multi_cycle, lane.multi_cycle
        amounts = multi_cycle.amount if self.cfg.output_stage else [self.multi_cycle_operation.amount]
        connect(m, flipped(self.queue), lane.queue)
        connect(m, lane.multiplier, flipped(self.multiplier_operands[slot]))
        m.d.comb += [
            lane.operand[0].eq(self.operand[slot]),
            lane.load.operands.eq(load.step), lane.load.clear_a.eq(load.step & ~keep_a), lane.load.address.eq(load.address),
            lane.load.other.eq(load.other),
            source.value.eq(operation.value), source.element_shift.eq(operation.element_shift),
            source.b_is_register.eq((operation.b_is_register & ~self._tid) | self._stores), source.use_thread.eq(self._tid),
            source.access.eq(operation.access),
            lane.thread.eq(load.group * self.slots + slot), lane.choose.eq(self.choose[slot]),
            number.scale.eq(multi_cycle.scale), number.product.eq(multi_cycle.product[slot % len(multi_cycle.product)]),
            number.amount.eq(amounts[slot % len(amounts)]), number.narrow_take.eq(multi_cycle.narrow_take[slot]),
            number.narrow_show.eq(multi_cycle.narrow_show), number.narrow_unsigned.eq(self.multi_cycle_operation.unsigned),
            self.access.address[slot].eq(lane.address), self.access.data[slot].eq(lane.data),
            self.compare_result[slot].eq(lane.compare_result),
        ]
        if self.cfg.output_stage:
            given = output_bounds_layout(operation.value[:output_bounds_layout.size])
            m.d.comb += [
                source.output.eq(operation.output), source.set.eq(Mux(operation.output == OutputUse.CHANNEL, operation.c, given.set)),
                source.own_shifts.eq(given.own_shifts),
            ]
        if self.cfg.register_pairs:
            m.d.comb += lane.operand[1].eq(self.operand_second[slot])
        if self.cfg.gather_offsets:
            element = lane.load.element
            m.d.comb += [element.by_entry.eq(operation.gathers), element.entry.eq(load.entry), element.padding.eq(operation.padding)]

    def _show(self, m, lanes):
        """Packed words of the lanes as results, or with rows and columns of their bytes exchanged: neighbouring lanes in a word."""
        words = len(lanes) // 4         # of four lanes each
        for slot, lane in enumerate(lanes):
            number, byte = slot % words, slot // words
            exchanged = Cat(other.word.word_select(byte, 8) for other in lanes[4 * number:4 * number + 4])
            m.d.comb += [
                lane.multi_cycle.bounds.eq(self.multi_cycle_operation.bounds),
                lane.multi_cycle.shown.eq(Mux(self.multi_cycle_operation.transpose, exchanged, lane.word)),
            ]

    def _connect_result(self, m, lane, slot, entry):
        """Connects the result buffer of a lane, but for the result and its form."""
        load_data, store = self.load_data, self.store
        connect_members(m, flipped(self), lane, ("banks", "read"))
        m.d.comb += [
            lane.placement.eq(load_data.place[slot]), lane.other.eq(load_data.other), lane.take_other.eq(load_data.take_other[slot]),
            lane.store.enable.eq(store.slots[slot]), lane.store.words.eq(store.words), lane.store.entry.eq(entry),
            self.o[slot].eq(lane.o),
        ]
        if self.cfg.gather_offsets:
            m.d.comb += [lane.store.bytes.eq(store.bytes), lane.store.size.eq(store.size)]

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
        with m.If(self.load.step & ~self.keep_control):
            m.d.sync += control.eq(decode.control)
            with m.If(~self._computes):
                m.d.sync += [control[name].eq(0) for name in (
                    "take_sum", "take_logic", "take_shifted", "take_reversed", "minimum", "maximum")]
        return control, decode.control.keep_a

    def _form(self, m):
        """Form of the results in write-back, and the half of the result buffer for load data."""
        access = self.operation.access
        form = Signal(form_layout, name="form", reset_less=True)
        gathers = self.operation.gathers if self.cfg.gather_offsets else Const(0)       # elements are in their places
        buffer = Signal(name="arriving_buffer", reset_less=True)
        with m.If(self.leave):
            m.d.sync += [
                form.vector.eq(gathers | (~self.narrows & ((access == Access.V2) | (access == Access.V4)))),
                form.four.eq(gathers | (~self.narrows & (access == Access.V4))),
                form.byte.eq(~self._computes & ~gathers & ((access == Access.U8) | (access == Access.S8))),
                form.narrow.eq(~self._computes & ~gathers & (
                    (access == Access.U8) | (access == Access.S8) | (access == Access.U16) | (access == Access.S16))),
                form.signed.eq((access == Access.S8) | (access == Access.S16)),
            ]
        with m.If(~self.keep_buffer):
            m.d.sync += buffer.eq(self.buffer)
        return form, buffer
