"""Non-zero reader: indices and values of the non-zeros of jobs, from shared memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES
from ..isa.sparse_job import ELEMENTS_OF_WORD
from ..lib.stream import Queue
from ..parameters.sparse import SparseParameters
from .layouts import extent_layout, vector_layout, word_request_layout

__all__ = ["NonzeroReader"]

VECTORS_AHEAD = 4           # words of indices that are requested and have not left
VECTOR_BITS = 29            # bits of the number of a word of indices in its job
PLACE_BITS = 30             # of the number of a word in shared memory, also behind its end


class NonzeroReader(Component):
    """Non-zero reader: reads indices and values of the non-zeros ahead, a word of indices (8 non-zeros) after the other.

    Values of 8 bits lie in words of 16, which are read once for two words of indices. Those of a pattern are 1 and are not read.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    i : In(stream.Signature(extent_layout))
        Non-zeros of rows in order.
    value_request, index_request : Out(stream.Signature(word_request_layout))
        Reads of words of values, and of indices.
    value_answered, index_answered : In(1)
        ``word`` has the next word of values, of indices.
    word : In(128)
        Word of shared memory.
    o : Out(stream.Signature(vector_layout))
        Indices and values. Each job begins with a word of its own. After a word outside of shared memory nothing follows until reset.
    place : Out(30)
        With such a word at ``o``: its number in shared memory.

    *Latency*: at the least latency of the memory 5 cycles from ``i`` to ``o``.

    *Throughput*: a word of indices in 2 cycles; values of 8 bits take 3 cycles for two such words.

    *Back-pressure*: ``i.ready`` depends on registers and on ``i.payload.begins``: the first row of a job waits until the words of the job
    before have come.

    *Reset*: forgets all non-zeros.
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        request = stream.Signature(word_request_layout)
        super().__init__({
            "i": In(stream.Signature(extent_layout)), "value_request": Out(request), "index_request": Out(request),
            "value_answered": In(1), "index_answered": In(1), "word": In(8 * BANK_BYTES), "o": Out(stream.Signature(vector_layout)),
            "place": Out(PLACE_BITS),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.vectors = vectors = Queue(vector_layout, VECTORS_AHEAD, registered=False)
        extent, more = self.i.payload, Signal()             # ``more``: words up to ``last`` are not requested
        vector, last = Signal(VECTOR_BITS), Signal(VECTOR_BITS)
        self._job = job = Signal(extent_layout, reset_less=True)
        inside, coming = Signal(range(VECTORS_AHEAD + 1)), Signal(range(VECTORS_AHEAD + 1))     # words at all; without answer
        fresh, valued, dead = Signal(), Signal(), Signal()  # no word of the job is requested; the values of ``vector`` are
        index_place, value_place = Signal(PLACE_BITS), Signal(PLACE_BITS)
        outside, needed, room, fault = (Signal(name=name) for name in ("outside", "needed", "room", "fault"))
        end = self.cfg.shared_bytes // BANK_BYTES
        taken = Signal()
        m.d.comb += [
            self.i.ready.eq(~extent.begins | (~more & (coming == 0))),
            index_place.eq(job.indices + vector), value_place.eq(job.values + Mux(job.wide, vector, vector >> 1)),
            needed.eq((job.wide | fresh | ~vector[0]) & ~valued & ~job.pattern),
            outside.eq((index_place >= end) | (needed & (value_place >= end))), room.eq(inside != VECTORS_AHEAD),
            self.value_request.valid.eq(more & ~outside & needed & room), self.value_request.payload.word.eq(value_place),
            self.index_request.valid.eq(more & ~outside & ~needed & room), self.index_request.payload.word.eq(index_place),
            taken.eq(self.index_request.valid & self.index_request.ready),
            fault.eq(more & outside & room & (coming == 0) & ~dead),
        ]
        m.d.sync += [
            inside.eq(inside + (taken | fault) - (self.o.valid & self.o.ready)), coming.eq(coming + taken - self.index_answered),
        ]
        with m.If(self.value_request.valid & self.value_request.ready):
            m.d.sync += valued.eq(1)
        with m.If(taken):
            m.d.sync += [vector.eq(vector + 1), valued.eq(0), fresh.eq(0), more.eq(vector != last)]
        with m.If(fault):
            m.d.sync += [dead.eq(1), self.place.eq(Mux(index_place >= end, index_place, value_place))]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += last.eq(extent.last // ELEMENTS_OF_WORD)
            with m.If(extent.begins):
                m.d.sync += [vector.eq(extent.first // ELEMENTS_OF_WORD), job.eq(extent), fresh.eq(1), more.eq(1)]
            with m.Elif(~more | (taken & (vector == last))):
                m.d.sync += more.eq((extent.last // ELEMENTS_OF_WORD) != last)
        self._vectors(m, vectors, fault)
        return m

    def _vectors(self, m, vectors, fault):
        """Joins the words of indices with their values."""
        job, values, odd = self._job, Signal(8 * BANK_BYTES, reset_less=True), Signal()
        with m.If(self.value_answered):
            m.d.sync += values.eq(self.word)
        with m.If(self.index_answered):
            m.d.sync += odd.eq(~odd)
        with m.If(self.i.valid & self.i.ready & self.i.payload.begins):
            m.d.sync += odd.eq(self.i.payload.first[3])
        narrow = Signal(8 * BANK_BYTES // 2)
        m.d.comb += [
            narrow.eq(Mux(odd, values[len(narrow):], values[:len(narrow)])),
            vectors.i.valid.eq(self.index_answered | fault), vectors.i.payload.fault.eq(fault),
            self.o.valid.eq(vectors.o.valid), self.o.payload.eq(vectors.o.payload), vectors.o.ready.eq(self.o.ready),
        ]
        for number in range(ELEMENTS_OF_WORD):
            element, byte = vectors.i.payload.elements[number], narrow.word_select(number, 8)
            m.d.comb += [
                element.index.eq(self.word.word_select(number, 16)),
                element.value.eq(Mux(job.pattern, 1, Mux(job.wide, values.word_select(number, 16).as_signed(),
                                                         Mux(job.unsigned, byte, byte.as_signed())))),
            ]
