"""Write-back of results to the register files of the PEs."""

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, Signature
from amaranth.utils import exact_log2

from ..constants import FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS, REGISTER_BITS
from ..parameters.thread import ThreadParameters
from .operand_fetch import WORDS, PendingWritePort
from .simd_lane import ResultReadPort

__all__ = ["LandingPort", "RegisterWritePort", "WriteBack", "write_back_layout"]


def write_back_layout(cfg):
    """Operation whose results are to be written.

    ``register``: destination, one of four registers at a multiple of four. ``words``: which of these four are written; none for an
    operation without results. ``lanes``: threads whose registers are written. ``buffer``: half of the result buffers that holds the
    results. ``same``, with ``thread_overlap``: the results of group 0 are for the threads of all groups.
    """
    return data.StructLayout({
        "register": REGISTER_BITS, "words": WORDS, "lanes": cfg.threads, "buffer": 1, **({"same": 1} if cfg.thread_overlap else {}),
    })


def LandingPort():
    """Results in flight of the operation in write-back, seen from write-back.

    *Ports*:
    landing : In(1)
        Results of the operation are still in flight to the result buffers, or its stores are not acknowledged.
    pending : Out(1)
        The operation has been ``landing`` in every cycle since it came.
    """
    return Signature({"landing": In(1), "pending": Out(1)})


def RegisterWritePort(cfg):
    """Writes of the register files, seen from write-back: a part of ``RegisterPort``.

    *Ports*:
    return_lanes : Out(threads)
        PEs that register the lowest 32 bits of ``return_data``.
    write_product, write_register, write_grant : Out(1), Out(8), In(1)
        Request to write these 32 bits to product register ``write_register``, held up to its grant.
    write_factor, write_word, write_parts : Out(1), Out(factor_address_bits), Out(dot / 4)
        Write of the 32-bit parts ``write_parts`` of factor word ``write_word``; always granted.
    write_pause : In(1)
        ``write_factor`` is low in the next cycle.
    write_lanes : Out(threads)
        PEs that write.
    """
    return Signature({
        "return_lanes": Out(cfg.threads),
        "write_product": Out(1), "write_register": Out(PRODUCT_REGISTERS.bit_length() - 1), "write_grant": In(1),
        "write_factor": Out(1), "write_word": Out(cfg.factor_address_bits), "write_parts": Out(cfg.numbers_per_word),
        "write_pause": In(1),
        "write_lanes": Out(cfg.threads),
    })


