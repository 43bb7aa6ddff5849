"""Tag memory of an L2 bank."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..parameters.l2 import L2Parameters
from .layouts import L2Sizes

__all__ = ["L2Tags"]


class L2Tags(Component):
    """Tag memory of an L2 bank: ``sets`` sets of ``ways`` tags, set-associative, with first-in first-out replacement.

    Each line has a valid bit per beat. A look-up takes two steps: ``enable`` reads the set of ``next_line``; from the next cycle until
    the next ``enable`` the results refer to ``line``. A line that is allocated replaces the oldest line of its set.

    Parameters
    ----------
    cfg : L2Parameters

    *Ports*:
    enable : In(1)
        Read the set of ``next_line``.
    next_line : In(line_bits)
        Line number of the next look-up.
    line : In(line_bits)
        Line number of the current look-up: the value that ``next_line`` had with ``enable``.
    wanted : In(cfg.line_beats)
        Beats of the current look-up: the beats that are read, or that ``allocate`` marks as valid.
    hit : Out(1)
        All wanted beats are valid.
    present : Out(1)
        At least one beat of the line is valid.
    way : Out(range(ways))
        Way that holds the line, else the way that ``allocate`` would replace.
    evicts : Out(1)
        ``allocate`` would replace a line with a valid beat.
    allocate : In(1)
        Store the tag in ``way`` and mark the wanted beats as valid; beats of the same line stay valid.
    drop : In(1)
        Invalidate the line; only while ``present``.
    clear : In(1)
        Invalidate all lines.
    clearing : Out(1)
        The sets are being invalidated, one per cycle; no look-up may be in flight.

    *Latency*: 1 cycle from ``enable`` to ``hit``, ``present``, ``way`` and ``evicts``, which depend combinationally on ``line`` and
    ``wanted``. A look-up that begins in the cycle of ``allocate`` or ``drop`` sees the change. ``clearing`` is high for ``sets``
    cycles, from 1 cycle after ``clear``.

    *Throughput*: one look-up and one change per cycle.

    *Back-pressure*: none; the owner starts no look-up while ``clearing``.

    *Reset*: starts with ``clearing`` for ``sets`` cycles.
    """

    def __init__(self, cfg):
        cfg = L2Parameters.of(cfg)
        self.sizes = sizes = L2Sizes(cfg)
        self.beats = cfg.line_beats
        super().__init__({
            "enable": In(1), "next_line": In(sizes.line_bits), "line": In(sizes.line_bits),
            "wanted": In(self.beats), "hit": Out(1), "present": Out(1), "way": Out(range(sizes.ways)), "evicts": Out(1),
            "allocate": In(1), "drop": In(1),
            "clear": In(1), "clearing": Out(1, init=1),
        })

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        ways, beats = sizes.ways, self.beats
        layout = data.StructLayout({"valid": data.ArrayLayout(beats, ways), "oldest": sizes.way_bits,
                                    "tags": data.ArrayLayout(sizes.tag_bits, ways)})
        m.submodules.rows = rows = Memory(shape=layout, depth=sizes.sets, init=[])
        write = rows.write_port()
        read = rows.read_port(transparent_for=(write,))
        row, found, counter = read.data, Signal(ways), Signal(sizes.set_bits)
        chosen = Signal(ways)       # way, one-hot
        tag = self.line[sizes.set_bits:]
        oldest = Cat(row.oldest == way for way in range(ways))
        m.d.comb += [
            read.en.eq(self.enable), read.addr.eq(self.next_line[:sizes.set_bits]),
            found.eq(Cat(row.valid[way].any() & (row.tags[way] == tag) for way in range(ways))),
            self.present.eq(found.any()), chosen.eq(Mux(self.present, found, oldest)),
            self.hit.eq((found & Cat((self.wanted & ~row.valid[way]) == 0 for way in range(ways))).any()),
            self.evicts.eq(~self.present & Cat(row.valid[way].any() & oldest[way] for way in range(ways)).any()),
            write.en.eq(self.allocate | self.drop | self.clearing),
            write.addr.eq(Mux(self.clearing, counter, self.line[:sizes.set_bits])),
            write.data.oldest.eq(Mux(self.clearing, 0, row.oldest + (self.allocate & ~self.present))),
        ]
        for way in range(ways):
            kept = row.valid[way] & ~(chosen[way] & ~found[way]).replicate(beats)
            m.d.comb += [
                write.data.tags[way].eq(Mux(self.allocate & chosen[way], tag, row.tags[way])),
                write.data.valid[way].eq(Mux(self.clearing | (self.drop & found[way]), 0, Mux(self.drop, row.valid[way],
                                         kept | (self.wanted & chosen[way].replicate(beats))))),
            ]
            with m.If(chosen[way]):
                m.d.comb += self.way.eq(way)
        with m.If(self.clearing):
            m.d.sync += [counter.eq(counter + 1), self.clearing.eq(~counter.all())]
        with m.Elif(self.clear):
            m.d.sync += self.clearing.eq(1)
        return m
