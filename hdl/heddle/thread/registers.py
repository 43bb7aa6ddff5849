"""Reads of operands from, and writes of results to, the registers of the lanes."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..config import FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS, REGISTER_BITS
from ..layouts import thread_operation_layout
from .operands import OperandWalk

__all__ = ["OPERAND_QUEUE", "READ_LATENCY", "OperandReader", "ResultWriter"]

OPERAND_QUEUE = 16      # operands of each slot that are read in advance: as many as distributed RAM holds anyway
READ_LATENCY = 2        # cycles from the grant of a read to its data
WORDS = 4               # 32-bit words of a result


class OperandReader(Component):
    """Reads the registers of the operation in the slot stage, in the order of ``OperandWalk``, a group and a register a cycle.

    What is read goes to a queue in each slot, which all slots use alike; reads go on while it has room.

    Members
    -------
    operation, start, none, cancel
        See ``OperandWalk``. Nothing may be ``arriving`` with ``start``, which empties the queue.
    writing, destination
        The operation before is still to write these of the four registers around this one; reads of them wait.
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
            "start": In(1),
            "none": In(1),
            "cancel": In(1),
            "writing": In(WORDS),
            "destination": In(REGISTER_BITS),
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
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.walk = walk = OperandWalk(self.cfg)
        bits = exact_log2(OPERAND_QUEUE)
        asked, written, taken = (Signal(bits + 1, name=name) for name in ("asked", "written", "taken"))
        under_way = Signal(READ_LATENCY)
        granted, full, hazard = Signal(), Signal(), Signal()
        m.d.comb += [
            walk.operation.eq(self.operation), walk.start.eq(self.start), walk.none.eq(self.none), walk.cancel.eq(self.cancel),
            full.eq((asked[:bits] == taken[:bits]) & (asked[bits] != taken[bits])),
            hazard.eq((self.writing.bit_select(walk.number[:2], 1) & (self.destination[2:] == walk.number[2:]))
                      | (self.factor_write & (walk.number >= FIRST_FACTOR_REGISTER))),
            self.read.eq(~walk.done & walk.needed & ~full & ~hazard),
            self.read_number.eq(walk.number), self.read_group.eq(walk.group),
            granted.eq(self.read & self.read_grant),
            walk.advance.eq(~walk.done & (~walk.needed | granted)),
            self.event_stalls.eq(self.read & ~self.read_grant),
            self.arrive.eq(under_way[-1]), self.arriving.eq(under_way.any()),
            self.write_place.eq(written), self.read_place.eq(taken), self.available.eq(written != taken),
        ]
        m.d.sync += [
            under_way.eq(Cat(granted, under_way)),
            asked.eq(asked + granted), written.eq(written + self.arrive), taken.eq(taken + self.take),
        ]
        with m.If(self.start):
            m.d.sync += [asked.eq(0), written.eq(0), taken.eq(0)]
        return m


