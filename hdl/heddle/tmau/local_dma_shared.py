"""Local DMA channel within shared memory [S1.12]."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import SHARED_READ_LATENCY, BankReadPort, BankWritePort, barrier_arrival_layout
from ..lib.stream import Queue
from ..parameters.tmau import TmauParameters
from .layouts import BLOCK_BITS, move_layout

__all__ = ["ARRIVAL_BLOCKS", "SharedDma"]

BLOCKS_AHEAD = 4        # blocks read and not yet written: cover the latency of banks and queue
ARRIVAL_BLOCKS = 2048   # blocks of one barrier update at most


class SharedDma(Component):
    """Local DMA channel within shared memory: reads blocks of 16 bytes and writes them to their destination, in ascending order
    [S1.12].

    At most ``BLOCKS_AHEAD`` (4) blocks are read before they are written. If the destination starts inside the source, its contents are
    undefined.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(move_layout(cfg)))
        Copies.
    bank_read : Out(BankReadPort(cfg))
        Reads, one bank per cycle. Combinational from registers and ``stop``.
    bank_write : Out(BankWritePort(cfg))
        Writes, one bank per cycle. Combinational from registers.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Barrier updates of at most ``ARRIVAL_BLOCKS`` (2,048) blocks, after all blocks are written.
    stop : In(1)
        No further block is read; blocks that were read are written.
    completed : Out(1)
        The copy ends in this cycle.
    busy : Out(1)
        A copy is in flight.

    *Latency*: 1 cycle from ``i`` to the first read request; 3 cycles from the grant of a read to the request of its write.

    *Throughput*: one block per cycle while its banks are granted.

    *Back-pressure*: ``i.ready`` is high while no copy is in flight.

    *Reset*: drops the copy.

    *Source*: [S1.12].
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
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
        owed = Signal.like(self.i.payload.blocks, name="owed", reset_less=True)      # blocks without a barrier update
        ahead = Signal(range(BLOCKS_AHEAD + 1))     # blocks read and not written
        read, written, ends = Signal(), Signal(), Signal()
        source, target = (block[:self.cfg.shared_address_bits - BLOCK_BITS] for block in (move.source_block, move.destination_block))
        low = exact_log2(BANKS)
        granted = Signal(range(BANKS), reset_less=True)     # bank of the word on the read data lines
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
