"""Word reads: the read port of shared memory, for all parts of the sparse engine."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANKS
from ..interfaces.layouts import SharedReadPort
from ..lib.onehot import any_of, select_one_hot
from ..lib.stream import Queue
from ..parameters.sparse import SparseParameters
from .layouts import Client, WordAnswerPort, word_request_layout

__all__ = ["WordReads"]

MOST_READS = 8      # requests without their last answer


class WordReads(Component):
    """Word reads: passes the requests of the parts of the engine to shared memory, the lowest client first, and their answers back.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    request : In(stream.Signature(word_request_layout)).array(len(Client))
        Requests of each client; their words exist.
    hold : In(1)
        No request is taken.
    bank : Out(SharedReadPort(cfg))
        Read port of shared memory; a request has one bank, two, or all.
    answer : Out(WordAnswerPort())
        Words, in the order in which the requests were taken.
    idle : Out(1)
        Every request that was taken is answered.

    *Latency*: one cycle from ``request`` to ``bank.request``; ``answer`` is combinational from ``bank.answer``.

    *Throughput*: one request a cycle.

    *Back-pressure*: ``request[n].ready`` depends on ``bank.request.ready`` and on the requests below n. Answers are never held: a client
    has room for what it requests.

    *Reset*: forgets all requests.
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        super().__init__({
            "request": In(stream.Signature(word_request_layout)).array(len(Client)), "hold": In(1), "bank": Out(SharedReadPort(cfg)),
            "answer": Out(WordAnswerPort()), "idle": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.clients = clients = Queue(data.StructLayout({"client": Client, "all": 1}), MOST_READS, registered=False)
        request, answer, port = self.bank.request, self.bank.answer, self.answer
        valid, free = Signal(), Signal()
        word, grant = Signal(word_request_layout, reset_less=True), Signal(len(Client))
        chosen = Signal(word_request_layout)
        m.d.comb += [
            free.eq((~valid | request.ready) & clients.i.ready & ~self.hold),
            *(bit.eq(each.valid & ~Cat(other.valid for other in self.request[:number]).any())
              for number, (bit, each) in enumerate(zip(grant, self.request, strict=True))),
            *(each.ready.eq(free & ~Cat(other.valid for other in self.request[:number]).any())
              for number, each in enumerate(self.request)),
            chosen.eq(select_one_hot(grant, [each.payload.as_value() for each in self.request])),
            clients.i.valid.eq(free & grant.any()),
            clients.i.payload.client.eq(any_of(Mux(bit, number, 0) for number, bit in enumerate(grant))),
            clients.i.payload.all.eq(chosen.all),
        ]
        with m.If(~valid | request.ready):
            m.d.sync += [valid.eq(free & grant.any()), word.eq(chosen)]
        bank = Signal(BANKS)
        m.d.comb += [
            bank.eq(1 << word.word[:3]), request.valid.eq(valid),
            request.payload.bank.eq(Mux(word.all, (1 << BANKS) - 1, bank | Mux(word.pair, bank << 1, 0))),
            *(row.eq(word.word[3:]) for row in request.payload.row),
        ]
        banks, words = Signal(BANKS), list(answer.payload.data)      # of a request without ``all``
        m.d.comb += [
            banks.eq(Mux(clients.o.payload.all, 0, answer.payload.bank)),
            *(half.eq(select_one_hot(banks[number::2], words[number::2])) for number, half in enumerate(port.halves)),
            port.word.eq(port.halves[0] | port.halves[1]), port.banks.eq(answer.payload.bank),
            *(outer.eq(word) for outer, word in zip(port.words, words, strict=True)),
            port.arrived.eq(Cat(banks[number::2].any() for number in range(2))),
            port.last.eq(answer.payload.last), clients.o.ready.eq(answer.valid & answer.payload.last),
            port.answered.eq(Mux(answer.valid, 1 << clients.o.payload.client.as_value(), 0)),
            self.idle.eq(clients.level == 0),
        ]
        return m
