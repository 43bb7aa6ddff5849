"""Copies of blocks: what passes the checks lies in its memories, and a copy within shared memory reads and writes its own blocks only."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib.wiring import Component
from heddle import load_config
from heddle.constants import BANKS
from heddle.interfaces.layouts import CopyKind, copy_operation_layout
from heddle.isa.encoding import Reduction, Space
from heddle.isa.error_codes import ErrorCode
from heddle.tmau.layouts import BLOCK_BITS, reads_in_flight
from heddle.tmau.local_dma_shared import SharedDma, blocks_ahead
from heddle.tmau.request_check import RequestCheck

from .contract import any_stream, data_of, require

__all__ = ["BlockRangeSpec", "SharedDmaSpec"]


def _lies_in(block, count, limit):
    """Whether ``count`` blocks from ``block`` on, at least one, lie in a memory of ``limit`` blocks."""
    return (count != 0) & (block + count <= limit)


class BlockRangeSpec(Component):
    """A copy that passes the checks lies in its memories as a whole, at the addresses of its operation. One that is out of range does not.

    No operation is dropped silently but one without blocks, or while ``stop``. Environment: any operations, with exact addresses on both
    sides of 32 bits; outputs that take them as they please; global memory of 17 address bits, shared memory of 4 KiB.
    """

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        cfg = load_config("tiny").replace(axi_address_bits=17, shared_memory_kib=4)
        m.submodules.dut = dut = RequestCheck(cfg)
        given = dut.i_operation
        m.d.comb += [given.valid.eq(AnySeq(1)), data_of(given).eq(AnySeq(len(data_of(given)))), dut.stop.eq(AnySeq(1)),
                     *(port.ready.eq(AnySeq(1)) for port in (dut.o_load, dut.o_store, dut.o_move))]
        shared, memory = cfg.shared_bytes >> BLOCK_BITS, 1 << (cfg.axi_address_bits - BLOCK_BITS)
        operation, lies = Signal(copy_operation_layout), Signal()       # that is being checked; whether both sides lie in their memories
        with m.If(given.valid & given.ready):
            m.d.sync += [operation.eq(given.payload), lies.eq(self._lies(given.payload, shared, memory))]
        prefetch = operation.kind == CopyKind.PREFETCH_BLOCK
        load, store, move = (port.payload for port in (dut.o_load, dut.o_store, dut.o_move))

        def at(block, end):
            return operation[end] == Cat(Const(0, BLOCK_BITS), block)

        m.d.comb += [
            Assert(~(dut.o_load.valid | dut.o_store.valid | dut.o_move.valid) | lies),
            Assert(~dut.o_load.valid | (at(load.global_block, "source") & (prefetch | at(load.shared_block, "destination")))),
            Assert(~dut.o_load.valid | (load.prefetch == prefetch)),
            Assert(~dut.o_load.valid | (load.blocks == operation.blocks) | (prefetch & (load.blocks < operation.blocks))),
            Assert(~dut.o_store.valid | (at(store.shared_block, "source") & at(store.global_block, "destination"))),
            Assert(~dut.o_store.valid | (store.blocks == operation.blocks)),
            Assert(~dut.o_move.valid | (at(move.source_block, "source") & at(move.destination_block, "destination"))),
            Assert(~dut.o_move.valid | (move.blocks == operation.blocks)),
            Assert(~(dut.o_failure.valid & (dut.o_failure.payload.code == ErrorCode.OUT_OF_RANGE)) | ~lies),
            Assert(~dut.completed | dut.stop | dut.o_failure.valid | (operation.blocks == 0)),
        ]
        m.d.comb += [
            Cover(dut.o_load.valid & ~prefetch & (load.shared_block + load.blocks == shared)),
            Cover(dut.o_load.valid & prefetch & (load.blocks < operation.blocks)),
            Cover(dut.o_store.valid & (store.global_block + store.blocks == memory)),
            Cover(dut.o_move.valid & move.in_shared & (move.reduction == Reduction.ADD)),
            Cover(dut.o_move.valid & ~move.in_shared & (move.source_block + move.blocks == memory)),
        ]
        return m

    @staticmethod
    def _lies(operation, shared, memory):
        """Whether both sides of an operation lie in their memories, of so many blocks; of a prefetch its source."""
        prefetch = operation.kind == CopyKind.PREFETCH_BLOCK
        destination, source = (
            ~operation[f"{end}_outside"] & (operation[end][:BLOCK_BITS] == 0) & _lies_in(
                operation[end][BLOCK_BITS:], operation.blocks,
                Mux((operation[f"{end}_space"] == Space.SHARED) & ~prefetch, shared, memory)) for end in ("destination", "source"))
        return source & (destination | prefetch)


class SharedDmaSpec(Component):
    """Reads are those of the blocks of the source, in order, of a reduction each behind that of the destination; writes are those of the
    destination, in order, each when its block has come. A copy that is not stopped reads and writes all its blocks.

    Environment: copies of up to ``MOST`` blocks that lie in shared memory; it takes requests, answers them in order and acknowledges as it
    pleases. What the blocks hold is the bench's.
    """

    MOST = 6

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        cfg = load_config("tiny").replace(shared_memory_kib=4)
        m.submodules.dut = dut = SharedDma(cfg)
        any_stream(m, dut.i, "i")
        given, limit, width = dut.i.payload, cfg.shared_bytes >> BLOCK_BITS, cfg.shared_address_bits - BLOCK_BITS
        m.d.comb += [Assume(_lies_in(given[f"{end}_block"], given.blocks, limit)) for end in ("source", "destination")]
        m.d.comb += Assume(given.blocks <= self.MOST)
        read, write, answer = dut.bank_read.request, dut.bank_write.request, dut.bank_read.answer
        m.d.comb += [signal.eq(AnySeq(1)) for signal in (dut.stop, dut.o_moved.ready, read.ready, write.ready)]
        require(m, read, "read")
        # Of the present copy: next blocks to be read and written, blocks to be read and written, whether it reduces and was stopped.
        source, old, target = (Signal(width, name=name) for name in ("source", "old", "target"))
        to_read, to_write, reduces, half, stopped = (Signal(size, name=name) for size, name in (
            (width + 1, "to_read"), (width + 1, "to_write"), (1, "reduces"), (1, "half"), (1, "stopped")))
        reads, writes = (port.valid & port.ready for port in (read, write))
        whole = reads & (half | ~reduces)
        with m.If(dut.i.valid & dut.i.ready):
            m.d.sync += [source.eq(given.source_block), old.eq(given.destination_block), target.eq(given.destination_block),
                         to_read.eq(given.blocks), to_write.eq(given.blocks), reduces.eq(given.reduction != Reduction.NONE),
                         stopped.eq(0)]
        with m.Else():
            m.d.sync += [source.eq(source + whole), old.eq(old + (reads & ~whole)), target.eq(target + writes),
                         to_read.eq(to_read - whole), to_write.eq(to_write - writes), half.eq(half ^ (reads & reduces)),
                         stopped.eq(stopped | dut.stop)]
        wanted = Mux(reduces & ~half, old, source)
        waiting, missing = Signal(range(2 * blocks_ahead(cfg) + 2)), Signal(range(blocks_ahead(cfg) + 2))   # answers, acknowledgements
        m.d.comb += [answer.valid.eq(AnySeq(1) & (waiting != 0)), dut.bank_write.written.eq(AnySeq(1) & (missing != 0))]
        m.d.sync += [waiting.eq(waiting + reads - answer.valid), missing.eq(missing + writes - dut.bank_write.written)]
        # Blocks that have come and are not written.
        come, answered = Signal(range(blocks_ahead(cfg) + 2)), Signal()
        comes = answer.valid & (answered | ~reduces)
        m.d.sync += [come.eq(come + comes - writes), answered.eq(answered ^ (answer.valid & reduces))]
        m.d.comb += [
            Assert(~read.valid | self._is(read.payload, wanted)), Assert(~write.valid | self._is(write.payload, target)),
            Assert(~read.valid | (to_read != 0)), Assert(~write.valid | (come != 0)), Assert(to_write >= to_read),
            Assert(come <= blocks_ahead(cfg)),
            Assert(~dut.completed | ((missing == 0) & (waiting == 0) & (come == 0) & ~half & (to_write == to_read))),
            Assert(~dut.completed | stopped | dut.stop | (to_write == 0)),
            Cover(dut.completed & reduces & (given.blocks == 2) & (to_write == 0)), Cover(waiting == reads_in_flight(cfg)),
            Cover(write.valid & (target == limit - 1)),
        ]
        return m

    @staticmethod
    def _is(payload, block):
        """Whether a request is that of a block."""
        low = BANKS.bit_length() - 1
        return (payload.bank == (1 << block[:low])[:BANKS]) & Cat(row == block[low:] for row in payload.row).all()
