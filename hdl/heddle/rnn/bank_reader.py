"""Bank reader: sequential reads of shared memory, one word of 16 bytes a cycle."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import BankReadPort
from ..lib.onehot import select_one_hot
from ..parameters.rnn import RnnParameters

__all__ = ["WORD_BITS", "BankReader"]

WORD_BITS = 16      # bits of the number of a word of 16 bytes in shared memory


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
    """Bank reader: reads ``words`` consecutive words of 16 bytes of shared memory and numbers them with consecutive places.

    One register holds a word until it leaves. A word is requested only if that register is free in the cycle of its data.

    Parameters
    ----------
    cfg : RnnParameters
    count : int
        Bits of the number of words.
    places : int
        Bits of a place.

    *Ports*:
    begin : In(1)
        Starts a transfer; allowed only while not ``busy``.
    first : In(16)
        Number of the first word, with ``begin``.
    on : In(1)
        With ``begin``: continue behind the last word that was read, ignore ``first``.
    words : In(count)
        Number of words, with ``begin``; 0 is an empty transfer.
    place : In(places)
        Place of the first word, with ``begin``.
    hold : In(1)
        The word at ``data`` does not leave in the next cycle.
    bank : Out(BankReadPort(cfg))
        Read port of shared memory, at most one bank requested a cycle.
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
    outside : Out(1)
        High for one cycle: the next word is beyond the end of shared memory. The transfer ends without that word.
    word : Out(16)
        Number of the word behind the last granted one; with ``outside`` and until the next transfer the number of the word outside.
    busy : Out(1)
        A transfer is in progress: words are not granted yet, in flight or at ``data``.

    *Latency*: 3 cycles from ``begin`` to ``valid`` of the first word where its bank grants at once; 2 cycles from a grant to ``valid``.

    *Throughput*: one word a cycle; a cycle without grant, or with a valid word that ``hold`` retains, costs a cycle.

    *Back-pressure*: ``bank.request`` depends combinationally on ``hold``. ``hold`` acts one cycle later on ``taken``.

    *Reset*: ends the transfer; ``data`` has no reset.
    """

    def __init__(self, cfg, count, places):
        self.cfg = cfg = RnnParameters.of(cfg)
        self.count = count
        super().__init__({
            "begin": In(1), "first": In(WORD_BITS), "on": In(1), "words": In(count), "place": In(places), "hold": In(1),
            "bank": Out(BankReadPort(cfg)), "valid": Out(1), "data": Out(128), "at": Out(places), "last": Out(1), "taken": Out(1),
            "outside": Out(1), "word": Out(WORD_BITS), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        word, left = self.word, Signal(self.count)
        asks, coming, granted, held, more = (Signal(name=name) for name in ("asks", "coming", "granted", "held", "more"))
        bank, coming_bank = Signal(BANKS), Signal(BANKS)
        kept = Signal(128, name="kept", reset_less=True)
        m.d.comb += [
            more.eq(left != 0),
            bank.eq(1 << word[:3]),
            self.outside.eq(more & (word[self.cfg.shared_address_bits - 4:] != 0)),
            self.taken.eq(self.valid & ~held),
            # A word requested in this cycle arrives in the register two cycles later, which must be free then.
            asks.eq(more & ~self.outside & ~(self.hold & (coming | (self.valid & held)))),
            self.bank.request.eq(bank & asks.replicate(BANKS)), granted.eq((self.bank.grant & self.bank.request).any()),
            self.busy.eq(more | coming | self.valid), self.last.eq(~more & ~coming), self.data.eq(kept),
        ]
        m.submodules.choice = choice = BankChoice()
        m.d.comb += [inner.eq(outer) for inner, outer in zip(choice.i, self.bank.data, strict=True)]
        m.d.comb += choice.bank.eq(coming_bank)
        m.d.comb += [row.eq(word[3:]) for row in self.bank.row]
        m.d.sync += [held.eq(self.hold), coming.eq(granted), coming_bank.eq(bank), self.valid.eq(coming | (self.valid & held))]
        with m.If(coming):
            m.d.sync += kept.eq(choice.o)
        with m.If(self.taken):
            m.d.sync += self.at.eq(self.at + 1)
        with m.If(granted):
            m.d.sync += [word.eq(word + 1), left.eq(left - 1)]
        with m.If(self.outside):
            m.d.sync += left.eq(0)
        with m.If(self.begin):
            m.d.sync += [left.eq(self.words), self.at.eq(self.place)]
            with m.If(~self.on):
                m.d.sync += word.eq(self.first)
        return m
