"""Activation pipeline (tail): sums to activations, cell states and hidden states."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, Signature, connect, flipped

from ..lib.delay import Delay, Stages
from ..lib.members import connect_members
from ..lib.shared_module import SharedModule
from ..lib.stream import Queue, link
from ..parameters.rnn import RnnParameters
from .layouts import (
    Cell,
    Pre,
    RecordReadPort,
    operation_layout,
    tail_job_layout,
    tail_output_layout,
    vector_group_bits,
    written_group_layout,
)
from .tail_issue import ISSUE_LATENCY, SumRequestPort, TailIssue, end_layout
from .tail_lane import GATE_CYCLE, LANE_LATENCY, SUM_CYCLE, TailLane, tail_control_layout
from .vector_memory import ElementWritePort, OperandReadPort

__all__ = ["GATED_DISTANCE", "ISSUE_LATENCY", "KEEP_DISTANCE", "SETTLED", "TAIL_LATENCY", "SumReadPort", "Tail"]

TAIL_LATENCY = LANE_LATENCY         # cycles from ``sums.data`` to ``write``
GATED_DISTANCE = GATE_CYCLE - 1     # least number of slots between ``keep_gate`` and GATED
KEEP_DISTANCE = SUM_CYCLE - 1       # least number of slots between KEEP and GATED
# Cycles from the last slot of a job to the first slot of a ``settled`` job of the context, whose operand reads follow the last write.
SETTLED = TAIL_LATENCY + 2
SLOT = ISSUE_LATENCY - 1            # cycle of ``slot`` after a slot begins
LANE_FLAGS = ("step", "load_state", "keep_sum", "keep_activation", "keep_gate", "new_cell")
CELLS = {                           # control bit of the lanes: the cell functions that set it
    "times_kept": (Cell.PRODUCT, Cell.BLEND),
    "times_state": (Cell.STATE, Cell.GATE),
    "blend": (Cell.BLEND,),
    "add_activation": (Cell.ACTIVATION, Cell.BLEND, Cell.OUTPUT),
    "add_result": (Cell.STATE,),
    "output": (Cell.OUTPUT,),
}
DECODE_CYCLE = 5                    # cycle after the sum in which the cell function is decoded, before the first control bit of ``CELLS``
UNDECIDED = SLOT                    # slots in flight that do not yet count in ``credits``


def SumReadPort(cfg):
    """Read port of the sums in the PEs, seen from the activation pipeline: ``SumRequestPort``, and the answer.

    *Ports*:
    data : In(32).array(tail_lanes)
        Sums, ``cfg.register_read_latency`` cycles after ``enable``.
    """
    return Signature({**SumRequestPort(cfg).members, "data": In(32).array(cfg.tail_lanes)})


class Tail(Component):
    """Activation pipeline: ``tail_lanes`` lanes that convert sums to activations, cell states and hidden states, for the jobs of all
    contexts [S3.5].

    A *slot* is one operation on one element group of ``tail_lanes`` elements. docs/units/rnn.md defines the arithmetic bit by bit. Sums
    have 32 bits, operands and results 16 bits, signed.

    A job must not read elements that an earlier slot of the same job writes. Between two slots of a pair of operations the distance in
    slots is at least ``GATED_DISTANCE`` (``keep_gate`` to GATED) or ``KEEP_DISTANCE`` (KEEP to GATED).

    *Ports*:
    i : In(stream.Signature(tail_job_layout(cfg)))
        Jobs; a job is accepted with its last slot.
    operations : Out(RecordReadPort(cfg, operation_layout))
        Read port of the table of operations.
    sums : Out(SumReadPort(cfg))
        Read port of the sums.
    operand : Out(OperandReadPort(cfg))
        Read port of vector memory.
    write : Out(ElementWritePort(cfg))
        Write port of vector memory; registered.
    write_next : Out(1)
        ``write.enable`` of the next cycle.
    o_output : Out(stream.Signature(tail_output_layout(cfg)))
        Results for shared memory.
    o_wrote : Out(stream.Signature(written_group_layout(cfg), always_ready=True))
        In the previous cycle the last operation of an element group, or of a pair of groups, was written.
    busy : Out(1)
        A job is pending, a slot is in flight, or a result has not left.

    *Latency*: ``sums.enable`` is valid ``ISSUE_LATENCY`` (3) cycles after a slot begins; the first slot of a job begins with
    ``i.valid`` at the earliest. ``write`` follows ``cfg.register_read_latency + TAIL_LATENCY`` (13) cycles after ``sums.enable``,
    ``o_wrote`` one cycle later, ``o_output.valid`` two cycles after ``write``.

    *Throughput*: one slot a cycle, without a gap between jobs. A job with ``settled`` begins at the earliest ``SETTLED`` (15) cycles
    after the last slot of the previous job of its context.

    *Back-pressure*: slots do not begin while results in flight could exceed the queue of ``o_output`` (``output_depth`` items). A slot
    that has begun never stalls. ``i.ready`` depends combinationally on ``i.valid`` and ``i.payload``, not on ``o_output.ready``.

    *Reset*: discards all jobs, slots and results.

    *Area*: docs/units/rnn.md.

    *Source*: [S3.5].
    """

    def __init__(self, cfg):
        self.cfg = cfg = RnnParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(tail_job_layout(cfg))),
            "operations": Out(RecordReadPort(cfg, operation_layout)),
            "sums": Out(SumReadPort(cfg)),
            "operand": Out(OperandReadPort(cfg)),
            "write": Out(ElementWritePort(cfg)),
            "write_next": Out(1),
            "o_output": Out(stream.Signature(tail_output_layout(cfg))),
            "o_wrote": Out(stream.Signature(written_group_layout(cfg), always_ready=True)),
            "busy": Out(1),
        })

    @property
    def output_depth(self):
        """Depth of the output queue: enough for one result every cycle."""
        return self.cfg.register_read_latency + TAIL_LATENCY + 8

    @property
    def _sum_cycle(self):
        """Cycles from ``slot`` of ``TailIssue`` to the sums at ``sums.data``."""
        return ISSUE_LATENCY - SLOT + self.cfg.register_read_latency

    def elaborate(self, platform):
        m = Module()
        m.submodules.issue = issue = TailIssue(self.cfg)
        m.submodules.queue = queue = Queue(tail_output_layout(self.cfg), self.output_depth)
        link(m, self.i, issue.i)
        link(m, queue.o, self.o_output)
        connect(m, issue.operations, flipped(self.operations))
        connect_members(m, issue.sums, flipped(self.sums), issue.sums.signature.members)
        self._compute(m, issue.slot, queue.i.payload.elements)
        self._place(m, issue.slot, queue.i)
        credits = Signal(range(self.output_depth + 1), init=self.output_depth)
        m.d.sync += credits.eq(credits - issue.slot.flags.output + (queue.o.valid & queue.o.ready))
        m.d.comb += issue.free.eq(credits > UNDECIDED)
        under_way = self._follow(m, issue)
        m.d.comb += self.busy.eq(issue.active | under_way | (credits != self.output_depth))
        return m

    def _compute(self, m, slot, elements):
        """The lanes, with their operands and results."""
        m.submodules.operand_delay = delay = Delay(vector_group_bits(self.cfg), self._sum_cycle - 1)
        m.d.comb += [delay.i.eq(slot.operand_group), self.operand.group.eq(delay.o)]
        control = self._control(m, slot)
        lane_type = SharedModule("tail_lane", TailLane)
        for index in range(self.cfg.tail_lanes):
            lane = lane_type.instantiate(m, f"lane_{index}")
            m.d.comb += [
                lane.control.eq(control),
                lane.sum.eq(self.sums.data[index]),
                lane.operand.eq(self.operand.data[index]),
                self.write.data[index].eq(lane.result),
                elements[index].eq(lane.result),
            ]

    def _control(self, m, slot):
        """Control bits of the lanes, each field delayed to its own cycle."""
        operation = slot.operation
        values = {"gated": operation.pre == Pre.GATED, "peephole": operation.pre == Pre.PEEPHOLE}
        resets = {name: getattr(slot.flags, name) for name in LANE_FLAGS}
        cell = Stages(m, Value.cast(operation.cell), "cell")
        control, stages = Signal(tail_control_layout), {}
        for field, _ in tail_control_layout:
            name, cycle = field.rsplit("_", 1)
            since = self._sum_cycle + int(cycle)
            if name == "beyond":    # from the shift of the previous cycle
                stages[name] = since, Stages(m, self._beyond(m, stages["shift"][1][since - 1]), name)
            elif name not in stages and name in CELLS:    # delay the code, which is narrower than the decoded bits
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
        """Overflow mask of the sum for a shift: bit n is set where bit 17 + n of the sum is at bit 17 or above after it. Registered
        once for all lanes.
        """
        beyond = Signal(14, reset_less=True)
        m.d.sync += beyond.eq(Cat(shift <= index for index in range(14)))
        return beyond

    def _place(self, m, slot, results):
        """Destinations of results."""
        cycles = self._sum_cycle + TAIL_LATENCY
        write = Stages(m, slot.flags.write, "write", reset=True)
        m.submodules.address_delay = delay = Delay(
            data.StructLayout({"group": len(slot.destination_group), "address": len(slot.output_address)}), cycles)
        m.d.comb += [
            delay.i.group.eq(slot.destination_group),
            delay.i.address.eq(slot.output_address),
            self.write.enable.eq(write[cycles]), self.write_next.eq(write[cycles - 1]),
            self.write.group.eq(delay.o.group),
            results.valid.eq(Stages(m, slot.flags.output, "output", reset=True)[cycles]),
            results.payload.address.eq(delay.o.address),
        ]

    def _follow(self, m, issue):
        """Progress of the slots, for the scoreboard and for later jobs of the same context; returns whether a slot is in flight."""
        slot, end = issue.slot, self._sum_cycle + TAIL_LATENCY + 1
        ends, contexts = Stages(m, Value.cast(slot.ends), "ends", reset=True), Stages(m, slot.context, "context")
        at = [data.View(end_layout, ends[cycle]) for cycle in range(end + 1)]
        settled = SETTLED - SLOT - 1
        m.d.comb += [
            issue.i_settled.valid.eq(at[settled].job_end),
            issue.i_settled.payload.context.eq(contexts[settled]),
            self.o_wrote.valid.eq(at[end].group_end),
            self.o_wrote.payload.context.eq(contexts[end]),
            self.o_wrote.payload.finished.eq(at[end].job_end),
        ]
        return Cat(view.valid for view in at).any()
