"""Address generator of the copy unit: cuts transfers into bursts."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, MAX_BURST_BYTES
from ..interfaces.layouts import PC_BITS
from ..l2.reduction_formats import reduction_members
from .float_conversion import conversion_members
from .multicast_port import multicast_members
from .request_check import transfer_layout
from .swizzle import swizzle_bits

__all__ = ["BurstGenerator", "Filler", "burst_layout", "place_burst", "unit_bytes", "units_per_beat"]

BURST_BLOCKS = MAX_BURST_BYTES // BANK_BYTES


def unit_bytes(cfg):
    """Bytes of a unit, the smaller of a beat of the AXI bus and a word of a bank."""
    return min(cfg.axi_bytes, BANK_BYTES)


def units_per_beat(cfg):
    return cfg.axi_bytes // unit_bytes(cfg)


class Filler(enum.Enum, shape=2):
    """What elements outside a tensor become: zero, or a NaN of their size."""

    ZERO = 0
    NAN_16 = 1
    NAN_32 = 2
    NAN_64 = 3


def burst_layout(cfg):
    """A burst of global memory and where its beats lie in shared memory.

    Unit i of beat j belongs to unit ``pointer + j * units_per_beat + i`` of shared memory (modulo its size), except for the
    first ``skip_first`` units of the first beat and the last ``skip_last`` units of the last one. With ``swizzle`` a
    block goes to another bank of its row (``swizzle.py``).
    """
    skip_bits = exact_log2(units_per_beat(cfg))
    return data.StructLayout({
        "beat_address": cfg.axi_address_bits - exact_log2(cfg.axi_bytes),
        "beats_minus_one": exact_log2(MAX_BURST_BYTES // cfg.axi_bytes),
        "pointer": cfg.shared_address_bits - exact_log2(unit_bytes(cfg)),
        "skip_first": skip_bits,
        "skip_last": skip_bits,
        "blocks": range(BURST_BLOCKS + 1),
        "ends_transfer": 1,
        "barrier": 4,
        "has_barrier": 1,
        "swizzle": swizzle_bits(cfg),
        "pc": PC_BITS,
        # What lies outside a tensor: all of it (there is no request then), or the last bytes; and what becomes of it.
        **({"outside": 1, "missing_bytes": range(BANK_BYTES), "filler": Filler, "of_tensor": 1} if cfg.tensors else {}),
        **({"prefetch": 1} if cfg.prefetches else {}),      # nothing comes back
        **conversion_members(cfg), **reduction_members(cfg), **multicast_members(cfg),
    })


def place_burst(m, cfg, burst, global_block, shared_block, blocks):
    """Where a burst of ``blocks`` blocks lies."""
    m.d.comb += burst.blocks.eq(blocks)
    beat_blocks = cfg.axi_bytes // BANK_BYTES
    if beat_blocks == 0:        # two beats make a block
        m.d.comb += [
            burst.beat_address.eq(global_block << 1),
            burst.pointer.eq(shared_block << 1),
            burst.beats_minus_one.eq((blocks << 1) - 1),
        ]
        return
    shift = exact_log2(beat_blocks)
    skip = global_block[:shift]
    end = Signal(range(BURST_BLOCKS + 1), name="end")       # blocks from the first beat's start to the last block's end
    m.d.comb += [
        end.eq(blocks + skip),
        burst.beat_address.eq(global_block[shift:]),
        burst.pointer.eq(shared_block - skip),
        burst.beats_minus_one.eq((end - 1) >> shift),
        burst.skip_first.eq(skip),
        burst.skip_last.eq(-end),
    ]


class BurstGenerator(Component):
    """Cuts transfers into bursts of full beats at multiples of ``MAX_BURST_BYTES`` of the global address, in order.

    Latency 1 cycle, throughput one burst a cycle, also across transfers (with ``far_registers`` a cycle more for each transfer). ``o`` is
    combinational from registers. While ``stop`` is high no burst comes out: the transfer under way is dropped, then one waiting transfer a
    cycle, each with a pulse of ``discarded``. Reset drops the transfer under way [S1.1, docs/units/tmau.md].

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(stream.Signature(transfer_layout(cfg)))
    o : Out(stream.Signature(burst_layout(cfg)))
    stop : In(1)
    discarded : Out(1)
    busy : Out(1)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(stream.Signature(transfer_layout(cfg))),
            "o": Out(stream.Signature(burst_layout(cfg))),
            "stop": In(1),
            "discarded": Out(1),
            "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        active = Signal()
        rest = Signal(transfer_layout(self.cfg), reset_less=True)       # what has no burst yet
        to_boundary = Signal(range(BURST_BLOCKS + 1))
        ends = Signal()
        blocks = Signal(range(BURST_BLOCKS + 1))
        follows = Const(0) if self.cfg.far_registers else ~self.stop & self.o.ready & ends      # without a gap
        m.d.comb += [
            to_boundary.eq(BURST_BLOCKS - rest.global_block[:exact_log2(BURST_BLOCKS)]),
            ends.eq(rest.blocks <= to_boundary),
            blocks.eq(Mux(ends, rest.blocks[:len(blocks)], to_boundary)),
            self.o.valid.eq(active & ~self.stop),
            self.busy.eq(active),
            self.i.ready.eq(~active | follows),
            self.discarded.eq(self.stop & (active | self.i.valid)),
        ]
        self._burst(m, rest, blocks, ends)
        with m.If(self.stop):
            m.d.sync += active.eq(0)
        with m.Elif(self.i.ready):
            m.d.sync += [active.eq(self.i.valid), rest.eq(self.i.payload)]
        with m.Elif(self.o.ready):
            m.d.sync += [
                rest.global_block.eq(rest.global_block + to_boundary),
                rest.shared_block.eq(rest.shared_block + to_boundary),
                rest.blocks.eq(rest.blocks - to_boundary),
                active.eq(~ends),
            ]
        return m

    def _burst(self, m, rest, blocks, ends):
        """The burst of the next ``blocks`` blocks of ``rest``."""
        burst = self.o.payload
        place_burst(m, self.cfg, burst, rest.global_block, rest.shared_block, blocks)
        m.d.comb += [
            burst.ends_transfer.eq(ends),
            burst.barrier.eq(rest.barrier),
            burst.has_barrier.eq(rest.has_barrier),
            burst.swizzle.eq(rest.swizzle),
            burst.pc.eq(rest.pc),
            *(burst[name].eq(rest[name]) for name in ("prefetch", "mask", *reduction_members(self.cfg))
              if name in burst_layout(self.cfg).members),
        ]
