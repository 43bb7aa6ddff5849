"""Beats of a store that are to be read from the banks of shared memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES
from .layouts import burst_layout, unit_bytes, units_per_beat
from .swizzle import swizzle_bits

__all__ = ["BEATS_WAITING", "BeatRequester", "beat_layout"]

BEATS_WAITING = 2       # beats in front of the banks with ``cfg.far_registers``: the least with which a queue takes one a cycle


def beat_layout(cfg):
    """A beat that is being read: its units start at unit ``pointer`` of shared memory."""
    return data.StructLayout({
        "pointer": burst_layout(cfg)["pointer"].shape,
        "valid_units": units_per_beat(cfg),
        "last": 1,
        "barrier": 4,
        "arrives": 1,       # with this beat the burst has been read, and a barrier wants to know
        "bytes": 16,        # of the burst
        "swizzle": swizzle_bits(cfg),
        # Nothing is read and written; the last bytes of the last valid unit are not written.
        # ``ends``: the last beat of a transfer of blocks (bit 0), of a tensor (bit 1).
        **({"silent": 1, "missing": range(unit_bytes(cfg) + 1), "ends": 2} if cfg.tensors else {}),
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
            last.eq((number == burst.beats_minus_one) | (burst.outside if self.cfg.tensors else 0)),
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
                beat.swizzle.eq(burst.swizzle),
            ]
            for i in range(units):
                skipped = ((number == 0) & (i < burst.skip_first)) | (last & (units - i <= burst.skip_last))
                m.d.sync += beat.valid_units[i].eq(~(skipped | (burst.outside if self.cfg.tensors else 0)))
            if self.cfg.tensors:
                m.d.sync += [
                    beat.silent.eq(burst.outside), beat.missing.eq(self._missing(burst, number, last)),
                    beat.ends.eq(Mux(self.i.valid & last & burst.ends_transfer, 1 << burst.of_tensor, 0)),
                ]
            with m.If(self.i.valid):
                m.d.sync += number.eq(Mux(last, 0, number + 1))
        return m

    def _missing(self, burst, number, last):
        """Bytes of the beat's last unit that lie behind the tensor."""
        missing, unit = burst.missing_bytes, unit_bytes(self.cfg)
        if unit == BANK_BYTES:
            return Mux(last, missing, 0)
        before = number + 1 == burst.beats_minus_one
        return Mux(last, Mux(missing > unit, unit, missing), Mux(before & (missing > unit), missing - unit, 0))
