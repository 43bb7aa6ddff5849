"""Requests of tensor copies stay between the address of the tensor and its end, and below the end of global memory."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component
from heddle import load_config
from heddle.tmau.box_walk import LOOPS, BoxWalk, place_bits
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
    """No piece inside a tensor of two dimensions lies before the tensor or behind its last block; nothing wraps at the end of memory.

    Environment: what ``TensorSetup`` promises of a tile, whose loops have the strides ``STRIDES`` and steps of one, at any coordinates near
    the tensor; and, ``checked``, that the end of the tensor lies in memory, as ``ExtentCheck`` finds out. Without it the
    property must not hold. ``stop`` is low.
    """

    STRIDES = (4, 64)       # blocks; of dimensions 1 and 2
    ROW_BLOCKS = 3          # of the box

    def __init__(self, checked=True):
        self._checked = checked
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
            end.eq(base + row_end + sum(last * stride for last, stride in zip(lasts, self.STRIDES))),
            Assume((end < 1 << len(base)) | (not self._checked)),
            left.eq(Mux(start < 0, Mux(-start > self.ROW_BLOCKS, self.ROW_BLOCKS, -start), 0)),
            inside_end.eq(Mux(row_end + 1 - start > self.ROW_BLOCKS, self.ROW_BLOCKS, row_end + 1 - start)),
            walk.i.valid.eq(1), walk.o.ready.eq(bursts.i_row.ready), bursts.i_row.valid.eq(walk.o.valid),
            bursts.i_row.payload.eq(walk.o.payload), bursts.i_shape.valid.eq(1), bursts.o.ready.eq(AnySeq(1)),
            shape.eq(AnyConst(len(shape.as_value()))), Assume(shape.row_blocks == self.ROW_BLOCKS), Assume(shape.left_blocks == left),
            Assume(shape.inside_end == Mux(inside_end > left, inside_end, left)),
        ]
        inside = bursts.o.valid & ~piece.outside
        with m.If(inside):
            m.d.comb += [Assert(piece.global_block >= base), Assert(piece.global_block + piece.blocks <= end + 1)]
        m.d.comb += [
            Cover(inside & (piece.global_block + piece.blocks == 1 << len(base))),
            Cover(inside & (piece.global_block == base) & (box.loop[1].position < 0)), Cover(inside & piece.last & (start < 0)),
        ]
        return m

    def _any_box(self, m, box, place):
        """A tile of up to two rows in two dimensions; returns the last elements of the tensor in both."""
        lasts, moved = [], place
        for number, loop in enumerate(box.loop):
            if number in (1, 2):
                last, position = Signal(2, name=f"last_{number}"), Signal(signed(4), name=f"position_{number}")
                stride = self.STRIDES[number - 1]
                m.d.comb += [last.eq(AnyConst(2)), position.eq(AnyConst(4)), loop.position.eq(position), loop.rest.eq(last - position),
                             loop.left.eq(AnyConst(2)), Assume(loop.left != 0), loop.step_blocks.eq(stride)]
                lasts.append(last)
                moved = (moved + position * stride)[:len(place)]
            else:
                m.d.comb += [loop.position.eq(0), loop.rest.eq(0), loop.left.eq(1), loop.step_blocks.eq(0)]
            m.d.comb += [loop.step.eq(1), loop.restart.eq(loop.position), loop.restart_rest.eq(loop.rest), loop.restart_left.eq(loop.left)]
        m.d.comb += [loop.place.eq(moved) for loop in box.loop]
        first = Cat((loop.position >= 0) & (loop.rest >= 0) for loop in box.loop).all()
        m.d.comb += [box.inside.eq(first), box.pixels.eq(0), box.pixels_minus_one.eq(0)]
        return lasts
