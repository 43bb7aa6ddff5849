"""Groups of stores that a program waits for [S1.13]."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib.wiring import Component, In, Out

from ..constants import STORE_GROUPS
from ..lib.stream import Queue

__all__ = ["GroupProgress", "StoreGroups"]

POSITION_BITS = 10      # twice as many stores as can be under way


class GroupProgress(Component):
    """How many groups wait for stores of one kind, which pass in the order in which they were issued.

    A position counts the stores up to the end of a group, modulo 2^``POSITION_BITS``. Latency 3 cycles from ``passed`` to ``pending``,
    one group a cycle. Reset forgets everything.

    Members
    -------
    issued, passed : In(1)
        A store was issued; one has passed.
    commit : In(1)
        The stores issued in earlier cycles end a group; only while ``pending`` is below ``STORE_GROUPS``.
    pending : Out(range(STORE_GROUPS + 1))
    """

    def __init__(self):
        super().__init__({"issued": In(1), "passed": In(1), "commit": In(1), "pending": Out(range(STORE_GROUPS + 1))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.ends = ends = Queue(POSITION_BITS, STORE_GROUPS)
        issued, passed = Signal(POSITION_BITS), Signal(POSITION_BITS)
        over = Signal()
        m.d.comb += [
            ends.i.valid.eq(self.commit), ends.i.payload.eq(issued),
            over.eq(~(passed - ends.o.payload)[:POSITION_BITS][-1]),
            ends.o.ready.eq(over),
            self.pending.eq(ends.level),
        ]
        m.d.sync += [issued.eq(issued + self.issued), passed.eq(passed + self.passed)]
        return m


class StoreGroups(Component):
    """Committed groups of stores: how many have stores under way, and how many have some that are not yet read from shared memory.

    Block copies and tensors are stored in their own order each, so that a group has passed when both have. Up to ``STORE_GROUPS`` (8)
    groups are pending; those of no store at all pass like others.

    Members
    -------
    issued, read, done : In(2)
        A store of blocks (bit 0), of a tensor (bit 1), was taken; was read from shared memory; has all its answers.
    commit : In(1)
        As in ``GroupProgress``.
    clear : In(1)
        Forget everything: at the start of a run, while nothing is under way.
    pending, unread : Out(range(STORE_GROUPS + 1))
    """

    def __init__(self):
        count = Out(range(STORE_GROUPS + 1))
        super().__init__({"issued": In(2), "read": In(2), "done": In(2), "commit": In(1), "clear": In(1),
                          "pending": count, "unread": count})

    def elaborate(self, platform):
        m = Module()
        for name, passed, total in (("done", self.done, self.pending), ("read", self.read, self.unread)):
            counts = []
            for kind, of_kind in enumerate(("blocks", "tensors")):
                progress = GroupProgress()
                m.submodules[f"{of_kind}_{name}"] = ResetInserter(self.clear)(progress)
                m.d.comb += [progress.issued.eq(self.issued[kind]), progress.passed.eq(passed[kind]), progress.commit.eq(self.commit)]
                counts.append(progress.pending)
            m.d.comb += total.eq(Mux(counts[0] > counts[1], *counts))
        return m
