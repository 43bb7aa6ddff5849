"""Reads words of shared memory for the tables and the vector memory."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANKS
from ..layouts import BankReadPort
from ..stream import Buffer, link

__all__ = ["WORD_BITS", "Transfer", "tagged_layout"]

WORD_BITS = 16      # of the number of a word of 16 bytes in shared memory


def tagged_layout(tag):
    """A word, what the transfer was for, its place behind the first word, and whether it is the last."""
    return data.StructLayout({"data": 128, "tag": tag, "place": 16, "last": 1})


class Transfer(Component):
    """Reads ``words`` words of shared memory, a word a cycle: from ``first`` on, or, with ``on``, behind the last one read.

    ``begin`` counts only while ``free``, that is when all words of the transfer before are asked for; words stand at ``o`` three cycles
    later, each with the ``tag`` of its transfer and places that count up from ``place``. A word that lies outside of shared memory is not
    read; it ends the transfer with ``outside``, its number at ``word``. Banks that are not granted cost cycles. Reset ends a transfer.

    Members
    -------
    begin : In(1)
    first, on, words : In(16), In(1), In(count)
        Zero words are none.
    tag, place : In
    bank : Out(BankReadPort(cfg))
    o : Out(stream.Signature(tagged_layout(tag)))
    outside, word : Out(1), Out(16)
    free, busy : Out(1)
        A transfer may begin; words are left, that at ``o`` included.
    """

    def __init__(self, cfg, count, tag):
        self.cfg = cfg
        self.count = count
        self.tag_shape = tag
        super().__init__({
            "begin": In(1), "first": In(WORD_BITS), "on": In(1), "words": In(count), "tag": In(tag), "place": In(16),
            "bank": Out(BankReadPort(cfg)), "o": Out(stream.Signature(tagged_layout(tag))), "free": Out(1), "busy": Out(1),
            "outside": Out(1), "word": Out(WORD_BITS),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.buffer = buffer = Buffer(tagged_layout(self.tag_shape))
        word, left = self.word, Signal(self.count)
        asks, coming, granted = Signal(), Signal(), Signal()
        bank, coming_bank = Signal(BANKS), Signal(BANKS)
        current, asked = (Signal(data.StructLayout({"tag": self.tag_shape, "place": 16, "last": 1}), name=name)
                          for name in ("current", "asked"))
        link(m, buffer.o, self.o)
        # One word may be on its way and one at ``o``; the other place of the buffer is for the one that comes.
        room = ~self.o.valid | self.o.ready | (buffer.i.ready & ~coming)
        m.d.comb += [
            bank.eq(1 << word[:3]),
            self.outside.eq((left != 0) & (word[self.cfg.shared_address_bits - 4:] != 0)),
            asks.eq((left != 0) & room & buffer.i.ready & ~self.outside),
            self.bank.request.eq(bank & asks.replicate(BANKS)), granted.eq((self.bank.grant & self.bank.request).any()),
            self.free.eq(left == 0), self.busy.eq((left != 0) | coming | self.o.valid),
            buffer.i.valid.eq(coming), buffer.i.payload.data.eq(self._granted_word(coming_bank)),
            buffer.i.payload.tag.eq(asked.tag), buffer.i.payload.place.eq(asked.place), buffer.i.payload.last.eq(asked.last),
        ]
        m.d.comb += [row.eq(word[3:]) for row in self.bank.row]
        m.d.sync += [coming.eq(granted), coming_bank.eq(bank), asked.eq(current), asked.last.eq(left == 1)]
        with m.If(granted):
            m.d.sync += [word.eq(word + 1), left.eq(left - 1), current.place.eq(current.place + 1)]
        with m.If(self.outside):
            m.d.sync += left.eq(0)
        with m.If(self.begin & self.free):
            m.d.sync += [left.eq(self.words), current.tag.eq(self.tag), current.place.eq(self.place)]
            with m.If(~self.on):
                m.d.sync += word.eq(self.first)
        return m

    def _granted_word(self, coming_bank):
        word = 0
        for index, value in enumerate(self.bank.data):
            word = word | (value & coming_bank[index].replicate(128))
        return word
