"""Row address generator of tensor boxes: nested loops of tile mode, pixels of im2col mode [S1.5, S1.6]."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES
from ..isa.tensor_descriptor import MAX_RANK
from ..lib.onehot import select_one_hot
from ..lib.register_slice import RegisterSlice
from ..lib.stream import link
from ..parameters.tmau import TmauParameters

__all__ = ["FAR", "LOOPS", "BoxWalk", "box_walk_layout", "loop_layout", "place_bits", "row_layout"]

LOOPS = MAX_RANK                # with interleave dimension 0 is a loop over slices, else the row
FAR = 1 << 13                   # beyond the reach of a loop: 1,023 steps of 8
_NEAR = signed(15)              # positions saturated at FAR, plus the reach of a loop
PIXEL_BITS = 10


def place_bits(cfg):
    """Bits of a global address in blocks of 16 bytes."""
    return cfg.axi_address_bits - (BANK_BYTES.bit_length() - 1)


def loop_layout(cfg):
    """State of one loop of a box: position, remaining elements, and the values of a restart.

    Distances are saturated at ``FAR``, which no loop reaches.
    """
    return data.StructLayout({
        "position": _NEAR,                      # coordinate of the current row
        "rest": _NEAR,                          # from the position to the last element of the tensor
        "left": range(FAR),                     # elements from the position to the end of the box; at least 1
        "restart": _NEAR,                       # position, rest and left of every restart
        "restart_rest": _NEAR,
        "restart_left": range(FAR),
        "step": 4,                              # elements between positions, 1 to 8
        "step_blocks": place_bits(cfg),         # ``step`` in blocks of global memory, modulo its size
        "place": place_bits(cfg),               # block of the row at which all inner loops restart
    })


def box_walk_layout(cfg):
    """Loops of a box; ``loop[d]`` is dimension d. A dimension that the tensor lacks has one position, as has dimension 0 without
    interleave.

    A tile ends when all loops end. A column of pixels (``pixels``) ends after ``pixels_minus_one`` + 1 pixels; its outermost loop never
    ends earlier.
    """
    return data.StructLayout({
        "loop": data.ArrayLayout(loop_layout(cfg), LOOPS),
        "inside": 1,                            # the first row lies inside the tensor in all loops
        "pixels": 1,
        "pixels_minus_one": PIXEL_BITS,
    })


def row_layout(cfg):
    """Row of a box: first block in global memory, whether the row lies inside the tensor in all loops, and whether it is the last one."""
    return data.StructLayout({"place": place_bits(cfg), "inside": 1, "last": 1})


class BoxWalk(Component):
    """Row address generator: steps through a box one row per cycle, in the order of the rows in shared memory; dimension 1 is
    innermost.

    With interleave dimension 0 is the innermost loop. A loop ends when its next position would not lie before its end. The loop then
    restarts at ``restart``, and the next outer loop takes a step. Tiles and columns of pixels differ only in the initial values of
    their loops. ``place`` of a loop is the address at which all inner loops restart, so a row needs one addition.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(box_walk_layout(cfg)))
        Boxes.
    o : Out(stream.Signature(row_layout(cfg)))
        Rows. Registered.
    stop : In(1)
        Drop the box in progress and accept none.

    *Latency*: 1 cycle from ``i`` to the first row if the unit is idle; the second row then follows 2 cycles after the first one. Rows
    of a box that follows without a pause follow the rows of its predecessor in the next cycle.

    *Throughput*: one row per cycle, also across boxes, while ``o.ready`` is high.

    *Back-pressure*: ``i.ready`` depends on registers and ``stop``; ``o`` has a register stage of two rows.

    *Reset*: drops all rows.

    *Source*: [S1.5, S1.6].
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(box_walk_layout(cfg))),
            "o": Out(stream.Signature(row_layout(cfg))),
            "stop": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = RegisterSlice(row_layout(self.cfg))
        link(m, rows.o, self.o)
        active, free, last, single = Signal(), Signal(), Signal(), Signal()
        ahead, shown = Signal(), Signal()       # the first row bypasses the loop registers; it did so in the cycle before
        box = Signal(box_walk_layout(self.cfg), reset_less=True)
        ends = Signal(LOOPS)        # the loop is at its last position
        ended = Signal(LOOPS + 1, init=1)       # bit d: loops 0 to d - 1 are at their last positions; registered, as many registers need it
        last_pixel = Signal(reset_less=True)        # ``pixels_minus_one`` is zero
        m.d.comb += [
            free.eq(rows.i.ready),
            last.eq(Mux(box.pixels, last_pixel & ended[1], ended[LOOPS])),
            self.i.ready.eq(~self.stop & (~active | (free & last))),
        ]
        incoming, first_ends = self.i.payload, Signal(LOOPS)
        m.d.comb += [
            first_ends.eq(Cat(loop.left <= loop.step for loop in incoming.loop)),
            single.eq(Mux(incoming.pixels, (incoming.pixels_minus_one == 0) & first_ends[0], first_ends.all())),
            ahead.eq(self.i.valid & self.i.ready & ~active & free),
        ]
        m.d.sync += shown.eq(ahead)
        next_ends = Signal.like(ends, name="next_ends")
        m.d.comb += next_ends.eq(ends)
        m.d.sync += [ends.eq(next_ends), ended.eq(Cat(next_ends[:d].all() for d in range(LOOPS + 1)))]
        with m.If(self.i.ready):
            m.d.comb += next_ends.eq(first_ends)
            m.d.sync += [active.eq(self.i.valid & ~(ahead & single)), box.eq(incoming), last_pixel.eq(incoming.pixels_minus_one == 0)]
        with m.Elif(free | shown):
            m.d.sync += last_pixel.eq(box.pixels_minus_one == ended[1])
            self._advance(m, box, ended, next_ends)
        with m.If(self.stop):
            m.d.sync += active.eq(0)
        inside = Cat((loop.position >= 0) & (loop.rest >= 0) for loop in box.loop).all()
        m.d.comb += [
            rows.i.valid.eq(ahead | (active & ~shown & ~self.stop)),
            rows.i.payload.place.eq(Mux(active, box.loop[0].place, incoming.loop[0].place)),
            rows.i.payload.inside.eq(Mux(active, inside, incoming.inside)),
            rows.i.payload.last.eq(Mux(active, last, single)),
        ]
        return m

    def _advance(self, m, box, ended, next_ends):
        """Next row: the innermost loop that has not ended takes a step, and all inner loops restart."""
        stepping = [ended[d] & ~ended[d + 1] for d in range(LOOPS)]
        place = Signal(place_bits(self.cfg))
        m.d.comb += place.eq(select_one_hot(stepping, (loop.place for loop in box.loop))
                             + select_one_hot(stepping, (loop.step_blocks for loop in box.loop)))
        m.d.sync += box.pixels_minus_one.eq(box.pixels_minus_one - ended[1])
        for d, loop in enumerate(box.loop):
            with m.If(ended[d]):
                m.d.sync += loop.place.eq(place)
            with m.If(stepping[d]):
                m.d.sync += [
                    loop.position.eq(loop.position + loop.step),
                    loop.rest.eq(loop.rest - loop.step),
                    loop.left.eq(loop.left - loop.step),
                ]
                m.d.comb += next_ends[d].eq(loop.left <= loop.step << 1)
            if d == LOOPS - 1:      # outermost loop: never restarts
                continue
            with m.If(ended[d + 1]):
                m.d.sync += [
                    loop.position.eq(loop.restart),
                    loop.rest.eq(loop.restart_rest),
                    loop.left.eq(loop.restart_left),
                ]
                m.d.comb += next_ends[d].eq(loop.restart_left <= loop.step)
