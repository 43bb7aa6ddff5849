"""Read tracker of the load engine: locates the beats of outstanding read bursts in shared memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import read_data_layout
from ..parameters.tmau import TmauParameters
from .fill_pattern import completed
from .float_conversion import converted
from .layouts import burst_layout, conversion_members, located_beat_layout, multicast_members, units_per_beat

__all__ = ["ReadTracker"]


def _slot_layout(cfg):
    """Fields of a burst that the read tracker stores per transaction."""
    burst = burst_layout(cfg)
    names = ["beat_address", "pointer", "skip_first", "skip_last", "barrier", "has_barrier", "swizzle", "pc"]
    names += [*["beats_minus_one", "missing_bytes", "fill"] * cfg.tensors, *conversion_members(cfg), *multicast_members(cfg)]
    return data.StructLayout({name: burst[name].shape for name in names})


class ReadTracker(Component):
    """Read tracker of the load engine: stores the outstanding bursts by tag and locates every beat of read data in shared memory.

    Beats of different tags may be interleaved; beats of one tag are in order. With ``cfg.tensors`` it also converts floats and fills
    the bytes beyond the tensor.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    burst : In(burst_layout(cfg))
        Burst to store.
    slot : In(range(cfg.axi_reads))
        Tag of the burst: its entry of the transaction table.
    remember : In(1)
        Store ``burst`` for ``slot``.
    clearing : In(1)
        After reset, before the first burst: clear the beat counter of ``slot``, which steps through all entries.
    i : In(stream.Signature(read_data_layout(cfg, cfg.tag_bits)))
        Beats of memory.
    o : Out(stream.Signature(located_beat_layout(cfg)))
        Located beats. Registered.

    *Latency*: 2 cycles from ``i`` to ``o``.

    *Throughput*: one beat per cycle.

    *Back-pressure*: ``i.ready`` depends combinationally on ``o.ready``; both stages hold while ``o`` waits.

    *Reset*: drops the beats in flight; stored bursts have no reset.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "burst": In(burst_layout(cfg)),
            "slot": In(range(cfg.axi_reads)),
            "remember": In(1),
            "clearing": In(1),
            "i": In(stream.Signature(read_data_layout(cfg, cfg.tag_bits))),
            "o": Out(stream.Signature(located_beat_layout(cfg))),
        })

    def elaborate(self, platform):
        m = Module()
        advance = Signal()
        valid = Signal(2)
        beat = Signal(read_data_layout(self.cfg, self.cfg.tag_bits), reset_less=True)
        slot, slot_number = self._slots(m, advance)
        number = self._beat_number(m, advance, slot_number)
        located = Signal(located_beat_layout(self.cfg), reset_less=True)
        m.d.comb += [
            advance.eq(~valid[1] | self.o.ready),
            self.i.ready.eq(advance),
            self.o.valid.eq(valid[1]),
            self.o.payload.eq(located),
        ]
        units = units_per_beat(self.cfg)
        with m.If(advance):
            m.d.sync += [valid.eq(Cat(self.i.valid, valid[0])), beat.eq(self.i.payload)]
            m.d.sync += [located[name].eq(beat[name]) for name in ("tag", "last", "error")]
            m.d.sync += located.data.eq(self._data(m, beat.data, slot, number))
            m.d.sync += [located[name].eq(slot[name]) for name in ("barrier", "has_barrier", "swizzle", "pc", "beat_address",
                                                            *multicast_members(self.cfg))]
            m.d.sync += located.pointer.eq(slot.pointer + number * units)
            for i in range(units):
                skipped = ((number == 0) & (i < slot.skip_first)) | (beat.last & (units - i <= slot.skip_last))
                m.d.sync += located.valid_units[i].eq(~skipped)
        return m

    def _data(self, m, data, slot, number):
        """Bytes of a beat as written to shared memory."""
        if not self.cfg.tensors:
            return data
        if conversion_members(self.cfg):
            data = converted(m, data, slot.rounds)
        return completed(m, self.cfg, data, slot, number)

    def _slots(self, m, advance):
        """Stored burst of the beat in the first stage, and the entry of the incoming beat."""
        slots = Memory(shape=_slot_layout(self.cfg), depth=self.cfg.axi_reads, init=[], attrs={"no_rw_check": 1})
        m.submodules.slots = slots
        write = slots.write_port()
        read = slots.read_port(domain="comb")
        slot = Signal(_slot_layout(self.cfg), reset_less=True)
        slot_number = self.i.payload.tag[:len(read.addr)]
        m.d.comb += [write.addr.eq(self.slot), write.en.eq(self.remember), read.addr.eq(slot_number)]
        m.d.comb += [write.data[name].eq(self.burst[name]) for name, _ in _slot_layout(self.cfg)]
        with m.If(advance):
            m.d.sync += slot.eq(read.data)
        return slot, slot_number

    def _beat_number(self, m, advance, slot_number):
        """Number within its burst of the beat in the first stage: a counter per entry, zero after the last beat."""
        numbers = Memory(shape=burst_layout(self.cfg)["beats_minus_one"].shape, depth=self.cfg.axi_reads, init=[])
        m.submodules.numbers = numbers
        read = numbers.read_port(domain="comb")
        write = numbers.write_port()
        number = Signal(numbers.shape, reset_less=True)
        m.d.comb += [
            read.addr.eq(slot_number),
            write.addr.eq(Mux(self.clearing, self.slot, slot_number)),
            write.data.eq(Mux(self.clearing | self.i.payload.last, 0, read.data + 1)),
            write.en.eq(self.clearing | (self.i.valid & advance)),
        ]
        with m.If(advance):
            m.d.sync += number.eq(read.data)
        return number
