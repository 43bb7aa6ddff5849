"""Local DMA channel within shared memory [S1.12]."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import SharedReadPort, SharedWritePort, barrier_arrival_layout
from ..lib.stream import Queue
from ..parameters.tmau import TmauParameters
from .layouts import BLOCK_BITS, move_layout, reads_in_flight

__all__ = ["ARRIVAL_BLOCKS", "SharedDma", "blocks_ahead"]

ARRIVAL_BLOCKS = 2048   # blocks of one barrier update at most


def blocks_ahead(cfg):
    """Blocks from their read request to the acknowledgement of their write at most: enough for one a cycle at the least latency."""
    return reads_in_flight(cfg) + 3     # two cycles in the queue of words, one from a write request to its acknowledgement


class SharedDma(Component):
    """Local DMA channel within shared memory: reads blocks of 16 bytes and writes them to their destination, in ascending order
    [S1.12].

    At most ``blocks_ahead(cfg)`` blocks are read before their writes are acknowledged. If the destination starts inside the source, its
    contents are undefined.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(move_layout(cfg)))
        Copies.
    bank_read : Out(SharedReadPort(cfg))
        Reads of one bank. Combinational from registers and ``stop``.
    bank_write : Out(SharedWritePort(cfg))
        Writes of one bank. Combinational from registers.
    o_moved : Out(stream.Signature(barrier_arrival_layout))
        Barrier updates of at most ``ARRIVAL_BLOCKS`` (2,048) blocks, after the acknowledgement of all writes.
    stop : In(1)
        No further read is requested; a read that was requested is completed and its block is written.
    completed : Out(1)
        The copy ends in this cycle.
    busy : Out(1)
        A copy is in flight.

    *Latency*: 1 cycle from ``i`` to the first read request; 2 cycles from the answer of a read to the request of its write.

    *Throughput*: one block per cycle while shared memory accepts.

    *Back-pressure*: ``i.ready`` is high while no copy is in flight.

    *Reset*: drops the copy; shared memory must be reset in the same cycle.

    *Source*: [S1.12].
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(move_layout(cfg))), "bank_read": Out(SharedReadPort(cfg)), "bank_write": Out(SharedWritePort(cfg)),
            "o_moved": Out(stream.Signature(barrier_arrival_layout)), "stop": In(1), "completed": Out(1), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        limit = blocks_ahead(self.cfg)
        m.submodules.words = words = Queue(8 * BANK_BYTES, limit)
        active = Signal()
        move = Signal(move_layout(self.cfg), reset_less=True)
        most = self.cfg.shared_bytes // BANK_BYTES      # blocks of a copy
        to_read = Signal(range(most + 1), reset_less=True)
        owed = Signal(range(most + 1), reset_less=True)     # blocks without a barrier update
        ahead = Signal(range(limit + 1))        # blocks from their read request to the acknowledgement of their write
        over, ends = Signal(), Signal()
        read, written = self._requests(m, move, words, active & (to_read != 0) & (ahead != limit) & ~self.stop)
        m.d.comb += [
            self.i.ready.eq(~active), self.busy.eq(active), self.completed.eq(ends),
            over.eq(active & (to_read == 0) & (ahead == 0)),
            ends.eq(over & (~move.has_barrier | (owed == 0))),
            self.o_moved.valid.eq(over & move.has_barrier & (owed != 0)),
            self.o_moved.payload.barrier.eq(move.barrier),
            self.o_moved.payload.bytes.eq(Mux(owed > ARRIVAL_BLOCKS, ARRIVAL_BLOCKS, owed) << BLOCK_BITS),
        ]
        m.d.sync += ahead.eq(ahead + read - self.bank_write.written)
        with m.If(self.i.ready):
            m.d.sync += [active.eq(self.i.valid), move.eq(self.i.payload)]
            m.d.sync += [to_read.eq(self.i.payload.blocks), owed.eq(self.i.payload.blocks)]
        with m.Else():
            m.d.sync += active.eq(~ends)
            with m.If(read):
                m.d.sync += [to_read.eq(to_read - 1), move.source_block.eq(move.source_block + 1)]
            with m.Elif(self.stop & ~self.bank_read.request.valid):
                m.d.sync += to_read.eq(0)
            with m.If(written):
                m.d.sync += move.destination_block.eq(move.destination_block + 1)
            with m.If(self.o_moved.valid & self.o_moved.ready):
                m.d.sync += owed.eq(Mux(owed > ARRIVAL_BLOCKS, owed - ARRIVAL_BLOCKS, 0))
        return m

    def _requests(self, m, move, words, begins):
        """Read the next block when ``begins``, and write the oldest one of ``words``; returns whether each request is accepted.

        A read request that is not accepted stays.
        """
        low = exact_log2(BANKS)
        source, target = (block[:self.cfg.shared_address_bits - BLOCK_BITS] for block in (move.source_block, move.destination_block))
        request, answer, write = self.bank_read.request, self.bank_read.answer, self.bank_write.request
        read, written, waits = Signal(name="read"), Signal(name="written"), Signal(name="read_waits")
        bank = Signal(low, name="answer_bank", reset_less=True)      # of the next answer
        m.d.comb += [
            request.valid.eq(begins | waits), request.payload.bank.eq(1 << source[:low]),
            *(row.eq(source[low:]) for row in request.payload.row),
            words.i.valid.eq(answer.valid), words.i.payload.eq(Array(answer.payload.data)[bank]),
            write.valid.eq(words.o.valid), words.o.ready.eq(write.ready), write.payload.bank.eq(1 << target[:low]),
            *(row.eq(target[low:]) for row in write.payload.row), *(word.eq(words.o.payload) for word in write.payload.data),
            *(mask.eq(-1) for mask in write.payload.mask),
            read.eq(request.valid & request.ready), written.eq(write.valid & write.ready),
        ]
        m.d.sync += waits.eq(request.valid & ~request.ready)
        with m.If(self.i.ready):
            m.d.sync += bank.eq(self.i.payload.source_block)
        with m.Elif(answer.valid):
            m.d.sync += bank.eq(bank + 1)
        return read, written
