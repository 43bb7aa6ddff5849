"""The first half of a bank: each read or write of a line is looked up, in order, and made an access of the second half."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from .layouts import L2Sizes, line_burst_layout, line_read_layout
from .pending_writes import PendingWrites
from .tags import L2Tags

__all__ = ["L2Lookup", "line_access_layout", "line_write_layout"]


def line_write_layout(cfg):
    """Beats ``first`` to ``last`` of a line are written, or reduced."""
    sizes = L2Sizes(cfg)
    return data.StructLayout({"line": sizes.line_bits, "first": sizes.beat_bits, "last": sizes.beat_bits, "reduces": 1,
                              "core": cfg.core_bits})


def line_access_layout(cfg):
    """What becomes of beats ``first`` to ``last`` of line ``place`` of the cache: with ``fills`` they come from memory; they are answered
    (``answers``) or reduced (``reduces``)."""
    sizes = L2Sizes(cfg)
    return data.StructLayout({"place": sizes.place_bits, "first": sizes.beat_bits, "last": sizes.beat_bits, "fills": 1, "answers": 1,
                              "reduces": 1, "core": cfg.core_bits})


class L2Lookup(Component):
    """Decides hits and misses of one line a cycle, reads and writes in turn; 1 cycle from a request to the read of memory.

    The order of decisions is the order in which the second half acts, so a place is refilled only behind all accesses to what it held,
    whatever the replacement, and a tag may be dropped at any time.

    - Read or prefetch, hit: an access (a prefetch: nothing). Miss: a place is allocated, memory is asked for the beats, an access.
    - Write: the line is dropped from the cache and goes to memory.
    - Reduction: like a read; its result goes to the cache and to memory.

    A line is asked of memory only while no write to it is pending, and a write waits while a reduction of its line is: so reads see
    every write that was answered, and each element sees reductions and writes one after the other [S1.9]. ``clear`` drops all lines as
    soon as the line that is being looked up has left; requests wait for ``sets`` + 2 cycles then, and after reset. Where no
    line came in since the last time there is nothing to drop, and nothing waits.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i_read : In(stream of line_read_layout(cfg))
    i_write : In(stream of line_write_layout(cfg))
    o_access : Out(stream of line_access_layout(cfg))
    o_fill : Out(stream of line_burst_layout(cfg))
        Beats that memory is asked for.
    o_write : Out(stream of line_write_layout(cfg))
        Writes and reductions in their order.
    answered : In(1)
        Memory has answered the oldest write of a line.
    clear : In(1)
    busy : Out(1)
        A line is being looked up, or a write is pending.
    event_hit, event_miss, event_eviction : Out(1)
        Of a read, prefetch or reduction. Registered.
    """

    def __init__(self, cfg):
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
        # Each of the outputs is offered when the others can take theirs: all have room that does not depend on them.
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
        """The next line comes from the reads or the writes, in turn where both wait."""
        last_was_write, write = Signal(), Signal()
        taken = Signal()
        read_port, write_port = self.i_read, self.i_write
        self._intake = Signal(name="intake")
        m.d.comb += [
            write.eq(write_port.valid & (~read_port.valid | ~last_was_write)),
            taken.eq(advance & self._intake & (read_port.valid | write_port.valid)),
            read_port.ready.eq(advance & self._intake & ~write), write_port.ready.eq(advance & self._intake & write),
            tags.enable.eq(advance),
            tags.next_line.eq(Mux(write, write_port.payload.line, read_port.payload.line)),
        ]
        with m.If(advance):
            m.d.sync += valid.eq(taken)
            m.d.sync += [request[name].eq(Mux(write, write_port.payload[name], read_port.payload[name]))
                         for name in ("line", "first", "last", "core")]
            m.d.sync += [request.writes.eq(write), request.reduces.eq(write & write_port.payload.reduces),
                         request.answers.eq(~write & ~read_port.payload.prefetch)]
        with m.If(taken):
            m.d.sync += last_was_write.eq(write)

    def _clear(self, m, tags, valid):
        wanted = Signal()
        begins = Signal()
        holds = Signal()        # a line came in since the last time: without one there is nothing to drop, and requests need not wait
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
