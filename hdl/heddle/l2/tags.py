"""Tags of a bank of the second-level cache."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from .layouts import L2Sizes

__all__ = ["L2Tags"]


class L2Tags(Component):
    """Which lines a bank holds: ``sets`` rows of ``ways`` tags; a line that comes in takes the place of the set's oldest one.

    Of each line a bit for each beat says that it is there. A line is looked up in two steps: its set is read while ``enable`` is high,
    and a cycle later ``hit``, ``way`` and ``evicts`` are about ``line``, until ``enable`` is high again. ``allocate`` and ``drop``
    change the row of ``line``; a look-up that begins in that cycle sees it. While ``clearing``, which takes ``sets`` cycles from ``clear``
    on and after reset, rows are made invalid one by one: no look-up may then be under way.

    Members
    -------
    enable : In(1), next_line : In(line)
    line : In(line)
        What was ``next_line``.
    wanted : In(cfg.line_beats)
        Beats that are asked for, or that ``allocate`` brings.
    hit : Out(1), present : Out(1), way : Out(range(ways)), evicts : Out(1)
        Combinational. All wanted beats are there; any of the line. ``way``: where the line is, or would come. ``evicts``: ``allocate``
        would drop a line.
    allocate, drop : In(1)
        Put the wanted beats into ``way``; take the line out, while ``present``.
    clear : In(1), clearing : Out(1)
    """

    def __init__(self, cfg):
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
        chosen = Signal(ways)       # the way, one-hot
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
