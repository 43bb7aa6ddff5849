"""The order in which an operation uses registers."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out, flipped

from ..constants import REGISTER_BITS
from ..interfaces.layouts import ThreadKind, thread_operation_layout
from ..isa.encoding import Access, AluFunction, Space
from ..lib.members import connect_members
from .micro_ops import MicroOps

__all__ = ["OperandSequencer", "walk_kind", "walk_kind_layout"]

# What an operation needs: it stores, loads or stores; a register that is first in every step, a second one; threads take turns; words - 1.
walk_kind_layout = data.StructLayout({"store": 1, "accesses": 1, "first": 1, "second": 1, "serial": 1, "words": 2})


def walk_kind(operation):
    """``walk_kind_layout`` of an operation, by name; whoever has the operation in a register has this beside it."""
    access = operation.access
    computes = (operation.kind == ThreadKind.ALU) | (operation.kind == ThreadKind.COMPARE)
    moves = (operation.kind == ThreadKind.ALU) & (operation.function == AluFunction.MOV)
    store = operation.kind == ThreadKind.STORE
    accesses = store | (operation.kind == ThreadKind.LOAD)
    word_by_word = store | (operation.kind == ThreadKind.ALU)
    return {
        "store": store, "accesses": accesses, "first": computes & ~moves, "second": store | (computes & operation.b_is_register),
        "serial": accesses & (operation.space == Space.GLOBAL),
        "words": Cat(word_by_word & ((access == Access.V2) | (access == Access.V4)), word_by_word & (access == Access.V4)),
    }


class OperandSequencer(Component):
    """Goes through the steps of an operation, and in each of them through its registers.

    Functions and comparisons use a, then b, those of four registers in four steps; loads and stores use the address in the first
    step of a group; stores then use the data of the step. A step without registers takes one ``advance`` too. The reads and their use
    follow the same order, so that nothing needs to be said about a register that was read.

    Members
    -------
    operation, kind
        Constant while not ``done``; see ``walk_kind``.
    start, none : In(1)
        Begin in the next cycle, or be ``done`` at once.
    advance, cancel : In(1)
        Go on; leave out the rest.
    group, slot, word, last_word
        The present step; see ``MicroOps``.
    needed, second, number
        The step has a register here: the second of two or the only one that is not first; its number.
    final : Out(1)
        Nothing follows in this step.
    last, done : Out(1)
        Nothing follows behind the present register or step; it has been left.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "operation": In(thread_operation_layout),
            "kind": In(walk_kind_layout),
            "start": In(1),
            "none": In(1),
            "advance": In(1),
            "cancel": In(1),
            "group": Out(range(cfg.thread_groups)),
            "slot": Out(range(min(cfg.thread_slots, cfg.threads))),
            "word": Out(2),
            "last_word": Out(1),
            "needed": Out(1),
            "second": Out(1),
            "number": Out(REGISTER_BITS),
            "final": Out(1),
            "last": Out(1),
            "done": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.steps = steps = MicroOps(self.cfg)
        operation, kind = self.operation, self.kind
        need_first, first_is_over = Signal(), Signal()
        m.d.comb += [
            need_first.eq(Mux(kind.accesses, (steps.slot == 0) & (steps.word == 0), kind.first)),
            self.second.eq(first_is_over | ~need_first),
            self.needed.eq(~self.second | kind.second),
            self.final.eq(self.second | ~kind.second), self.last.eq(self.final & steps.last),
            # Vectors begin at a multiple of their length.
            self.number.eq(Mux(~self.second, operation.a | steps.word, Mux(kind.store, operation.c | steps.word, operation.b))),
            steps.start.eq(self.start), steps.none.eq(self.none), steps.cancel.eq(self.cancel),
            steps.serial.eq(kind.serial), steps.words.eq(kind.words),
            steps.advance.eq(self.advance & self.final),
        ]
        connect_members(m, flipped(self), steps, ("group", "slot", "word", "last_word"))
        m.d.comb += self.done.eq(steps.done)
        with m.If(self.advance):
            m.d.sync += first_is_over.eq(~self.final)
        with m.If(self.start):
            m.d.sync += first_is_over.eq(0)
        return m
