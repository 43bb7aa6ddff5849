"""Walks through the rows of a box of a tensor: the nested loops of tile mode and the pixels of im2col mode [S1.5, S1.6]."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES
from ..isa.tensor_descriptor import MAX_RANK
from ..lib.stream import Buffer, link

__all__ = ["FAR", "LOOPS", "BoxWalk", "box_walk_layout", "loop_layout", "place_bits", "row_layout"]

LOOPS = MAX_RANK                # dimension 0 is the row, or a loop over slices with interleave
FAR = 1 << 13                   # more than a walk goes in a dimension: 1,023 steps of 8
_NEAR = signed(15)              # what is farther off, and a walk from there
PIXEL_BITS = 10


def place_bits(cfg):
    """Bits of a global address in blocks of 16 bytes."""
    return cfg.axi_address_bits - (BANK_BYTES.bit_length() - 1)


def loop_layout(cfg):
    """A dimension of a walk: where it is, where it starts again, and how far it goes.

    Distances from ``FAR`` on stand for all larger ones: a walk does not get there.
    """
    return data.StructLayout({
        "position": _NEAR,                      # coordinate of the first row
        "rest": _NEAR,                          # from there to the last element of the tensor
        "left": range(FAR),                     # elements from there to the end of the box; at least 1
        "restart": _NEAR,                       # the same three for every later pass
        "restart_rest": _NEAR,
        "restart_left": range(FAR),
        "step": 4,                              # elements from a row to the next, 1 to 8
        "step_blocks": place_bits(cfg),         # the same in blocks of global memory (modulo its size)
        "place": place_bits(cfg),               # block of the row at which all loops inside this one start again
    })


def box_walk_layout(cfg):
    """A box: ``loop[d]`` is dimension d. A dimension that the tensor lacks has one row, and dimension 0 too without interleave.

    A tile ends when all loops do. A column of pixels ends after ``pixels_minus_one + 1`` of them; its outermost loop never ends
    before.
    """
    return data.StructLayout({
        "loop": data.ArrayLayout(loop_layout(cfg), LOOPS),
        "inside": 1,                            # the first row lies inside the tensor as far as the loops say
        "pixels": 1,
        "pixels_minus_one": PIXEL_BITS,
    })


def row_layout(cfg):
    """A row: its block in global memory, whether it lies inside the tensor as far as the loops say, and whether it is the last one."""
    return data.StructLayout({"place": place_bits(cfg), "inside": 1, "last": 1})


class BoxWalk(Component):
    """One row of a box a cycle, in the order in which they lie in shared memory: the lowest dimension runs fastest.

    A loop ends when the next position would not lie before its end; it then starts again at ``restart``, and the next loop
    takes a step. Tiles and columns of pixels differ only in what their loops start with. A loop's ``place`` follows it as the
    address of the row at which all loops inside it start again, so that one addition a row is enough.

    Latency 1 cycle from ``i`` to the first row, 2 to the second of a box that found the walk idle; throughput one row a cycle, also from
    box to box, while ``o.ready`` holds. Outputs, and what ``i.ready`` depends on, are
    registered. ``stop`` drops the box under way and takes none. Reset drops all rows.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(stream.Signature(box_walk_layout(cfg)))
    o : Out(stream.Signature(row_layout(cfg)))
    stop : In(1)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(stream.Signature(box_walk_layout(cfg))),
            "o": Out(stream.Signature(row_layout(cfg))),
            "stop": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = Buffer(row_layout(self.cfg))
        link(m, rows.o, self.o)
        active, free, last, single = Signal(), Signal(), Signal(), Signal()
        ahead, shown = Signal(), Signal()       # the first row goes past the registers of the loops; it did
        box = Signal(box_walk_layout(self.cfg), reset_less=True)
        ends = Signal(LOOPS)        # the loop's row is its last one
        m.d.comb += [
            free.eq(rows.i.ready),
            last.eq(Mux(box.pixels, (box.pixels_minus_one == 0) & ends[0], ends.all())),
            self.i.ready.eq(~self.stop & (~active | (free & last))),
        ]
        incoming, first_ends = self.i.payload, Signal(LOOPS)
        m.d.comb += [
            first_ends.eq(Cat(loop.left <= loop.step for loop in incoming.loop)),
            single.eq(Mux(incoming.pixels, (incoming.pixels_minus_one == 0) & first_ends[0], first_ends.all())),
            ahead.eq(self.i.valid & self.i.ready & ~active & free),
        ]
        m.d.sync += shown.eq(ahead)
        with m.If(self.i.ready):
            m.d.sync += [active.eq(self.i.valid & ~(ahead & single)), box.eq(incoming), ends.eq(first_ends)]
        with m.Elif(free | shown):
            self._advance(m, box, ends)
        with m.If(self.stop):
            m.d.sync += active.eq(0)
        inside = Cat((loop.position >= 0) & (loop.rest >= 0) for loop in box.loop).all()
        m.d.comb += [
            rows.i.valid.eq(ahead | (active & ~shown & ~self.stop)),
            rows.i.payload.place.eq(Mux(ahead, incoming.loop[0].place, box.loop[0].place)),
            rows.i.payload.inside.eq(Mux(ahead, incoming.inside, inside)),
            rows.i.payload.last.eq(Mux(ahead, single, last)),
        ]
        return m

    def _advance(self, m, box, ends):
        """To the next row: the innermost loop that has not ended takes a step, those inside it start again."""
        stepping = Signal(range(LOOPS))
        place = Signal(place_bits(self.cfg))
        for d in reversed(range(LOOPS)):
            with m.If(~ends[d]):
                m.d.comb += stepping.eq(d)
        m.d.comb += place.eq(Array(loop.place for loop in box.loop)[stepping] + Array(loop.step_blocks for loop in box.loop)[stepping])
        m.d.sync += box.pixels_minus_one.eq(box.pixels_minus_one - ends[0])
        for d, loop in enumerate(box.loop):
            with m.If(d <= stepping):
                m.d.sync += loop.place.eq(place)
            with m.If(d == stepping):
                m.d.sync += [
                    loop.position.eq(loop.position + loop.step),
                    loop.rest.eq(loop.rest - loop.step),
                    loop.left.eq(loop.left - loop.step),
                    ends[d].eq(loop.left <= loop.step << 1),
                ]
            if d == LOOPS - 1:      # there is no loop around it
                continue
            with m.If(d < stepping):
                m.d.sync += [
                    loop.position.eq(loop.restart),
                    loop.rest.eq(loop.restart_rest),
                    loop.left.eq(loop.restart_left),
                    ends[d].eq(loop.restart_left <= loop.step),
                ]
