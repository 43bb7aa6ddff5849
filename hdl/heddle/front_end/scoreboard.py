"""Scoreboard of the register groups that operations in flight read or write [S0.10]."""

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import REGISTER_GROUPS
from ..lib.onehot import any_of
from ..parameters.front_end import FrontEndParameters

__all__ = ["THREAD_LEFT_BITS", "Scoreboard", "hazard_layout", "register_groups_layout"]

THREAD_LEFT_BITS = 5            # counts the largest ``thread_queue`` (16), two operations in the thread unit and the pending one


def register_groups_layout(cfg):
    """Register groups that an operation reads or writes.

    ``product``: of 16 product registers each; with ``gather_offsets`` the highest bit is the compiled-offset memory of the threads.
    ``factor``: of factor_words / 16 factor words each.
    """
    return data.StructLayout({"product": REGISTER_GROUPS + cfg.gather_offsets, "factor": REGISTER_GROUPS})


def held_layout(cfg):
    """Register groups of all operations in flight of a unit. ``kept_factor``: of the operations that do not complete in this cycle."""
    return data.StructLayout(register_groups_layout(cfg).members | {"kept_factor": REGISTER_GROUPS})


def hazard_layout(cfg):
    """What the scoreboard knows of an operation.

    ``for_matrix``: its unit is the matrix unit, else the thread unit. ``writes_predicate``: it writes predicates or the lane mask.
    ``lanes_only``: factor register groups that an ``mm`` does not read before its first step.
    """
    return data.StructLayout({"uses": register_groups_layout(cfg), "for_matrix": 1, "writes_predicate": 1, "lanes_only": REGISTER_GROUPS})


class _InFlight(Component):
    """Scoreboard entries of one unit, in order of age: up to ``depth`` entries with a count of operations each.

    With ``merge`` an operation with the product register groups of the youngest entry joins this entry. An entry is released when its last
    operation is done.

    Entries do not move; two one-hot pointers select the oldest and the youngest. A free entry holds no register group, so the union is an
    OR. Whether the youngest entry can be joined is registered.

    *Latency*: an operation is in flight from the cycle after its ``i.valid`` to the cycle of its ``done``.

    *Throughput*: one operation added and one done a cycle.

    *Back-pressure*: none on ``i``. ``full`` is combinational from ``same``; nothing is added while it is high.

    *Reset*: no operation is in flight.
    """

    def __init__(self, cfg, depth, merge, count_bits=5):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        self._depth, self._merge, self._count_bits = depth, merge, count_bits
        uses = register_groups_layout(cfg)
        super().__init__({
            # The pending operation; ``valid``: it is added.
            "i": In(stream.Signature(data.StructLayout({"uses": uses, "flag": 1}), always_ready=True)),
            "done": In(1), "clear": In(1),
            "held": Out(held_layout(cfg)),
            "flags": Out(1),                # an operation in flight was added with ``flag``
            "full": Out(1),                 # no entry is free for ``i``
            "tight": Out(1),                # fewer than two entries are free
            "empty": Out(1),
        } | ({
            "product": Out(uses["product"].width),     # of the youngest entry
            "same": In(1),                      # ``i`` has these product register groups
        } if merge else {}))

    def elaborate(self, platform):
        m = Module()
        depth, uses = self._depth, self.i.payload.uses
        group = data.StructLayout({"uses": register_groups_layout(self.cfg), "flag": 1, "count": self._count_bits})
        groups = [Signal(group, name=f"group_{index}") for index in range(depth)]
        used = Cat(entry.count != 0 for entry in groups)
        oldest, youngest = Signal(depth, init=2), Signal(depth, init=1)
        following = Cat(youngest[-1], youngest[:-1])       # the next entry
        joins = Signal()                                   # the new operation joins the youngest entry
        m.d.comb += [
            self.empty.eq(~used.any()),
            self.full.eq(used.all() & ~joins),
            self.tight.eq((used & Cat(following[-1], following[:-1])).any()),
            self.flags.eq(Cat(entry.flag for entry in groups).any()),
        ]
        for name in ("product", "factor"):
            m.d.comb += self.held[name].eq(any_of(entry.uses[name] for entry in groups))
        if self._merge:
            joinable = Signal()         # the youngest entry is used, and its count is not the largest
            m.d.comb += joins.eq(joinable & self.same)
            with m.If(self.i.valid):
                m.d.sync += self.product.eq(uses.product)
        with m.If(self.i.valid & ~joins):
            m.d.sync += youngest.eq(following)

        released = Signal(depth)
        for index, entry in enumerate(groups):
            opens, grows = self.i.valid & ~joins & following[index], self.i.valid & joins & youngest[index]
            shrinks = self.done & oldest[index]
            m.d.comb += released[index].eq(shrinks & ~grows & (entry.count == 1))
            with m.If(opens | grows):
                m.d.sync += [
                    entry.uses.product.eq(uses.product),
                    entry.uses.factor.eq(uses.factor | Mux(joins, entry.uses.factor, 0)),
                    entry.flag.eq(self.i.payload.flag | (joins & entry.flag)),
                ]
            with m.If(self.clear | released[index]):
                m.d.sync += [entry.uses.eq(0), entry.flag.eq(0)]
            # A free entry counts zero, so that allocating it is counting up.
            with m.If(self.clear):
                m.d.sync += entry.count.eq(0)
            with m.Elif((opens | grows) & ~shrinks):
                m.d.sync += entry.count.eq(entry.count + 1)
            with m.Elif(shrinks & ~grows):
                m.d.sync += entry.count.eq(entry.count - 1)
        if self._merge:     # in the next cycle; ``i.valid`` comes late
            last = (1 << self._count_bits) - 1
            shrinks = (youngest & oldest).any() & self.done
            count = any_of(Mux(youngest[index], entry.count, 0) for index, entry in enumerate(groups))
            stays = (count != 0) & Mux(shrinks, count != 1, count != last)
            m.d.sync += joinable.eq(Mux(self.i.valid, ~joins | shrinks | (count != last - 1), stays) & ~self.clear)
        m.d.comb += self.held.kept_factor.eq(any_of(Mux(released[index], 0, entry.uses.factor) for index, entry in enumerate(groups)))
        with m.If(released.any()):
            m.d.sync += oldest.eq(Cat(oldest[-1], oldest[:-1]))
        with m.If(self.clear):
            m.d.sync += [oldest.eq(2), youngest.eq(1)]
        return m


