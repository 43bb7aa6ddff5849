"""The way of an operation into the slots: its queue, and the reads of its registers."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, flipped
from amaranth.utils import exact_log2

from ..constants import FIRST_FACTOR_REGISTER, REGISTER_BITS
from ..interfaces.layouts import ThreadKind, thread_operation_layout
from ..lib.members import connect_members
from ..lib.stream import Queue, link
from .operand_sequencer import OperandSequencer, walk_kind, walk_kind_layout

__all__ = ["OPERAND_QUEUE", "WORDS", "earlier_writes", "OperandCollector", "OperandFetch"]

OPERAND_QUEUE = 16      # operands of each slot that are read in advance: as many as distributed RAM holds anyway
WORDS = 4               # 32-bit words of a result


class OperandFetch(Component):
    """Operations wait here for the slots; their registers are read from the time on when they enter the slots.

    With ``cfg.thread_overlap`` the first operation that waits stands in a register, and its registers are read as soon as those of the one
    before are: the slots then find their operands without a gap. It waits for registers that earlier operations are still to write.

    Members
    -------
    i, o
        Operations; ``o`` to the slots.
    stop, cancel : In(1)
        The operation of ``o`` comes to be discarded; the rest of the one in the slots is. With ``cfg.thread_overlap`` neither
        counts: the slots take all operands.
    slots_operation, slots_kind
        The operation in the slots; see ``walk_kind``.
    writing, destination
        See ``OperandCollector``; with ``cfg.thread_overlap`` the last one belongs to the operation in the slots.
    factor_write, read, read_number, read_group, read_grant, arrive, write_place, take, read_place, available, arriving, event_stalls
        See ``OperandCollector``.
    busy : Out(1)
        An operation waits.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(stream.Signature(thread_operation_layout)),
            "o": Out(stream.Signature(thread_operation_layout)),
            "stop": In(1),
            "cancel": In(1),
            "slots_operation": In(thread_operation_layout),
            "slots_kind": In(walk_kind_layout),
            "writing": In(WORDS).array(earlier_writes(cfg)),
            "destination": In(REGISTER_BITS).array(earlier_writes(cfg)),
            "factor_write": In(1),
            "read": Out(1),
            "read_number": Out(REGISTER_BITS),
            "read_group": Out(range(cfg.thread_groups)),
            "read_grant": In(1),
            "arrive": Out(1),
            "write_place": Out(range(OPERAND_QUEUE)),
            "take": In(1),
            "read_place": Out(range(OPERAND_QUEUE)),
            "available": Out(1),
            "arriving": Out(1),
            "event_stalls": Out(1),
            "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(thread_operation_layout, self.cfg.thread_queue)
        m.submodules.reader = reader = OperandCollector(self.cfg)
        link(m, self.i, queue.i)
        connect_members(m, flipped(self), reader, (
            "factor_write", "read_grant", "take", "read", "read_number", "read_group", "arrive", "write_place", "read_place", "available",
            "arriving", "event_stalls", "writing", "destination"))
        if self.cfg.thread_overlap:
            self._read_ahead(m, queue, reader)
        else:
            link(m, queue.o, self.o)
            m.d.comb += [
                reader.operation.eq(self.slots_operation), reader.kind.eq(self.slots_kind), reader.start.eq(self.o.valid & self.o.ready),
                reader.none.eq(self.stop | (self.o.payload.kind == ThreadKind.LANE_MASK)), reader.cancel.eq(self.cancel),
                self.busy.eq(queue.level != 0),
            ]
        return m

    def _read_ahead(self, m, queue, reader):
        """``operation`` stays for its reads when it has gone to the slots; the next one comes when both are over."""
        operation = Signal(thread_operation_layout, name="operation_ahead", reset_less=True)
        kind = Signal(walk_kind_layout, name="kind_ahead", reset_less=True)
        waits = Signal(name="operation_waits")
        m.d.comb += [
            queue.o.ready.eq((~waits | self.o.ready) & reader.over),
            self.o.valid.eq(waits), self.o.payload.eq(operation),
            reader.operation.eq(operation), reader.kind.eq(kind), reader.start.eq(queue.o.valid & queue.o.ready),
            reader.none.eq(queue.o.payload.kind == ThreadKind.LANE_MASK), reader.ahead.eq(waits),
            self.busy.eq((queue.level != 0) | waits),
        ]
        with m.If(self.o.ready):
            m.d.sync += waits.eq(0)
        with m.If(reader.start):
            m.d.sync += [waits.eq(1), operation.eq(queue.o.payload)]
            m.d.sync += [kind[name].eq(value) for name, value in walk_kind(queue.o.payload).items()]


