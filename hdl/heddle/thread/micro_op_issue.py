"""Issue of the micro-operations of an operation to the SIMD lanes."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, Signature

from ..lib.onehot import select_one_hot
from ..parameters.thread import ThreadParameters
from .micro_ops import MicroOps, micro_op_layout
from .offset_fetch import offset_layout
from .operand_fetch import OperandEntryPort
from .operand_sequencer import operand_kind_layout

__all__ = ["MicroOpIssue", "StepLoadPort"]


def StepLoadPort(cfg):
    """Loads of the operands of a micro-operation, seen from the control of the SIMD lanes.

    *Ports*:
    step : Out(1)
        The operands of a micro-operation become a and b, and its function the controls of the ALUs; a is zero where it does not count.
    address : Out(1)
        With ``step``: the first operand makes the address.
    other : Out(1)
        With ``step`` and ``register_pairs``: the data are the other register of a pair.
    group : Out(range(thread_groups))
        Group of the micro-operation.
    entry : Out(offset_layout)
        With ``gather_offsets``: entry of the compiled-offset memory for the address of a gather.
    """
    return Signature({"step": Out(1), "address": Out(1), "other": Out(1), "group": Out(range(cfg.thread_groups))}
                     | ({"entry": Out(offset_layout)} if cfg.gather_offsets else {}))


class MicroOpIssue(Component):
    """Micro-operation issue: loads the operands of the next micro-operation into the SIMD lanes when the last one was taken.

    A micro-operation with registers waits for its entry of the operand queues. Two micro-operations with a pair of data have one entry, and
    so have all those of a gather for a group. These also wait for their entry of the compiled-offset memory.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    kind : In(operand_kind_layout(cfg))
        ``operand_kind`` of the operation; constant while not ``done``.
    start : In(1)
        The operation enters the SIMD lanes in the next cycle.
    none : In(1)
        With ``start``: there is no micro-operation.
    may : In(1)
        A micro-operation may enter the SIMD lanes in this cycle.
    skip : In(1)
        Micro-operations take their operands and do not enter.
    cancel : In(1)
        The remaining micro-operations are left out, with their operands.
    active : In(threads)
        Threads whose guard holds.
    entries : In(OperandEntryPort())
        Oldest entry of the operand queues.
    offset : In(stream.Signature(offset_layout))
        With ``gather_offsets``: entries of the compiled-offset memory for the micro-operations of gathers.
    load : Out(StepLoadPort(cfg))
        Loads of the operands.
    o : Out(stream.Signature(micro_op_layout(cfg)))
        The micro-operation in the SIMD lanes.
    done : Out(1)
        No micro-operation is left to enter.

    *Latency*: ``o.valid`` one cycle after ``load.step``, which may follow ``start`` in the next cycle.

    *Throughput*: one micro-operation a cycle.

    *Back-pressure*: ``load``, ``entries.take`` and ``offset.ready`` are combinational from ``may`` and ``o.ready``.

    *Reset*: ``done``, and no micro-operation is in the SIMD lanes.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        super().__init__({
            "kind": In(operand_kind_layout(cfg)), "start": In(1), "none": In(1), "may": In(1), "skip": In(1), "cancel": In(1),
            "active": In(cfg.threads),
            "entries": In(OperandEntryPort()),
            **({"offset": In(stream.Signature(offset_layout))} if cfg.gather_offsets else {}),
            "load": Out(StepLoadPort(cfg)),
            "o": Out(stream.Signature(micro_op_layout(cfg))),
            "done": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.steps = steps = MicroOps(self.cfg)
        kind, load, entries, micro_op = self.kind, self.load, self.entries, steps.micro_op
        advance, addresses, needed = Signal(), Signal(), Signal()
        # ``shares``: the entry of the operand queues is also that of the next micro-operation.
        has_offset, shares = Const(1), kind.pairs & ~micro_op.word[0]
        if self.cfg.gather_offsets:
            has_offset, shares = ~kind.gathers | self.offset.valid, shares | (kind.gathers & ~micro_op.last_word)
            m.d.comb += [self.offset.ready.eq(advance & kind.gathers), load.entry.eq(self.offset.payload)]
        m.d.comb += [
            steps.serial.eq(kind.serial), steps.by_group.eq(kind.by_group), steps.words.eq(kind.words),
            steps.start.eq(self.start), steps.none.eq(self.none),
            steps.cancel.eq(self.cancel), steps.advance.eq(advance), self.done.eq(steps.done),
            addresses.eq(kind.accesses & (micro_op.slot == 0) & self._has_address(micro_op)),
            needed.eq(kind.first | kind.second | addresses),
            advance.eq(self.may & ~steps.done & (~needed | entries.available) & has_offset & (~self.o.valid | self.o.ready)),
            entries.take.eq(advance & needed & ~shares),
            load.step.eq(advance & ~self.skip), load.address.eq(load.step & addresses),
            load.other.eq(kind.pairs & micro_op.word[0]), load.group.eq(micro_op.group),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        slots = len(self.o.payload.active)
        with m.If(load.step):
            groups = [self.active[group * slots:(group + 1) * slots] for group in range(self.cfg.thread_groups)]
            m.d.sync += [
                self.o.valid.eq(1), self.o.payload.active.eq(select_one_hot(1 << micro_op.group, groups)),
                *(self.o.payload[name].eq(getattr(micro_op, name)) for name in micro_op.signature.members),
            ]
        return m

    def _has_address(self, micro_op):
        """The micro-operation has an address of its own: the first of its threads, or any of a gather."""
        first = micro_op.word == 0
        return first | self.kind.gathers if self.cfg.gather_offsets else first