class ResultWriter(Component):
    """Writes the results of an operation to its destination registers and completes it.

    Results go from the slots to the lanes group by group: for factor registers a factor word a cycle, into the registers; for product
    registers a 32-bit word a cycle into the lanes, then all lanes write at once. An operation that writes nothing is completed in
    the cycle after ``take``. Cycles without stalls: 1 for G groups of ``16 / dot`` factor words, ``G + 4`` for
    each product register.

    Members
    -------
    take : In(1)
        An operation comes (only while not ``valid`` or with ``complete``): it writes ``words`` (bit j: word j) of the four registers
        around ``register``, in the lanes ``lanes``, out of results in ``buffer``.
    landing : In(1)
        Results are not in the buffer yet, or stores not in their banks.
    valid : Out(1)
        An operation waits for its writes.
    pending : Out(1)
        It is ``landing`` still.
    complete : Out(1)
        Combinational: it ends in this cycle; its last write is at the port in the next one at the latest.
    writing, destination
        Registers that the operation is still to write, of the four around this one.
    entry, place : Out
        Results that the slots give to the port in the next cycle: group and buffer, and the word that is lowest.
    return_lanes, write_product, write_register, write_grant, write_factor, write_word, write_parts, write_lanes
        See ``RegisterPort``.
    event_stalls : Out(1)
        A write has to wait for ``mm``.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "take": In(1),
            "register": In(REGISTER_BITS),
            "words": In(WORDS),
            "lanes": In(cfg.threads),
            "buffer": In(1),
            "landing": In(1),
            "valid": Out(1),
            "pending": Out(1),
            "complete": Out(1),
            "writing": Out(WORDS),
            "destination": Out(REGISTER_BITS),
            "entry": Out(range(2 * cfg.thread_groups)),
            "place": Out(2),
            "return_lanes": Out(cfg.threads),
            "write_product": Out(1),
            "write_register": Out(PRODUCT_REGISTERS.bit_length() - 1),
            "write_grant": In(1),
            "write_factor": Out(1),
            "write_word": Out(cfg.factor_address_bits),
            "write_parts": Out(cfg.numbers_per_word),
            "write_lanes": Out(cfg.threads),
            "event_stalls": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, parts = self.cfg, self.cfg.numbers_per_word
        slots = min(cfg.thread_slots, cfg.threads)
        self._left, self._factor = Signal(WORDS, name="left"), Signal(name="factor")
        self._landed, self._settle = Signal(name="landed"), Signal(name="settle")
        group, buffer, lanes = Signal(range(cfg.thread_groups)), Signal(), Signal(cfg.threads, reset_less=True)
        run, last, after, asked = Signal(), Signal(), Signal(WORDS), Signal()
        of_group = Signal(cfg.threads)
        m.d.comb += [
            self._factor.eq(self.destination >= FIRST_FACTOR_REGISTER),
            self.pending.eq(self.valid & ~self._landed & self.landing),
            run.eq(self.valid & ~self.pending & self._left.any() & ~self._settle & ~self.write_product),
            last.eq(run & (group == cfg.thread_groups - 1)),
            self.writing.eq(Mux(self.valid, self._left, 0)),
            self.complete.eq(self.valid & ~self.pending & ~after.any()),
            self.entry.eq(Cat(group, buffer)),
            of_group.eq(Cat((group == lane // slots) for lane in range(cfg.threads))),
            self.event_stalls.eq(self.write_product & asked & ~self.write_grant),
        ]
        chunk = self._place(m, after, last, parts)
        m.d.sync += [
            self._left.eq(after), self._landed.eq(~self.pending), asked.eq(self.write_product & ~self.write_grant),
            self.return_lanes.eq(Mux(run & ~self._factor, of_group, 0)),
            self.write_factor.eq(run & self._factor), self.write_word.eq(Cat(chunk, (self.destination - FIRST_FACTOR_REGISTER)[2:])),
            self.write_parts.eq(self._left.word_select(chunk, parts)),
            self.write_lanes.eq(Mux(self._factor, of_group, ~0) & lanes),
            self._settle.eq(last & ~self._factor),
            self.write_product.eq(self._settle | (self.write_product & ~self.write_grant)),
        ]
        m.d.comb += self.write_register.eq(Cat(self.place, self.destination[2:]))
        with m.If(run):
            m.d.sync += group.eq(Mux(last, 0, group + 1))
        with m.If(self.complete):
            m.d.sync += self.valid.eq(0)
        with m.If(self.take):
            m.d.sync += [self.valid.eq(1), self._left.eq(self.words), self.destination.eq(self.register), lanes.eq(self.lanes),
                         buffer.eq(self.buffer), self._landed.eq(0), group.eq(0)]
        return m

    def _place(self, m, after, last, parts):
        """The word, or the chunk of ``dot`` bytes, whose turn it is; returns the number of the chunk."""
        lowest, chunk = Signal(2), Signal(2 - exact_log2(parts))
        for number in reversed(range(WORDS)):
            with m.If(self._left[number]):
                m.d.comb += lowest.eq(number)
        m.d.comb += [
            chunk.eq(lowest[exact_log2(parts):]),
            self.place.eq(Mux(self._factor, Cat(C(0, exact_log2(parts)), chunk), lowest)),
            after.eq(self._left),
        ]
        with m.If(self._factor & last):
            m.d.comb += after.eq(self._left & ~Cat((chunk == word // parts) for word in range(WORDS)))
        with m.If(self.write_product & self.write_grant):
            m.d.comb += after.eq(self._left & ~Cat((lowest == word) for word in range(WORDS)))
        return chunk
