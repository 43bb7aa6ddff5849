"""Store groups: commit and completion of groups of stores [S1.13]."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib.wiring import Component, In, Out

from ..constants import STORE_GROUPS
from ..lib.stream import Queue

__all__ = ["GroupProgress", "StoreGroups"]

POSITION_BITS = 10      # bits of a count of at least twice the stores in flight


class GroupProgress(Component):
    """Counter of pending groups for one kind of stores and one event; stores pass in the order of issue.

    A group is stored as the number of stores issued up to its end, modulo 2^``POSITION_BITS``.

    *Ports*:
    issued : In(1)
        A store is issued.
    passed : In(1)
        The oldest store that has not passed passes.
    commit : In(1)
        End a group with the stores issued in earlier cycles; only while ``pending`` is below ``STORE_GROUPS``.
    pending : Out(range(STORE_GROUPS + 1))
        Groups with a store that has not passed.

    *Latency*: ``pending`` rises 1 cycle after ``commit`` and falls 2 cycles after ``passed``, at least 3 cycles after ``commit``.

    *Throughput*: one group per cycle.

    *Reset*: no group is pending, all counts are zero.
    """

    def __init__(self):
        super().__init__({"issued": In(1), "passed": In(1), "commit": In(1), "pending": Out(range(STORE_GROUPS + 1))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.ends = ends = Queue(POSITION_BITS, STORE_GROUPS)
        issued, passed = Signal(POSITION_BITS), Signal(POSITION_BITS)
        over, late = Signal(), Signal()         # ``late``: a store was issued in the cycle before
        m.d.comb += [
            ends.i.valid.eq(self.commit), ends.i.payload.eq(issued + late),
            over.eq(~(passed - ends.o.payload)[:POSITION_BITS][-1]),
            ends.o.ready.eq(over),
            self.pending.eq(ends.level),
        ]
        m.d.sync += [late.eq(self.issued), issued.eq(issued + late), passed.eq(passed + self.passed)]
        return m


class StoreGroups(Component):
    """Counters of pending store groups: groups that memory has not acknowledged, and groups not yet read from shared memory [S1.13].

    Stores of blocks and of tensors are each in order. A group has passed when both kinds have passed. At most ``STORE_GROUPS`` (8)
    groups are pending; a group without stores passes in order as well.

    *Ports*:
    issued : In(2)
        A store of blocks (bit 0), of a tensor (bit 1) is issued.
    read : In(2)
        A store was read from shared memory.
    done : In(2)
        All responses of a store were received.
    commit : In(1)
        End a group with the stores issued in earlier cycles; only while ``pending`` is below ``STORE_GROUPS``.
    clear : In(1)
        Reset all counters, at the start of a run while no store is in flight.
    pending : Out(range(STORE_GROUPS + 1))
        Groups with a store that memory has not acknowledged.
    unread : Out(range(STORE_GROUPS + 1))
        Groups with a store that was not read from shared memory.

    *Latency*: ``pending`` and ``unread`` rise 1 cycle after ``commit`` and fall 2 cycles after ``done`` or ``read``, at least 3
    cycles after ``commit``; never early.

    *Throughput*: one event of each kind per cycle.

    *Reset*: no group is pending.

    *Source*: [S1.13], docs/units/tmau.md.
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
