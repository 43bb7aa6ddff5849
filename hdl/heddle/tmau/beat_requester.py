"""Beat generator of the store engine: splits bursts into beats to read from shared memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES
from ..interfaces.swizzle import swizzle_bits
from ..parameters.tmau import TmauParameters
from .layouts import burst_layout, unit_bytes, units_per_beat

__all__ = ["BeatRequester", "beat_layout"]


def beat_layout(cfg):
    """Beat to read from shared memory: valid unit i lies in unit ``pointer + i``.

    ``arrives``: a barrier counts the burst, and the beat is its last one. ``bytes``: size of the burst. With ``cfg.tensors``:
    ``silent`` beats are neither read nor written; the last ``missing`` bytes of the last valid unit are not written; ``ends`` marks the
    last beat of a transfer.
    """
    return data.StructLayout({
        "pointer": burst_layout(cfg)["pointer"].shape,
        "valid_units": units_per_beat(cfg),
        "last": 1,
        "barrier": 4,
        "arrives": 1,       # last beat of a burst that a barrier counts
        "bytes": 16,        # of the burst
        "swizzle": swizzle_bits(cfg),
        # ``silent``: neither read nor written. ``missing``: bytes at the end of the last valid unit without a strobe.
        # ``ends``: last beat of a transfer of blocks (bit 0), of a tensor (bit 1).
        **({"silent": 1, "missing": range(unit_bytes(cfg) + 1), "ends": 2} if cfg.tensors else {}),
    })


class BeatRequester(Component):
    """Beat generator of the store engine: splits each burst into the beats to read from shared memory.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i : In(stream.Signature(burst_layout(cfg)))
        Bursts; a burst is accepted with its last beat. A burst outside the tensor has one beat.
    o : Out(stream.Signature(beat_layout(cfg)))
        Beats. Registered.

    *Latency*: 1 cycle from ``i`` to the first beat at ``o``.

    *Throughput*: one beat per cycle.

    *Back-pressure*: ``i.ready`` depends combinationally on ``o.ready`` and on the length of the burst.

    *Reset*: drops the beat at ``o`` and the position in the burst.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
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
        """Bytes of the beat's last unit that lie beyond the tensor."""
        missing, unit = burst.missing_bytes, unit_bytes(self.cfg)
        if unit == BANK_BYTES:
            return Mux(last, missing, 0)
        before = number + 1 == burst.beats_minus_one
        return Mux(last, Mux(missing > unit, unit, missing), Mux(before & (missing > unit), missing - unit, 0))
