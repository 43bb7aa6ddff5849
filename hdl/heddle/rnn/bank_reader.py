"""Reads words of shared memory for the tables and the vector memory."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import BankReadPort
from ..lib.onehot import select_one_hot

__all__ = ["WORD_BITS", "BankReader"]

WORD_BITS = 16      # of the number of a word of 16 bytes in shared memory


class BankChoice(Component):
    """The word of one bank, zero without a bank; combinational. Most of what the engine's loader takes, hence a part that is counted apart.

    Members
    -------
    bank : In(BANKS)
        One hot.
    i : In(128).array(BANKS)
    o : Out(128)
    """

    def __init__(self):
        super().__init__({"bank": In(BANKS), "i": In(8 * BANK_BYTES).array(BANKS), "o": Out(8 * BANK_BYTES)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(select_one_hot(self.bank, self.i))
        return m


class BankReader(Component):
    """Reads ``words`` words of shared memory, a word a cycle: from ``first`` on, or, with ``on``, behind the last one read.

    ``begin`` only while not ``busy``, that is when all words of the transfer before have left; words stand at ``data`` three cycles
    later, with places that count up from ``place``. There is one register for them: no word is asked for that could find the
    one before it still there, in a cycle with ``hold``. A word that lies outside of shared memory is not
    read; it ends the transfer with ``outside``, its number at ``word``. Banks that are not granted cost cycles. Reset ends a transfer.

    Parameters
    ----------
    cfg : Config
    count, places : int
        Bits of the number of words, and of a place.

    Members
    -------
    begin : In(1)
    first, on, words : In(16), In(1), In(count)
        Zero words are none.
    place : In(places)
    hold : In(1)
        Words stay where they are in the next cycle.
    bank : Out(BankReadPort(cfg))
    valid, data, at, last : Out(1), Out(128), Out(places), Out(1)
        A word, its place, and whether it is the last of its transfer.
    taken : Out(1)
        It leaves in this cycle.
    outside, word : Out(1), Out(16)
        ``word`` is the number of the word behind the last one that was read.
    busy : Out(1)
        Words are left.
    """

    def __init__(self, cfg, count, places):
        self.cfg = cfg
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
            # What comes in the next cycle has to find the register free then.
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