class WriteBack(Component):
    """Write-back stage: writes the results of an operation to its destination registers and completes the operation.

    Results go from the result buffers of the SIMD lanes to the PEs, group by group. Factor registers: a factor word a cycle goes directly
    into the register file. Product registers: a 32-bit word of each thread goes to a register of its PE, then all PEs write at once.

    Parameters
    ----------
    cfg : ThreadParameters

    *Ports*:
    i : In(stream.Signature(write_back_layout(cfg)))
        Operations.
    landing : Out(LandingPort())
        Results in flight of the last operation.
    busy : Out(1)
        An operation is not completed.
    complete : Out(1)
        An operation ends in this cycle. Its last write is at the port in the next cycle at the latest.
    pending_writes : Out(PendingWritePort()), array of 1, with ``thread_overlap`` of 2
        Registers that are not written yet. Entry 0 is the last operation, entry 1 the register that the PEs are writing.
    read : Out(ResultReadPort(cfg))
        Read of the result buffers: the SIMD lanes deliver the entry to the port of the register files in the next cycle.
    registers : Out(RegisterWritePort(cfg))
        Writes of the register files.
    event_stalls : Out(1)
        A write waits for ``mm``.

    *Latency*: an operation without results is complete in the cycle after it came. With G groups and no stall, four factor registers
    take G * 16 / ``dot`` cycles and each product register G + 3. With ``thread_overlap`` it takes G + 2, because the next word leaves the
    SIMD lanes while the PEs write.

    *Throughput*: one operation at a time. With ``thread_overlap`` the next one may come with the last group of its predecessor, else it
    comes a cycle after ``complete`` at the earliest.

    *Back-pressure*: ``complete`` is combinational from ``landing``, ``registers.write_pause`` and ``registers.write_grant``, with
    ``thread_overlap`` also ``i.ready``. Without, ``i.ready`` comes from a register.

    *Reset*: no operation is pending.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(write_back_layout(cfg))),
            "landing": Out(LandingPort()),
            "busy": Out(1),
            "complete": Out(1),
            "pending_writes": Out(PendingWritePort()).array(2 if cfg.thread_overlap else 1),
            "read": Out(ResultReadPort(cfg)),
            "registers": Out(RegisterWritePort(cfg)),
            "event_stalls": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        cfg, parts = self.cfg, self.cfg.numbers_per_word
        port, pending, incoming = self.registers, self.pending_writes[0], self.i.payload
        slots = min(cfg.thread_slots, cfg.threads)
        self._valid, self._left, self._factor = Signal(name="valid"), Signal(WORDS, name="left"), Signal(name="factor")
        self._register = Signal(REGISTER_BITS, name="register_of_operation")
        self._run, self._last = Signal(name="run"), Signal(name="last")         # a group leaves the SIMD lanes; the last of its word
        self._settle, self._pending, self._paused = Signal(name="settle"), Signal(name="pending"), Signal(name="paused")
        landed, buffer, same = Signal(), Signal(), Signal()
        group, next_group = Signal(range(cfg.thread_groups)), Signal(range(cfg.thread_groups))      # 0 when an operation comes
        last_group = Signal(init=cfg.thread_groups == 1)        # registered, because ``read.entry`` has many readers
        lanes, of_group = Signal(cfg.threads, reset_less=True), Signal(cfg.threads)
        after, asked = Signal(WORDS), Signal()
        m.d.comb += [
            self._factor.eq(self._register >= FIRST_FACTOR_REGISTER),
            self._paused.eq(self._factor & port.write_pause),
            self._pending.eq(self._valid & ~landed & self.landing.landing), self.landing.pending.eq(self._pending),
            self._last.eq(self._run & (same | last_group)),
            pending.words.eq(Mux(self._valid, self._left, 0)), pending.register.eq(self._register),
            next_group.eq(Mux(self._run, Mux(self._last, 0, group + 1), group)),
            self.read.entry.eq(Cat(group, buffer)),
            of_group.eq(Cat((group == lane // slots) for lane in range(cfg.threads)) | same.replicate(cfg.threads)),
            self.event_stalls.eq(port.write_product & asked & ~port.write_grant),
        ]
        chunk = self._place(m, after, parts)
        (self._overlap if cfg.thread_overlap else self._one_by_one)(m, after, Mux(self._factor, of_group, ~0) & lanes)
        m.d.sync += [
            self._left.eq(after), landed.eq(~self._pending), asked.eq(port.write_product & ~port.write_grant),
            port.return_lanes.eq(Mux(self._run & ~self._factor, of_group, 0)),
            port.write_factor.eq(self._run & self._factor),
            port.write_word.eq(Cat(chunk, (self._register - FIRST_FACTOR_REGISTER)[2:])),
            port.write_parts.eq(self._left.word_select(chunk, parts)),
            self._settle.eq(self._last & ~self._factor),
            port.write_product.eq(self._settle | (port.write_product & ~port.write_grant)),
        ]
        m.d.sync += [group.eq(next_group), last_group.eq(next_group == cfg.thread_groups - 1)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [self._valid.eq(1), self._left.eq(incoming.words), self._register.eq(incoming.register), lanes.eq(incoming.lanes),
                         buffer.eq(incoming.buffer), landed.eq(0)]
            if cfg.thread_overlap:
                m.d.sync += same.eq(incoming.same)
        return m

    def _one_by_one(self, m, after, lanes):
        """Without overlap: a word is pending up to its write by the PEs."""
        port = self.registers
        m.d.comb += [
            self._run.eq(self._valid & ~self._pending & self._left.any() & ~self._settle & ~port.write_product & ~self._paused),
            self.complete.eq(self._valid & ~self._pending & ~after.any()),
            self.i.ready.eq(~self._valid), self.busy.eq(self._valid),
            port.write_register.eq(Cat(self.read.place, self._register[2:])),
        ]
        m.d.sync += port.write_lanes.eq(lanes)
        with m.If(self.complete):
            m.d.sync += self._valid.eq(0)

    def _overlap(self, m, after, lanes):
        """With overlap: a word is pending until it has left the SIMD lanes. PEs may take the next one from the cycle of the grant on."""
        port, pending = self.registers, self.pending_writes[1]
        ends, writes, final = Signal(name="ends"), Signal(name="writes"), Signal(name="final")
        m.d.comb += [
            self._run.eq(self._valid & ~self._pending & self._left.any() & ~self._settle & ~self._paused
                         & (~port.write_product | (port.write_grant & ~self._factor))),
            writes.eq(self._settle | port.write_product),
            # An operation without results waits for its predecessor, so that at most one is completed in a cycle.
            ends.eq(self._valid & ~self._pending & ~after.any() & (self._left.any() | ~writes)),
            self.complete.eq((ends & (self._factor | ~self._left.any())) | (port.write_product & port.write_grant & final)),
            self.i.ready.eq(~self._valid | ends), self.busy.eq(self._valid | writes),
            pending.words.eq(Mux(writes, 1 << port.write_register[:2], 0)), pending.register.eq(port.write_register),
        ]
        with m.If(self._run):
            m.d.sync += [port.write_lanes.eq(lanes), port.write_register.eq(Cat(self.read.place, self._register[2:])),
                         final.eq(~after.any())]
        with m.If(ends):
            m.d.sync += self._valid.eq(0)

    def _place(self, m, after, parts):
        """Selects the next word or chunk of ``dot`` bytes, and the words that remain after it; returns the number of the chunk."""
        lowest, chunk, next_left = Signal(2, reset_less=True), Signal(2 - exact_log2(parts)), Signal(WORDS)
        m.d.comb += next_left.eq(Mux(self.i.ready, self.i.payload.words, after))        # whether an operation comes or not
        m.d.sync += lowest.eq(0)
        for number in reversed(range(WORDS)):
            with m.If(next_left[number]):
                m.d.sync += lowest.eq(number)
        m.d.comb += [
            chunk.eq(lowest[exact_log2(parts):]),
            self.read.place.eq(Mux(self._factor, Cat(C(0, exact_log2(parts)), chunk), lowest)),
            after.eq(self._left),
        ]
        with m.If(self._factor & self._last):
            m.d.comb += after.eq(self._left & ~Cat((chunk == word // parts) for word in range(WORDS)))
        product_over = self._last & ~self._factor if self.cfg.thread_overlap else self.registers.write_product & self.registers.write_grant
        with m.If(product_over):
            m.d.comb += after.eq(self._left & ~Cat((lowest == word) for word in range(WORDS)))
        return chunk
