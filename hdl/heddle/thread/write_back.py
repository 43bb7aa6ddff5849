"""Writes of results to the registers of the lanes."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS, REGISTER_BITS
from .operand_fetch import WORDS

__all__ = ["WriteBack"]


class WriteBack(Component):
    """Writes the results of an operation to its destination registers and completes it.

    Results go from the slots to the lanes group by group: for factor registers a factor word a cycle, into the registers; for product
    registers a 32-bit word a cycle into the lanes, then all lanes write at once. An operation that writes nothing is completed in
    the cycle after ``take``. Cycles without stalls, for G groups: ``G * 16 / dot`` for four factor registers, ``G + 3`` for each product
    register; with ``cfg.thread_overlap`` ``G + 2``, because the next word, of the next operation too, leaves the slots while
    the lanes write.

    Members
    -------
    take : In(1)
        An operation comes (only with ``ready``): it writes ``words`` (bit j: word j) of the four registers
        around ``register``, in the lanes ``lanes``, out of results in ``buffer``. ``same``: those of the first group are for all
        groups.
    landing : In(1)
        Results are not in the buffer yet, or stores not in their banks.
    ready : Out(1)
        Combinational: another operation may come.
    busy : Out(1)
        Operations are not completed.
    pending : Out(1)
        The last operation is ``landing`` still.
    complete : Out(1)
        Combinational: an operation ends in this cycle; its last write is at the port in the next one at the latest.
    writing, destination
        Registers that operations are still to write, of the four around this one: of the last operation, and with ``cfg.thread_overlap``
        the one that the lanes are writing.
    entry, place : Out
        Results that the slots give to the port in the next cycle: group and buffer, and the word that is lowest.
    entry_ahead : Out
        Combinational: ``entry`` of the next cycle, whenever results leave in that.
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
            "same": In(1),
            "landing": In(1),
            "ready": Out(1),
            "busy": Out(1),
            "pending": Out(1),
            "complete": Out(1),
            "writing": Out(WORDS).array(2 if cfg.thread_overlap else 1),
            "destination": Out(REGISTER_BITS).array(2 if cfg.thread_overlap else 1),
            "entry": Out(range(2 * cfg.thread_groups)),
            "entry_ahead": Out(range(2 * cfg.thread_groups)),
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
        self._valid, self._left, self._factor = Signal(name="valid"), Signal(WORDS, name="left"), Signal(name="factor")
        self._register = Signal(REGISTER_BITS, name="register_of_operation")
        self._run, self._last = Signal(name="run"), Signal(name="last")         # a group leaves the slots; the last one of its word
        self._settle = Signal(name="settle")
        landed, buffer, same = Signal(), Signal(), Signal()
        group, next_group = Signal(range(cfg.thread_groups)), Signal(range(cfg.thread_groups))      # 0 when an operation comes
        last_group = Signal(init=cfg.thread_groups == 1)        # known ahead: ``entry`` has many readers
        lanes, of_group = Signal(cfg.threads, reset_less=True), Signal(cfg.threads)
        after, asked = Signal(WORDS), Signal()
        m.d.comb += [
            self._factor.eq(self._register >= FIRST_FACTOR_REGISTER),
            self.pending.eq(self._valid & ~landed & self.landing),
            self._last.eq(self._run & (same | last_group)),
            self.writing[0].eq(Mux(self._valid, self._left, 0)), self.destination[0].eq(self._register),
            next_group.eq(Mux(self._run, Mux(self._last, 0, group + 1), group)),
            self.entry.eq(Cat(group, buffer)), self.entry_ahead.eq(Cat(next_group, Mux(self.ready, self.buffer, buffer))),
            of_group.eq(Cat((group == lane // slots) for lane in range(cfg.threads)) | same.replicate(cfg.threads)),
            self.event_stalls.eq(self.write_product & asked & ~self.write_grant),
        ]
        chunk = self._place(m, after, parts)
        (self._overlap if cfg.thread_overlap else self._one_by_one)(m, after, Mux(self._factor, of_group, ~0) & lanes)
        m.d.sync += [
            self._left.eq(after), landed.eq(~self.pending), asked.eq(self.write_product & ~self.write_grant),
            self.return_lanes.eq(Mux(self._run & ~self._factor, of_group, 0)),
            self.write_factor.eq(self._run & self._factor),
            self.write_word.eq(Cat(chunk, (self._register - FIRST_FACTOR_REGISTER)[2:])),
            self.write_parts.eq(self._left.word_select(chunk, parts)),
            self._settle.eq(self._last & ~self._factor),
            self.write_product.eq(self._settle | (self.write_product & ~self.write_grant)),
        ]
        m.d.sync += [group.eq(next_group), last_group.eq(next_group == cfg.thread_groups - 1)]
        with m.If(self.take):
            m.d.sync += [self._valid.eq(1), self._left.eq(self.words), self._register.eq(self.register), lanes.eq(self.lanes),
                         buffer.eq(self.buffer), landed.eq(0)]
            if cfg.thread_overlap:
                m.d.sync += same.eq(self.same)
        return m

    def _one_by_one(self, m, after, lanes):
        """A word is left until the lanes have written it."""
        m.d.comb += [
            self._run.eq(self._valid & ~self.pending & self._left.any() & ~self._settle & ~self.write_product),
            self.complete.eq(self._valid & ~self.pending & ~after.any()),
            self.ready.eq(~self._valid | (0 if self.cfg.far_registers else self.complete)), self.busy.eq(self._valid),
            self.write_register.eq(Cat(self.place, self._register[2:])),
        ]
        m.d.sync += self.write_lanes.eq(lanes)
        with m.If(self.complete):
            m.d.sync += self._valid.eq(0)

    def _overlap(self, m, after, lanes):
        """A word is left until it has left the slots. Lanes may take the next one from the cycle of the grant on."""
        ends, writes, final = Signal(name="ends"), Signal(name="writes"), Signal(name="final")
        m.d.comb += [
            self._run.eq(self._valid & ~self.pending & self._left.any() & ~self._settle
                         & (~self.write_product | (self.write_grant & ~self._factor))),
            writes.eq(self._settle | self.write_product),
            # An operation without a register of its own waits for the one before, so that one is completed in a cycle.
            ends.eq(self._valid & ~self.pending & ~after.any() & (self._left.any() | ~writes)),
            self.complete.eq((ends & (self._factor | ~self._left.any())) | (self.write_product & self.write_grant & final)),
            self.ready.eq(~self._valid | ends), self.busy.eq(self._valid | writes),
            self.writing[1].eq(Mux(writes, 1 << self.write_register[:2], 0)), self.destination[1].eq(self.write_register),
        ]
        with m.If(self._run):
            m.d.sync += [self.write_lanes.eq(lanes), self.write_register.eq(Cat(self.place, self._register[2:])), final.eq(~after.any())]
        with m.If(ends):
            m.d.sync += self._valid.eq(0)

    def _place(self, m, after, parts):
        """The word, or the chunk of ``dot`` bytes, whose turn it is, and what is left behind it; returns the number of the chunk."""
        lowest, chunk, next_left = Signal(2, reset_less=True), Signal(2 - exact_log2(parts)), Signal(WORDS)
        m.d.comb += next_left.eq(Mux(self.ready, self.words, after))        # if an operation comes or not
        m.d.sync += lowest.eq(0)
        for number in reversed(range(WORDS)):
            with m.If(next_left[number]):
                m.d.sync += lowest.eq(number)
        m.d.comb += [
            chunk.eq(lowest[exact_log2(parts):]),
            self.place.eq(Mux(self._factor, Cat(C(0, exact_log2(parts)), chunk), lowest)),
            after.eq(self._left),
        ]
        with m.If(self._factor & self._last):
            m.d.comb += after.eq(self._left & ~Cat((chunk == word // parts) for word in range(WORDS)))
        product_over = self._last & ~self._factor if self.cfg.thread_overlap else self.write_product & self.write_grant
        with m.If(product_over):
            m.d.comb += after.eq(self._left & ~Cat((lowest == word) for word in range(WORDS)))
        return chunk
