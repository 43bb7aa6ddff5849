"""Micro-operations of an operation: their order over groups, threads and words."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out, Signature

from ..parameters.thread import ThreadParameters

__all__ = ["MicroOpPort", "MicroOps", "micro_op_layout", "word_bits"]


def word_bits(cfg):
    """Bits of the number of a word of a thread; with ``gather_offsets`` an element of a gather counts as a word."""
    return 4 if cfg.gather_offsets else 2


def micro_op_layout(cfg):
    """The micro-operation in the SIMD lanes: group, thread of the group when threads are served one at a time, word, and active threads."""
    slots = min(cfg.thread_slots, cfg.threads)
    return data.StructLayout({
        "group": range(cfg.thread_groups), "slot": range(slots), "word": word_bits(cfg), "last_word": 1, "active": slots})


def MicroOpPort(cfg):
    """Present micro-operation of an operation, seen from the counter of micro-operations.

    *Ports*:
    group : Out(range(thread_groups))
        Group of the micro-operation.
    slot : Out(range(slots))
        Thread of the micro-operation in the group when threads are served one at a time, else 0.
    word : Out(word_bits(cfg))
        Word of the micro-operation.
    last_word : Out(1)
        ``word`` is the last of the thread or group.
    """
    return Signature({
        "group": Out(range(cfg.thread_groups)), "slot": Out(range(min(cfg.thread_slots, cfg.threads))),
        "word": Out(word_bits(cfg)), "last_word": Out(1),
    })


class MicroOps(Component):
    """Micro-operation counter: lists (group, thread of the group, word) of an operation.

    Groups are outermost and words innermost, with ``by_group`` the other way round. With ``serial`` the threads of a group have
    micro-operations of their own, else one is for all.

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
    words : In(word_bits(cfg))
        Words of each thread, minus one; constant while not ``done``.
    by_group : In(1)
        With four groups and four words: all groups of a word, then the next word; constant while not ``done``. ``micro_op.last_word`` is
        then that of the last group.
    advance : In(1)
        The present micro-operation is left; the next one is present in the next cycle.
    cancel : In(1)
        The remaining micro-operations are left out.
    micro_op : Out(MicroOpPort(cfg))
        The present micro-operation.
    last : Out(1)
        The present micro-operation is the last of the operation.
    done : Out(1)
        No micro-operation is left.

    *Latency*: all outputs come from registers, with logic on ``serial``, ``words`` and ``by_group``.

    *Throughput*: one micro-operation a cycle.

    *Reset*: ``done``.
    """

    def __init__(self, cfg):
        cfg = ThreadParameters.of(cfg)
        self.groups, self.slots, self.exchanges = cfg.thread_groups, min(cfg.thread_slots, cfg.threads), cfg.packs_groups
        super().__init__({
            "start": In(1),
            "none": In(1),
            "serial": In(1),
            "words": In(word_bits(cfg)),
            "by_group": In(1),
            "advance": In(1),
            "cancel": In(1),
            "micro_op": Out(MicroOpPort(cfg)),
            "last": Out(1),
            "done": Out(1, init=1),
        })

    def elaborate(self, platform):
        m = Module()
        slot, last_word = self.micro_op.slot, self.micro_op.last_word
        group, word = Signal.like(self.micro_op.group), Signal.like(self.micro_op.word)
        exchange = self.by_group if self.exchanges else Const(0)
        m.d.comb += [self.micro_op.group.eq(Mux(exchange, word, group)), self.micro_op.word.eq(Mux(exchange, group, word))]
        last_slot = ~self.serial | (slot == self.slots - 1)
        m.d.comb += [
            last_word.eq(word == self.words),
            self.last.eq(last_word & last_slot & (group == self.groups - 1)),
        ]
        with m.If(self.advance):
            m.d.sync += word.eq(word + 1)
            with m.If(last_word):
                m.d.sync += [word.eq(0), slot.eq(slot + self.serial)]
                with m.If(last_slot):
                    m.d.sync += [slot.eq(0), group.eq(group + 1)]
                    with m.If(group == self.groups - 1):
                        m.d.sync += self.done.eq(1)
        with m.If(self.cancel):
            m.d.sync += self.done.eq(1)
        with m.If(self.start):
            m.d.sync += [group.eq(0), slot.eq(0), word.eq(0), self.done.eq(self.none)]
        return m
