"""Look-up stage of an L2 bank: decides hit or miss for each line in order and schedules its access."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..lib.round_robin import RoundRobinArbiter
from ..parameters.l2 import L2Parameters
from .layouts import L2Sizes, line_burst_layout, line_read_layout
from .pending_writes import PendingWrites
from .tags import L2Tags

__all__ = ["L2Lookup", "line_access_layout", "line_write_layout"]


def line_write_layout(cfg):
    """Write of beats ``first`` to ``last`` of line ``line`` by core ``core``; ``reduces``: the write is a reduction."""
    sizes = L2Sizes(cfg)
    return data.StructLayout({"line": sizes.line_bits, "first": sizes.beat_bits, "last": sizes.beat_bits, "reduces": 1,
                              "core": cfg.core_bits})


def line_access_layout(cfg):
    """Access to beats ``first`` to ``last`` of the line at ``place``, on behalf of core ``core``.

    ``fills``: the beats are taken from memory. ``answers``: the beats are read data. ``reduces``: the beats are operands of a
    reduction.
    """
    sizes = L2Sizes(cfg)
    return data.StructLayout({"place": sizes.place_bits, "first": sizes.beat_bits, "last": sizes.beat_bits, "fills": 1, "answers": 1,
                              "reduces": 1, "core": cfg.core_bits})


class L2Lookup(Component):
    """Look-up stage of an L2 bank: decides hit or miss for one line per cycle and schedules accesses, fills and writes.

    Accesses to the contents follow in the order of the decisions. A place is therefore refilled only after all accesses to its former
    line, and a tag may be dropped at any time.

    - Read or prefetch that hits: an access; a prefetch has none.
    - Read or prefetch that misses: a place is allocated; a fill and an access.
    - Plain write: the line is dropped from the cache; the write is sent to memory.
    - Reduction: as a read; the result is written to the cache and to memory.

    A line is read from memory only while no write to it is pending. A plain write waits while a reduction of its line is pending. So
    reads return every write that was acknowledged, and each element is modified by one write or reduction after the other [S1.9].

    Parameters
    ----------
    cfg : L2Parameters

    *Ports*:
    i_read : In(stream of line_read_layout(cfg))
        Reads and prefetches.
    i_write : In(stream of line_write_layout(cfg))
        Plain writes and reductions.
    o_access : Out(stream of line_access_layout(cfg))
        Accesses to the contents.
    o_fill : Out(stream of line_burst_layout(cfg))
        Beats to read from memory.
    o_write : Out(stream of line_write_layout(cfg))
        Plain writes and reductions, looked up, in the order of ``i_write``.
    answered : In(1)
        Memory answered the oldest pending write of a line.
    clear : In(1)
        Drop all lines once the current look-up is done.
    busy : Out(1)
        A look-up is in flight, or a write is pending.
    event_hit, event_miss, event_eviction : Out(1)
        A read, prefetch or reduction hit, missed, or replaced a line. Registered.

    *Latency*: 1 cycle from an input to the outputs. ``event_*`` are high 1 cycle after the look-up is done.

    *Throughput*: one line per cycle; round robin between ``i_read`` and ``i_write``.

    *Back-pressure*: ``i_read.ready`` and ``i_write.ready`` depend combinationally on both ``valid`` inputs, ``clear`` and ``ready`` of
    all outputs. ``valid`` of each output depends combinationally on ``ready`` of the other outputs that the line needs, so those must
    not depend on it.

    *Clear*: with ``clear`` in a cycle without a look-up, requests wait for ``sets`` + 2 cycles. If no line was allocated since the last
    clear, only the cycle of ``clear`` is lost.

    *Reset*: drops the look-up in flight and all pending writes; the tags are invalidated in ``sets`` cycles, in which requests wait.

    *Source*: [S1.9], docs/units/l2.md.
    """

    def __init__(self, cfg):
        cfg = L2Parameters.of(cfg)
        self.cfg, self.sizes = cfg, L2Sizes(cfg)
        super().__init__({
            "i_read": In(stream.Signature(line_read_layout(cfg))),
            "i_write": In(stream.Signature(line_write_layout(cfg))),
            "o_access": Out(stream.Signature(line_access_layout(cfg))),
            "o_fill": Out(stream.Signature(line_burst_layout(cfg))),
            "o_write": Out(stream.Signature(line_write_layout(cfg))),
            "answered": In(1), "clear": In(1), "busy": Out(1),
            "event_hit": Out(1), "event_miss": Out(1), "event_eviction": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.tags = tags = L2Tags(self.cfg)
        m.submodules.pending = pending = PendingWrites(self.cfg)
        valid, advance = Signal(), Signal()
        request = Signal(data.StructLayout({
            "line": self.sizes.line_bits, "first": self.sizes.beat_bits, "last": self.sizes.beat_bits, "writes": 1, "reduces": 1,
            "answers": 1, "core": self.cfg.core_bits}), reset_less=True)
        self._take(m, tags, valid, request, advance)
        self._clear(m, tags, valid)

        plain, looks_up, misses, blocked = (Signal(name=name) for name in ("plain", "looks_up", "misses", "blocked"))
        needs_access, ready = Signal(), Signal()
        m.d.comb += [
            plain.eq(request.writes & ~request.reduces), looks_up.eq(~plain), misses.eq(looks_up & ~tags.hit),
            needs_access.eq(misses | request.answers | request.reduces),
            blocked.eq(Mux(plain, pending.reduced, misses & (pending.reduced | pending.written))),
            ready.eq(valid & ~blocked),
        ]
        # Each output is valid when the other outputs that the line needs are ready; their ``ready`` does not depend on ``valid``.
        outputs = ((self.o_access, needs_access, self.o_access.ready), (self.o_fill, misses, self.o_fill.ready),
                   (self.o_write, request.writes, self.o_write.ready & pending.free))
        for port, needed, _ in outputs:
            others = [~other_needed | room for other, other_needed, room in outputs if other is not port]
            own = pending.free if port is self.o_write else 1
            m.d.comb += port.valid.eq(ready & needed & own & Cat(others).all())
        m.d.comb += [
            advance.eq(~valid | (ready & Cat(~needed | room for _, needed, room in outputs).all())),
            tags.line.eq(request.line), tags.allocate.eq(valid & advance & misses), tags.drop.eq(valid & advance & plain & tags.present),
            pending.line.eq(request.line), pending.push.eq(valid & advance & request.writes), pending.reduces.eq(request.reduces),
            pending.pop.eq(self.answered), self.busy.eq(valid | ~pending.empty),
        ]
        self._payloads(m, request, tags, misses)
        for name, condition in (("hit", looks_up & tags.hit), ("miss", misses), ("eviction", misses & tags.evicts)):
            m.d.sync += getattr(self, f"event_{name}").eq(valid & advance & condition)
        return m

    def _payloads(self, m, request, tags, misses):
        access, fill = self.o_access.payload, self.o_fill.payload
        m.d.comb += [
            fill.line.eq(request.line), fill.first.eq(request.first), fill.beats_minus_one.eq(request.last - request.first),
            tags.wanted.eq(Cat((request.first <= beat) & (request.last >= beat) for beat in range(self.cfg.line_beats))),
            access.place.eq(Cat(tags.way, request.line[:self.sizes.set_bits])), access.fills.eq(misses),
            access.answers.eq(request.answers), access.reduces.eq(request.reduces),
            *(access[name].eq(request[name]) for name in ("first", "last", "core")),
            *(self.o_write.payload[name].eq(request[name]) for name in ("line", "first", "last", "reduces", "core")),
        ]

    def _take(self, m, tags, valid, request, advance):
        """Accept the next line: round robin between reads and writes; a write is first after a reset."""
        m.submodules.arbiter = arbiter = RoundRobinArbiter(request.shape(), 2, locked=False, first=1)
        self._intake = Signal(name="intake")
        for port, sink in zip((self.i_read, self.i_write), arbiter.i, strict=True):
            m.d.comb += [sink.valid.eq(port.valid), port.ready.eq(sink.ready),
                         *(sink.payload[name].eq(port.payload[name]) for name in ("line", "first", "last", "core"))]
        read, write, line = arbiter.i[0].payload, arbiter.i[1].payload, arbiter.o
        m.d.comb += [
            read.answers.eq(~self.i_read.payload.prefetch), write.writes.eq(1), write.reduces.eq(self.i_write.payload.reduces),
            line.ready.eq(advance & self._intake), tags.enable.eq(advance), tags.next_line.eq(line.payload.line),
        ]
        with m.If(advance):
            m.d.sync += [valid.eq(line.valid & self._intake), request.eq(line.payload)]

    def _clear(self, m, tags, valid):
        wanted = Signal()
        begins = Signal()
        holds = Signal()        # a line was allocated since the last clear; otherwise there is nothing to drop
        m.d.comb += [
            begins.eq(wanted & ~valid & ~tags.clearing), tags.clear.eq(begins),
            self._intake.eq(~wanted & ~self.clear & ~tags.clearing),
        ]
        with m.If(self.clear & (holds | valid)):
            m.d.sync += wanted.eq(1)
        with m.Elif(begins):
            m.d.sync += [wanted.eq(0), holds.eq(0)]
        with m.If(tags.allocate):
            m.d.sync += holds.eq(1)