class Scoreboard(Component):
    """Scoreboard of the register groups that operations in flight read or write, for hazards between the two units [S0.10].

    An operation has a hazard while the other unit has an operation in flight with a common register group. ``mm`` also has a hazard while a
    thread operation that writes predicates or the lane mask is in flight. Operations of one unit have no hazards among themselves.

    With ``gather_offsets`` the compiled-offset memory of the threads counts as a register group, of ``offsets`` and ``gather``.

    The thread unit has ``thread_queue`` + 2 entries of one operation. The matrix unit has 4 entries of up to 31 operations with
    equal product register groups.

    Parameters
    ----------
    cfg : FrontEndParameters

    *Ports*:
    i : In(stream.Signature(hazard_layout(cfg)))
        Operations; one is pending from the cycle after its transfer on. Thread operations in flight that write ``lanes_only`` are no
        hazard for an ``mm`` that finds the matrix unit empty.
    waiting : Out(1)
        An operation is pending.
    free : Out(1)
        The pending operation has no hazard and there is an entry for it; registered.
    add : In(1)
        The pending operation is dispatched in this cycle; only with ``free``.
    thread_done, matrix_done : In(1)
        The oldest operation in flight of the unit has completed.
    thread_empty, matrix_empty : Out(1)
        No operation of the unit is pending or in flight.
    thread_left : Out(THREAD_LEFT_BITS)
        Number of operations of the thread unit that are pending or in flight; registered.
    clear : In(1)
        Removes all operations.
    matrix_hold : Out(1)
        Such operations are still in flight in the next cycle: the matrix unit must not begin a step from then on.

    *Latency*: hazards are found in the cycle of the transfer and in each cycle in which the operation is pending, and are registered.
    ``free`` comes one cycle after the transfer at the earliest. The latency is at least two cycles if an operation of the other unit is
    pending at the transfer. The same holds if the own unit has fewer than two free entries. An operation in flight is a hazard from the
    cycle after ``add`` to the cycle of ``done``.

    *Throughput*: one operation a cycle.

    *Back-pressure*: ``i.ready`` is high while no operation is pending, and in the cycle of ``add``. The signal is combinational from
    ``add``.

    *Reset*: no operation is pending or in flight.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(hazard_layout(cfg))), "waiting": Out(1), "free": Out(1), "add": In(1),
            "thread_done": In(1), "matrix_done": In(1),
            "thread_empty": Out(1), "matrix_empty": Out(1), "thread_left": Out(THREAD_LEFT_BITS), "matrix_hold": Out(1), "clear": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.thread = thread = _InFlight(self.cfg, self.cfg.thread_queue + 2, merge=False, count_bits=1)
        m.submodules.matrix = matrix = _InFlight(self.cfg, 4, merge=True)
        new = self.i.payload
        # Of the pending operation.
        uses = Signal(register_groups_layout(self.cfg), reset_less=True)
        for_matrix, writes_predicate = Signal(reset_less=True), Signal(reset_less=True)
        same = Signal(reset_less=True)      # its product register groups are those of the youngest operation of the matrix unit
        transfer = Signal()
        for unit, done, mine in ((thread, self.thread_done, ~for_matrix), (matrix, self.matrix_done, for_matrix)):
            m.d.comb += [
                unit.i.payload.uses.eq(uses),
                unit.i.payload.flag.eq(writes_predicate),
                unit.i.valid.eq(self.add & mine),
                unit.done.eq(done),
                unit.clear.eq(self.clear),
            ]

        # An operation that is added in the cycle of the transfer will be the youngest.
        m.d.sync += same.eq(Mux(transfer, Mux(self.add & for_matrix, uses.product, matrix.product) == new.uses.product, same))

        def refused(uses, for_matrix, full, excepted):
            """Whether the operation has a hazard with the other unit, or its own is ``full``: (thread unit, matrix unit)."""
            thread_full, matrix_full = full
            held = [Mux(for_matrix, thread.held.product, matrix.held.product),
                    Mux(for_matrix, thread.held.factor & ~excepted, matrix.held.factor)]
            meets = [(held[0] & uses.product).any(), (held[1] & uses.factor).any()]
            return Cat(*meets, Mux(for_matrix, thread.flags | matrix_full, thread_full)).any()

        m.d.comb += [
            self.i.ready.eq(~self.waiting | self.add), transfer.eq(self.i.valid & self.i.ready), matrix.same.eq(same),
            self.thread_empty.eq(thread.empty & ~(self.waiting & ~for_matrix)),
            self.matrix_empty.eq(matrix.empty & ~(self.waiting & for_matrix)),
        ]
        with m.If(self.clear):
            m.d.sync += self.thread_left.eq(0)
        with m.Else():
            m.d.sync += self.thread_left.eq(self.thread_left + (transfer & ~new.for_matrix) - self.thread_done)
        lanes_only = Signal(REGISTER_GROUPS, reset_less=True)
        excepted = Mux(matrix.empty, lanes_only, 0)
        excepted_now = Mux(matrix.empty & ~(self.waiting & for_matrix), new.lanes_only, 0)
        # Groups of an ``mm`` that was dispatched before loads to them; newer loads wait for it.
        awaited, remaining = Signal(REGISTER_GROUPS), Signal(REGISTER_GROUPS)
        m.d.comb += [
            remaining.eq((awaited | Mux(self.add & for_matrix, uses.factor, 0)) & thread.held.kept_factor),
            self.matrix_hold.eq(remaining.any()),
        ]
        m.d.sync += awaited.eq(Mux(self.clear, 0, remaining))
        with m.If(transfer):
            m.d.sync += [
                uses.eq(new.uses), for_matrix.eq(new.for_matrix), writes_predicate.eq(new.writes_predicate),
                lanes_only.eq(new.lanes_only),
            ]
        with m.If(self.i.ready):
            follows_other = self.waiting & (new.for_matrix ^ for_matrix)
            refused_now = refused(new.uses, new.for_matrix, (thread.tight, matrix.tight), excepted_now)
            m.d.sync += [self.waiting.eq(self.i.valid), self.free.eq(self.i.valid & ~follows_other & ~refused_now)]
        with m.Else():
            m.d.sync += self.free.eq(~refused(uses, for_matrix, (thread.full, matrix.full), excepted))
        with m.If(self.clear):
            m.d.sync += [self.waiting.eq(0), self.free.eq(0)]
        return m
