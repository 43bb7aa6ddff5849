"""Second-level cache: the decisions of a bank, and its pending writes."""

from unittest import mock

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Cover, Elaboratable, Fragment, Module, Mux, Signal
from amaranth.lib.wiring import Component
from heddle import load_config
from heddle.l2 import lookup as l2_lookup
from heddle.l2.layouts import L2Sizes
from heddle.l2.pending_writes import PendingWrites

from .contract import any_stream

__all__ = ["LookupSpec", "PendingWritesSpec"]

PENDING = 2     # writes of the look-up's proof


class Sized(Elaboratable):
    """A unit with other sizes than those of its configuration, so that a proof has few states. Has the unit's members."""

    def __init__(self, make, **sizes):
        self._sizes = sizes
        with self._patched():
            self._unit = make()

    def _patched(self):
        return mock.patch.multiple(L2Sizes, **self._sizes)

    def __getattr__(self, name):
        return getattr(self._unit, name)

    def elaborate(self, platform):
        with self._patched():
            return Fragment.get(self._unit, platform)


class LookupSpec(Component):
    """Whatever line is looked at: it is asked of memory only while no write to it is pending; no plain write to it goes out while a
    reduction of it is pending; it is a hit only while all beats asked for are in the place of the hit; without ``clear`` they are not
    asked of memory again until then.

    Every read that is taken becomes one access, in order; a write one write. The outputs keep to the rules of streams. Environment:
    inputs keep to the rules, no more writes are answered than were made. The unit has two sets of two places for eight lines, and two
    pending writes; a line has two beats: no property depends on the numbers.
    """

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        cfg = load_config("tiny").replace(axi_data_bits=512, axi_reads=2, axi_writes=2, cores=4, l2_kib=2, l2_ways=2, reductions=True)
        m.submodules.dut = dut = Sized(lambda: l2_lookup.L2Lookup(cfg), writes=PENDING, line_bits=3)
        for name in ("i_read", "i_write"):
            any_stream(m, getattr(dut, name), name)
        for name in ("o_access", "o_fill", "o_write"):
            m.d.comb += getattr(dut, name).ready.eq(AnySeq(1))
        line = Signal(dut.sizes.line_bits)
        m.d.comb += [line.eq(AnyConst(len(line))), dut.clear.eq(AnySeq(1)), dut.answered.eq(AnySeq(1))]
        sent = {name: Signal(name=f"{name}_sent") for name in ("access", "fill", "write")}
        for name, value in sent.items():
            port = getattr(dut, f"o_{name}")
            m.d.comb += value.eq(port.valid & port.ready)
        self._pending(m, dut, sent, line)
        self._place(m, dut, sent, line)
        self._each_once(m, dut, sent)
        return m

    def _pending(self, m, dut, sent, line):
        """One write of the line, any one, from when it goes out until it is answered."""
        pushed, popped, place = (Signal(range(2 * PENDING), name=name) for name in ("pushed", "popped", "ring_place"))
        count, ahead = Signal(range(2 * PENDING)), Signal(range(2 * PENDING))
        tracked, reduces = Signal(), Signal()
        mine = dut.o_fill.payload.line == line      # of what is being looked up
        m.d.comb += [count.eq(pushed - popped), ahead.eq(place - popped), Assume(~dut.answered | (count != 0))]
        m.d.sync += [pushed.eq(pushed + sent["write"]), popped.eq(popped + dut.answered)]
        m.d.comb += [Assert(count <= PENDING), Cover(count == PENDING)]
        with m.If(tracked):
            m.d.comb += [Assert(ahead < count), Assert(~(sent["fill"] & mine)),
                         Assert(~(sent["write"] & mine & reduces & ~dut.o_write.payload.reduces)),
                         Cover(reduces & sent["access"] & mine)]
            with m.If(dut.answered):
                m.d.sync += tracked.eq(ahead != 0)
        with m.Elif(sent["write"] & mine & AnySeq(1)):
            m.d.sync += [tracked.eq(1), reduces.eq(dut.o_write.payload.reduces), place.eq(pushed)]

    def _place(self, m, dut, sent, line):
        """Where the beats of the line are, as their fills, the fills of their place and the writes to it say."""
        here, wanted, place = Signal(dut.cfg.line_beats), Signal(dut.cfg.line_beats), Signal(dut.sizes.place_bits)
        quiet = Signal()
        m.d.comb += [quiet.eq(AnyConst(1)), Assume(~quiet | ~dut.clear)]       # without ``clear`` no line is lost
        access, fill = dut.o_access.payload, dut.o_fill.payload
        mine, again = fill.line == line, here.any() & (place == access.place)
        m.d.comb += wanted.eq(Cat((access.first <= beat) & (access.last >= beat) for beat in range(dut.cfg.line_beats)))
        for port in (dut.i_read, dut.i_write):
            m.d.comb += Assume(port.payload.first <= port.payload.last)
        with m.If(sent["access"]):
            with m.If(mine & ~access.fills):
                m.d.comb += [Assert((wanted & ~here) == 0), Assert(place == access.place), Cover(access.reduces)]
            with m.If(access.fills):
                m.d.comb += [Assert((fill.first == access.first) & (fill.first + fill.beats_minus_one == access.last)),
                             Assert(~mine | ~quiet | ((wanted & ~here).any() & (again | ~here.any()))), Cover(mine & again)]
                with m.If(mine):
                    m.d.sync += [here.eq(Mux(again, here, 0) | wanted), place.eq(access.place)]
                with m.Elif(place == access.place):
                    m.d.sync += here.eq(0)
        m.d.comb += Assert(sent["fill"] == (sent["access"] & access.fills))
        with m.If(sent["write"] & mine & ~dut.o_write.payload.reduces):
            m.d.sync += here.eq(0)

    def _each_once(self, m, dut, sent):
        """Requests inside: at most one; an answer and a write for each."""
        reads, writes = Signal(2), Signal(2)
        entering = {name: Signal(name=f"{name}_enters") for name in ("read", "write")}
        for name, value in entering.items():
            port = getattr(dut, f"i_{name}")
            m.d.comb += value.eq(port.valid & port.ready)
        m.d.comb += entering["read"].eq(dut.i_read.valid & dut.i_read.ready & ~dut.i_read.payload.prefetch)
        answered = sent["access"] & dut.o_access.payload.answers
        m.d.sync += [reads.eq(reads + entering["read"] - answered), writes.eq(writes + entering["write"] - sent["write"])]
        kept, kept_write = (Signal(len(Cat(port.payload.first, port.payload.last, port.payload.core)), name=f"kept_{name}", reset_less=True)
                            for name, port in (("read", dut.i_read), ("write", dut.i_write)))
        for name, register, port, out, leaves in (("read", kept, dut.i_read, dut.o_access, answered),
                                                  ("write", kept_write, dut.i_write, dut.o_write, sent["write"])):
            with m.If(entering[name]):
                m.d.sync += register.eq(Cat(port.payload.first, port.payload.last, port.payload.core))
            with m.If(leaves):
                m.d.comb += Assert(Cat(out.payload.first, out.payload.last, out.payload.core) == register)
        m.d.comb += [Assert(reads <= 1), Assert(writes <= 1), Assert(~answered | (reads != 0)), Assert(~sent["write"] | (writes != 0)),
                     Cover(answered & entering["read"])]


