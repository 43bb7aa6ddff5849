"""Non-zero reader: indices and values of the non-zeros of jobs, from shared memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES
from ..isa.sparse_job import ELEMENTS_OF_WORD
from ..lib.stream import Queue
from ..parameters.sparse import SparseParameters
from .layouts import Client, WordAnswerPort, extent_layout, vector_layout, word_request_layout

__all__ = ["NonzeroReader"]

VECTORS_AHEAD = 8           # words of indices that are requested and have not left
VECTOR_BITS = 29            # bits of the number of a word of indices in its job
PLACE_BITS = 30             # of the number of a word in shared memory, also behind its end


class NonzeroReader(Component):
    """Non-zero reader: reads indices and values of the non-zeros ahead, a word of indices (8 non-zeros) after the other.

    Values of 8 bits lie in words of 16, which are read once for two words of indices. Those of a pattern are 1 and are not read. Of
    sub-warps with such values two words of indices are read together.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    i : In(stream.Signature(extent_layout))
        Non-zeros of rows in order.
    value_request, index_request : Out(stream.Signature(word_request_layout))
        Reads of words of values, and of indices.
    answer : In(WordAnswerPort())
        Words of values, and of indices.
    o : Out(stream.Signature(vector_layout))
        Indices and values. Each job begins with a word of its own, not an ``odd`` one. After a word outside of shared memory nothing
        follows until reset.
    place : Out(30)
        With such a word at ``o``: its number in shared memory.

    *Latency*: at the least latency of the memory 5 cycles from ``i`` to ``o``.

    *Throughput*: a word of indices in 2 cycles; values of 8 bits take 3 cycles for two such words, of sub-warps 2 cycles.

    *Back-pressure*: ``i.ready`` depends on registers and on ``i.payload.begins``: the first row of a job waits until the words of the job
    before have come.

    *Reset*: forgets all non-zeros.
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        request = stream.Signature(word_request_layout)
        super().__init__({
            "i": In(stream.Signature(extent_layout)), "value_request": Out(request), "index_request": Out(request),
            "answer": In(WordAnswerPort()), "o": Out(stream.Signature(vector_layout)), "place": Out(PLACE_BITS),
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
        outside, needed, room = (Signal(name=name) for name in ("outside", "needed", "room"))
        end = self.cfg.shared_bytes // BANK_BYTES
        taken, reached, until = Signal(), Signal(), Signal.like(last)      # ``until``: last word of the non-zeros at ``i``
        fault = Signal()
        answered, second = self._vectors(m, vectors, fault)
        m.d.comb += [
            self.i.ready.eq(~extent.begins | (~more & (coming == 0))),
            index_place.eq(job.indices + vector), value_place.eq(job.values + Mux(job.wide, vector, vector >> 1)),
            needed.eq((job.wide | fresh | ~vector[0]) & ~valued & ~job.pattern),
            outside.eq((index_place >= end) | (needed & (value_place >= end))),
            room.eq(inside <= Mux(job.two, VECTORS_AHEAD - 2, VECTORS_AHEAD - 1)),
            self.value_request.valid.eq(more & ~outside & needed & room), self.value_request.payload.word.eq(value_place),
            self.index_request.valid.eq(more & ~outside & ~needed & room), self.index_request.payload.word.eq(index_place),
            self.index_request.payload.pair.eq(job.two), reached.eq((vector | job.two) == last),
            until.eq(extent.last // ELEMENTS_OF_WORD | extent.two), taken.eq(self.index_request.valid & self.index_request.ready),
            fault.eq(more & outside & room & (coming == 0) & ~second & ~dead),
        ]
        m.d.sync += [
            inside.eq(inside + (taken | fault) + (taken & job.two) - (self.o.valid & self.o.ready)), coming.eq(coming + taken - answered),
        ]
        with m.If(self.value_request.valid & self.value_request.ready):
            m.d.sync += valued.eq(1)
        with m.If(taken):
            m.d.sync += [vector.eq(vector + 1 + job.two), valued.eq(0), fresh.eq(0), more.eq(~reached)]
        with m.If(fault):
            m.d.sync += [dead.eq(1), self.place.eq(Mux(index_place >= end, index_place, value_place))]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += last.eq(until)
            with m.If(extent.begins):
                m.d.sync += [vector.eq(extent.first // ELEMENTS_OF_WORD), job.eq(extent), fresh.eq(1), more.eq(1)]
            with m.Elif(~more | (taken & reached)):
                m.d.sync += more.eq(until != last)
        return m

    def _vectors(self, m, vectors, fault):
        """Joins the words of indices with their values.

        Returns two signals. The last word of a request of indices comes in this cycle. The second word of a pair enters the queue, one
        cycle after the first one.
        """
        job, values, odd = self._job, Signal(8 * BANK_BYTES, reset_less=True), Signal()
        answer, word, second, last = self.answer, Signal(8 * BANK_BYTES), Signal(), Signal()
        answered = {client: answer.answered[client.value] for client in (Client.VALUES, Client.INDICES)}
        held = [Signal(8 * BANK_BYTES, name=f"half_{number}", reset_less=True) for number in range(2)]
        for half, value, arrived in zip(held, answer.halves, answer.arrived, strict=True):
            with m.If(answered[Client.INDICES] & arrived):
                m.d.sync += half.eq(value)
        m.d.comb += [
            last.eq(answered[Client.INDICES] & answer.last),
            word.eq(Mux(second, held[1], Mux(job.two, Mux(answer.arrived[0], answer.halves[0], held[0]), answer.word))),
        ]
        m.d.sync += second.eq(last & job.two)
        with m.If(answered[Client.VALUES]):
            m.d.sync += values.eq(answer.word)
        with m.If(last | second):
            m.d.sync += odd.eq(~odd)
        with m.If(self.i.valid & self.i.ready & self.i.payload.begins):
            m.d.sync += odd.eq(self.i.payload.first[3])
        narrow = Signal(8 * BANK_BYTES // 2)
        m.d.comb += [
            narrow.eq(Mux(odd, values[len(narrow):], values[:len(narrow)])),
            vectors.i.valid.eq(last | second | fault), vectors.i.payload.fault.eq(fault), vectors.i.payload.odd.eq(second),
            self.o.valid.eq(vectors.o.valid), self.o.payload.eq(vectors.o.payload), vectors.o.ready.eq(self.o.ready),
        ]
        for number in range(ELEMENTS_OF_WORD):
            element, byte = vectors.i.payload.elements[number], narrow.word_select(number, 8)
            m.d.comb += [
                element.index.eq(word.word_select(number, 16)),
                element.value.eq(Mux(job.pattern, 1, Mux(job.wide, values.word_select(number, 16).as_signed(),
                                                         Mux(job.unsigned, byte, byte.as_signed())))),
            ]
        return last, second
