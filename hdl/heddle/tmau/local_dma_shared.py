"""Copies of blocks within shared memory [S1.12]."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import SHARED_READ_LATENCY, BankReadPort, BankWritePort, barrier_arrival_layout
from ..lib.stream import Queue
from .layouts import BLOCK_BITS, move_layout

__all__ = ["ARRIVAL_BLOCKS", "SharedDma"]

BLOCKS_AHEAD = 4        # read and not yet written: latency of the banks and of the queue
ARRIVAL_BLOCKS = 2048   # that a barrier is told at once


class SharedDma(Component):
    """Reads a block of 16 bytes a cycle from a bank and writes it to another place, in ascending order.

    4 cycles from a read to its write; blocks are read at most ``BLOCKS_AHEAD`` ahead: a destination that begins behind the source, inside
    it, gets blocks that were already overwritten, or were not. Throughput one block a cycle while its banks are free. A barrier is told
    the bytes when all are written. While ``stop`` is high nothing more is read. Reset drops the copy.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(stream.Signature(move_layout(cfg)))
        ``ready`` while nothing is under way.
    bank_read : Out(BankReadPort(cfg)), bank_write : Out(BankWritePort(cfg))
        Combinational from registers.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
    stop : In(1)
    completed : Out(1)
        A copy has ended, all of it written.
    busy : Out(1)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(stream.Signature(move_layout(cfg))), "bank_read": Out(BankReadPort(cfg)), "bank_write": Out(BankWritePort(cfg)),
            "o_moved": Out(stream.Signature(barrier_arrival_layout)), "stop": In(1), "completed": Out(1), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Queue(8 * BANK_BYTES, BLOCKS_AHEAD)
        active = Signal()
        move = Signal(move_layout(self.cfg), reset_less=True)
        to_read = Signal.like(self.i.payload.blocks, name="to_read", reset_less=True)
        owed = Signal.like(self.i.payload.blocks, name="owed", reset_less=True)      # blocks that the barrier has not been told
        ahead = Signal(range(BLOCKS_AHEAD + 1))     # read, not written
        read, written, ends = Signal(), Signal(), Signal()
        source, target = (block[:self.cfg.shared_address_bits - BLOCK_BITS] for block in (move.source_block, move.destination_block))
        low = exact_log2(BANKS)
        granted = Signal(range(BANKS), reset_less=True)     # bank of the word that comes
        comes = Signal(SHARED_READ_LATENCY)
        assert SHARED_READ_LATENCY == 1
        m.d.comb += [
            self.i.ready.eq(~active), self.busy.eq(active), self.completed.eq(ends),
            read.eq((self.bank_read.request & self.bank_read.grant).any()),
            written.eq((self.bank_write.request & self.bank_write.grant).any()),
            words.i.valid.eq(comes), words.o.ready.eq(written),
            words.i.payload.eq(Array(self.bank_read.data)[granted]),
            ends.eq(active & (to_read == 0) & (ahead == 0) & (~move.has_barrier | (owed == 0))),
            self.o_moved.valid.eq(active & (to_read == 0) & (ahead == 0) & move.has_barrier & (owed != 0)),
            self.o_moved.payload.barrier.eq(move.barrier),
            self.o_moved.payload.bytes.eq(Mux(owed > ARRIVAL_BLOCKS, ARRIVAL_BLOCKS, owed) << BLOCK_BITS),
        ]
        for bank in range(BANKS):
            m.d.comb += [
                self.bank_read.request[bank].eq(active & (to_read != 0) & (ahead != BLOCKS_AHEAD) & ~self.stop & (source[:low] == bank)),
                self.bank_read.row[bank].eq(source[low:]),
                self.bank_write.request[bank].eq(words.o.valid & (target[:low] == bank)),
                self.bank_write.row[bank].eq(target[low:]),
                self.bank_write.data[bank].eq(words.o.payload), self.bank_write.mask[bank].eq(-1),
            ]
        m.d.sync += [comes.eq(read), granted.eq(source[:low]), ahead.eq(ahead + read - written)]
        with m.If(self.i.ready):
            m.d.sync += [active.eq(self.i.valid), move.eq(self.i.payload)]
            m.d.sync += [to_read.eq(self.i.payload.blocks), owed.eq(self.i.payload.blocks)]
        with m.Else():
            m.d.sync += active.eq(~ends)
            with m.If(read):
                m.d.sync += [to_read.eq(to_read - 1), move.source_block.eq(move.source_block + 1)]
            with m.Elif(self.stop):
                m.d.sync += to_read.eq(0)
            with m.If(written):
                m.d.sync += move.destination_block.eq(move.destination_block + 1)
            with m.If(self.o_moved.valid & self.o_moved.ready):
                m.d.sync += owed.eq(Mux(owed > ARRIVAL_BLOCKS, owed - ARRIVAL_BLOCKS, 0))
        return m
