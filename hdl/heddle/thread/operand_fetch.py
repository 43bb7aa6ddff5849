"""The way of an operation into the slots: its queue, and the reads of its registers."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import REGISTER_BITS
from ..interfaces.layouts import ThreadKind, thread_operation_layout
from ..lib.stream import Queue, link
from .operand_collector import OPERAND_QUEUE, WORDS, OperandCollector, earlier_writes
from .operand_sequencer import walk_kind, walk_kind_layout

__all__ = ["OperandFetch"]


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
        for name in ("factor_write", "read_grant", "take"):
            m.d.comb += getattr(reader, name).eq(getattr(self, name))
        for name in ("read", "read_number", "read_group", "arrive", "write_place", "read_place", "available", "arriving", "event_stalls"):
            m.d.comb += getattr(self, name).eq(getattr(reader, name))
        for name in ("writing", "destination"):
            m.d.comb += [inner.eq(outer) for inner, outer in zip(getattr(reader, name), getattr(self, name))]
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
