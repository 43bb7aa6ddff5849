"""Bank reader: sequential reads of shared memory, one word of 16 bytes a cycle."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out, Signature

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import SHARED_READ_LATENCY, SharedReadPort
from ..lib.onehot import select_one_hot
from ..lib.stream import Queue
from ..parameters.rnn import RnnParameters

__all__ = ["READ_AHEAD", "WORD_BITS", "BankReader", "TransferPort", "WordPort"]

WORD_BITS = 16      # bits of the number of a word of 16 bytes in shared memory
# Words that are requested and have not left, at most: a word leaves in the cycle after its answer, at one word a cycle.
READ_AHEAD = SHARED_READ_LATENCY + 1


def TransferPort(count, places):
    """Request of a transfer of consecutive words, seen from the requester. ``count`` and ``places`` are widths in bits.

    *Ports*:
    begin : Out(1)
        Starts a transfer; allowed only while not ``busy``.
    first : Out(16)
        Number of the first word, with ``begin``.
    on : Out(1)
        With ``begin``: continue behind the last word that was read, ignore ``first``.
    words : Out(count)
        Number of words, with ``begin``; 0 is an empty transfer.
    place : Out(places)
        Place of the first word, with ``begin``.
    busy : In(1)
        A transfer is in progress: a word is not requested yet, on its way or not delivered.
    """
    return Signature({"begin": Out(1), "first": Out(WORD_BITS), "on": Out(1), "words": Out(count), "place": Out(places), "busy": In(1)})


def WordPort(places):
    """Words of a transfer in order, seen from the bank reader. ``places`` is the width of a place in bits.

    *Ports*:
    valid : Out(1)
        ``data`` holds a word.
    data : Out(128)
        The word.
    at : Out(places)
        Place of the word.
    last : Out(1)
        The word is the last of its transfer.
    taken : Out(1)
        The word leaves in this cycle.
    hold : In(1)
        The word at ``data`` does not leave in the next cycle.
    """
    return Signature({"valid": Out(1), "data": Out(128), "at": Out(places), "last": Out(1), "taken": Out(1), "hold": In(1)})


class BankChoice(Component):
    """Bank multiplexer: the word of one bank, or zero.

    The multiplexer is the largest part of the image loader. A component of its own makes area reports count it separately.

    *Ports*:
    bank : In(BANKS)
        Selected bank, one hot, or 0.
    i : In(128).array(BANKS)
        Words of the banks.
    o : Out(128)
        Selected word; 0 where ``bank`` is 0.

    *Latency*: combinational.

    *Reset*: no state.
    """

    def __init__(self):
        super().__init__({"bank": In(BANKS), "i": In(8 * BANK_BYTES).array(BANKS), "o": Out(8 * BANK_BYTES)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(select_one_hot(self.bank, self.i))
        return m


class BankReader(Component):
    """Bank reader: reads consecutive words of 16 bytes of shared memory and numbers them with consecutive places.

    A queue of ``READ_AHEAD`` words holds what has come until it leaves. A word is requested when the queue has room for it and for all
    words that are on their way.

    Parameters
    ----------
    cfg : RnnParameters
    count : int
        Bits of the number of words.
    places : int
        Bits of a place.

    *Ports*:
    transfer : In(TransferPort(count, places))
        Request of a transfer.
    stop : In(1)
        Ends the transfer early: no further word is requested, but a request that is offered. Its words come as those of any transfer.
    bank : Out(SharedReadPort(cfg))
        Read port of shared memory; a request has one bank.
    o : Out(WordPort(places))
        Words of the transfer.
    outside : Out(1)
        High for one cycle: all words before are requested, and the next one is beyond the end of shared memory. The transfer ends
        without that word.
    word : Out(16)
        Number of the word behind the last one whose request was accepted. With ``outside`` and until the next transfer begins the number of
        the word outside.

    *Latency*: 1 cycle from ``transfer.begin`` to the first request; 1 cycle from an answer to ``o.valid``. At the least latency of the
    memory these are 3 cycles from ``transfer.begin`` to ``o.valid``.

    *Throughput*: one word a cycle at the least latency of the memory; with latency n, ``READ_AHEAD`` words in n + 1 cycles. A cycle in
    which ``o.hold`` retains a word costs a cycle.

    *Back-pressure*: ``bank.request`` depends on registers only. ``o.hold`` acts one cycle later on ``o.taken``. ``bank.answer`` is
    always taken.

    *Reset*: ends the transfer; words that are on their way are forgotten, as shared memory forgets them too.
    """

    def __init__(self, cfg, count, places):
        self.cfg = cfg = RnnParameters.of(cfg)
        self.count = count
        super().__init__({
            "transfer": In(TransferPort(count, places)), "stop": In(1), "bank": Out(SharedReadPort(cfg)), "o": Out(WordPort(places)),
            "outside": Out(1), "word": Out(WORD_BITS),
        })

    def elaborate(self, platform):
        m = Module()
        transfer, o, word, left = self.transfer, self.o, self.word, Signal(self.count)
        request, answer = self.bank.request, self.bank.answer
        held, more, accepted = (Signal(name=name) for name in ("held", "more", "accepted"))
        inside = Signal(range(READ_AHEAD + 1))           # words that are requested and have not left
        m.submodules.choice = choice = BankChoice()
        m.submodules.words = words = Queue(8 * BANK_BYTES, READ_AHEAD, registered=False)
        m.d.comb += [
            more.eq(left != 0),
            self.outside.eq(more & (word[self.cfg.shared_address_bits - 4:] != 0)),
            request.valid.eq(more & ~self.outside & ((inside != READ_AHEAD) | o.taken)),
            request.payload.bank.eq(1 << word[:3]), accepted.eq(request.valid & request.ready),
            choice.bank.eq(answer.payload.bank), words.i.valid.eq(answer.valid), words.i.payload.eq(choice.o),
            o.valid.eq(words.o.valid), o.data.eq(words.o.payload), o.taken.eq(o.valid & ~held), words.o.ready.eq(~held),
            o.last.eq(~more & (inside == 1)), transfer.busy.eq(more | (inside != 0)),
        ]
        m.d.comb += [row.eq(word[3:]) for row in request.payload.row]
        m.d.comb += [inner.eq(outer) for inner, outer in zip(choice.i, answer.payload.data, strict=True)]
        m.d.sync += [held.eq(o.hold), inside.eq(inside + accepted - o.taken)]
        with m.If(o.taken):
            m.d.sync += o.at.eq(o.at + 1)
        with m.If(accepted):
            m.d.sync += [word.eq(word + 1), left.eq(left - 1)]
        with m.If(self.outside):
            m.d.sync += left.eq(0)
        with m.If(transfer.begin):
            m.d.sync += [left.eq(transfer.words), o.at.eq(transfer.place)]
            with m.If(~transfer.on):
                m.d.sync += word.eq(transfer.first)
        with m.If(self.stop):
            m.d.sync += left.eq(request.valid & ~request.ready)
        return m
