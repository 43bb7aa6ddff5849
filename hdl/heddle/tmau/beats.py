"""Beats of a store that are to be read from the banks of shared memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..config import BANK_BYTES
from .generator import burst_layout, units_per_beat

__all__ = ["BeatRequester", "beat_layout"]


def beat_layout(cfg):
    """A beat that is being read: its units start at unit ``pointer`` of shared memory."""
    return data.StructLayout({
        "pointer": burst_layout(cfg)["pointer"].shape,
        "valid_units": units_per_beat(cfg),
        "last": 1,
        "barrier": 4,
        "arrives": 1,       # with this beat the burst has been read, and a barrier wants to know
        "bytes": 16,        # of the burst
        "swizzled": 1,
    })


class BeatRequester(Component):
    """Cuts bursts into the beats that are to be read, one a cycle.

    Latency 1 cycle, throughput one beat a cycle. Reset drops the beat in ``o``.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(stream.Signature(burst_layout(cfg)))
        Accepted with its last beat; ``ready`` depends on ``o.ready`` combinationally.
    o : Out(stream.Signature(beat_layout(cfg)))
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i": In(stream.Signature(burst_layout(cfg))),
            "o": Out(stream.Signature(beat_layout(cfg))),
        })

    def elaborate(self, platform):
        m = Module()
        units = units_per_beat(self.cfg)
        burst = self.i.payload
        number = Signal(burst.beats_minus_one.shape())
        last = Signal()
        free = Signal()
        beat = self.o.payload
        m.d.comb += [
            last.eq(number == burst.beats_minus_one),
            free.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(free & last),
        ]
        with m.If(free):
            m.d.sync += [
                self.o.valid.eq(self.i.valid),
                beat.pointer.eq(burst.pointer + number * units),
                beat.last.eq(last),
                beat.barrier.eq(burst.barrier),
                beat.arrives.eq(last & burst.has_barrier),
                beat.bytes.eq(burst.blocks * BANK_BYTES),
                beat.swizzled.eq(burst.swizzled),
            ]
            for i in range(units):
                skipped = ((number == 0) & (i < burst.skip_first)) | (last & (units - i <= burst.skip_last))
                m.d.sync += beat.valid_units[i].eq(~skipped)
            with m.If(self.i.valid):
                m.d.sync += number.eq(Mux(last, 0, number + 1))
        return m
