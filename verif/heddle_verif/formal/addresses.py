"""Requests of tensor copies stay between the address of the tensor and its end, and below the end of global memory."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component
from heddle import load_config
from heddle.tmau.box_walk import FAR, LOOPS, BoxWalk, place_bits
from heddle.tmau.row_bursts import RowBursts
from heddle.tmau.rule_check import LAST_BITS, STRIDE_BITS, ExtentCheck

__all__ = ["ExtentSpec", "RequestRangeSpec"]

BITS, PART = 6, 5       # of an address in blocks; of last elements and strides, which have their highest bit beside these
PRODUCT = 2 * PART + 4


def _sparse(low, high, width):
    return Cat(low, Const(0, width - PART - 1), high)


class ExtentSpec(Component):
    """A tensor that passes has no element behind global memory, and one that fails has one in the dimension that is named, and none before.

    The element is any one inside the tensor: a position of at most the last one in each dimension. Environment: addresses of 6 bits, at
    most five dimensions; last elements and strides have five low bits and the highest one.
    """

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = ExtentCheck(BITS)
        last, stride, position, row = (Signal(PART, name=name) for name in ("last", "stride", "position", "row"))
        high_last, high_stride, high_row = (Signal(name=name) for name in ("high_last", "high_stride", "high_row"))
        m.d.comb += [signal.eq(AnySeq(len(signal))) for signal in (last, stride, position, row, high_last, high_stride, high_row)]
        m.d.comb += [
            dut.begin.eq(AnySeq(1)), dut.enable.eq(AnySeq(1)), dut.number.eq(AnySeq(3)), dut.address.eq(AnySeq(BITS)),
            dut.row_last.eq(AnySeq(LAST_BITS)), dut.row_end.eq(_sparse(row, high_row, LAST_BITS)),
            dut.last.eq(_sparse(last, high_last, LAST_BITS)), dut.stride.eq(_sparse(stride, high_stride, STRIDE_BITS)),
            Assume(high_last | (position <= last)),
        ]
        begun, came, count = Signal(), Signal(), Signal(range(7))
        end, element, address = Signal(PRODUCT), Signal(PRODUCT), Signal(BITS)      # of the tensor; any one inside; its first block
        # Of the dimension that was given with the last clock.
        further, step, large, number, value = Signal(PRODUCT), Signal(PRODUCT), Signal(), Signal(3), Signal(LAST_BITS)
        m.d.sync += [
            came.eq(dut.enable), further.eq(last * stride), step.eq(position * stride), number.eq(dut.number), value.eq(dut.last),
            large.eq((high_last & dut.stride.any()) | (high_stride & dut.last.any())),
        ]
        over, of_dimension, of_value = Signal(), Signal(3), Signal(LAST_BITS)
        next_end, next_over = Signal(PRODUCT), Signal()
        m.d.comb += [
            next_end.eq(Mux(dut.begin, dut.address + row, end + further)),
            next_over.eq(Mux(dut.begin, high_row, over | large) | (next_end >= 1 << BITS)),
            Assume(dut.begin | ~dut.enable | (count < LOOPS)),
        ]
        m.d.sync += count.eq(Mux(dut.begin, dut.enable, count + (dut.enable & begun)))
        with m.If(dut.begin | (begun & came)):
            m.d.sync += [end.eq(next_end), over.eq(next_over), element.eq(Mux(dut.begin, dut.address, element + step))]
            with m.If(next_over & (dut.begin | ~over)):
                m.d.sync += [of_dimension.eq(Mux(dut.begin, 0, number)), of_value.eq(Mux(dut.begin, dut.row_last, value))]
        with m.If(dut.begin):
            m.d.sync += [begun.eq(1), address.eq(dut.address)]
        with m.If(begun):
            m.d.comb += [
                Assert(dut.failed == over), Assert(dut.failed | ((element >= address) & (element <= end) & (end < 1 << BITS))),
                Assert(~dut.failed | ((dut.o.dimension == of_dimension) & (dut.o.value == of_value))),
                Cover(~dut.failed & (element == (1 << BITS) - 1) & (count == 3)), Cover(dut.failed & (dut.o.dimension == 5)),
                Cover(~dut.failed & high_last & came & (count == 2)),
            ]
        return m


class RequestRangeSpec(Component):
    """No piece inside a tensor lies before the tensor or behind its last block; nothing wraps at the end of memory.

    Environment: what ``TensorSetup`` promises of a box in tensors of four dimensions, whose loops have the strides ``STRIDES``, at any
    coordinates near the tensor; and, ``checked``, that the end of the tensor lies in memory, as ``ExtentCheck`` finds out. Without it
    the property must not hold. ``steps`` are the traversal strides of the loops. ``pixels``: a column of pixels, whose loops begin again
    at a lower corner of their own. ``stop`` is low.
    """

    STRIDES = (4, 16, 64)   # blocks; of dimensions 1 to 3
    ROW_BLOCKS = 3          # of the box

    def __init__(self, steps=(1, 1, 1), *, pixels=False, checked=True):
        self._steps, self._pixels, self._checked = steps, pixels, checked
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        cfg = load_config("tiny").replace(tensors=True, axi_address_bits=16, shared_memory_kib=4)
        m.submodules.walk = walk = BoxWalk(cfg)
        m.submodules.bursts = bursts = RowBursts(cfg)
        # Blocks: of the tensor, the last one of its row, and from the tensor to the row of the box.
        base, row_end, start = Signal(place_bits(cfg)), Signal(2), Signal(signed(4))
        m.d.comb += [signal.eq(AnyConst(len(signal))) for signal in (base, row_end, start)]
        end = Signal(place_bits(cfg) + 2)       # last block of the tensor
        box, shape, piece = walk.i.payload, bursts.i_shape.payload, bursts.o.payload
        lasts = self._any_box(m, box, (base + start)[:len(base)])
        left, inside_end = Signal(signed(6)), Signal(signed(6))
        m.d.comb += [
            end.eq(base + row_end + sum(last * stride for last, stride in zip(lasts, self.STRIDES, strict=True))),
            Assume((end < 1 << len(base)) | (not self._checked)),
            left.eq(Mux(start < 0, Mux(-start > self.ROW_BLOCKS, self.ROW_BLOCKS, -start), 0)),
            inside_end.eq(Mux(row_end + 1 - start > self.ROW_BLOCKS, self.ROW_BLOCKS, row_end + 1 - start)),
            walk.i.valid.eq(1), walk.o.ready.eq(bursts.i_row.ready), bursts.i_row.valid.eq(walk.o.valid),
            bursts.i_row.payload.eq(walk.o.payload), bursts.i_shape.valid.eq(1), bursts.o.ready.eq(AnySeq(1)),
            shape.eq(AnyConst(len(shape.as_value()))), Assume(shape.row_blocks == self.ROW_BLOCKS), Assume(shape.left_blocks == left),
            Assume(shape.inside_end == Mux(inside_end > left, inside_end, left)),
        ]
        inside, taken = bursts.o.valid & ~piece.outside, walk.o.valid & walk.o.ready
        with m.If(inside):
            m.d.comb += [Assert(piece.global_block >= base), Assert(piece.global_block + piece.blocks <= end + 1)]
        began, before = Signal(), Signal.like(walk.o.payload.place)
        with m.If(taken):
            m.d.sync += [began.eq(~walk.o.payload.last), before.eq(walk.o.payload.place)]
        m.d.comb += [
            Cover(inside & (piece.global_block + piece.blocks == 1 << len(base))),
            Cover(inside & (piece.global_block == base) & (box.loop[1].position < 0)), Cover(inside & piece.last & (start < 0)),
            Cover(taken & began & walk.o.payload.inside & (walk.o.payload.place - before > self.STRIDES[2] // 2)),
        ]
        return m

    def _any_box(self, m, box, place):
        """Three loops around the row; returns the last elements of the tensor in each."""
        lasts = []
        # The row at which all loops inside begin again: that of the first one the first row.
        inner = place + sum(loop.position * stride for loop, stride in zip(list(box.loop)[1:], self.STRIDES))
        for number, loop in enumerate(box.loop):
            m.d.comb += loop.place.eq(inner[:len(place)])
            if 1 <= number <= len(self.STRIDES):
                stride = self.STRIDES[number - 1]
                m.d.comb += [loop.step.eq(self._steps[number - 1]), loop.step_blocks.eq(stride * self._steps[number - 1])]
                lasts.append(self._any_loop(m, loop, number))
                inner = inner + (loop.restart - loop.position) * stride
            else:
                m.d.comb += [loop[name].eq(name in ("left", "restart_left", "step")) for name in (
                    "position", "rest", "left", "restart", "restart_rest", "restart_left", "step", "step_blocks")]
        inside = Cat((loop.position >= 0) & (loop.rest >= 0) for loop in box.loop).all()
        m.d.comb += [box.inside.eq(inside), box.pixels.eq(self._pixels), box.pixels_minus_one.eq(AnyConst(3) if self._pixels else 0)]
        return lasts

    def _any_loop(self, m, loop, number):
        """Positions of a loop: those of a tile begin again where they began, those of pixels at the lower corner; of images none does."""
        last = Signal(2, name=f"last_{number}")
        position, restart = (Signal(signed(4), name=f"{name}_{number}") for name in ("position", "restart"))
        left, before = Signal(2, name=f"left_{number}"), Signal(3, name=f"before_{number}")
        m.d.comb += [signal.eq(AnyConst(len(signal))) for signal in (last, position, left, before)]
        images = self._pixels and number == len(self.STRIDES)       # end with the column
        m.d.comb += [
            Assume(left != 0), restart.eq(position - before), Assume(position - before >= -8),
            loop.position.eq(position), loop.rest.eq(last - position), loop.left.eq(FAR - 1 if images else left),
            loop.restart.eq(restart), loop.restart_rest.eq(last - restart), loop.restart_left.eq(FAR - 1 if images else left + before),
        ]
        if images or not self._pixels:
            m.d.comb += Assume(before == 0)
        return last
