"""The order in which an operation uses registers."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out

from ..constants import REGISTER_BITS
from ..isa.layout import Access, AluFunction, Space
from ..layouts import ThreadKind, thread_operation_layout
from .steps import Steps

__all__ = ["OperandWalk"]


class OperandWalk(Component):
    """Goes through the steps of an operation, and in each of them through its registers.

    Functions and comparisons use a, then b, those of four registers in four steps; loads and stores use the address in the first
    step of a group; stores then use the data of the step. A step without registers takes one ``advance`` too. The reads and their use
    follow the same order, so that nothing needs to be said about a register that was read.

    Members
    -------
    operation
        Constant while not ``done``.
    start, none : In(1)
        Begin in the next cycle, or be ``done`` at once.
    advance, cancel : In(1)
        Go on; leave out the rest.
    group, slot, word, last_word
        The present step; see ``Steps``.
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
        m.submodules.steps = steps = Steps(self.cfg)
        operation, access = self.operation, self.operation.access
        computes, store, accesses, word_by_word = Signal(), Signal(), Signal(), Signal()
        need_first, need_second, first_is_over = Signal(), Signal(), Signal()
        m.d.comb += [
            computes.eq((operation.kind == ThreadKind.ALU) | (operation.kind == ThreadKind.COMPARE)),
            store.eq(operation.kind == ThreadKind.STORE),
            word_by_word.eq(store | (operation.kind == ThreadKind.ALU)),
            accesses.eq(store | (operation.kind == ThreadKind.LOAD)),
            need_first.eq(Mux(accesses, (steps.slot == 0) & (steps.word == 0), computes & ~(
                (operation.kind == ThreadKind.ALU) & (operation.function == AluFunction.MOV)))),
            need_second.eq(store | (computes & operation.b_is_register)),
            self.second.eq(first_is_over | ~need_first),
            self.needed.eq(~self.second | need_second),
            self.final.eq(self.second | ~need_second), self.last.eq(self.final & steps.last),
            # Vectors begin at a multiple of their length.
            self.number.eq(Mux(~self.second, operation.a | steps.word, Mux(store, operation.c | steps.word, operation.b))),
            steps.start.eq(self.start), steps.none.eq(self.none), steps.cancel.eq(self.cancel),
            steps.serial.eq(accesses & (operation.space == Space.GLOBAL)),
            steps.words.eq(Cat(word_by_word & ((access == Access.V2) | (access == Access.V4)), word_by_word & (access == Access.V4))),
            steps.advance.eq(self.advance & self.final),
        ]
        m.d.comb += [getattr(self, name).eq(getattr(steps, name)) for name in ("group", "slot", "word", "last_word", "done")]
        with m.If(self.advance):
            m.d.sync += first_is_over.eq(~self.final)
        with m.If(self.start):
            m.d.sync += first_is_over.eq(0)
        return m
