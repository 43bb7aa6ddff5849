"""Beats of read data on their way to shared memory: where they go."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import read_data_layout
from .fill_pattern import completed
from .float_conversion import converted
from .layouts import burst_layout, conversion_members, located_beat_layout, multicast_members, units_per_beat

__all__ = ["ReadTracker"]


def _slot_layout(cfg):
    """What a slot remembers of its burst."""
    burst = burst_layout(cfg)
    names = ["beat_address", "pointer", "skip_first", "skip_last", "barrier", "has_barrier", "swizzle", "pc"]
    names += [*["beats_minus_one", "missing_bytes", "filler"] * cfg.tensors, *conversion_members(cfg), *multicast_members(cfg)]
    return data.StructLayout({name: burst[name].shape for name in names})


class ReadTracker(Component):
    """Remembers the bursts under way and finds the place of every beat that comes back.

    Beats of different tags may come interleaved; the beats of a tag come in order. Latency 2 cycles, throughput one beat a
    cycle; all stages stand still while ``o`` waits. Reset drops the beats under way.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    burst : In(burst_layout(cfg)), slot : In, remember : In(1)
        Store ``burst`` for the tag ``slot``.
    clearing : In(1)
        After reset, before the first burst: ``slot`` goes through all slots.
    i : In(stream.Signature(read_data_layout(cfg, cfg.tag_bits)))
        ``ready`` depends on ``o.ready`` combinationally.
    o : Out(stream.Signature(located_beat_layout(cfg)))
    """

    def __init__(self, cfg):
        self.cfg = cfg
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
        """Bytes of a beat as they are written."""
        if not self.cfg.tensors:
            return data
        if conversion_members(self.cfg):
            data = converted(m, data, slot.rounds, slot.flushes)
        return completed(m, self.cfg, data, slot, number)

    def _slots(self, m, advance):
        """The slot of the beat in the first stage, and the number of the slot of the beat that comes in."""
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
        """Number in its burst of the beat in the first stage; a counter per slot, zero again after the last beat."""
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
