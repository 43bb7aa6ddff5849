"""Burst generator of block copies: splits transfers into bursts."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES
from ..interfaces.reductions import reduction_members
from ..parameters.tmau import TmauParameters
from .layouts import BURST_BLOCKS, burst_layout, transfer_layout

__all__ = ["BurstGenerator", "place_burst"]


def place_burst(m, cfg, burst, global_block, shared_block, blocks):
    """Drive the address fields of ``burst`` for ``blocks`` blocks of 16 bytes, at ``global_block`` of global and ``shared_block`` of
    shared memory.

    The fields are ``blocks``, ``beat_address``, ``pointer``, ``beats_minus_one``, ``skip_first`` and ``skip_last``; combinational.
    """
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
    end = Signal(range(BURST_BLOCKS + 1), name="end")       # blocks from the start of the first beat to the end of the last block
    m.d.comb += [
        end.eq(blocks + skip),
        burst.beat_address.eq(global_block[shift:]),
        burst.pointer.eq(shared_block - skip),
        burst.beats_minus_one.eq((end - 1) >> shift),
        burst.skip_first.eq(skip),
        burst.skip_last.eq(-end),
    ]


class BurstGenerator(Component):
    """Burst generator of block copies: splits each transfer into bursts of full beats at multiples of ``MAX_BURST_BYTES`` (512) in
    global memory.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(transfer_layout(cfg)))
        Transfers, in blocks of 16 bytes.
    o : Out(stream.Signature(burst_layout(cfg)))
        Bursts, in order. Combinational from registers.
    stop : In(1)
        Drop the transfer in progress, then one waiting transfer per cycle; ``o.valid`` is low.
    discarded : Out(1)
        A transfer is dropped in this cycle.
    busy : Out(1)
        A transfer is in progress.

    *Latency*: 1 cycle from ``i`` to the first burst.

    *Throughput*: one burst per cycle, also across transfers.

    *Back-pressure*: ``i.ready`` depends combinationally on ``o.ready`` and ``stop``.

    *Reset*: drops the transfer in progress.

    *Source*: [S1.1], docs/units/tmau.md.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
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
        rest = Signal(transfer_layout(self.cfg), reset_less=True)       # part without a burst yet
        to_boundary = Signal(range(BURST_BLOCKS + 1))
        ends = Signal()
        blocks = Signal(range(BURST_BLOCKS + 1))
        m.d.comb += [
            to_boundary.eq(BURST_BLOCKS - rest.global_block[:exact_log2(BURST_BLOCKS)]),
            ends.eq(rest.blocks <= to_boundary),
            blocks.eq(Mux(ends, rest.blocks[:len(blocks)], to_boundary)),
            self.o.valid.eq(active & ~self.stop),
            self.busy.eq(active),
            self.i.ready.eq(~active | (~self.stop & self.o.ready & ends)),
            self.discarded.eq(self.stop & (active | self.i.valid)),
        ]
        self._burst(m, rest, blocks, ends)
        with m.If(self.stop):
            m.d.sync += active.eq(0)
        with m.Elif(~active | self.o.ready):
            with m.If(~active | ends):
                m.d.sync += [active.eq(self.i.valid), rest.eq(self.i.payload)]
            with m.Else():
                m.d.sync += [
                    rest.global_block.eq(rest.global_block + to_boundary),
                    rest.shared_block.eq(rest.shared_block + to_boundary),
                    rest.blocks.eq(rest.blocks - to_boundary),
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
