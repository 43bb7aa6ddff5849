"""Reads of operands from the registers of the lanes."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import FIRST_FACTOR_REGISTER, REGISTER_BITS
from ..interfaces.layouts import thread_operation_layout
from .operand_sequencer import OperandSequencer, walk_kind_layout

__all__ = ["OPERAND_QUEUE", "WORDS", "OperandCollector", "earlier_writes"]

OPERAND_QUEUE = 16      # operands of each slot that are read in advance: as many as distributed RAM holds anyway
WORDS = 4               # 32-bit words of a result


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
