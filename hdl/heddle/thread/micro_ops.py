"""The order in which the slots serve threads, groups and words."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

__all__ = ["MicroOps"]


class MicroOps(Component):
    """Counts the steps of an operation: group by group; in a group thread by thread when ``serial``, else all at once; and for
    each of these ``words`` + 1 words.

    Members
    -------
    start : In(1)
        Begin at the first step in the next cycle (or be ``done`` at once with ``none``).
    serial, words
        Constant while not ``done``.
    advance, cancel : In(1)
        Go on to the next step; leave out the rest.
    group, slot, word
        The present step.
    last_word : Out(1)
    last : Out(1)
        The present step is the last one.
    done : Out(1)
        No step is left.
    """

    def __init__(self, cfg):
        self.groups, self.slots = cfg.thread_groups, min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "start": In(1),
            "none": In(1),
            "serial": In(1),
            "words": In(2),
            "advance": In(1),
            "cancel": In(1),
            "group": Out(range(self.groups)),
            "slot": Out(range(self.slots)),
            "word": Out(2),
            "last_word": Out(1),
            "last": Out(1),
            "done": Out(1, init=1),
        })

    def elaborate(self, platform):
        m = Module()
        last_slot = ~self.serial | (self.slot == self.slots - 1)
        m.d.comb += [
            self.last_word.eq(self.word == self.words),
            self.last.eq(self.last_word & last_slot & (self.group == self.groups - 1)),
        ]
        with m.If(self.advance):
            m.d.sync += self.word.eq(self.word + 1)
            with m.If(self.last_word):
                m.d.sync += [self.word.eq(0), self.slot.eq(self.slot + self.serial)]
                with m.If(last_slot):
                    m.d.sync += [self.slot.eq(0), self.group.eq(self.group + 1)]
                    with m.If(self.group == self.groups - 1):
                        m.d.sync += self.done.eq(1)
        with m.If(self.cancel):
            m.d.sync += self.done.eq(1)
        with m.If(self.start):
            m.d.sync += [self.group.eq(0), self.slot.eq(0), self.word.eq(0), self.done.eq(self.none)]
        return m
