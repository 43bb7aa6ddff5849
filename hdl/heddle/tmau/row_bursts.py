"""Row splitter of tensor boxes: burst chunks of at most one line of 128 bytes [S1.1, S1.5]."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES
from ..parameters.tmau import TmauParameters
from .box_walk import row_layout
from .layouts import box_layout, multicast_members

__all__ = ["LINE_BLOCKS", "RowBursts", "piece_layout", "row_shape_layout"]

LINE_BLOCKS = 128 // BANK_BYTES


def row_shape_layout(cfg):
    """Fields common to all rows of a box: ``box_layout`` without ``walk``."""
    return data.StructLayout({name: field.shape for name, field in box_layout(cfg) if name != "walk"})


def piece_layout(cfg):
    """Burst chunk: 1 to ``LINE_BLOCKS`` (8) blocks of a row, all in one line of global memory, or all outside the tensor (``outside``).

    The last ``missing_bytes`` bytes of the last block lie beyond the tensor. ``last``: last chunk of the box.
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


class _Next(NamedTuple):
    """The next burst chunk of a row."""

    outside: Signal         # outside the tensor
    blocks: Signal
    inside_ends: Signal     # the part of the row inside the tensor ends with it
    row_ends: Signal


class RowBursts(Component):
    """Row splitter: splits each row of a box into burst chunks of at most one line; parts outside the tensor are separate chunks.

    Stores and prefetches omit chunks outside the tensor. Two exceptions remain: all chunks of a box with a barrier, which counts all
    bytes, and the last chunk. So every box has a chunk with ``last``.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i_shape : In(stream.Signature(row_shape_layout(cfg)))
        One per box, accepted with the last row of the box.
    i_row : In(stream.Signature(row_layout(cfg)))
        Rows; a row is accepted with its last chunk.
    o : Out(stream.Signature(piece_layout(cfg)))
        Burst chunks. Registered.
    stop : In(1)
        Drop rows and shapes, one of each per cycle.

    *Latency*: 1 cycle from ``i_row`` to its first chunk.

    *Throughput*: one chunk per cycle; a row of one chunk takes one cycle, also across boxes.

    *Back-pressure*: ``i_row.ready`` and ``i_shape.ready`` depend combinationally on ``o.ready``, both ``valid`` inputs and ``stop``.

    *Reset*: drops the chunk at ``o`` and the position in the row.

    *Source*: [S1.1, S1.5].
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i_shape": In(stream.Signature(row_shape_layout(cfg))),
            "i_row": In(stream.Signature(row_layout(cfg))),
            "o": Out(stream.Signature(piece_layout(cfg))),
            "stop": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        shape, row, piece = self.i_shape.payload, self.i_row.payload, self.o.payload
        begun = Signal(9)           # blocks of the row in earlier chunks
        row_block = Signal(len(shape.shared_block), reset_less=True)      # shared block of the row, except the first row
        first = Signal(init=1)      # first row of the box
        outside, blocks = Signal(), Signal(range(LINE_BLOCKS + 1))
        free, taken, row_ends, inside_ends = Signal(), Signal(), Signal(), Signal()
        shared = Signal.like(shape.shared_block, name="shared")
        m.d.comb += [
            shared.eq(Mux(first, shape.shared_block, row_block)),
            free.eq(~self.o.valid | self.o.ready),
            taken.eq(self.i_shape.valid & self.i_row.valid & free & ~self.stop),
            self.i_row.ready.eq(self.stop | (taken & row_ends)),
            self.i_shape.ready.eq(self.stop | (taken & row_ends & row.last)),
        ]
        self._blocks(m, shape, row, begun, _Next(outside, blocks, inside_ends, row_ends))
        with m.If(self.stop):
            m.d.sync += [begun.eq(0), first.eq(1)]
        with m.Elif(taken):
            m.d.sync += [
                begun.eq(Mux(row_ends, 0, begun + blocks)),
                row_block.eq(Mux(row_ends, shared + shape.pitch_blocks, shared)),
                first.eq(row_ends & row.last),
            ]
        ends = Signal()
        m.d.comb += ends.eq(row_ends & row.last)
        drops = shape.store | shape.prefetch if self.cfg.prefetches else shape.store      # omit chunks outside the tensor
        with m.If(free):
            m.d.sync += [
                self.o.valid.eq(taken & ~(drops & outside & ~ends & ~shape.has_barrier)),
                piece.global_block.eq(row.place + begun),
                piece.shared_block.eq(shared + begun),
                piece.blocks.eq(blocks),
                piece.missing_bytes.eq(Mux(inside_ends, shape.missing_bytes, 0)),
                piece.outside.eq(outside),
                piece.last.eq(ends),
            ]
            m.d.sync += [piece[name].eq(shape[name]) for name, _ in piece_layout(self.cfg) if name in row_shape_layout(self.cfg).members
                         and name not in ("shared_block", "missing_bytes")]
        return m

    def _blocks(self, m, shape, row, begun, chunk):
        """Drives ``chunk``: blocks before the tensor, inside, or beyond, within a line.

        All three lengths are computed in parallel and then selected, as the end of the row is on the critical path of the row
        generator.
        """
        before = Signal()
        line = Signal(range(LINE_BLOCKS + 1))
        m.d.comb += line.eq(LINE_BLOCKS - (row.place + begun)[:LINE_BLOCKS.bit_length() - 1])
        parts = []
        for name, end, most in (("before", shape.left_blocks, LINE_BLOCKS), ("inside", shape.inside_end, line),
                                ("behind", shape.row_blocks, LINE_BLOCKS)):
            rest = Signal(signed(10), name=f"rest_{name}")
            fits, part = Signal(name=f"fits_{name}"), Signal.like(chunk.blocks, name=f"part_{name}")
            low, high = rest[:len(chunk.blocks)], rest[len(chunk.blocks):]      # a length that is not positive is not selected
            m.d.comb += [rest.eq(end - begun), fits.eq((high == 0) & (low <= most)), part.eq(Mux(fits, low, most))]
            parts.append((~rest[-1] & rest.any(), fits, part))
        (some_before, fits_before, part_before), (some_inside, fits_inside, part_inside), (_, fits_behind, part_behind) = parts
        m.d.comb += [
            before.eq(row.inside & some_before),
            chunk.outside.eq(~row.inside | some_before | ~some_inside),
            chunk.blocks.eq(Mux(chunk.outside, Mux(before, part_before, part_behind), part_inside)),
            chunk.inside_ends.eq(~chunk.outside & fits_inside),
            chunk.row_ends.eq(Mux(chunk.outside, Mux(before, fits_before & (shape.left_blocks == shape.row_blocks), fits_behind),
                                  fits_inside & (shape.inside_end == shape.row_blocks))),
        ]
