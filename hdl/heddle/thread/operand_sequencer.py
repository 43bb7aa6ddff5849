"""Operand sequencer: order in which an operation reads its registers."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..constants import REGISTER_BITS
from ..interfaces.layouts import ThreadKind, thread_operation_layout
from ..isa.encoding import Access, AluFunction, OutputUse, Space
from ..parameters.thread import ThreadParameters
from .micro_ops import MicroOps, word_bits

__all__ = ["OperandSequencer", "operand_kind", "operand_kind_layout", "operand_read_layout"]


def operand_kind_layout(cfg):
    """Operands of an operation.

    ``store``, ``accesses``: a store; a load or store. ``first``, ``second``: a and the other register are read in every micro-operation.
    ``pairs``: the other register of two micro-operations is read at once. ``serial``: one thread at a time. ``words``: words of a thread,
    minus one. ``by_group``: all groups of a word, then the next word. ``gathers``, with ``gather_offsets``: ``words`` are elements by
    compiled offsets, for which a is read once.
    """
    return data.StructLayout({
        "store": 1, "accesses": 1, "first": 1, "second": 1, "pairs": 1, "serial": 1, "words": word_bits(cfg), "by_group": 1,
        **({"gathers": 1} if cfg.gather_offsets else {})})


def operand_kind(cfg, operation):
    """Values of the fields of ``operand_kind_layout`` for an operation, by name; registered beside the operation by its owner."""
    access = operation.access
    computes = (operation.kind == ThreadKind.ALU) | (operation.kind == ThreadKind.COMPARE)
    moves = (operation.kind == ThreadKind.ALU) & (operation.function == AluFunction.MOV)
    store = operation.kind == ThreadKind.STORE
    accesses = store | (operation.kind == ThreadKind.LOAD)
    word_by_word = store | (operation.kind == ThreadKind.ALU)
    vector = (access == Access.V2) | (access == Access.V4)
    words = Cat(word_by_word & vector, word_by_word & (access == Access.V4))
    return {
        "store": store, "accesses": accesses, "first": computes & ~moves, "second": store | (computes & operation.b_is_register),
        "pairs": store & vector & cfg.register_pairs, "serial": accesses & (operation.space == Space.GLOBAL),
        "words": Mux(operation.gathers, operation.entries, words) if cfg.gather_offsets else words,
        "by_group": (operation.output == OutputUse.GROUPS) if cfg.packs_groups else Const(0),
        **({"gathers": operation.gathers} if cfg.gather_offsets else {}),
    }


def operand_read_layout(cfg):
    """Register of a group of threads that is to be read.

    ``number``: of a pair the lower one. ``second``: second operand of its micro-operation, or its data; else the first operand, or the
    address. ``final``: the micro-operation, or with ``pairs`` two of them, have no further register.
    """
    return data.StructLayout({"group": range(cfg.thread_groups), "number": REGISTER_BITS, "second": 1, "final": 1})


class OperandSequencer(Component):
    """Operand sequencer: lists the registers that an operation reads, in the order in which its micro-operations use them.

    A function or comparison uses a, then b; one of four registers has four micro-operations. A load or store uses the address in the first
    micro-operation of a group. A store then uses the data word of each micro-operation. The SIMD lanes execute the micro-operations in the
    same order (``MicroOps``), so operands need no tag.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    operation : In(thread_operation_layout(cfg))
        The operation; constant while not ``done``.
    kind : In(operand_kind_layout(cfg))
        ``operand_kind`` of it; constant while not ``done``.
    start : In(1)
        The first register is present in the next cycle.
    none : In(1)
        With ``start``: the operation reads nothing, ``done`` is high in the next cycle.
    advance : In(1)
        The present register is left. A micro-operation without registers takes one ``advance`` too.
    cancel : In(1)
        The rest is left out.
    needed : Out(1)
        A register is to be read now.
    read : Out(operand_read_layout(cfg))
        The register.
    last : Out(1)
        The operation has no further register or micro-operation.
    done : Out(1)
        The operation has been left.

    *Latency*: outputs come from registers with logic on ``operation`` and ``kind``; none depends on ``advance``.

    *Throughput*: one register or pair, or one micro-operation without registers, a cycle.

    *Reset*: ``done``.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        super().__init__({
            "operation": In(thread_operation_layout(cfg)),
            "kind": In(operand_kind_layout(cfg)),
            "start": In(1),
            "none": In(1),
            "advance": In(1),
            "cancel": In(1),
            "needed": Out(1),
            "read": Out(operand_read_layout(cfg)),
            "last": Out(1),
            "done": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.steps = steps = MicroOps(self.cfg)
        operation, kind, read, micro_op = self.operation, self.kind, self.read, steps.micro_op
        need_first, first_is_over, word = Signal(), Signal(), Signal(2)
        m.d.comb += [
            need_first.eq(Mux(kind.accesses, (micro_op.slot == 0) & (micro_op.word == 0), kind.first)),
            read.second.eq(first_is_over | ~need_first),
            self.needed.eq(~read.second | kind.second),
            read.final.eq(read.second | ~kind.second), self.last.eq(read.final & steps.last),
            word.eq(Mux(kind.pairs, micro_op.word << 1, micro_op.word)),
            # Vectors begin at a multiple of their length.
            read.number.eq(Mux(~read.second, operation.a | micro_op.word, Mux(kind.store, operation.c | word, operation.b))),
            read.group.eq(micro_op.group),
            steps.start.eq(self.start), steps.none.eq(self.none), steps.cancel.eq(self.cancel),
            steps.serial.eq(kind.serial), steps.by_group.eq(kind.by_group), steps.words.eq(self._words()),
            steps.advance.eq(self.advance & read.final), self.done.eq(steps.done),
        ]
        with m.If(self.advance):
            m.d.sync += first_is_over.eq(~read.final)
        with m.If(self.start):
            m.d.sync += first_is_over.eq(0)
        return m

    def _words(self):
        """Words of a thread for which registers are read, minus one."""
        words = Mux(self.kind.pairs, self.kind.words[1], self.kind.words)
        return Mux(self.kind.gathers, 0, words) if self.cfg.gather_offsets else words
