"""Micro-operations of an operation: their order over groups, threads and words."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..parameters.thread import ThreadParameters

__all__ = ["MicroOps"]


class MicroOps(Component):
    """Micro-operation counter: lists (group, thread of the group, word) of an operation.

    Groups are outermost and words innermost. With ``serial`` the threads of a group have micro-operations of their own, else one is for
    all.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    start : In(1)
        The first micro-operation is present in the next cycle.
    none : In(1)
        With ``start``: there is no micro-operation, ``done`` is high in the next cycle.
    serial : In(1)
        One thread at a time; constant while not ``done``.
    words : In(2)
        Words of each thread, minus one; constant while not ``done``.
    advance : In(1)
        The present micro-operation is left; the next one is present in the next cycle.
    cancel : In(1)
        The remaining micro-operations are left out.
    group : Out(range(thread_groups))
        Group of the present micro-operation.
    slot : Out(range(slots))
        Thread of the present micro-operation in the group with ``serial``, else 0.
    word : Out(2)
        Word of the present micro-operation.
    last_word : Out(1)
        ``word`` is the last of the thread or group.
    last : Out(1)
        The present micro-operation is the last of the operation.
    done : Out(1)
        No micro-operation is left.

    *Latency*: all outputs come from registers, ``last_word`` and ``last`` with logic on ``serial`` and ``words``.

    *Throughput*: one micro-operation a cycle.

    *Reset*: ``done``.
    """

    def __init__(self, cfg):
        cfg = ThreadParameters.of(cfg)
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
