"""The part of the engine for recurrent networks that turns sums into hidden states."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, flipped
from amaranth.utils import exact_log2

from ..constants import PRODUCT_REGISTERS
from ..lib.delay import Delay, Stages
from ..lib.members import connect_members
from ..lib.shared_module import SharedModule
from ..lib.stream import Queue, link
from .layouts import Cell, Pre, context_bits, operation_layout, tail_job_layout, tail_output_layout
from .tail_issue import ISSUE_LATENCY, TailIssue, end_layout, vector_group_bits
from .tail_lane import GATE_CYCLE, LANE_LATENCY, SUM_CYCLE, TailLane, tail_control_layout

__all__ = ["GATED_DISTANCE", "ISSUE_LATENCY", "KEEP_DISTANCE", "SETTLED", "TAIL_LATENCY", "Tail"]

TAIL_LATENCY = LANE_LATENCY         # cycles from the one in which ``read_data`` stands to that of ``write``
GATED_DISTANCE = GATE_CYCLE - 1     # slots, idle ones or others, between an operation with ``keep_gate`` and one with GATED
KEEP_DISTANCE = SUM_CYCLE - 1       # and between one with KEEP and one with GATED
# Cycles from the last slot of a job until one of the same context may begin: its operands are read behind the last write.
SETTLED = TAIL_LATENCY + 2
SLOT = ISSUE_LATENCY - 1            # cycle of ``slot`` after a slot begins
LANE_FLAGS = ("step", "load_state", "keep_sum", "keep_activation", "keep_gate", "new_cell")
CELLS = {                           # what the lanes do for which members of ``Cell``
    "times_kept": (Cell.PRODUCT, Cell.BLEND),
    "times_state": (Cell.STATE, Cell.GATE),
    "blend": (Cell.BLEND,),
    "add_activation": (Cell.ACTIVATION, Cell.BLEND, Cell.OUTPUT),
    "add_result": (Cell.STATE,),
    "output": (Cell.OUTPUT,),
}
DECODE_CYCLE = 5                    # after the sum, the one before the first of these
UNDECIDED = SLOT                    # slots of which it is not known yet whether they have an output


class Tail(Component):
    """Sums to activations, cell and hidden states, for the jobs of all contexts [S3.5]: see docs/units/rnn.md.

    Throughput one operation a cycle, of ``tail_lanes`` elements each; jobs follow each other without a gap, but a job with ``settled``
    begins ``SETTLED`` cycles after the last slot of the one before it of its context, when everything that one wrote can be read.
    A job must not read what it writes itself.

    Latency: ``read`` stands ``ISSUE_LATENCY`` cycles after a slot begins (the first one in the cycle in which the job comes to the
    front of ``i``), ``write`` another ``cfg.register_read_latency + TAIL_LATENCY`` cycles later, ``wrote`` one cycle after that.
    Reads and writes are never refused. Slots wait while results could find no room in the queue of ``o_output``, wherever they are.
    Reset forgets everything that is under way.

    Area: see docs/units/rnn.md.

    Members
    -------
    i : In(stream.Signature(tail_job_layout(cfg)))
        Jobs; taken with their last slot.
    operation_address, operation
        Table of the operations: data one cycle after the address.
    read, read_register, read_group, read_tap : Out
        Read of the sums of a lane group; ``read_data`` : In(32).array(tail_lanes) stand ``cfg.register_read_latency`` cycles later.
    operand_group : Out
        Group of ``tail_lanes`` elements of vector memory; ``operand`` : In(16).array(tail_lanes) stand one cycle later.
    write, write_group, write_data : Out
        A result for vector memory, registered.
    write_next : Out(1)
        There is one in the next cycle.
    o_output : Out(stream.Signature(tail_output_layout(cfg)))
        Results for shared memory.
    wrote, wrote_context, finished : Out
        The last operation of an element group, or of a pair of groups, was written in the cycle before; with ``finished`` that was the
        job's last one.
    busy : Out(1)
        A job waits, a slot is under way, or a result has not left.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        group = vector_group_bits(cfg)
        super().__init__({
            "i": In(stream.Signature(tail_job_layout(cfg))),
            "operation_address": Out(exact_log2(cfg.rnn_records)),
            "operation": In(operation_layout),
            "read": Out(1),
            "read_register": Out(exact_log2(PRODUCT_REGISTERS)),
            "read_group": Out(range(cfg.thread_groups)),
            "read_tap": Out(2),
            "read_data": In(32).array(cfg.tail_lanes),
            "operand_group": Out(group),
            "operand": In(16).array(cfg.tail_lanes),
            "write": Out(1),
            "write_next": Out(1),
            "write_group": Out(group),
            "write_data": Out(16).array(cfg.tail_lanes),
            "o_output": Out(stream.Signature(tail_output_layout(cfg))),
            "wrote": Out(1),
            "wrote_context": Out(context_bits(cfg)),
            "finished": Out(1),
            "busy": Out(1),
        })

    @property
    def output_depth(self):
        """Results that the queue holds: so many that one can leave in every cycle."""
        return self.cfg.register_read_latency + TAIL_LATENCY + 8

    @property
    def _sum_cycle(self):
        """Cycles from ``slot`` to its sums."""
        return ISSUE_LATENCY - SLOT + self.cfg.register_read_latency

    def elaborate(self, platform):
        m = Module()
        m.submodules.issue = issue = TailIssue(self.cfg)
        m.submodules.queue = queue = Queue(tail_output_layout(self.cfg), self.output_depth)
        link(m, self.i, issue.i)
        link(m, queue.o, self.o_output)
        connect_members(m, flipped(self), issue, ("operation_address", "operation", "read", "read_register", "read_group", "read_tap"))
        self._compute(m, issue.slot, queue.i.payload.elements)
        self._place(m, issue.slot, queue.i)
        credits = Signal(range(self.output_depth + 1), init=self.output_depth)
        m.d.sync += credits.eq(credits - issue.slot.flags.output + (queue.o.valid & queue.o.ready))
        m.d.comb += issue.free.eq(credits > UNDECIDED)
        under_way = self._follow(m, issue)
        m.d.comb += self.busy.eq(issue.active | under_way | (credits != self.output_depth))
        return m

    def _compute(self, m, slot, elements):
        """The lanes with their operands and results."""
        m.submodules.operand_delay = delay = Delay(vector_group_bits(self.cfg), self._sum_cycle - 1)
        m.d.comb += [delay.i.eq(slot.operand_group), self.operand_group.eq(delay.o)]
        control = self._control(m, slot)
        lane_type = SharedModule("tail_lane", TailLane)
        for index in range(self.cfg.tail_lanes):
            lane = lane_type.instantiate(m, f"lane_{index}")
            m.d.comb += [
                lane.control.eq(control),
                lane.sum.eq(self.read_data[index]),
                lane.operand.eq(self.operand[index]),
                self.write_data[index].eq(lane.result),
                elements[index].eq(lane.result),
            ]

    def _control(self, m, slot):
        """What the lanes are told: each field in its cycle."""
        operation = slot.operation
        values = {"gated": operation.pre == Pre.GATED, "peephole": operation.pre == Pre.PEEPHOLE}
        resets = {name: getattr(slot.flags, name) for name in LANE_FLAGS}
        cell = Stages(m, Value.cast(operation.cell), "cell")
        control, stages = Signal(tail_control_layout), {}
        for field, _ in tail_control_layout:
            name, cycle = field.rsplit("_", 1)
            since = self._sum_cycle + int(cycle)
            if name == "beyond":    # of the shift of the cycle before
                stages[name] = since, Stages(m, self._beyond(m, stages["shift"][1][since - 1]), name)
            elif name not in stages and name in CELLS:    # the code is narrower than what it means
                early = self._sum_cycle + DECODE_CYCLE
                means = Cat(cell[early] == member for member in CELLS[name]).any()
                stages[name] = early, Stages(m, means, name)
            elif name not in stages:
                value = resets[name] if name in resets else Value.cast(values.get(name, getattr(operation, name, None)))
                stages[name] = 0, Stages(m, value, name, reset=name in resets)
            early, stage = stages[name]
            m.d.comb += Value.cast(control[field]).eq(stage[since - early])
        return control

    def _beyond(self, m, shift):
        """See ``tail_control_layout``: registered, for all lanes."""
        beyond = Signal(14, reset_less=True)
        m.d.sync += beyond.eq(Cat(shift <= index for index in range(14)))
        return beyond

    def _place(self, m, slot, results):
        """Where results go."""
        cycles = self._sum_cycle + TAIL_LATENCY
        write = Stages(m, slot.flags.write, "write", reset=True)
        m.submodules.address_delay = delay = Delay(
            data.StructLayout({"group": len(slot.destination_group), "address": len(slot.output_address)}), cycles)
        m.d.comb += [
            delay.i.group.eq(slot.destination_group),
            delay.i.address.eq(slot.output_address),
            self.write.eq(write[cycles]), self.write_next.eq(write[cycles - 1]),
            self.write_group.eq(delay.o.group),
            results.valid.eq(Stages(m, slot.flags.output, "output", reset=True)[cycles]),
            results.payload.address.eq(delay.o.address),
        ]

    def _follow(self, m, issue):
        """Progress of the slots, for the scheduler and for jobs of the same context; whether any is under way."""
        slot, end = issue.slot, self._sum_cycle + TAIL_LATENCY + 1
        ends, contexts = Stages(m, Value.cast(slot.ends), "ends", reset=True), Stages(m, slot.context, "context")
        at = [data.View(end_layout, ends[cycle]) for cycle in range(end + 1)]
        settled = SETTLED - SLOT - 1
        m.d.comb += [
            issue.settled.eq(at[settled].job_end),
            issue.settled_context.eq(contexts[settled]),
            self.wrote.eq(at[end].group_end),
            self.wrote_context.eq(contexts[end]),
            self.finished.eq(at[end].job_end),
        ]
        return Cat(view.valid for view in at).any()