class PendingWritesSpec(Component):
    """Any line that was pushed is reported, as write or reduction, until it is popped, and leaves behind those pushed before it.

    Environment: pushes only while there is room, pops only while something is pending. The ring has four entries of one bit.
    The place of a line in the ring is that of the push it came with; the pop of that place must be the pop of the line.
    """

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        cfg, limit = load_config("tiny").replace(l2_kib=2, reductions=True), 3
        m.submodules.dut = dut = Sized(lambda: PendingWrites(cfg), writes=limit, line_bits=1)
        pushed, popped, place = (Signal(range(2 * limit), name=name) for name in ("pushed", "popped", "place"))     # modulo 2 * limit
        tracked, reduces, line = Signal(), Signal(), Signal(dut.sizes.line_bits, reset_less=True)
        for member in (dut.push, dut.pop, dut.reduces, dut.line):
            m.d.comb += member.eq(AnySeq(len(member)))
        count, ahead = Signal(range(2 * limit)), Signal(range(2 * limit))
        m.d.comb += [
            count.eq(pushed - popped), ahead.eq(place - popped),
            Assume(~dut.push | dut.free), Assume(~dut.pop | ~dut.empty),
            Assert(dut.empty == (count == 0)), Assert(dut.free == (count != limit)), Assert(count <= limit), Cover(count == limit),
        ]
        m.d.sync += [pushed.eq(pushed + dut.push), popped.eq(popped + dut.pop)]
        with m.If(tracked):
            m.d.comb += Assert(ahead < count)
            with m.If(dut.line == line):
                m.d.comb += [Assert(Mux(reduces, dut.reduced, dut.written)), Cover(dut.reduced & dut.written)]
            with m.If(dut.pop):
                m.d.sync += tracked.eq(ahead != 0)
        with m.Elif(dut.push & AnySeq(1)):
            m.d.sync += [tracked.eq(1), reduces.eq(dut.reduces), line.eq(dut.line), place.eq(pushed)]
        with m.If(count == 0):
            m.d.comb += Assert(~dut.reduced & ~dut.written)
        return m
