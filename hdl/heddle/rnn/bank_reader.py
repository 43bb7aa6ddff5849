"""Bank reader: sequential reads of shared memory, one word of 16 bytes a cycle."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out, Signature

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import BankReadPort
from ..lib.onehot import select_one_hot
from ..parameters.rnn import RnnParameters

__all__ = ["WORD_BITS", "BankReader", "TransferPort", "WordPort"]

WORD_BITS = 16      # bits of the number of a word of 16 bytes in shared memory


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
        A transfer is in progress: words are not granted yet, in flight or not delivered.
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
    """Bank multiplexer: the word of one bank, or zero; combinational.

    The multiplexer is the largest part of the image loader. A component of its own makes area reports count it separately.

    *Ports*:
    bank : In(BANKS)
        Selected bank, one hot, or 0.
    i : In(128).array(BANKS)
        Words of the banks.
    o : Out(128)
        Selected word; 0 where ``bank`` is 0.
    """

    def __init__(self):
        super().__init__({"bank": In(BANKS), "i": In(8 * BANK_BYTES).array(BANKS), "o": Out(8 * BANK_BYTES)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(select_one_hot(self.bank, self.i))
        return m


class BankReader(Component):
    """Bank reader: reads consecutive words of 16 bytes of shared memory and numbers them with consecutive places.

    One register holds a word until it leaves. A word is requested only if that register is free in the cycle of its data.

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
    bank : Out(BankReadPort(cfg))
        Read port of shared memory, at most one bank requested a cycle.
    o : Out(WordPort(places))
        Words of the transfer.
    outside : Out(1)
        High for one cycle: the next word is beyond the end of shared memory. The transfer ends without that word.
    word : Out(16)
        Number of the word behind the last granted one; with ``outside`` and until the next transfer the number of the word outside.

    *Latency*: 3 cycles from ``transfer.begin`` to ``o.valid`` of the first word where its bank grants at once; 2 cycles from a grant
    to ``o.valid``.

    *Throughput*: one word a cycle; a cycle without grant, or with a valid word that ``o.hold`` retains, costs a cycle.

    *Back-pressure*: ``bank.request`` depends combinationally on ``o.hold``. ``o.hold`` acts one cycle later on ``o.taken``.

    *Reset*: ends the transfer; ``o.data`` has no reset.
    """

    def __init__(self, cfg, count, places):
        self.cfg = cfg = RnnParameters.of(cfg)
        self.count = count
        super().__init__({
            "transfer": In(TransferPort(count, places)), "bank": Out(BankReadPort(cfg)), "o": Out(WordPort(places)),
            "outside": Out(1), "word": Out(WORD_BITS),
        })

    def elaborate(self, platform):
        m = Module()
        transfer, o, word, left = self.transfer, self.o, self.word, Signal(self.count)
        asks, coming, granted, held, more = (Signal(name=name) for name in ("asks", "coming", "granted", "held", "more"))
        bank, coming_bank = Signal(BANKS), Signal(BANKS)
        kept = Signal(128, name="kept", reset_less=True)
        m.d.comb += [
            more.eq(left != 0),
            bank.eq(1 << word[:3]),
            self.outside.eq(more & (word[self.cfg.shared_address_bits - 4:] != 0)),
            o.taken.eq(o.valid & ~held),
            # A word requested in this cycle arrives in the register two cycles later, which must be free then.
            asks.eq(more & ~self.outside & ~(o.hold & (coming | (o.valid & held)))),
            self.bank.request.eq(bank & asks.replicate(BANKS)), granted.eq((self.bank.grant & self.bank.request).any()),
            transfer.busy.eq(more | coming | o.valid), o.last.eq(~more & ~coming), o.data.eq(kept),
        ]
        m.submodules.choice = choice = BankChoice()
        m.d.comb += [inner.eq(outer) for inner, outer in zip(choice.i, self.bank.data, strict=True)]
        m.d.comb += choice.bank.eq(coming_bank)
        m.d.comb += [row.eq(word[3:]) for row in self.bank.row]
        m.d.sync += [held.eq(o.hold), coming.eq(granted), coming_bank.eq(bank), o.valid.eq(coming | (o.valid & held))]
        with m.If(coming):
            m.d.sync += kept.eq(choice.o)
        with m.If(o.taken):
            m.d.sync += o.at.eq(o.at + 1)
        with m.If(granted):
            m.d.sync += [word.eq(word + 1), left.eq(left - 1)]
        with m.If(self.outside):
            m.d.sync += left.eq(0)
        with m.If(transfer.begin):
            m.d.sync += [left.eq(transfer.words), o.at.eq(transfer.place)]
            with m.If(~transfer.on):
                m.d.sync += word.eq(transfer.first)
        return m
