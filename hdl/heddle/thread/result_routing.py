"""Result routing: writes of the result buffers of the SIMD lanes."""

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, Signature

from ..parameters.thread import ThreadParameters
from .offset_fetch import ElementSize
from .result_bus import MultiCycleResultPort
from .shared_lsu import ArrivalPort

__all__ = ["ResultRouting", "ResultWritePort", "alu_result_layout"]


def alu_result_layout(cfg):
    """ALU results of a group of threads: the group, and the 32-bit words and the half of its result buffers that take them."""
    return data.StructLayout({"group": range(cfg.thread_groups), "words": 4, "buffer": 1})


def ResultWritePort(cfg):
    """Write of results to the result buffers of the SIMD lanes, seen from the result routing.

    *Ports*:
    slots : Out(slots)
        Lanes that write their result buffer in this cycle.
    group : Out(range(thread_groups))
        Group of the entry.
    words : Out(4)
        32-bit words of the entry that are written. Load data go to all four, but for an element of a gather.
    bytes, size : Out(4), Out(ElementSize)
        With ``gather_offsets``: bytes of these words, and where load data go. Of a BYTE ``bytes`` are its own and those above.
    current : Out(1)
        The result is of the ALU or a multi-cycle result, else load data.
    buffer : Out(1)
        With ``current``: half of the result buffers.
    """
    return Signature({
        "slots": Out(min(cfg.thread_slots, cfg.threads)), "group": Out(range(cfg.thread_groups)), "words": Out(4), "current": Out(1),
        "buffer": Out(1), **({"bytes": Out(4), "size": Out(ElementSize)} if cfg.gather_offsets else {}),
    })


class ResultRouting(Component):
    """Result routing: which SIMD lanes write which words of their result buffers, for ALU results, multi-cycle results and load data.

    ALU results and multi-cycle results never come in the same cycle, nor does either with load data.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    i : In(stream.Signature(alu_result_layout(cfg), always_ready=True))
        All lanes have an ALU result in the next cycle.
    multi_cycle : In(MultiCycleResultPort(cfg))
        Multi-cycle results of this cycle.
    arrived : In(ArrivalPort(cfg))
        Lanes whose load data are at the banks in this cycle.
    o : Out(ResultWritePort(cfg))
        Writes of the result buffers.
    pending : Out(1)
        Load data of group 0 are written in this cycle: write-back, which reads it first, must wait. Not with one group, whose entry may be
        read in the cycle of its write.

    *Latency*: multi-cycle results are written in their cycle, ALU results one cycle after ``i``, load data one cycle after ``arrived``.

    *Throughput*: one group a cycle.

    *Back-pressure*: none.

    *Reset*: no data are in flight.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(alu_result_layout(cfg), always_ready=True)),
            "multi_cycle": In(MultiCycleResultPort(cfg)),
            "arrived": In(ArrivalPort(cfg)),
            "o": Out(ResultWritePort(cfg)),
            "pending": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        arrived, multi_cycle = Signal.like(self.arrived.slots, name="arrived"), Signal()
        arrived_group = Signal.like(self.arrived.group, name="group_of_arrived", reset_less=True)
        m.d.sync += [arrived.eq(self.arrived.slots), arrived_group.eq(self.arrived.group)]
        computed, result = Signal(name="was_computed"), Signal.like(self.i.payload, name="computed", reset_less=True)
        m.d.sync += [computed.eq(self.i.valid), result.eq(self.i.payload)]
        m.d.comb += [
            multi_cycle.eq(self.multi_cycle.slots.any()),
            self.o.current.eq(computed | multi_cycle),
            self.o.slots.eq(Mux(computed, ~0, self.multi_cycle.slots | arrived)),
            self.o.group.eq(Mux(multi_cycle, self.multi_cycle.group, Mux(computed, result.group, arrived_group))),
            self.o.words.eq(Mux(computed, result.words, Mux(multi_cycle, self.multi_cycle.words, self._loaded(m)))),
            self.o.buffer.eq(Mux(computed, result.buffer, self.multi_cycle.buffer)),
            self.pending.eq(arrived.any() & (arrived_group == 0) & (self.cfg.thread_groups > 1)),
        ]
        return m

    def _loaded(self, m):
        """Words that take load data; of a gather those of its element."""
        if not self.cfg.gather_offsets:
            return 0b1111
        size, element = Signal(ElementSize, name="size_of_arrived"), Signal.like(self.arrived.element, name="element_of_arrived")
        m.d.sync += [size.eq(self.arrived.size), element.eq(self.arrived.element)]
        computes = self.o.current
        m.d.comb += [
            self.o.size.eq(Mux(computes, ElementSize.LINE, size)),
            self.o.bytes.eq(Mux(~computes & (size == ElementSize.BYTE), 0b1111 << element[:2], 0b1111)),
        ]
        words = {ElementSize.BYTE: 1 << element[2:], ElementSize.WORD: 1 << element[:2], ElementSize.PAIR: 0b11 << (element[0] << 1)}
        loaded = 0b1111
        for kind, mask in words.items():
            loaded = Mux(size == kind, mask, loaded)
        return loaded[:4]
