"""Scoreboard: exclusion of the two units, and that no instruction in flight is lost."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Module, Mux, Signal
from amaranth.lib.wiring import Component
from heddle import load_config
from heddle.front_end.scoreboard import Scoreboard

__all__ = ["ScoreboardSpec"]


class ScoreboardSpec(Component):
    """Model: for each unit a list of the instructions in flight, with one bit that says whether it uses a symbolic group.

    While an instruction in flight of one unit uses the group, none of the other unit that uses it is ``free``; an ``mm`` is not free
    while a thread instruction that writes predicates is in flight; the empty flags are exact; what has waited a cycle with nothing in
    flight is free; what is free stays so until it is added. An ``mm`` may be free while such a thread instruction is in flight: if its
    lanes alone need the group and no other ``mm`` is in flight; the matrix unit is held, by ``matrix_hold`` of the cycle before, until
    the group is free. Environment: instructions are taken when ``i`` is ready, added when free only, and complete in order; at most
    ``in_flight`` of a unit are under way; two groups of each kind are used (the others are treated alike, bit by bit).
    """

    def __init__(self, in_flight):
        self._in_flight_limit = in_flight
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = Scoreboard(load_config("tiny").replace(thread_queue=2))
        limit, new = self._in_flight_limit, dut.i.payload
        group, is_factor = Signal(), Signal()
        m.d.comb += [group.eq(AnyConst(1)), is_factor.eq(AnyConst(1))]
        m.d.comb += [
            new.uses.product.eq(AnySeq(2)), new.uses.factor.eq(AnySeq(2)), new.for_matrix.eq(AnySeq(1)),
            new.writes_predicate.eq(AnySeq(1)), dut.i.valid.eq(dut.i.ready & AnySeq(1)), dut.add.eq(dut.free & AnySeq(1)),
            dut.thread_done.eq(AnySeq(1)), dut.matrix_done.eq(AnySeq(1)), dut.clear.eq(AnySeq(1)),
        ]
        # The instruction that waits.
        waiting, uses, for_matrix, writes = Signal(), Signal(reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        with m.If(dut.i.ready):
            m.d.sync += [
                waiting.eq(dut.i.valid & ~dut.clear), for_matrix.eq(new.for_matrix), writes.eq(new.writes_predicate),
                uses.eq(Mux(is_factor, new.uses.factor.bit_select(group, 1), new.uses.product.bit_select(group, 1))),
            ]
        with m.Elif(dut.clear):
            m.d.sync += waiting.eq(0)
        units = {}
        for name, mine, done in (("thread", ~for_matrix, dut.thread_done), ("matrix", for_matrix, dut.matrix_done)):
            units[name] = self._in_flight(m, name, dut.add & mine, done, uses, writes, dut.clear)
        thread, matrix = units["thread"], units["matrix"]
        lanes_only, early, hold = Signal(reset_less=True), Signal(), Signal()   # ``lanes_only`` of the group, for what waits
        with m.If(dut.i.ready):
            m.d.sync += lanes_only.eq(is_factor & new.lanes_only.bit_select(group, 1))
        m.d.sync += hold.eq(dut.matrix_hold & ~dut.clear)
        m.d.comb += [
            new.lanes_only.eq(AnySeq(2)), early.eq(lanes_only & (matrix["count"] == 0)), Assume(~(hold & dut.matrix_done)),
            Assert(~hold | (thread["count"] != 0)), Assert(~dut.matrix_hold | hold | (dut.add & for_matrix)),
            Cover(thread["holds"] & matrix["holds"] & (matrix["count"] == 2)),
        ]
        alone = Signal()        # a cycle before, with nothing in flight, the same instruction waited
        m.d.sync += alone.eq(waiting & ~dut.add & ~dut.clear & (thread["count"] == 0) & (matrix["count"] == 0))
        stays = Signal()        # free, and not added
        m.d.sync += stays.eq(dut.free & ~dut.add & ~dut.clear)
        m.d.comb += Assert(~stays | dut.free)
        with m.If(dut.free):
            m.d.comb += Assert(waiting)
            with m.If(for_matrix):
                m.d.comb += [Assert(~(uses & thread["holds"]) | early), Assert(~thread["writes"])]
            with m.Else():
                m.d.comb += Assert(~(uses & matrix["holds"]))
        m.d.comb += [
            Assert(~(thread["holds"] & matrix["holds"]) | hold),
            Assert(dut.waiting == waiting), Assert(dut.i.ready == (~waiting | dut.add)), Assert(dut.free | ~alone),
            Assert(dut.thread_empty == ((thread["count"] == 0) & ~(waiting & ~for_matrix))),
            Assert(dut.thread_left == thread["count"] + (waiting & ~for_matrix)),
            Assert(dut.matrix_empty == ((matrix["count"] == 0) & ~(waiting & for_matrix))),
            Cover(waiting & uses & thread["holds"] & for_matrix & ~dut.free),
            Cover(waiting & uses & matrix["holds"] & ~for_matrix & ~dut.free),
            Cover(dut.add & dut.i.valid),
            Cover((matrix["count"] == limit - 1) & (thread["count"] == 2)),
        ]
        return m

    def _in_flight(self, m, name, add, done, uses, writes, clear):
        """The instructions in flight of a unit, oldest first: used group, writes predicates."""
        limit = self._in_flight_limit
        count = Signal(range(limit + 1), name=f"{name}_count")
        entries = {key: Array([Signal(name=f"{name}_{key}_{index}", reset_less=True) for index in range(limit + 1)])
                   for key in ("holds", "writes")}
        m.d.comb += [Assume(~done | (count != 0)), Assume(~add | (count < limit))]
        for key, value in (("holds", uses), ("writes", writes)):
            for index in range(limit):
                with m.If(done):
                    m.d.sync += entries[key][index].eq(entries[key][index + 1])
            with m.If(add):
                m.d.sync += entries[key][count - done].eq(value)
        m.d.sync += count.eq(Mux(clear, 0, count + add - done))
        return {"count": count} | {key: Cat((index < count) & bits[index] for index in range(limit)).any()
                                   for key, bits in entries.items()}
