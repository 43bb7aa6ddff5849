"""Reads words of shared memory for the tables and the vector memory."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANKS
from ..layouts import BankReadPort

__all__ = ["WORD_BITS", "Transfer"]

WORD_BITS = 16      # of the number of a word of 16 bytes in shared memory


class Transfer(Component):
    """Reads ``words`` words of shared memory, a word in two cycles at most: from ``first`` on, or, with ``on``, behind the last one read.

    ``begin`` counts only while not ``busy``. A word that lies outside of shared memory is not read; it ends the transfer with ``outside``,
    its number at ``word``. A word is at ``data`` while ``valid``, until ``ready``. Banks that are not granted
    cost cycles. Reset ends a transfer.

    Members
    -------
    begin : In(1)
    first, on, words : In(16), In(1), In(count)
        Zero words are none.
    bank : Out(BankReadPort(cfg))
    valid, data, ready : Out(1), Out(128), In(1)
    outside, word : Out(1), Out(16)
    busy : Out(1)
        Words are left, that at ``data`` included.
    """

    def __init__(self, cfg, count):
        self.cfg = cfg
        self.count = count
        super().__init__({
            "begin": In(1), "first": In(WORD_BITS), "on": In(1), "words": In(count), "bank": Out(BankReadPort(cfg)),
            "valid": Out(1), "data": Out(128), "ready": In(1), "busy": Out(1), "outside": Out(1), "word": Out(WORD_BITS),
        })

    def elaborate(self, platform):
        m = Module()
        word, left = self.word, Signal(self.count)
        asks, coming = Signal(), Signal()
        bank, coming_bank = Signal(BANKS), Signal(BANKS)
        m.d.comb += [
            bank.eq(1 << word[:3]),
            self.outside.eq((left != 0) & (word[self.cfg.shared_address_bits - 4:] != 0)),
            asks.eq((left != 0) & ~coming & (~self.valid | self.ready) & ~self.outside),
            self.bank.request.eq(bank & asks.replicate(BANKS)),
            self.busy.eq((left != 0) | coming | self.valid),
        ]
        m.d.comb += [row.eq(word[3:]) for row in self.bank.row]
        granted = (self.bank.grant & self.bank.request).any()
        m.d.sync += [coming.eq(granted), coming_bank.eq(bank)]
        with m.If(granted):
            m.d.sync += [word.eq(word + 1), left.eq(left - 1)]
        with m.If(self.outside):
            m.d.sync += left.eq(0)
        with m.If(self.ready):
            m.d.sync += self.valid.eq(0)
        with m.If(coming):
            chosen = 0
            for index, data in enumerate(self.bank.data):
                chosen = chosen | (data & coming_bank[index].replicate(128))
            m.d.sync += [self.valid.eq(1), self.data.eq(chosen)]
        with m.If(self.begin & ~self.busy):
            m.d.sync += left.eq(self.words)
            with m.If(~self.on):
                m.d.sync += word.eq(self.first)
        return m
