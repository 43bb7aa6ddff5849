"""Out-of-bounds fill: beats of bursts outside a tensor, without a memory request [S1.5]."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..lib.stream import Queue
from ..parameters.tmau import TmauParameters
from .fill_pattern import filler_word
from .layouts import burst_layout, located_beat_layout, multicast_members, units_per_beat

__all__ = ["OutOfBoundsFill"]

BURSTS_AHEAD = 4


class OutOfBoundsFill(Component):
    """Out-of-bounds fill: generates the beats of bursts outside the tensor and merges them with the beats of memory [S1.5].

    Generated beats have priority. A beat of memory that waits at ``o`` is not replaced, as part of it may be written already.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i_burst : In(stream of {"burst": burst_layout(cfg), "slot": range(cfg.axi_reads)})
        Bursts outside the tensor with their entry of the transaction table; ``skip_first`` is zero.
    i_beat : In(stream.Signature(located_beat_layout(cfg)))
        Beats of memory.
    o : Out(stream.Signature(located_beat_layout(cfg)))
        Beats for shared memory.

    *Latency*: 0 cycles from ``i_beat`` to ``o``; 2 cycles from ``i_burst`` to its first beat.

    *Throughput*: one beat per cycle.

    *Back-pressure*: ``i_beat.ready`` depends combinationally on ``o.ready``. ``i_burst.ready`` is registered; ``BURSTS_AHEAD`` (4)
    bursts can wait.

    *Reset*: drops the waiting bursts.

    *Source*: [S1.5].
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        self._burst = data.StructLayout({"burst": burst_layout(cfg), "slot": range(cfg.axi_reads)})
        super().__init__({
            "i_burst": In(stream.Signature(self._burst)),
            "i_beat": In(stream.Signature(located_beat_layout(cfg))),
            "o": Out(stream.Signature(located_beat_layout(cfg))),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bursts = bursts = Queue(self._burst, BURSTS_AHEAD)
        waiting, units = bursts.o, units_per_beat(self.cfg)
        burst, beat = waiting.payload.burst, self.o.payload
        number = Signal(burst.beats_minus_one.shape())
        last = Signal()
        fills, waits = Signal(), Signal()       # a beat of memory that waits is not replaced: half of it may be written
        m.d.sync += waits.eq(self.i_beat.valid & ~fills & ~self.o.ready)
        m.d.comb += [
            fills.eq(waiting.valid & ~waits),
            bursts.i.valid.eq(self.i_burst.valid), bursts.i.payload.eq(self.i_burst.payload), self.i_burst.ready.eq(bursts.i.ready),
            last.eq(number == burst.beats_minus_one),
            self.o.valid.eq(waiting.valid | self.i_beat.valid),
            self.i_beat.ready.eq(self.o.ready & ~fills),
            waiting.ready.eq(self.o.ready & last & fills),
            beat.eq(self.i_beat.payload),
        ]
        with m.If(fills):
            m.d.comb += [
                beat.data.eq(filler_word(burst.fill, self.cfg.axi_bytes)),
                beat.pointer.eq(burst.pointer + number * units),
                beat.valid_units.eq(Cat(~last | (units - i > burst.skip_last) for i in range(units))),
                beat.tag.eq(waiting.payload.slot), beat.last.eq(last), beat.error.eq(0),
                *(beat[name].eq(burst[name]) for name in ("barrier", "has_barrier", "swizzle", "pc", "beat_address",
                                                        *multicast_members(self.cfg))),
            ]
            with m.If(self.o.ready):
                m.d.sync += number.eq(Mux(last, 0, number + 1))
        return m