def earlier_writes(cfg):
    """Places of operations before the one that is read, with registers that they are still to write: where the writer has one, and with
    ``cfg.thread_overlap`` two there and one in the slots."""
    return 3 if cfg.thread_overlap else 1


class OperandCollector(Component):
    """Reads the registers of an operation in the order of ``OperandSequencer``, a group and a register a cycle.

    What is read goes to a queue in each slot, which all slots use alike; reads go on while it has room.

    Members
    -------
    operation, start, none, cancel
        See ``OperandSequencer``. Nothing may be ``arriving`` with ``start``, which empties the queue; with ``cfg.thread_overlap`` the queue
        goes on, and ``cancel`` does not count.
    writing, destination
        Operations before are still to write these of the four registers around this one; reads of them wait.
    ahead : In(1)
        The operation is not in the slots, so that the last of these counts.
    over : Out(1)
        The last read is granted, now or before.
    factor_write : In(1)
        A factor register is written in this cycle; reads of others wait.
    read, read_number, read_group, read_grant
        See ``RegisterPort``.
    arrive, write_place
        Operands stand at ``read_data``; their place in the queue.
    take, read_place, available
        Remove the first operand; where it is; there is one.
    arriving : Out(1)
        Reads are under way.
    event_stalls : Out(1)
        A read was refused in this cycle.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "operation": In(thread_operation_layout),
            "kind": In(walk_kind_layout),
            "start": In(1),
            "none": In(1),
            "cancel": In(1),
            "writing": In(WORDS).array(earlier_writes(cfg)),
            "destination": In(REGISTER_BITS).array(earlier_writes(cfg)),
            "ahead": In(1),
            "factor_write": In(1),
            "read": Out(1),
            "read_number": Out(REGISTER_BITS),
            "read_group": Out(range(cfg.thread_groups)),
            "read_grant": In(1),
            "arrive": Out(1),
            "write_place": Out(range(OPERAND_QUEUE)),
            "take": In(1),
            "read_place": Out(range(OPERAND_QUEUE)),
            "available": Out(1),
            "arriving": Out(1),
            "over": Out(1),
            "event_stalls": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.walk = walk = OperandSequencer(self.cfg)
        bits = exact_log2(OPERAND_QUEUE)
        asked, written, taken = (Signal(bits + 1, name=name) for name in ("asked", "written", "taken"))
        under_way = Signal(self.cfg.register_read_latency)
        granted, full, hazard, overlap = Signal(), Signal(), Signal(), self.cfg.thread_overlap
        hazards = [writing.bit_select(walk.number[:2], 1) & (destination[2:] == walk.number[2:])
                   for writing, destination in zip(self.writing, self.destination)]
        if overlap:
            hazards[-1] = hazards[-1] & self.ahead
        m.d.comb += [
            walk.operation.eq(self.operation), walk.kind.eq(self.kind), walk.start.eq(self.start), walk.none.eq(self.none),
            walk.cancel.eq(0 if overlap else self.cancel),
            full.eq((asked[:bits] == taken[:bits]) & (asked[bits] != taken[bits])),
            hazard.eq(Cat(hazards).any() | (self.factor_write & (walk.number >= FIRST_FACTOR_REGISTER))),
            self.read.eq(~walk.done & walk.needed & ~full & ~hazard),
            self.read_number.eq(walk.number), self.read_group.eq(walk.group),
            granted.eq(self.read & self.read_grant),
            walk.advance.eq(~walk.done & (~walk.needed | granted)), self.over.eq(walk.done | (walk.advance & walk.last)),
            self.event_stalls.eq(self.read & ~self.read_grant),
            self.arrive.eq(under_way[-1]), self.arriving.eq(under_way.any()),
            self.write_place.eq(written), self.read_place.eq(taken), self.available.eq(written != taken),
        ]
        m.d.sync += [
            under_way.eq(Cat(granted, under_way)),
            asked.eq(asked + granted), written.eq(written + self.arrive), taken.eq(taken + self.take),
        ]
        if not overlap:
            with m.If(self.start):
                m.d.sync += [asked.eq(0), written.eq(0), taken.eq(0)]
        return m
