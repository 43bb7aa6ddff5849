"""Register tokens: which granules of the register files instructions in flight hold [S0.10]."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..config import TOKEN_GRANULES

__all__ = ["Tokens", "token_layout"]

token_layout = data.StructLayout({
    "product": TOKEN_GRANULES,      # granules of 16 product registers that the instruction uses
    "factor": TOKEN_GRANULES,       # granules of factor_words / 16 factor words
})


class _InFlight(Component):
    """Tokens of the instructions of one unit, oldest first, up to ``depth`` groups.

    An instruction with the product granules of the youngest group joins that group when ``merge`` is set: a group is released
    when its last instruction is done.
    """

    def __init__(self, depth, merge, count_bits=5):
        self._depth, self._merge, self._count_bits = depth, merge, count_bits
        super().__init__({
            "add": In(1), "token": In(token_layout), "flag": In(1), "done": In(1), "clear": In(1),
            "held": Out(token_layout),      # union over all groups
            "flags": Out(1),                # an instruction in flight was added with ``flag``
            "full": Out(1),                 # ``token`` finds no place
            "empty": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        depth = self._depth
        group = data.StructLayout({"token": token_layout, "flag": 1, "count": self._count_bits})
        groups = [Signal(group, name=f"group_{index}") for index in range(depth)]
        used = [entry.count != 0 for entry in groups] + [Const(0)]

        joins = Signal(depth)               # the new instruction joins this group
        opens = Signal(depth)               # the new instruction opens this group
        for index, entry in enumerate(groups):
            if self._merge:
                m.d.comb += joins[index].eq(used[index] & ~used[index + 1] & ~entry.count.all()
                                            & (entry.token.product == self.token.product))
            m.d.comb += opens[index].eq(~used[index] & (used[index - 1] if index else 1) & ~joins.any())
        m.d.comb += [
            self.full.eq(used[depth - 1] & ~joins.any()),
            self.empty.eq(~used[0]),
            self.flags.eq(Cat(used[index] & entry.flag for index, entry in enumerate(groups)).any()),
        ]
        for name in ("product", "factor"):
            union = Const(0, TOKEN_GRANULES)
            for index, entry in enumerate(groups):
                union = union | Mux(used[index], entry.token[name], 0)
            m.d.comb += self.held[name].eq(union)

        # The groups with this cycle's instruction added; they move down by one when the oldest is released.
        after = [Signal(group, name=f"after_{index}") for index in range(depth)]
        for index, entry in enumerate(groups):
            m.d.comb += after[index].eq(entry)
            with m.If(self.add & joins[index]):
                m.d.comb += [
                    after[index].token.factor.eq(entry.token.factor | self.token.factor),
                    after[index].flag.eq(entry.flag | self.flag),
                    after[index].count.eq(entry.count + 1),
                ]
            with m.Elif(self.add & opens[index]):
                m.d.comb += [after[index].token.eq(self.token), after[index].flag.eq(self.flag), after[index].count.eq(1)]
        for index, entry in enumerate(groups):
            with m.If(self.done & (after[0].count == 1)):
                m.d.sync += entry.eq(after[index + 1] if index + 1 < depth else 0)
            with m.Else():
                m.d.sync += entry.eq(after[index])
                if index == 0:
                    m.d.sync += entry.count.eq(after[0].count - self.done)
            with m.If(self.clear):
                m.d.sync += entry.count.eq(0)
        return m


class Tokens(Component):
    """Says whether the registers of an instruction are free of the other unit's instructions in flight.

    Two units hold registers: the thread unit (index 0) and the matrix unit (index 1). Instructions of one unit never wait for each
    other. An instruction waits while a granule it uses is held by the other unit; ``mm`` also waits while a thread
    instruction that writes predicates or the lane mask is in flight.

    Members
    -------
    token, for_matrix, writes_predicate
        The instruction that wants to issue.
    free
        It may issue (combinational).
    add
        It issues in this cycle.
    thread_done, matrix_done
        The oldest instruction of the unit has completed.
    thread_empty, matrix_empty
        No instruction of the unit is in flight.
    clear
        Forget all instructions.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "token": In(token_layout), "for_matrix": In(1), "writes_predicate": In(1),
            "free": Out(1), "add": In(1), "thread_done": In(1), "matrix_done": In(1),
            "thread_empty": Out(1), "matrix_empty": Out(1), "clear": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.thread = thread = _InFlight(self.cfg.thread_queue + 2, merge=False, count_bits=1)
        m.submodules.matrix = matrix = _InFlight(4, merge=True)
        for unit, done, mine in ((thread, self.thread_done, ~self.for_matrix), (matrix, self.matrix_done, self.for_matrix)):
            m.d.comb += [
                unit.token.eq(self.token),
                unit.flag.eq(self.writes_predicate),
                unit.add.eq(self.add & mine),
                unit.done.eq(done),
                unit.clear.eq(self.clear),
            ]

        def overlap(held):
            return (held.product & self.token.product).any() | (held.factor & self.token.factor).any()

        m.d.comb += [
            self.free.eq(Mux(self.for_matrix, ~overlap(thread.held) & ~thread.flags & ~matrix.full,
                             ~overlap(matrix.held) & ~thread.full)),
            self.thread_empty.eq(thread.empty),
            self.matrix_empty.eq(matrix.empty),
        ]
        return m
