"""Register tokens: which granules of the register files instructions in flight hold [S0.10]."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out

from ..constants import TOKEN_GRANULES
from ..lib.onehot import any_of

__all__ = ["Scoreboard", "token_layout"]

token_layout = data.StructLayout({
    "product": TOKEN_GRANULES,      # granules of 16 product registers that the instruction uses
    "factor": TOKEN_GRANULES,       # granules of factor_words / 16 factor words
})


class _InFlight(Component):
    """Tokens of the instructions of one unit, oldest first, up to ``depth`` groups.

    An instruction with the product granules of the youngest group joins that group when ``merge`` is set: a group is released
    when its last instruction is done.

    Groups stay where they are and two one-hot pointers go round; a free group holds no granule, so that the union is an OR. With ``ahead``
    none is added in the two cycles after one was, so that whether the youngest group takes another comes out of a register.
    """

    def __init__(self, depth, merge, ahead=False, count_bits=5):
        self._depth, self._merge, self._ahead, self._count_bits = depth, merge, ahead, count_bits
        super().__init__({
            "add": In(1), "token": In(token_layout), "flag": In(1), "done": In(1), "clear": In(1),
            "held": Out(token_layout),      # union over all groups
            "flags": Out(1),                # an instruction in flight was added with ``flag``
            "full": Out(1),                 # ``token`` finds no place
            "tight": Out(1),                # there are not two free places
            "empty": Out(1),
        } | ({
            "product": Out(TOKEN_GRANULES),     # of the youngest group
            "same": In(1),                      # ``token`` has these
        } if merge else {}))

    def elaborate(self, platform):
        m = Module()
        depth = self._depth
        group = data.StructLayout({"token": token_layout, "flag": 1, "count": self._count_bits})
        groups = [Signal(group, name=f"group_{index}") for index in range(depth)]
        used = Cat(entry.count != 0 for entry in groups)
        oldest, youngest = Signal(depth, init=2), Signal(depth, init=1)
        following = Cat(youngest[-1], youngest[:-1])       # the place of the next group
        joins = Signal()                                   # the new instruction joins the youngest group
        m.d.comb += [
            self.empty.eq(~used.any()),
            self.full.eq(used.all() & ~joins),
            self.tight.eq((used & Cat(following[-1], following[:-1])).any()),
            self.flags.eq(Cat(entry.flag for entry in groups).any()),
        ]
        for name in ("product", "factor"):
            m.d.comb += self.held[name].eq(any_of(entry.token[name] for entry in groups))
        if self._merge:
            full_count, joinable = Cat(entry.count.all() for entry in groups), Signal()
            if not self._ahead:
                m.d.comb += joinable.eq((used & ~full_count & youngest).any())
            m.d.comb += joins.eq(joinable & self.same)
            with m.If(self.add):
                m.d.sync += self.product.eq(self.token.product)
        with m.If(self.add & ~joins):
            m.d.sync += youngest.eq(following)

        released, shrunk = Signal(depth), Signal(depth)
        for index, entry in enumerate(groups):
            opens, grows, shrinks = self.add & ~joins & following[index], self.add & joins & youngest[index], self.done & oldest[index]
            m.d.comb += [released[index].eq(shrinks & ~grows & (entry.count == 1)), shrunk[index].eq(shrinks)]
            with m.If(opens | grows):
                m.d.sync += [
                    entry.token.product.eq(self.token.product),
                    entry.token.factor.eq(self.token.factor | Mux(joins, entry.token.factor, 0)),
                    entry.flag.eq(self.flag | (joins & entry.flag)),
                ]
            with m.If(self.clear | released[index]):
                m.d.sync += [entry.token.eq(0), entry.flag.eq(0)]
            # A free group counts zero, so that opening it is counting up.
            with m.If(self.clear):
                m.d.sync += entry.count.eq(0)
            with m.Elif((opens | grows) & ~shrinks):
                m.d.sync += entry.count.eq(entry.count + 1)
            with m.Elif(shrinks & ~grows):
                m.d.sync += entry.count.eq(entry.count - 1)
        if self._merge and self._ahead:     # of the next cycle
            m.d.sync += joinable.eq((used & youngest & ~released & (shrunk | ~full_count)).any() & ~self.clear)
        with m.If(released.any()):
            m.d.sync += oldest.eq(Cat(oldest[-1], oldest[:-1]))
        with m.If(self.clear):
            m.d.sync += [oldest.eq(2), youngest.eq(1)]
        return m


class Scoreboard(Component):
    """Says whether the registers of an instruction are free of the other unit's instructions in flight.

    Two units hold registers: the thread unit (index 0) and the matrix unit (index 1). Instructions of one unit never wait for each
    other. An instruction waits while a granule it uses is held by the other unit; ``mm`` also waits while a thread
    instruction that writes predicates or the lane mask is in flight.

    An instruction is taken, waits until its registers are free, and is added. The answer comes out of a register: it is found in the
    cycle in which the instruction is taken and in every cycle in which it waits. One that is taken when one of the other unit leaves,
    or when its unit has less than two places, waits a cycle at least.

    Members
    -------
    take, token, for_matrix, writes_predicate
        An instruction, and that it shall wait from the next cycle on; only while ``open``.
    open
        No instruction waits, or it issues in this cycle (depends on ``add``; with ``cfg.far_registers`` only in the next one).
    waiting
        An instruction waits.
    free
        It may issue (registered).
    add
        It issues in this cycle; only while ``free``.
    thread_done, matrix_done
        The oldest instruction of the unit has completed.
    thread_empty, matrix_empty
        No instruction of the unit waits or is in flight.
    clear
        Forget all instructions.
    lanes_only, matrix_hold
        With ``issue_ahead``: factor granules that the ``mm`` that is taken does not need before its first step; loads that are under way to
        them do not keep it from an empty matrix unit, which must not begin a step with ``matrix_hold``.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        ahead = {"lanes_only": In(TOKEN_GRANULES), "matrix_hold": Out(1)} if cfg.issue_ahead else {}
        super().__init__(ahead | {
            "take": In(1), "token": In(token_layout), "for_matrix": In(1), "writes_predicate": In(1), "open": Out(1),
            "waiting": Out(1), "free": Out(1), "add": In(1), "thread_done": In(1), "matrix_done": In(1),
            "thread_empty": Out(1), "matrix_empty": Out(1), "clear": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.thread = thread = _InFlight(self.cfg.thread_queue + 2, merge=False, count_bits=1)
        m.submodules.matrix = matrix = _InFlight(4, merge=True, ahead=self.cfg.far_registers)
        # Of the instruction that waits.
        token = Signal(token_layout, reset_less=True)
        for_matrix, writes_predicate = Signal(reset_less=True), Signal(reset_less=True)
        for unit, done, mine in ((thread, self.thread_done, ~for_matrix), (matrix, self.matrix_done, for_matrix)):
            m.d.comb += [
                unit.token.eq(token),
                unit.flag.eq(writes_predicate),
                unit.add.eq(self.add & mine),
                unit.done.eq(done),
                unit.clear.eq(self.clear),
            ]

        if self.cfg.far_registers:      # none is added when one is taken, so that the youngest group stays the same until this one is
            with m.If(self.open):
                m.d.sync += matrix.same.eq(matrix.product == self.token.product)
        else:
            m.d.comb += matrix.same.eq(matrix.product == token.product)

        def refused(token, for_matrix, no_thread_place, no_matrix_place, excepted=0):
            """The instruction meets what is held by the other unit, or its own has no place."""
            held = [Mux(for_matrix, thread.held.product, matrix.held.product),
                    Mux(for_matrix, thread.held.factor & ~excepted, matrix.held.factor)]
            meets = [(held[0] & token.product).any(), (held[1] & token.factor).any()]
            return Cat(*meets, Mux(for_matrix, thread.flags | no_matrix_place, no_thread_place)).any()

        m.d.comb += [
            self.open.eq(~self.waiting | (0 if self.cfg.far_registers else self.add)),
            self.thread_empty.eq(thread.empty & ~(self.waiting & ~for_matrix)),
            self.matrix_empty.eq(matrix.empty & ~(self.waiting & for_matrix)),
        ]
        excepted, excepted_now = 0, 0
        if self.cfg.issue_ahead:
            lanes_only = Signal(TOKEN_GRANULES, reset_less=True)
            excepted = Mux(matrix.empty, lanes_only, 0)
            excepted_now = Mux(matrix.empty & ~(self.waiting & for_matrix), self.lanes_only, 0)
            awaited = Signal(TOKEN_GRANULES)        # of an mm that went ahead; nothing newer holds them, because it does
            added = Mux(self.add & for_matrix, token.factor, 0)
            m.d.sync += awaited.eq(Mux(self.clear, 0, (awaited | added) & thread.held.factor))
            m.d.comb += self.matrix_hold.eq((awaited & thread.held.factor).any())
            with m.If(self.open):
                m.d.sync += lanes_only.eq(self.lanes_only)
        with m.If(self.open):
            follows_other = self.waiting & (self.for_matrix ^ for_matrix)
            m.d.sync += [
                token.eq(self.token), for_matrix.eq(self.for_matrix), writes_predicate.eq(self.writes_predicate),
                self.waiting.eq(self.take),
                self.free.eq(self.take & ~follows_other & ~refused(self.token, self.for_matrix, thread.tight, matrix.tight, excepted_now)),
            ]
        with m.Else():
            m.d.sync += self.free.eq(~refused(token, for_matrix, thread.full, matrix.full, excepted))
            if self.cfg.far_registers:
                with m.If(self.add):
                    m.d.sync += [self.waiting.eq(0), self.free.eq(0)]
        with m.If(self.clear):
            m.d.sync += [self.waiting.eq(0), self.free.eq(0)]
        return m
