"""Operand fetch: queue of thread operations, and operand collector for their register reads."""

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, Signature, connect, flipped
from amaranth.utils import exact_log2

from ..constants import FIRST_FACTOR_REGISTER, REGISTER_BITS
from ..interfaces.layouts import ThreadKind, thread_operation_layout
from ..lib.members import connect_members
from ..lib.stream import Queue, link
from ..parameters.thread import ThreadParameters
from .operand_sequencer import OperandSequencer, operand_kind, operand_kind_layout

__all__ = ["OPERAND_QUEUE", "WORDS", "ExecutingPort", "OperandCollector", "OperandEntryPort", "OperandFetch", "OperandQueuePort",
           "PendingWritePort", "RegisterReadPort", "fetched_layout"]

OPERAND_QUEUE = 16      # entries of each SIMD lane that are read in advance: the depth of a cell of distributed RAM
WORDS = 4               # 32-bit words of a result


def fetched_layout(cfg):
    """Operation that operand fetch hands to execution, and ``operand_kind`` of it."""
    return data.StructLayout({"operation": thread_operation_layout(cfg), "kind": operand_kind_layout(cfg)})


def PendingWritePort():
    """Registers that an operation has not written yet, seen from the owner of the operation.

    *Ports*:
    words : Out(WORDS)
        Bit w is word w of the four registers around ``register``; zero without a pending write.
    register : Out(REGISTER_BITS)
        One of these four registers.
    """
    return Signature({"words": Out(WORDS), "register": Out(REGISTER_BITS)})


def RegisterReadPort(cfg):
    """Reads of operands from the register files, seen from the operand collector: a part of ``RegisterPort``.

    *Ports*:
    read : Out(1)
        Requests register ``read_number`` of the threads of group ``read_group``.
    read_number : Out(REGISTER_BITS)
        Register number.
    read_group : Out(range(thread_groups))
        Thread group.
    read_pair : Out(1)
        With ``register_pairs``: the next register too.
    read_grant : In(1)
        The read is granted in this cycle.
    """
    return Signature({
        "read": Out(1), "read_number": Out(REGISTER_BITS), "read_group": Out(range(cfg.thread_groups)),
        **({"read_pair": Out(1)} if cfg.register_pairs else {}), "read_grant": In(1),
    })


def OperandQueuePort():
    """Pointers of the operand queues, which all SIMD lanes share, seen from the operand collector.

    An entry has the operands of a micro-operation: ``first`` (first operand, or address) and ``second`` (second operand, or data), or
    those of two with a pair of data.

    *Ports*:
    first, second : Out(1)
        ``first``, or ``second``, of the entry at ``write_place`` is at ``read_data`` of the register port; data of a pair come together.
    write_place : Out(range(16))
        Place in the queues that operands come to.
    read_place : Out(range(16))
        Place of the oldest entry.
    """
    return Signature({
        "first": Out(1), "second": Out(1), "write_place": Out(range(OPERAND_QUEUE)), "read_place": Out(range(OPERAND_QUEUE)),
    })


def OperandEntryPort():
    """Oldest entry of the operand queues, seen from the operand collector.

    *Ports*:
    available : Out(1)
        The queues hold an entry.
    arriving : Out(1)
        Granted reads are in flight.
    take : In(1)
        Removes the oldest entry; only with ``available``.
    """
    return Signature({"available": Out(1), "arriving": Out(1), "take": In(1)})


def ExecutingPort(cfg):
    """Operation in execution, seen from the execution stage.

    *Ports*:
    operation, kind : Out(thread_operation_layout(cfg)), Out(operand_kind_layout(cfg))
        The operation and ``operand_kind`` of it.
    words : Out(WORDS)
        Which of the four registers around ``operation.dst`` it writes; none without an operation.
    failing : Out(1)
        The operation ends early, because an address has an error.
    """
    return Signature({
        "operation": Out(thread_operation_layout(cfg)), "kind": Out(operand_kind_layout(cfg)), "words": Out(WORDS), "failing": Out(1),
    })


