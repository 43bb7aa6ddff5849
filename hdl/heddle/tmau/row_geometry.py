"""Row geometry of tensor boxes: length and pitch of rows, part inside the tensor, and bytes of the box."""

from amaranth.hdl import Array, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES
from ..isa.encoding import Swizzle
from ..isa.tensor_descriptor import FORMAT_BYTES, SWIZZLE_BYTES, Interleave, TensorFormat, TensorMode, descriptor_layout
from ..parameters.tmau import TmauParameters

__all__ = ["ROW_BITS", "BoxBytes", "RowEdges", "RowShape"]

ROW_BITS = 12               # up to 256 elements of 8 bytes
START_BITS = 37             # signed coordinates and sizes in bytes
_RECIPROCAL_BITS = 11


def element_shift(m, format):
    """log2 of the bytes of an element of ``format``; 0 for undefined formats; combinational."""
    shift = Signal(2, name="element_shift")
    with m.Switch(format):
        for kind, nbytes in FORMAT_BYTES.items():
            with m.Case(kind):
                m.d.comb += shift.eq(nbytes.bit_length() - 1)
    return shift


class RowShape(Component):
    """Row geometry of dimension 0 of a box, common to all rows; with interleave a row is a slice.

    *Ports*:
    descriptor : In(descriptor_layout)
        Tensor descriptor.
    coordinate : In(signed(32))
        Coordinate of dimension 0, in elements.
    row_bytes : Out(ROW_BITS)
        Bytes of a row in shared memory.
    pitch_bytes : Out(ROW_BITS)
        Bytes from row to row in shared memory: the span of the swizzle, or ``row_bytes`` without a swizzle or with interleave.
    spanned : Out(1)
        ``pitch_bytes`` is the span of the swizzle.
    first_block : Out(signed(START_BITS - 4))
        First block of 16 bytes of the row, relative to the tensor's row; exact for aligned coordinates. Zero with interleave.
    last_block : Out(32)
        Last block of the tensor's row, relative to its start. Zero with interleave: slices have no partial end.
    start : Out(signed(START_BITS))
        Bytes from the start of the tensor's row to the start of the box's row.
    behind : Out(signed(START_BITS))
        Bytes from the start of the box's row to the end of the tensor's row.
    sliced : Out(1)
        Interleave: the whole row lies inside, whatever ``start`` and ``behind``.
    unaligned : Out(1)
        The row does not begin at a multiple of 16 bytes.

    *Latency*: 0 cycles, combinational.

    *Reset*: no state.
    """

    def __init__(self):
        super().__init__({
            "descriptor": In(descriptor_layout), "coordinate": In(signed(32)), "row_bytes": Out(ROW_BITS), "pitch_bytes": Out(ROW_BITS),
            "spanned": Out(1), "first_block": Out(signed(START_BITS - 4)), "last_block": Out(32), "start": Out(signed(START_BITS)),
            "behind": Out(signed(START_BITS)), "sliced": Out(1), "unaligned": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        shift = element_shift(m, self.descriptor.format)
        elements = Signal(9)
        m.d.comb += [
            elements.eq(Mux(self.descriptor.mode == TensorMode.TILE, self.descriptor.box_minus_one[0],
                            self.descriptor.channels_per_pixel_minus_one) + 1),
            self.row_bytes.eq(elements << shift),
            self.start.eq(self.coordinate << shift),
            self.behind.eq(((self.descriptor.size_minus_one[0] + 1) << shift) - self.start),
            self.first_block.eq(self.start >> 4),
            self.last_block.eq((self.descriptor.size_minus_one[0] << shift) >> 4),
            self.unaligned.eq(self.start[:4].any()),
            self.sliced.eq(self.descriptor.interleave != Interleave.NONE),
            self.spanned.eq((self.descriptor.swizzle != Swizzle.NONE.value) & ~self.sliced),
            self.pitch_bytes.eq(Mux(self.spanned, Array(SWIZZLE_BYTES)[self.descriptor.swizzle], self.row_bytes)),
        ]
        with m.If(self.sliced):
            slice_bytes = Mux(self.descriptor.interleave == Interleave.B16, 16, 32)
            m.d.comb += [self.row_bytes.eq(slice_bytes), self.first_block.eq(0), self.last_block.eq(0), self.unaligned.eq(0)]
        return m


class RowEdges(Component):
    """Part of a row that lies inside the tensor, in blocks of 16 bytes.

    *Ports*:
    row_bytes : In(ROW_BITS)
        Bytes of a row, of ``RowShape``; the row breaks no rule.
    start, behind : In(signed(START_BITS))
        Distances of ``RowShape`` in bytes.
    sliced : In(1)
        The whole row lies inside.
    left_blocks : Out(8)
        Blocks before the tensor; all blocks if the row lies before the tensor.
    inside_end : Out(9)
        Block after the last one that lies inside, fully or partly; ``left_blocks`` if none does.
    missing_bytes : Out(4)
        Bytes at the end of block ``inside_end`` - 1 that lie outside.

    *Latency*: 0 cycles, combinational.

    *Reset*: no state.
    """

    def __init__(self):
        super().__init__({
            "row_bytes": In(ROW_BITS), "start": In(signed(START_BITS)), "behind": In(signed(START_BITS)), "sliced": In(1),
            "left_blocks": Out(8), "inside_end": Out(9), "missing_bytes": Out(4),
        })

    def elaborate(self, platform):
        m = Module()
        before, end = Signal(ROW_BITS), Signal(ROW_BITS)
        m.d.comb += [
            before.eq(Mux((self.start >= 0) | self.sliced, 0, Mux(-self.start > self.row_bytes, self.row_bytes, -self.start))),
            end.eq(Mux((self.behind > self.row_bytes) | self.sliced, self.row_bytes, Mux(self.behind <= 0, 0, self.behind))),
            self.left_blocks.eq(before >> BANK_BYTES.bit_length() - 1),
            self.inside_end.eq(Mux(end > before, (end >> 4) + end[:4].any(), self.left_blocks)),
            self.missing_bytes.eq(-end[:BANK_BYTES.bit_length() - 1]),
        ]
        return m


class BoxBytes(Component):
    """Size of a box in shared memory: product of the pitch of its rows and the element counts of its other dimensions, one dimension per
    cycle.

    The value 2 ** (shared_address_bits + 1) - 1 represents every size that shared memory cannot hold.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    begin : In(1)
        First cycle of a box: start with ``pitch_bytes``.
    enable : In(1)
        A dimension is present in this cycle.
    box_minus_one : In(8)
        Last element of the dimension, 0 to 255.
    step_minus_one : In(3)
        Traversal stride of 1 to 8, minus one: the count is ``box_minus_one`` // stride + 1.
    pixels : In(1)
        The count is ``pixels_per_column`` instead.
    one : In(1)
        The count is 1 instead.
    pixels_per_column : In(11)
        Pixels of a column.
    pitch_bytes : In(ROW_BITS)
        Bytes from row to row.
    bytes : Out(cfg.shared_address_bits + 1)
        Bytes from the start of the box to the end of its last row's pitch. Registered.

    *Latency*: 2 cycles from the last ``enable`` to ``bytes``.

    *Throughput*: one dimension per cycle.

    *Reset*: the pending dimension is dropped; the product has no reset.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "begin": In(1), "enable": In(1), "box_minus_one": In(8), "step_minus_one": In(3), "pixels": In(1), "one": In(1),
            "pixels_per_column": In(11), "pitch_bytes": In(ROW_BITS), "bytes": Out(cfg.shared_address_bits + 1),
        })

    def elaborate(self, platform):
        m = Module()
        # Rounded-up reciprocals: exact for the 256 values of ``box_minus_one``.
        reciprocals = Array(Const(-(-(1 << _RECIPROCAL_BITS) // step), _RECIPROCAL_BITS + 1) for step in range(1, 9))
        count = Signal(11, reset_less=True)
        arrived = Signal()
        total = Signal(len(self.bytes), reset_less=True)
        product = Signal(len(total) + len(count))
        most = (1 << len(total)) - 1
        m.d.comb += [product.eq(total * count), self.bytes.eq(total)]
        m.d.sync += arrived.eq(self.enable)
        with m.If(self.pixels):
            m.d.sync += count.eq(self.pixels_per_column)
        with m.Elif(self.one):
            m.d.sync += count.eq(1)
        with m.Else():
            m.d.sync += count.eq(((self.box_minus_one * reciprocals[self.step_minus_one]) >> _RECIPROCAL_BITS) + 1)
        with m.If(self.begin):
            m.d.sync += total.eq(self.pitch_bytes)
        with m.Elif(arrived):
            m.d.sync += total.eq(Mux(product > self.cfg.shared_bytes, most, product))
        return m


assert all(x * -(-(1 << _RECIPROCAL_BITS) // s) >> _RECIPROCAL_BITS == x // s for x in range(256) for s in range(1, 9))
assert max(FORMAT_BYTES.values()) * 256 < 1 << ROW_BITS and len(TensorFormat) == len(FORMAT_BYTES)
