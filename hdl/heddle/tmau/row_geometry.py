"""Rows of a box: how long they are, which part of them lies inside the tensor, and how many bytes they make together."""

from amaranth.hdl import Array, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES
from ..isa.tensor_descriptor import FORMAT_BYTES, Interleave, TensorFormat, TensorMode, descriptor_layout

__all__ = ["ROW_BITS", "BoxBytes", "RowEdges", "RowShape", "element_shift"]

ROW_BITS = 12               # up to 256 elements of 8 bytes
START_BITS = 37             # coordinates and sizes in bytes, with sign
_RECIPROCAL_BITS = 11


def element_shift(m, format, name="element_shift"):
    """log2 of the bytes of an element; 0 for codes that are no format."""
    shift = Signal(2, name=name)
    with m.Switch(format):
        for kind, nbytes in FORMAT_BYTES.items():
            with m.Case(kind):
                m.d.comb += shift.eq(nbytes.bit_length() - 1)
    return shift


class RowShape(Component):
    """Dimension 0 of a box, which is the same for all rows; with interleave a slice. Combinational.

    Members
    -------
    descriptor : In(descriptor_layout), coordinate : In(signed(32))
        Of dimension 0.
    row_bytes : Out(ROW_BITS)
        Of a row in shared memory.
    first_block : Out(signed)
        Block of 16 bytes at which the row begins, from the start of the tensor's row; exact where coordinates are aligned.
    last_block : Out(32)
        The one in which the tensor's row ends, from its start; with interleave 0: slices have no partial ends.
    start, behind : Out(signed(START_BITS))
        Bytes from the start of the tensor's row to that of the box's, and from there to the end of the tensor.
    sliced : Out(1)
        With interleave: all of a row is inside, whatever these two say.
    unaligned : Out(1)
        The row does not begin at a multiple of 16 bytes.
    """

    def __init__(self):
        super().__init__({
            "descriptor": In(descriptor_layout), "coordinate": In(signed(32)), "row_bytes": Out(ROW_BITS),
            "first_block": Out(signed(START_BITS - 4)), "last_block": Out(32), "start": Out(signed(START_BITS)),
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
        ]
        with m.If(self.sliced):
            slice_bytes = Mux(self.descriptor.interleave == Interleave.B16, 16, 32)
            m.d.comb += [self.row_bytes.eq(slice_bytes), self.first_block.eq(0), self.last_block.eq(0), self.unaligned.eq(0)]
        return m


class RowEdges(Component):
    """Which blocks of a row lie inside the tensor. Combinational.

    Members
    -------
    row_bytes, start, behind, sliced : In
        Of ``RowShape``, for a row that breaks no rule.
    left_blocks : Out(8)
        Blocks before the tensor; all of them when the row lies before it.
    inside_end : Out(9)
        Blocks up to the last one that is inside, or partly; ``left_blocks`` where none is.
    missing_bytes : Out(4)
        At the end of that block.
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
    """Bytes of a box: the product of its row and of the counts of its other dimensions, one a cycle.

    ``bytes`` is right two cycles after the last dimension; ``2 ** (shared_address_bits + 1) - 1`` stands for all that shared memory
    cannot hold.

    Members
    -------
    begin : In(1)
        With the first dimension.
    enable : In(1)
        A dimension: ``box`` (1 to 256) elements of which every ``step`` (1 to 8) counts.
    pixels : In(1), pixels_per_column : In(11), one : In(1)
        In place of ``box`` and ``step``: all pixels; no more than one.
    row_bytes : In(ROW_BITS)
    bytes : Out(cfg.shared_address_bits + 1)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "begin": In(1), "enable": In(1), "box": In(9), "step": In(4), "pixels": In(1), "one": In(1), "pixels_per_column": In(11),
            "row_bytes": In(ROW_BITS), "bytes": Out(cfg.shared_address_bits + 1),
        })

    def elaborate(self, platform):
        m = Module()
        # Rounded-up reciprocals: exact for the 256 values of box - 1.
        reciprocals = Array(Const(-(-(1 << _RECIPROCAL_BITS) // max(step, 1)), _RECIPROCAL_BITS + 1) for step in range(9))
        count = Signal(11, reset_less=True)
        came = Signal()
        total = Signal(len(self.bytes), reset_less=True)
        product = Signal(len(total) + len(count))
        most = (1 << len(total)) - 1
        m.d.comb += [product.eq(total * count), self.bytes.eq(total)]
        m.d.sync += came.eq(self.enable)
        with m.If(self.pixels):
            m.d.sync += count.eq(self.pixels_per_column)
        with m.Elif(self.one):
            m.d.sync += count.eq(1)
        with m.Else():
            m.d.sync += count.eq((((self.box - 1)[:8] * reciprocals[self.step]) >> _RECIPROCAL_BITS) + 1)
        with m.If(self.begin):
            m.d.sync += total.eq(self.row_bytes)
        with m.Elif(came):
            m.d.sync += total.eq(Mux(product > self.cfg.shared_bytes, most, product))
        return m


assert all(x * -(-(1 << _RECIPROCAL_BITS) // s) >> _RECIPROCAL_BITS == x // s for x in range(256) for s in range(1, 9))
assert max(FORMAT_BYTES.values()) * 256 < 1 << ROW_BITS and len(TensorFormat) == len(FORMAT_BYTES)