class OperandFetch(Component):
    """Operand fetch: queues ``thread_queue`` operations in front of the SIMD lanes, and reads their registers.

    Without ``thread_overlap`` the registers of an operation are read from the cycle after it entered the SIMD lanes. With
    ``thread_overlap`` the oldest pending operation is in a register. The registers of this operation are read as soon as those of its
    predecessor are, so the SIMD lanes find operands without a gap. Reads wait for registers that earlier operations have not written yet.

    Parameters
    ----------
    cfg : ThreadParameters

    *Ports*:
    i : In(stream.Signature(thread_operation_layout(cfg)))
        Operations from issue.
    o : Out(stream.Signature(fetched_layout(cfg)))
        Operations for execution, in the same order.
    stop : In(1)
        Without ``thread_overlap``: registers of the operation taken at ``o`` are not read, because it is discarded.
    executing : In(ExecutingPort(cfg))
        The operation in execution. Without ``thread_overlap`` its registers are read, up to ``failing``.
    pending_writes : In(PendingWritePort()).array(1)
        Registers that operations in write-back have not written yet. With ``thread_overlap`` an array of 2.
    factor_write : In(1)
        A factor register is written in this cycle; reads of factor registers wait.
    registers : Out(RegisterReadPort(cfg))
        Reads of the register files.
    queue, entries : Out(OperandQueuePort()), Out(OperandEntryPort())
        Operand queues of the SIMD lanes.
    event_stalls : Out(1)
        A read was refused in this cycle.
    busy : Out(1)
        An operation is pending here.

    *Latency*: from ``i`` to ``o.valid`` one cycle with ``thread_queue`` 2, else two; one more with ``thread_overlap``.

    *Throughput*: one operation a cycle at most; one register, or pair of registers, of one group a cycle.

    *Back-pressure*: ``i.ready`` and ``o.valid`` come from registers.

    *Reset*: no operation is pending.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(thread_operation_layout(cfg))),
            "o": Out(stream.Signature(fetched_layout(cfg))),
            "stop": In(1),
            "executing": In(ExecutingPort(cfg)),
            "pending_writes": In(PendingWritePort()).array(earlier_writes(cfg) - cfg.thread_overlap),
            "busy": Out(1),
        } | collector_members(cfg))

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(thread_operation_layout(self.cfg), self.cfg.thread_queue)
        m.submodules.reader = reader = OperandCollector(self.cfg)
        link(m, self.i, queue.i)
        outside = reader.pending_writes[:len(self.pending_writes)]      # with overlap the reader has one more
        for outer, inner in zip(self.pending_writes, outside, strict=True):
            connect(m, flipped(outer), inner)
        connect_members(m, flipped(self), reader, collector_members(self.cfg))
        if self.cfg.thread_overlap:
            self._read_ahead(m, queue, reader)
        else:
            m.d.comb += [
                self.o.valid.eq(queue.o.valid), queue.o.ready.eq(self.o.ready), self.o.payload.operation.eq(queue.o.payload),
                *(self.o.payload.kind[name].eq(value) for name, value in operand_kind(self.cfg, queue.o.payload).items()),
                reader.operation.eq(self.executing.operation), reader.kind.eq(self.executing.kind),
                reader.start.eq(self.o.valid & self.o.ready),
                reader.none.eq(self.stop | (queue.o.payload.kind == ThreadKind.LANE_MASK)), reader.cancel.eq(self.executing.failing),
                self.busy.eq(queue.level != 0),
            ]
        return m

    def _read_ahead(self, m, queue, reader):
        """Registers of the pending operation are read before it enters execution.

        ``ahead`` remains for its reads after it has entered execution. The next operation replaces it when both are over.
        """
        ahead, waits = Signal(fetched_layout(self.cfg), name="ahead", reset_less=True), Signal(name="operation_waits")
        executing, of_executing = self.executing, reader.pending_writes[-1]
        m.d.comb += [
            queue.o.ready.eq((~waits | self.o.ready) & reader.over),
            self.o.valid.eq(waits), self.o.payload.eq(ahead),
            reader.operation.eq(ahead.operation), reader.kind.eq(ahead.kind), reader.start.eq(queue.o.valid & queue.o.ready),
            reader.none.eq(queue.o.payload.kind == ThreadKind.LANE_MASK), reader.ahead.eq(waits),
            of_executing.words.eq(executing.words), of_executing.register.eq(executing.operation.dst),
            self.busy.eq((queue.level != 0) | waits),
        ]
        with m.If(self.o.ready):
            m.d.sync += waits.eq(0)
        with m.If(reader.start):
            m.d.sync += [waits.eq(1), ahead.operation.eq(queue.o.payload)]
            m.d.sync += [ahead.kind[name].eq(value) for name, value in operand_kind(self.cfg, queue.o.payload).items()]


def earlier_writes(cfg):
    """Number of entries of earlier operations whose results are not written yet: 1 in write-back.

    With ``thread_overlap`` two in write-back and one in the SIMD lanes.
    """
    return 3 if cfg.thread_overlap else 1


def collector_members(cfg):
    """Ports of ``OperandCollector`` that ``OperandFetch`` passes on."""
    return {
        "factor_write": In(1), "registers": Out(RegisterReadPort(cfg)), "queue": Out(OperandQueuePort()),
        "entries": Out(OperandEntryPort()), "event_stalls": Out(1),
    }


class OperandCollector(Component):
    """Operand collector: reads the operands of the micro-operations from the register files, one register of one group a cycle.

    Operands go to a queue of 16 entries in each SIMD lane; all lanes share its pointers, which are here. With ``register_pairs`` two data
    words of a store are read together.

    Parameters
    ----------
    cfg : ThreadParameters

    *Ports*:
    operation, kind : In(thread_operation_layout(cfg)), In(operand_kind_layout(cfg))
        The operation whose registers are read, and ``operand_kind`` of it; constant while reads remain.
    start : In(1)
        Reads of ``operation`` begin in the next cycle. Without ``thread_overlap`` this empties the queue; no read may be in flight.
    none : In(1)
        With ``start``: no register is read.
    cancel : In(1)
        Without ``thread_overlap``: the remaining registers are not read.
    pending_writes : In(PendingWritePort()).array(earlier_writes(cfg))
        Registers that earlier operations have not written yet. Reads of them wait.
    ahead : In(1)
        With ``thread_overlap``: ``operation`` has not entered the SIMD lanes, so the last entry of ``pending_writes`` is of an earlier one.
    factor_write : In(1)
        A factor register is written in this cycle; reads of factor registers wait.
    registers : Out(RegisterReadPort(cfg))
        Reads of the register files.
    queue, entries : Out(OperandQueuePort()), Out(OperandEntryPort())
        Operand queues of the SIMD lanes.
    over : Out(1)
        The last read has been granted, or is in this cycle.
    event_stalls : Out(1)
        A read was refused in this cycle.

    *Latency*: ``queue.first`` or ``queue.second`` is ``register_read_latency`` cycles after the grant. ``entries.available`` is one cycle
    after the last operand of the entry.

    *Throughput*: one register, or pair of registers, of one group a cycle.

    *Back-pressure*: ``read`` waits while the queue has no place, reads in flight included. ``read`` is combinational from
    ``pending_writes``, ``ahead`` and ``factor_write``, not from ``read_grant``. ``over`` is combinational from ``read_grant``.

    *Reset*: the queue is empty and nothing is to be read.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        super().__init__({
            "operation": In(thread_operation_layout(cfg)),
            "kind": In(operand_kind_layout(cfg)),
            "start": In(1),
            "none": In(1),
            "cancel": In(1),
            "pending_writes": In(PendingWritePort()).array(earlier_writes(cfg)),
            "ahead": In(1),
            "over": Out(1),
        } | collector_members(cfg))

    def elaborate(self, platform):
        m = Module()
        m.submodules.sequencer = sequencer = OperandSequencer(self.cfg)
        port, queue, entries = self.registers, self.queue, self.entries
        bits = exact_log2(OPERAND_QUEUE)
        asked, written, taken = (Signal(bits + 1, name=name) for name in ("asked", "written", "taken"))
        read_layout = data.StructLayout({"first": 1, "second": 1, "final": 1})      # operand of an entry, and whether it is its last
        granted, full, hazard, overlap = Signal(read_layout), Signal(), Signal(), self.cfg.thread_overlap
        under_way = [Signal(read_layout, name=f"under_way_{cycle}") for cycle in range(self.cfg.register_read_latency)]
        arriving, grants = under_way[-1], Signal()
        m.d.comb += [
            sequencer.operation.eq(self.operation), sequencer.kind.eq(self.kind), sequencer.start.eq(self.start),
            sequencer.none.eq(self.none), sequencer.cancel.eq(0 if overlap else self.cancel),
            full.eq((asked[:bits] == taken[:bits]) & (asked[bits] != taken[bits])), hazard.eq(self._hazard(sequencer)),
            port.read.eq(~sequencer.done & sequencer.needed & ~full & ~hazard),
            port.read_number.eq(sequencer.read.number), port.read_group.eq(sequencer.read.group),
            grants.eq(port.read & port.read_grant),
            granted.first.eq(grants & ~sequencer.read.second), granted.second.eq(grants & sequencer.read.second),
            granted.final.eq(grants & sequencer.read.final),
            sequencer.advance.eq(~sequencer.done & (~sequencer.needed | grants)),
            self.over.eq(sequencer.done | (sequencer.advance & sequencer.last)),
            self.event_stalls.eq(port.read & ~port.read_grant),
            queue.first.eq(arriving.first), queue.second.eq(arriving.second),
            queue.write_place.eq(written), queue.read_place.eq(taken),
            entries.arriving.eq(Cat(read.as_value().any() for read in under_way).any()), entries.available.eq(written != taken),
        ]
        if self.cfg.register_pairs:
            m.d.comb += port.read_pair.eq(port.read & sequencer.read.second & self.kind.pairs)
        m.d.sync += [later.eq(earlier) for earlier, later in zip((granted, *under_way[:-1]), under_way, strict=True)]
        m.d.sync += [asked.eq(asked + granted.final), written.eq(written + arriving.final), taken.eq(taken + entries.take)]
        if not overlap:
            with m.If(self.start):
                m.d.sync += [asked.eq(0), written.eq(0), taken.eq(0)]
        return m

    def _hazard(self, sequencer):
        """The register that is present, or one of its pair, is still to be written, or cannot be read in this cycle."""
        hazards, pair = [], sequencer.read.second & self.kind.pairs
        for pending in self.pending_writes:
            words = pending.words | Mux(pair, pending.words >> 1, 0)        # a pair begins at an even register
            hazards.append(words.bit_select(sequencer.read.number[:2], 1) & (pending.register[2:] == sequencer.read.number[2:]))
        if self.cfg.thread_overlap:
            hazards[-1] = hazards[-1] & self.ahead
        return Cat(hazards).any() | (self.factor_write & (sequencer.read.number >= FIRST_FACTOR_REGISTER))
