"""Issue stage of the activation pipeline: one slot (operation and element group) a cycle."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, Signature
from amaranth.utils import exact_log2

from ..constants import PRODUCT_REGISTERS
from ..parameters.rnn import RnnParameters
from .layouts import (
    COUNT_BITS,
    Cell,
    ContextEvent,
    Pre,
    RecordReadPort,
    context_bits,
    operation_layout,
    tail_job_layout,
    vector_group_bits,
)

__all__ = ["ISSUE_LATENCY", "SumRequestPort", "TailIssue", "end_layout", "slot_layout"]

ISSUE_LATENCY = 3           # cycles from the begin of a slot to ``sums.enable``
FLAGS = ("step", "load_state", "keep_sum", "keep_activation", "keep_gate", "new_cell", "write", "output")

end_layout = data.StructLayout({
    "valid": 1,             # a slot is valid
    "group_end": 1,         # last operation of an element group or pair of groups
    "job_end": 1,           # last operation of the job
})


def slot_layout(cfg):
    """Slot: one operation on one element group. Without a slot ``ends`` and ``flags`` are zero and the other fields are undefined."""
    return data.StructLayout({
        "ends": end_layout,
        "flags": data.StructLayout(dict.fromkeys(FLAGS, 1)),
        "context": context_bits(cfg),
        "operation": operation_layout,
        "operand_group": vector_group_bits(cfg),
        "destination_group": vector_group_bits(cfg),
        "output_address": 20,
    })


def SumRequestPort(cfg):
    """Request of sums in the PEs, seen from the activation pipeline; always granted.

    *Ports*:
    enable : Out(1)
        Reads the sums of a lane group.
    register : Out(8)
        Product register, or accumulator of a CAT tap.
    group : Out(range(thread_groups))
        Lane group.
    tap : Out(2)
        CAT tap.
    """
    return Signature({
        "enable": Out(1), "register": Out(exact_log2(PRODUCT_REGISTERS)), "group": Out(range(cfg.thread_groups)), "tap": Out(2),
    })


class TailIssue(Component):
    """Issue stage of the activation pipeline: expands jobs in order into slots, one a cycle.

    The loop nest of a job is: for each element group, or pair of groups, for each operation record. A context has at most three
    unsettled jobs.

    *Ports*:
    i : In(stream.Signature(tail_job_layout(cfg)))
        Jobs; a job is accepted with its last slot.
    free : In(1)
        A slot may begin in this cycle.
    i_settled : In(ContextEvent(cfg))
        A job of this context is settled: a job with ``settled`` of the context may begin in the next cycle.
    operations : Out(RecordReadPort(cfg, operation_layout))
        Read port of the table of operations; ``address`` is combinational from ``i.payload``.
    slot : Out(slot_layout(cfg))
        The slot; registered.
    sums : Out(SumRequestPort(cfg))
        Reads of sums by the slot; registered.
    active : Out(1)
        A job is pending, or a slot has begun and is not yet at ``slot``.

    *Latency*: 2 cycles from the begin of a slot to ``slot``, ``ISSUE_LATENCY`` (3) cycles to ``sums``. The first slot of a job begins
    in the first cycle with ``i.valid`` and ``free``.

    *Throughput*: one slot a cycle, without a gap between jobs. A job with ``settled`` begins only when all earlier jobs of its context
    are settled.

    *Back-pressure*: ``i.ready`` depends combinationally on ``i.valid``, ``i.payload`` and ``free``. A slot that has begun never stalls.

    *Reset*: discards all slots.
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(tail_job_layout(cfg))),
            "free": In(1),
            "i_settled": In(ContextEvent(cfg)),
            "operations": Out(RecordReadPort(cfg, operation_layout)),
            "slot": Out(slot_layout(cfg)),
            "sums": Out(SumRequestPort(cfg)),
            "active": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        ends, begun = Signal(end_layout), Signal(data.StructLayout({
            "context": context_bits(self.cfg), "group": 10, "group_3": 12, "elements": 16, "row": 20, "register": 8, "odd_register": 8,
        }), reset_less=True)
        self._begin(m, ends, begun)
        self._operate(m, ends, begun)
        position, base, cat = self._locate(m, begun)
        index = position >> exact_log2(self.cfg.thread_groups)
        m.d.sync += [
            self.sums.enable.eq(self.slot.flags.step),
            self.sums.register.eq(base + (index >> cat)),
            self.sums.group.eq(position[:len(self.sums.group)]),
            self.sums.tap.eq(index[:2] & Mux(cat[1], 3, cat[0])),
        ]
        m.d.comb += self.active.eq(self.i.valid | ends.valid)
        return m

    def _begin(self, m, ends, begun):
        """Steps through the job: ``ends``, and the fields of a slot that do not depend on its operation record."""
        cfg, job = self.cfg, self.i.payload
        index, group = Signal(job.operations.shape()), Signal(job.groups.shape())
        running, go, group_end, job_end = Signal(), Signal(), Signal(), Signal()
        unsettled = [Signal(COUNT_BITS, name=f"unsettled_{index}") for index in range(cfg.rnn_contexts)]       # jobs in flight
        elements = Signal(16)                   # elements before this group
        m.d.comb += [
            elements.eq((group * cfg.tail_lanes) << job.pairs),
            self.operations.address.eq(job.operation + index),
            go.eq(self.i.valid & self.free & (running | ~job.settled | (Array(unsettled)[job.context] == 0))),
            group_end.eq(index == job.operations),
            job_end.eq(group_end & (group == job.groups)),
            self.i.ready.eq(go & job_end),
        ]
        m.d.sync += [
            ends.valid.eq(go),
            ends.group_end.eq(go & group_end),
            ends.job_end.eq(go & job_end),
            begun.context.eq(job.context),
            begun.group.eq(group),
            begun.group_3.eq(group + (group << 1)),
            begun.elements.eq(job.elements + elements),
            begun.row.eq(job.row + 2 * elements),
            begun.register.eq(job.registers),
            begun.odd_register.eq(job.parity_registers),
        ]
        settled = self.i_settled
        for number, count in enumerate(unsettled):
            m.d.sync += count.eq(count + (go & ~running & (job.context == number)) - (settled.valid & (settled.payload.context == number)))
        with m.If(go):
            m.d.sync += [index.eq(index + 1), running.eq(~job_end)]
            with m.If(group_end):
                m.d.sync += [index.eq(0), group.eq(Mux(job_end, 0, group + 1))]

    def _operate(self, m, ends, begun):
        """The slot, in the cycle of its operation record."""
        operation, slot = self.operations.record, self.slot
        lane_bits = exact_log2(self.cfg.tail_lanes)
        works = Signal()
        m.d.comb += works.eq(ends.valid & ~operation.idle)
        flags = {"step": 1, "load_state": operation.load_state, "keep_sum": operation.pre == Pre.KEEP,
                 "new_cell": operation.cell == Cell.STATE}
        m.d.sync += [slot.flags[name].eq(works & flags.get(name, getattr(operation, name, 0))) for name in FLAGS]
        m.d.sync += [
            slot.flags.load_state.eq(ends.valid & operation.load_state),
            slot.ends.eq(ends),
            slot.context.eq(begun.context),
            slot.operation.eq(operation),
            slot.operand_group.eq((begun.elements + operation.operand)[lane_bits:]),
            slot.destination_group.eq((begun.elements + operation.destination)[lane_bits:]),
            slot.output_address.eq(begun.row + operation.output_byte),
        ]

    def _locate(self, m, begun):
        """Row group, base product register and ``cat`` of the slot, registered with ``slot``."""
        operation = self.operations.record
        position, base, cat = (Signal(bits, name=name, reset_less=True) for name, bits in (("position", 13), ("base", 8), ("cat", 2)))
        low = Signal(12)        # stride * group without the top bit of stride, by shifts and additions
        with m.Switch(operation.stride[:2]):
            for stride, multiple in enumerate((0, begun.group, begun.group << 1, begun.group_3)):
                with m.Case(stride):
                    m.d.comb += low.eq(multiple)
        m.d.sync += [
            position.eq(operation.first + low + Mux(operation.stride[2], begun.group << 2, 0)),
            base.eq(operation.product + Mux(operation.parity, begun.odd_register, begun.register)),
            cat.eq(operation.cat),
        ]
        return position, base, cat
