"""TMAU: rows of a matrix, and bursts of a transfer."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Module, Signal, signed
from amaranth.lib.wiring import Component
from heddle import load_config
from heddle.constants import BANK_BYTES, MAX_BURST_BYTES
from heddle.interfaces.layouts import row_operation_layout
from heddle.tmau.burst_generator import BurstGenerator
from heddle.tmau.layouts import transfer_layout, unit_bytes
from heddle.tmau.row_expander import RowExpander

from .contract import any_sink, any_stream

__all__ = ["BurstGeneratorSpec", "RowExpanderSpec"]


class RowExpanderSpec(Component):
    """An operation of n rows gives exactly n copies; copy i is i pitches behind the first and alike in all else.

    A copy is outside from the first step on whose exact sum 32 bits do not hold: as all steps have one sign, so is each later one.
    Before it every address is exact.

    With ``stop`` low, streams keep to the rules; while it is high nothing comes out and operations are taken.
    """

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = RowExpander()
        any_stream(m, dut.i, "i")
        stop = Signal()
        m.d.comb += [stop.eq(AnySeq(1)), dut.stop.eq(stop), dut.o.ready.eq(AnySeq(1))]
        expected = Signal(row_operation_layout, reset_less=True)
        left = Signal(32)
        exact = {end: Signal(signed(36), name=f"exact_{end}") for end in ("destination", "source")}
        m.d.comb += [exact[end].eq(expected.first[end] + expected[f"{end}_pitch"]) for end in exact]
        out = dut.o.valid & dut.o.ready
        m.d.comb += [
            Assert(dut.busy == (left != 0)), Assert(dut.o.valid == ((left != 0) & ~stop)),
            Assert(~stop | dut.i.ready), Assert((left != 0) | dut.i.ready), Assert((left <= 1) | stop | ~dut.i.ready),
            Cover(out & (left == 1) & (expected.rows == 3)),
        ]
        with m.If(dut.o.valid):
            m.d.comb += Assert(dut.o.payload.as_value() == expected.first.as_value())
        with m.If(out):
            m.d.sync += [
                left.eq(left - 1),
                *(expected.first[end].eq(exact[end]) for end in exact),
                *(expected.first[f"{end}_outside"].eq(expected.first[f"{end}_outside"] | (exact[end] < 0) | (exact[end] >= 1 << 32))
                  for end in exact),
            ]
            m.d.comb += [Cover(expected.first.source_outside & ~expected.first.destination_outside & (left == 1)),
                         Cover(expected.first.destination_outside & (expected.destination_pitch < 0))]
        with m.If(stop):
            m.d.sync += left.eq(0)
        with m.Elif(dut.i.valid & dut.i.ready):
            m.d.sync += [left.eq(dut.i.payload.rows), expected.eq(dut.i.payload)]
        before = Signal(len(dut.o.payload.as_value()), reset_less=True)
        waits = Signal()
        m.d.sync += [waits.eq(dut.o.valid & ~dut.o.ready), before.eq(dut.o.payload.as_value())]
        with m.If(waits & ~stop):
            m.d.comb += [Assert(dut.o.valid & (dut.o.payload.as_value() == before)), Cover(dut.o.ready)]
        return m


class BurstGeneratorSpec(Component):
    """The bursts of a transfer cover its blocks exactly, in order, each inside ``MAX_BURST_BYTES`` aligned bytes, the last one marked.

    Beats, without the skipped units at both ends, are exactly the blocks of the burst. Transfers have at least one block;
    ``stop`` is low (its effect is tested in simulation).
    """

    def __init__(self, data_bits):
        self._data_bits = data_bits
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        cfg = load_config("tiny").replace(axi_address_bits=16, shared_memory_kib=4, axi_data_bits=self._data_bits)
        m.submodules.dut = dut = BurstGenerator(cfg)
        any_stream(m, dut.i, "i")
        m.d.comb += Assume(dut.i.payload.blocks != 0)
        any_sink(m, dut.o, "o")
        left = Signal(transfer_layout(cfg), reset_less=True)
        active = Signal()
        burst = dut.o.payload
        m.d.comb += Assert(dut.o.valid == active)
        unit, beat = unit_bytes(cfg), cfg.axi_bytes
        address_mask = (1 << cfg.axi_address_bits) - 1
        first, size = Signal(cfg.axi_address_bits), Signal(12)
        m.d.comb += [
            first.eq((burst.beat_address * beat + burst.skip_first * unit) & address_mask),
            size.eq((burst.beats_minus_one + 1) * beat - burst.skip_first * unit - burst.skip_last * unit),
        ]
        with m.If(dut.o.valid):
            m.d.comb += [
                Assert((burst.blocks != 0) & (burst.blocks <= left.blocks)),
                Assert(burst.ends_transfer == (burst.blocks == left.blocks)),
                Assert(first == left.global_block * BANK_BYTES), Assert(size == burst.blocks * BANK_BYTES),
                Assert((first % MAX_BURST_BYTES) + size <= MAX_BURST_BYTES),
                Assert(burst.ends_transfer | ((first + size) % MAX_BURST_BYTES == 0)),
                Assert(((burst.pointer + burst.skip_first) * unit) % cfg.shared_bytes == left.shared_block * BANK_BYTES),
                Assert((burst.barrier == left.barrier) & (burst.has_barrier == left.has_barrier) & (burst.pc == left.pc)),
                Cover(~burst.ends_transfer), Cover(burst.ends_transfer & (size == MAX_BURST_BYTES)),
            ]
        with m.If(dut.o.valid & dut.o.ready):
            m.d.sync += [left.blocks.eq(left.blocks - burst.blocks), left.global_block.eq(left.global_block + burst.blocks),
                         left.shared_block.eq(left.shared_block + burst.blocks), active.eq(~burst.ends_transfer)]
        with m.If(dut.i.valid & dut.i.ready):
            m.d.sync += [left.eq(dut.i.payload), active.eq(1)]
            m.d.comb += Assert(~active | (dut.o.ready & burst.ends_transfer))
        return m
