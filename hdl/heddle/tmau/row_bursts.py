"""Cuts the rows of a box into bursts: at most a line of 128 bytes each, what lies outside the tensor apart [S1.1, S1.5]."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES
from .box_walk import row_layout
from .multicast import multicast_members
from .tensor_layouts import box_layout

__all__ = ["LINE_BLOCKS", "RowBursts", "piece_layout", "row_shape_layout"]

LINE_BLOCKS = 128 // BANK_BYTES


def row_shape_layout(cfg):
    """What the rows of a box have in common: the fields of ``box_layout`` that are not the walk."""
    return data.StructLayout({name: field.shape for name, field in box_layout(cfg) if name != "walk"})


def piece_layout(cfg):
    """1 to ``LINE_BLOCKS`` blocks of a row, all in one line of global memory, or all outside the tensor.

    ``missing_bytes`` of the last block lie behind the tensor.
    """
    shape = row_shape_layout(cfg)
    return data.StructLayout({
        "global_block": row_layout(cfg)["place"].shape,
        "shared_block": shape["shared_block"].shape,
        "blocks": range(LINE_BLOCKS + 1),
        "missing_bytes": range(BANK_BYTES),
        "outside": 1,
        "last": 1,          # of the box
        **{name: shape[name].shape for name in ("swizzle", "format", "fill", "store", "reduction", "barrier", "has_barrier", "pc")},
        **({"prefetch": 1} if cfg.prefetches else {}), **multicast_members(cfg),
    })


class RowBursts(Component):
    """One piece a cycle, of one row after the other; a row of one piece takes one cycle, also from box to box.

    Stores and prefetches have no pieces outside the tensor but those with a barrier, which counts all bytes, and the last one of a box:
    every box has a piece with ``last``. Latency 1 cycle; ``i_row.ready`` depends on ``o.ready`` combinationally; ``o`` is registered.
    ``stop`` drops rows and shapes, one of each a cycle. Reset drops all.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i_shape : In(stream.Signature(row_shape_layout(cfg)))
        One for each box, taken with its last row.
    i_row : In(stream.Signature(row_layout(cfg)))
    o : Out(stream.Signature(piece_layout(cfg)))
    stop : In(1)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i_shape": In(stream.Signature(row_shape_layout(cfg))),
            "i_row": In(stream.Signature(row_layout(cfg))),
            "o": Out(stream.Signature(piece_layout(cfg))),
            "stop": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        shape, row, piece = self.i_shape.payload, self.i_row.payload, self.o.payload
        begun = Signal(9)           # blocks of the row that have their piece
        row_block = Signal(len(shape.shared_block), reset_less=True)      # shared block of the row, once the box has begun
        first = Signal(init=1)      # row of the box
        inside = Signal(9)          # blocks up to the end of what is inside
        outside, blocks = Signal(), Signal(range(LINE_BLOCKS + 1))
        free, taken, row_ends = Signal(), Signal(), Signal()
        shared = Signal.like(shape.shared_block, name="shared")
        m.d.comb += [
            inside.eq(Mux(row.inside, shape.left_blocks + ((shape.inside_bytes + BANK_BYTES - 1) >> 4), 0)),
            outside.eq(~row.inside | (begun < shape.left_blocks) | (begun >= inside)),
            shared.eq(Mux(first, shape.shared_block, row_block)),
            free.eq(~self.o.valid | self.o.ready),
            taken.eq(self.i_shape.valid & self.i_row.valid & free & ~self.stop),
            row_ends.eq(begun + blocks == shape.row_blocks),
            self.i_row.ready.eq(self.stop | (taken & row_ends)),
            self.i_shape.ready.eq(self.stop | (taken & row_ends & row.last)),
        ]
        self._blocks(m, shape, row, begun, inside, outside, blocks)
        with m.If(self.stop):
            m.d.sync += [begun.eq(0), first.eq(1)]
        with m.Elif(taken):
            m.d.sync += [
                begun.eq(Mux(row_ends, 0, begun + blocks)),
                row_block.eq(Mux(row_ends, shared + shape.row_blocks, shared)),
                first.eq(row_ends & row.last),
            ]
        ends = Signal()
        m.d.comb += ends.eq(row_ends & row.last)
        drops = shape.store | shape.prefetch if self.cfg.prefetches else shape.store      # pieces outside
        with m.If(free):
            m.d.sync += [
                self.o.valid.eq(taken & ~(drops & outside & ~ends & ~shape.has_barrier)),
                piece.global_block.eq(row.place + begun),
                piece.shared_block.eq(shared + begun),
                piece.blocks.eq(blocks),
                piece.missing_bytes.eq(Mux(~outside & (begun + blocks == inside), -shape.inside_bytes[:4], 0)),
                piece.outside.eq(outside),
                piece.last.eq(ends),
            ]
            m.d.sync += [piece[name].eq(shape[name]) for name, _ in piece_layout(self.cfg) if name in row_shape_layout(self.cfg).members
                         and name != "shared_block"]
        return m

    def _blocks(self, m, shape, row, begun, inside, outside, blocks):
        """Blocks of the next piece: to the end of the part of the row, and of the line."""
        end, line = Signal(9), Signal(range(LINE_BLOCKS + 1))
        m.d.comb += end.eq(shape.row_blocks)
        with m.If(~outside):
            m.d.comb += end.eq(inside)
        with m.Elif(row.inside & (begun < shape.left_blocks)):
            m.d.comb += end.eq(shape.left_blocks)
        m.d.comb += [
            line.eq(Mux(outside, LINE_BLOCKS, LINE_BLOCKS - (row.place + begun)[:LINE_BLOCKS.bit_length() - 1])),
            blocks.eq(Mux(end - begun < line, end - begun, line)),
        ]
