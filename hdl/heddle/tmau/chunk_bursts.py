"""Conversion of burst chunks of tensor boxes to bursts."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES
from ..interfaces.reductions import reduction_members
from ..parameters.tmau import TmauParameters
from .burst_generator import place_burst
from .float_conversion import convert
from .layouts import burst_layout, multicast_members
from .row_bursts import piece_layout

__all__ = ["ChunkBursts"]


class ChunkBursts(Component):
    """Converts each burst chunk of a box to a burst and routes it to the load engine or the store engine.

    A chunk outside the tensor has no address in global memory and starts at a beat boundary.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(piece_layout(cfg)))
        Burst chunks.
    o_load : Out(stream.Signature(burst_layout(cfg)))
        Bursts of loads and prefetches.
    o_store : Out(stream.Signature(burst_layout(cfg)))
        Bursts of stores.

    *Latency*: 0 cycles, combinational.

    *Throughput*: one burst per cycle.

    *Back-pressure*: ``i.ready`` depends combinationally on ``ready`` of the output that ``i`` is routed to.

    *Reset*: no state.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(piece_layout(cfg))),
            "o_load": Out(stream.Signature(burst_layout(cfg))),
            "o_store": Out(stream.Signature(burst_layout(cfg))),
        })

    def elaborate(self, platform):
        m = Module()
        piece = self.i.payload
        burst = Signal(burst_layout(self.cfg))
        beat_blocks = self.cfg.axi_bytes // BANK_BYTES
        skip_bits = exact_log2(beat_blocks) if beat_blocks else 0
        # A chunk outside the tensor starts at a beat boundary.
        place = Cat(Mux(piece.outside, 0, piece.global_block[:skip_bits])[:skip_bits], piece.global_block[skip_bits:])
        place_burst(m, self.cfg, burst, place, piece.shared_block, piece.blocks)
        m.d.comb += [
            burst.ends_transfer.eq(piece.last), burst.of_tensor.eq(1),
            *(burst[name].eq(piece[name]) for name in ("barrier", "has_barrier", "swizzle", "pc", "outside", "missing_bytes", "fill",
                                                     *["prefetch"] * self.cfg.prefetches, *multicast_members(self.cfg),
                                                     *reduction_members(self.cfg))),
            self.i.ready.eq(Mux(piece.store, self.o_store.ready, self.o_load.ready)),
        ]
        convert(m, self.cfg, burst, piece.format)
        for bursts, wanted in ((self.o_load, ~piece.store), (self.o_store, piece.store)):
            m.d.comb += [bursts.valid.eq(self.i.valid & wanted), bursts.payload.eq(burst)]
        return m

