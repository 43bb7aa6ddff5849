"""Local DMA channel within shared memory [S1.12]."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import SharedReadPort, SharedWritePort, barrier_arrival_layout
from ..isa.encoding import Reduction
from ..lib.integer_reducer import INTEGER_LATENCY, WORD_BITS, IntegerReducer, integer_control_layout, integer_controls
from ..lib.shared_module import SharedModule
from ..lib.stream import Queue
from ..parameters.tmau import TmauParameters
from .layouts import BLOCK_BITS, move_layout, reads_in_flight

__all__ = ["ARRIVAL_BLOCKS", "SharedDma", "blocks_ahead"]

ARRIVAL_BLOCKS = 2048   # blocks of one barrier update at most


def blocks_ahead(cfg):
    """Blocks from their read request to the acknowledgement of their write at most: enough for one a cycle at the least latency."""
    # Two cycles in the queue of words, one from a write request to its acknowledgement.
    return reads_in_flight(cfg) + 3 + INTEGER_LATENCY * cfg.reductions


class SharedDma(Component):
    """Local DMA channel within shared memory: reads blocks of 16 bytes and writes them to their destination, in ascending order
    [S1.12].

    At most ``blocks_ahead(cfg)`` blocks are read before their writes are acknowledged. If the destination starts inside the source, its
    contents are undefined. With ``cfg.reductions`` a copy may be a reduction of integers: of each block that of the destination is read,
    then that of the source, and their combination is written.

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
        No further block is begun; a block whose read was requested is completed and written.
    completed : Out(1)
        The copy ends in this cycle.
    busy : Out(1)
        A copy is in flight.

    *Latency*: 1 cycle from ``i`` to the first read request; from the answer of a read to the request of its write 2 cycles, with
    ``cfg.reductions`` 4.

    *Throughput*: one block per cycle while shared memory accepts; a reduction one in two cycles.

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
        reduces = (move.reduction != Reduction.NONE) if self.cfg.reductions else Const(0)
        read = self._read(m, move, reduces, active & (to_read != 0) & (ahead != limit) & ~self.stop)
        self._receive(m, move, reduces, words)
        written = self._write(m, move, words)
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

    def _block(self, number):
        """Bank and row of a block."""
        block, low = number[:self.cfg.shared_address_bits - BLOCK_BITS], exact_log2(BANKS)
        return 1 << block[:low], block[low:]

    def _read(self, m, move, reduces, begins):
        """Requests the next block when ``begins``: of a reduction that of the destination, then that of the source.

        A request that is not accepted stays. Returns whether the last request of a block is accepted.
        """
        request, waits = self.bank_read.request, Signal(name="read_waits")
        accepted, last, number = Signal(name="read_accepted"), Const(1), move.source_block
        if self.cfg.reductions:
            old_block, old_read = Signal.like(move.destination_block, name="old_block", reset_less=True), Signal(name="old_read")
            last = Signal(name="read_of_source")
            with m.If(self.i.ready):
                m.d.sync += old_block.eq(self.i.payload.destination_block)
            with m.Elif(accepted & ~last):
                m.d.sync += old_block.eq(old_block + 1)
            with m.If(accepted):
                m.d.sync += old_read.eq(~last)
            m.d.comb += last.eq(old_read | ~reduces)
            number, begins = Mux(last, number, old_block), begins | old_read
        bank, row = self._block(number)
        m.d.comb += [
            request.valid.eq(begins | waits), request.payload.bank.eq(bank), *(line.eq(row) for line in request.payload.row),
            accepted.eq(request.valid & request.ready),
        ]
        m.d.sync += waits.eq(request.valid & ~request.ready)
        return accepted & last

    def _receive(self, m, move, reduces, words):
        """Answers to ``words``: blocks as they are, or combined with those of the destination, which come before them."""
        answer, low = self.bank_read.answer, exact_log2(BANKS)
        bank = Signal(low, name="answer_bank", reset_less=True)     # of the next answer of the source
        of_source, number = Const(1), bank
        if self.cfg.reductions:
            of_source, old_bank = Signal(name="answer_of_source"), Signal(low, name="old_bank", reset_less=True)
            number = Mux(of_source, bank, old_bank)
        with m.If(self.i.ready):
            m.d.sync += bank.eq(self.i.payload.source_block)
        with m.Elif(answer.valid & of_source):
            m.d.sync += bank.eq(bank + 1)
        word = Signal(8 * BANK_BYTES, name="answer_word")
        m.d.comb += word.eq(Array(answer.payload.data)[number])
        if not self.cfg.reductions:
            m.d.comb += [words.i.valid.eq(answer.valid), words.i.payload.eq(word)]
            return
        old, old_arrived = Signal(8 * BANK_BYTES, reset_less=True), Signal(name="old_arrived")
        arrived = Signal(INTEGER_LATENCY)       # blocks on their way through the reducers
        with m.If(self.i.ready):
            m.d.sync += old_bank.eq(self.i.payload.destination_block)
        with m.Elif(answer.valid):
            m.d.sync += old_arrived.eq(~of_source)
            with m.If(~of_source):
                m.d.sync += [old.eq(word), old_bank.eq(old_bank + 1)]
        m.d.sync += arrived.eq(Cat(answer.valid & of_source, arrived))
        m.d.comb += [
            of_source.eq(old_arrived | ~reduces), words.i.valid.eq(arrived[-1]), words.i.payload.eq(self._combined(m, move, old, word)),
        ]

    def _combined(self, m, move, old, new):
        """Reduction of two blocks, ``new`` where the copy is none; ``INTEGER_LATENCY`` cycles later."""
        control = data.View(integer_control_layout, Signal(integer_control_layout.size, name="reduction_control", reset_less=True))
        m.d.sync += [control[name].eq(value) for name, value in integer_controls(move.reduction, move.format).items()]
        reducer_type, results = SharedModule("shared_reduction", IntegerReducer), []
        for number in range(8 * BANK_BYTES // WORD_BITS):
            reducer = reducer_type.instantiate(m, f"reducer_{number}")
            m.d.comb += [reducer.enable.eq(1), reducer.control.eq(control), reducer.old.eq(old.word_select(number, WORD_BITS)),
                         reducer.new.eq(new.word_select(number, WORD_BITS))]
            results.append(reducer.result)
        return Cat(results)

    def _write(self, m, move, words):
        """Requests the write of the oldest one of ``words``; returns whether it is accepted."""
        write, (bank, row) = self.bank_write.request, self._block(move.destination_block)
        m.d.comb += [
            write.valid.eq(words.o.valid), words.o.ready.eq(write.ready), write.payload.bank.eq(bank),
            *(line.eq(row) for line in write.payload.row), *(word.eq(words.o.payload) for word in write.payload.data),
            *(mask.eq(-1) for mask in write.payload.mask),
        ]
        return write.valid & write.ready
