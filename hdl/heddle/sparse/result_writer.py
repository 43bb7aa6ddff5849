"""Result writer: sums of rows, and of sampled elements, to shared memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import SharedWritePort
from ..lib.stream import Queue
from ..parameters.sparse import SparseParameters
from .layouts import PIECE_BITS, SUMS_OF_WORD, piece_layout, result_layout, sample_word_layout

__all__ = ["ResultWriter"]

MOST_WRITES = 8         # requests without acknowledgement


class ResultWriter(Component):
    """Result writer: writes results to shared memory and reports the end of each job. Sums of eight PEs go to all banks, their bytes to
    two, sampled elements to one.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    i : In(stream.Signature(result_layout(cfg)))
        Sums with the row of shared memory; ends of jobs without sums.
    i_piece : In(stream.Signature(piece_layout(cfg)))
        Bytes of scaled sums; never valid together with ``i``.
    i_word : In(stream.Signature(sample_word_layout))
        Sums of sampled elements; never valid together with the others.
    released : Out(3)
        Entries of the word that leaves in this cycle.
    bank : Out(SharedWritePort(cfg))
        Write port of shared memory; each request has all banks, two, or one.
    done : Out(1)
        All writes of the oldest job are acknowledged, and those of the jobs before.
    busy : Out(1)
        A request is not acknowledged.

    *Latency*: ``bank.request`` is combinational from the inputs; ``done`` comes in the cycle of the last acknowledgement.

    *Throughput*: one row of shared memory, 32 bytes of scaled sums, or one word of sampled elements, a cycle.

    *Back-pressure*: ``ready`` of an input depends combinationally on ``bank.request.ready`` and on its ``payload.empty``. The end of a job
    without sums waits for all acknowledgements.

    *Reset*: forgets the acknowledgements that are missing.
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(result_layout(cfg))), "i_piece": In(stream.Signature(piece_layout(cfg))),
            "i_word": In(stream.Signature(sample_word_layout)), "released": Out(3),
            "bank": Out(SharedWritePort(cfg)), "done": Out(1), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.ends = ends = Queue(1, MOST_WRITES, registered=False)      # of each request: it is the last of its job
        item, word, request, idle, sampled = self.i.payload, self.i_word.payload, self.bank.request, Signal(), self.i_word.valid
        piece, packed, place, bytes_of_sum = self.i_piece.payload, self.i_piece.valid, exact_log2(BANKS), BANK_BYTES // SUMS_OF_WORD
        pair = piece.output[:PIECE_BITS]
        mask = Mux(sampled, Cat(bit.replicate(bytes_of_sum) for bit in word.mask), (1 << BANK_BYTES) - 1)
        m.d.comb += [
            idle.eq(ends.level == 0), self.busy.eq(~idle),
            request.valid.eq(((self.i.valid & ~item.empty) | packed | (sampled & ~word.empty)) & ends.i.ready),
            request.payload.bank.eq(Mux(sampled, 1 << word.word[:place], Mux(packed, 3 << (pair << 1), (1 << BANKS) - 1))),
            *(row.eq(Mux(sampled, word.word[place:], Mux(packed, piece.output >> PIECE_BITS, item.output))) for row in request.payload.row),
            *(each.eq(mask) for each in request.payload.mask),
            *(line.eq(Mux(sampled, word.data.as_value(), Mux(packed, piece.data[number % 2], value)))
              for number, (line, value) in enumerate(zip(request.payload.data, item.data, strict=True))),
            self.i_piece.ready.eq(request.ready & ends.i.ready),
            self.i.ready.eq(Mux(item.empty, idle, request.ready & ends.i.ready)),
            self.i_word.ready.eq(Mux(word.empty, idle, request.ready & ends.i.ready)),
            self.released.eq(Mux(sampled & self.i_word.ready, word.entries, 0)),
            ends.i.valid.eq(request.valid & request.ready), ends.i.payload.eq(Mux(sampled, word.ends, Mux(packed, piece.ends, item.ends))),
            ends.o.ready.eq(self.bank.written),
            self.done.eq((self.bank.written & ends.o.payload) | (self.i.valid & item.empty & idle)
                         | (sampled & word.empty & word.ends & idle)),
        ]
        return m
